package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestALineThatFailsStaysInTheTable(t *testing.T) {
	b := &bench{root: "/checkout", binary: "/bin/true", work: t.TempDir()}
	lines := []line{
		{number: "1", title: "works", run: func(_ context.Context, s *stage) error { s.note("7 things in %s", s.dir); return nil }},
		{number: "2", title: "is wrong", run: func(_ context.Context, s *stage) error { s.want(false, "3 | 4"); return nil }},
		{number: "3", title: "breaks", run: func(context.Context, *stage) error { return errors.New("no disk") }},
		{number: "4", title: "panics", run: func(context.Context, *stage) error { tb{}.Fatalf("no %s", "server"); return nil }},
		{number: "5", title: "says nothing", run: func(context.Context, *stage) error { return nil }},
		{number: "6", title: "is left out"},
	}
	table := table{begun: time.Now(), quick: true}
	for i, line := range lines {
		row := row{line: line}
		if line.run != nil {
			row.result = measure(t.Context(), b, line)
			if met := row.result.met(); met != (i == 0) {
				t.Errorf("line %s: met is %v", line.number, met)
			}
		}
		table.rows = append(table.rows, row)
	}
	text, err := b.render(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 1 | works |  | 7 things in $WORK/line1<br>", `**NOT MET:** 3 \| 4<br>`, "no disk", "no server", "| 6 | is left out | | not run | - |", "quick run"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if yes, no := strings.Count(text, "| yes |"), strings.Count(text, "| no |"); yes != 1 || no != 4 {
		t.Errorf("%d yes and %d no, want 1 and 4", yes, no)
	}
}

func TestLinesAreChosen(t *testing.T) {
	for _, test := range []struct {
		settings settings
		want     int
	}{
		{settings{}, len(requirements()) - 2}, {settings{clone: true}, len(requirements()) - 1}, {settings{clone: true, test: true}, len(requirements())},
		{settings{test: true}, len(requirements()) - 2}, {settings{only: []string{"2", "9a", "1"}}, 2},
	} {
		count := 0
		for _, line := range requirements() {
			if chosen(test.settings, line) {
				count++
			}
		}
		if count != test.want {
			t.Errorf("%+v: %d lines, want %d", test.settings, count, test.want)
		}
	}
}

func TestRSSAnon(t *testing.T) {
	if got := rssAnon([]byte("Name:\tmirror\nVmRSS:\t  90 kB\nRssAnon:\t   12 kB\nRssFile:\t 7 kB\n")); got != 12<<10 {
		t.Errorf("%d bytes, want 12 KiB", got)
	}
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if rssAnon(own) < 1<<20 {
		t.Errorf("this process has %d bytes", rssAnon(own))
	}
}

func TestTheRecorderChangesNothingAndSeesWhatIsWrong(t *testing.T) {
	var host, body string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		host, body = r.Host, string(data)
	}))
	defer server.Close()
	proxy, err := record(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.close() //nolint:errcheck // its connections carry nothing any more
	const sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	good := http.Header{"X-Amz-Content-Sha256": {sum}, "X-Amz-Checksum-Sha256": {"LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="}, "If-None-Match": {"*"}}
	for name, spoil := range map[string]func(*http.Request){
		"":                      func(*http.Request) {},
		"x-amz-content-sha256":  func(r *http.Request) { r.Header.Set("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER") },
		"x-amz-checksum-sha256": func(r *http.Request) { r.Header.Del("x-amz-checksum-sha256") },
		"trailer":               func(r *http.Request) { r.Header.Set("x-amz-trailer", "x-amz-checksum-crc32") },
		"If-None-Match":         func(r *http.Request) { r.Header.Del("If-None-Match") },
		"Content-Length":        func(r *http.Request) { r.ContentLength = -1 },
		"part":                  func(r *http.Request) { r.URL.RawQuery = "partNumber=1&uploadId=x" },
		"the body has":          func(r *http.Request) { r.Body, r.GetBody = io.NopCloser(strings.NewReader("hallo")), nil },
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, proxy.address+"/b/k", bytes.NewReader([]byte("hello")))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = good.Clone()
		spoil(request)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		seen := proxy.all()
		problems := strings.Join(wireProblems(seen[len(seen)-1], sum), "; ")
		if (name == "") != (problems == "") || !strings.Contains(problems, name) {
			t.Errorf("%q spoiled: problems %q", name, problems)
		}
		if !strings.HasSuffix(proxy.address, host) || len(body) != 5 {
			t.Errorf("the server saw host %q and body %q", host, body)
		}
	}
}

func TestWeighingFindsRemnants(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "feedmirror-versitygw-1", "data")
	if err := os.MkdirAll(filepath.Join(folder, ".parts"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, ".parts", "1"), make([]byte, 500), 0o644); err != nil {
		t.Fatal(err)
	}
	if weight, err := weighServers(filepath.Dir(filepath.Dir(folder))); err != nil || weight != 500 {
		t.Errorf("%d bytes, %v; want 500", weight, err)
	}
	if _, err := weighServers(t.TempDir()); err == nil {
		t.Error("a server without data is no error")
	}
}

func TestResultsOfGoTestAreCounted(t *testing.T) {
	out := []byte(`{"Action":"build-output","Output":"missing go.sum entry\n"}
{"Action":"run","Test":"TestA"}
{"Action":"pass","Test":"TestA"}
{"Action":"skip","Test":"TestB"}
{"Action":"fail","Test":"TestC"}
{"Action":"fail"}
`)
	counts := countTests(out)
	if counts["pass"] != 1 || counts["skip"] != 1 || counts["fail"] != 1 {
		t.Errorf("counted %v", counts)
	}
	if text := lastOutput(out); text != "missing go.sum entry" {
		t.Errorf("the output is %q", text)
	}
}

func TestRowsOfEarlierRunsStay(t *testing.T) {
	before := "# x\n| # | requirement |\n| 2 | links | `mirror sync` | 300 (40s, mirror abc) | yes |\n| 3 | idle | | not run | - |\n"
	standing := table{before: before}
	if got := standing.kept("2"); got != "| 2 | links | `mirror sync` | 300 (40s, mirror abc) | yes |\n" {
		t.Errorf("line 2: %q", got)
	}
	for _, number := range []string{"3", "4", "1"} {
		if got := standing.kept(number); got != "" {
			t.Errorf("line %s: %q, want none", number, got)
		}
	}
}

func TestRowsOfReliabilityDecide(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "| row | what was tried | tried | goal | notes | took | measured | met |\n|---|---|---|---|---|---|---|---|\n" +
		"| stops-a | x &#124; y | 1,250 | 100 points | n | 2s | 2026-01-02, abc | yes |\n| stops-b | x | 250 | 100 points |  | 1s | 2026-01-02, abc | yes |\n" +
		"| kills | x | 300 | 200 kills |  | 1s | 2026-01-02, abc | no |\n| soak | x | - | 1,000 checks |  |  |  | not run |\n"
	if err := os.WriteFile(filepath.Join(root, "docs", "reliability.md"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		run  func(context.Context, *stage) error
		want bool
		says string
	}{
		"together":       {tried(1500, true, "stops-*"), true, "1500 in all"},
		"not enough":     {tried(1501, true, "stops-*"), false, "1500 in all"},
		"each":           {tried(250, false, "stops-a", "stops-b"), true, "stops-a: 1250 points in 2s, met: yes (2026-01-02, abc)"},
		"one not enough": {tried(251, false, "stops-a", "stops-b"), false, "stops-b: 250 points"},
		"not met":        {tried(1, false, "kills"), false, "kills: 300 kills"},
		"not run":        {tried(0, false, "soak"), false, "soak: 0 checks"},
		"no such row":    {tried(1, false, "races"), false, "no row races"},
	} {
		b := &bench{root: root, work: t.TempDir()}
		got := measure(t.Context(), b, line{number: "1", run: test.run})
		if measured := strings.Join(got.measured, "; "); got.met() != test.want || !strings.Contains(measured, test.says) {
			t.Errorf("%s: met is %v, %q", name, got.met(), measured)
		}
	}
}

func TestReadersTallyReadsWhatTheEnginesAnswered(t *testing.T) {
	answers, notes := readersTally("PASS\nengine place question right answers rows seconds\n" +
		"duckdb folder current 4 93 0.07\nduckdb folder version 16 369 0.31\nduckdb folder all 0.38\n13 blocks were executed by DuckDB\n\nok x\n")
	if len(answers) != 1 || answers[0] != "duckdb, folder: 20 right answers, 462 rows compared" || len(notes) != 1 {
		t.Errorf("%q, %q", answers, notes)
	}
}

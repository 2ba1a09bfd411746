package feed_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
	"feedmirror/manifest"
)

func TestVersionsWalksTheChain(t *testing.T) {
	a := serve(t,
		say(200, `{"versions":[`+versionBody("ds_a", 42, 40, "")+`],"nextCursor":"p2"}`),
		say(200, `{"versions":[`+versionBody("ds_a", 45, 42, "")+`],"nextCursor":null}`))
	var got []manifest.Number
	err := a.client(t).Versions(t.Context(), "ds_a", 40, func(v manifest.Version) error {
		got = append(got, v.Number, v.Previous)
		return nil
	})
	if diff := cmp.Diff([]manifest.Number{42, 40, 45, 42}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	want := []string{"/v1/feeds/datasets/ds_a/versions?after=40&order=asc", "/v1/feeds/datasets/ds_a/versions?after=40&cursor=p2&order=asc"}
	for i, one := range a.seen() {
		if one.target != want[i] {
			t.Errorf("asked for %s, want %s", one.target, want[i])
		}
	}
}

func TestVersionsRefusesWhatIsNoChain(t *testing.T) {
	good := versionBody("ds_a", 42, 40, "")
	cases := map[string]string{
		"other dataset":    `{"versions":[` + good + "," + versionBody("ds_b", 43, 42, "") + `]}`,
		"not ascending":    `{"versions":[` + good + "," + versionBody("ds_a", 41, 40, "") + `]}`,
		"twice":            `{"versions":[` + good + "," + good + `]}`,
		"not above after":  `{"versions":[` + versionBody("ds_a", 40, 39, "") + `]}`,
		"negative number":  `{"versions":[` + versionBody("ds_a", -42, 40, "") + `]}`,
		"huge number":      `{"versions":[` + versionBody("ds_a", 10_000_000_000, 40, "") + `]}`,
		"no versions":      `{"datasets":[]}`,
		"number of a text": `{"versions":["42"]}`,
	}
	for name, body := range cases {
		t.Run(name, func(t *testing.T) {
			a := serve(t, say(200, body))
			visits := 0
			err := a.client(t).Versions(t.Context(), "ds_a", 40, func(manifest.Version) error { visits++; return nil })
			wantKind(t, err, fault.Malformed, "list versions ds_a (feed)")
			if visits != 0 {
				t.Errorf("visited %d versions of a page that is refused", visits)
			}
		})
	}
	circle := say(200, `{"versions":[],"nextCursor":"a"}`)
	wantKind(t, serve(t, circle).client(t).Versions(t.Context(), "ds_a", 0, nil), fault.Malformed, "circle")
}

const filesBody = `,"files":{"expiresAt":"2026-10-18T07:20:00Z","snapshot":[%s],"changes":null,"idMap":[],"schema":[%s],` +
	`"manifest":%s,"attachments":[%s,%s],"previews":[{"odd":true}]}`

func answerBody() string {
	return versionBody("ds_a", 42, 40, fmt.Sprintf(filesBody, strings.Replace(entry("part-0000"), `"file"`, `"path":"snapshot/part-0000.parquet","file"`, 1),
		entry("schema.json"), entry("manifest.json"), entry("source:zoning/1"), entry("original")))
}

func TestVersionVisitsEntriesAndReturnsTheRest(t *testing.T) {
	date := "Sun, 18 Oct 2026 06:20:00 GMT"
	own := versionBody("ds_a", 42, 40, "")
	files := strings.TrimPrefix(answerBody(), strings.TrimSuffix(own, "}")+",")
	for name, body := range map[string]string{
		"files last":  answerBody(),
		"files first": "{" + strings.TrimSuffix(files, "}") + "," + strings.TrimPrefix(own, "{"),
	} {
		t.Run(name, func(t *testing.T) {
			a := serve(t, say(200, body, "Date", date))
			before := time.Now()
			var got []feed.Entry
			out, err := a.client(t).Version(t.Context(), "ds_a", 42, func(e feed.Entry) error { got = append(got, e); return nil })
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, one := range got {
				names = append(names, string(one.Kind)+" "+one.Name)
			}
			if diff := cmp.Diff([]string{"snapshot snapshot/part-0000.parquet", "schema schema.json", " source:zoning/1", " original"}, names); diff != "" {
				t.Error(diff)
			}
			if out.Version.Number != 42 || out.Version.Previous != 40 {
				t.Errorf("got %+v", out.Version)
			}
			if out.Lifetime != time.Hour || out.Received.Before(before) || out.Received.After(time.Now()) {
				t.Errorf("lifetime %s, received %s", out.Lifetime, out.Received)
			}
			want := feed.Entry{Name: "original", Filename: "a.pdf", ContentType: "application/pdf", Size: 12, URL: "https://links.example/x?sig=S3CRET"}
			if err := want.SHA256.UnmarshalText([]byte(testSum)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got[3]); diff != "" {
				t.Error(diff)
			}
			want.Name, want.Kind = "manifest.json", manifest.KindExtra
			if diff := cmp.Diff(want, out.Manifest); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVersionRefusesUnusableAnswers(t *testing.T) {
	good := answerBody()
	cases := map[string]string{
		"other version":     strings.Replace(good, `"version":42`, `"version":43`, 1),
		"other dataset":     strings.Replace(good, `"ds_a"`, `"ds_b"`, 1),
		"no files":          versionBody("ds_a", 42, 40, ""),
		"files twice":       strings.TrimSuffix(good, "}") + `,"files":{}}`,
		"files as list":     versionBody("ds_a", 42, 40, `,"files":[]`),
		"no manifest":       strings.Replace(good, `"manifest":{`, `"other":{`, 1),
		"two manifests":     strings.Replace(good, `"manifest":{`, `"manifest":`+entry("manifest.json")+`,"manifest":{`, 1),
		"short hash":        strings.Replace(good, testSum, testSum[2:], 1),
		"hash not hex":      strings.Replace(good, testSum, "zz"+testSum[2:], 1),
		"negative size":     strings.Replace(good, `"sizeBytes":12`, `"sizeBytes":-1`, 1),
		"absurd size":       strings.Replace(good, `"sizeBytes":12`, `"sizeBytes":9007199254740993`, 1),
		"no size":           strings.Replace(good, `"sizeBytes":12,`, ``, 1),
		"path with dots":    strings.Replace(good, "snapshot/part-0000", "snapshot/../part-0000", 1),
		"absolute path":     strings.Replace(good, "snapshot/part-0000", "/snapshot/part-0000", 1),
		"backslash":         strings.Replace(good, "snapshot/part-0000", `snapshot\\part-0000`, 1),
		"control character": strings.Replace(good, "original", `orig\u0007inal`, 1),
		"nameless":          strings.Replace(good, `"file":"original"`, `"file":""`, 1),
		"giant entry":       strings.Replace(good, "S3CRET", strings.Repeat("x", 70_000), 1),
		"trailing data":     good + "x",
		"html":              "<html>",
	}
	for name, body := range cases {
		t.Run(name, func(t *testing.T) {
			a := serve(t, say(200, body))
			_, err := a.client(t).Version(t.Context(), "ds_a", 42, func(feed.Entry) error { return nil })
			wantKind(t, err, fault.Malformed, "read version ds_a version 42 (feed)")
			if n := len(a.seen()); n != 1 {
				t.Errorf("sent %d requests, want 1", n)
			}
		})
	}
}

func TestVersionGoesOnWhereItBroke(t *testing.T) {
	good := answerBody()
	for at := 1; at < len(good); at += 13 {
		a := serve(t, cut(good[:at]), cut(good[:at/2]), say(200, good))
		var names []string
		_, err := a.client(t).Version(t.Context(), "ds_a", 42, func(e feed.Entry) error { names = append(names, e.Name); return nil })
		if err != nil || len(names) != 4 {
			t.Fatalf("cut at %d: visited %v, %v", at, names, err)
		}
	}
}

func TestVersionThatChangesBetweenTriesIsNotMixed(t *testing.T) {
	good := answerBody()
	for name, other := range map[string]string{
		"other name":  strings.Replace(good, "source:zoning/1", "source:zoning/2", 1),
		"other hash":  strings.Replace(good, testSum, "00"+testSum[2:], 1),
		"other size":  strings.Replace(good, `"sizeBytes":12`, `"sizeBytes":13`, 1),
		"fewer files": strings.Replace(strings.Replace(good, entry("original"), "", 1), entry("source:zoning/1")+",", "", 1),
	} {
		t.Run(name, func(t *testing.T) {
			a := serve(t, cut(good[:len(good)-40]), say(200, other))
			_, err := a.client(t).Version(t.Context(), "ds_a", 42, func(feed.Entry) error { return nil })
			wantKind(t, err, fault.Transient, "other files than before")
		})
	}
}

func TestVersionReturnsTheVisitorsError(t *testing.T) {
	own := errors.New("own")
	a := serve(t, say(200, answerBody()))
	_, err := a.client(t).Version(t.Context(), "ds_a", 42, func(feed.Entry) error { return own })
	if !errors.Is(err, own) || fault.KindOf(err) != "" || len(a.seen()) != 1 {
		t.Errorf("got %v after %d requests", err, len(a.seen()))
	}
}

func TestVersionOfManyAttachmentsIsNotKept(t *testing.T) {
	const count = 60_000
	head, tail, _ := strings.Cut(answerBody(), entry("original"))
	a := serve(t, func(w http.ResponseWriter) {
		say(200, head)(w)
		for i := range count {
			_, _ = io.WriteString(w, entry(fmt.Sprintf("source:%d", i))+",")
		}
		_, _ = io.WriteString(w, entry("original")+tail)
	})
	visits, peak := 0, uint64(0)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, err := a.client(t).Version(t.Context(), "ds_a", 42, func(feed.Entry) error {
		if visits++; visits%20_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc)
		}
		return nil
	})
	if err != nil || visits != count+4 {
		t.Fatalf("visited %d, %v", visits, err)
	}
	if grown := int64(peak) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("%d entries took %d bytes of heap", count, grown)
	}
}

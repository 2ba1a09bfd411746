package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"feedmirror/internal/evidence"
)

func aRow(id string, goal int) row {
	return row{id: id, what: "kills | of " + id, unit: "kills", goal: goal, command: goTest("^TestKill$", "./one")}
}

func TestARowIsMetOnlyByItsOwnEvidence(t *testing.T) {
	good := evidence.Line{Row: "kills", Test: "TestKill", Tried: 6, Long: true, Took: time.Second, Notes: []string{"seed 7"}}
	change := func(f func(*evidence.Line)) evidence.Line {
		line := good
		f(&line)
		return line
	}
	for name, test := range map[string]struct {
		ran  ran
		want string // "" when met
	}{
		"enough":        {ran{lines: []evidence.Line{good, good}}, ""},
		"too few":       {ran{lines: []evidence.Line{good}}, "6 tried, 10 wanted"},
		"one failed":    {ran{lines: []evidence.Line{good, change(func(l *evidence.Line) { l.Failed = true })}}, "TestKill failed"},
		"a short form":  {ran{lines: []evidence.Line{good, change(func(l *evidence.Line) { l.Long = false })}}, "TestKill ran its short form"},
		"no evidence":   {ran{}, "no test said what it tried"},
		"another row's": {ran{lines: []evidence.Line{change(func(l *evidence.Line) { l.Row = "races" })}}, "no test said what it tried"},
		"exit 1":        {ran{failure: "the command ended with exit status 1", lines: []evidence.Line{good, good}}, "the command ended with exit status 1"},
	} {
		got := judge(aRow("kills", 10), test.ran, true)
		if got.met() != (test.want == "") || strings.Join(got.wrong, "; ") != test.want {
			t.Errorf("%s: met %v, %q, want %q", name, got.met(), got.wrong, test.want)
		}
	}
	got := judge(aRow("kills", 10), ran{lines: []evidence.Line{good, good}}, true)
	if got.tried != 12 || got.took != 2*time.Second || !slices.Equal(got.notes, []string{"seed 7", "seed 7"}) {
		t.Errorf("judged %+v", got)
	}
	if short := judge(aRow("kills", 10), ran{lines: []evidence.Line{change(func(l *evidence.Line) { l.Long, l.Tried = false, 1 })}}, false); !short.met() {
		t.Errorf("asked for short forms: %+v", short)
	}
}

func TestDamagedEvidenceIsAnError(t *testing.T) {
	if lines, err := decode([]byte("{\"row\":\"kills\"}\n{\"row\":\"ra")); err == nil {
		t.Errorf("read as %v", lines)
	}
}

func TestTheDocumentKeepsWhatWasMeasuredBefore(t *testing.T) {
	areas := []area{{"Kills", []row{aRow("a", 10), aRow("b", 1200), aRow("c", 5)}}, {"Nothing yet", nil}}
	first := []entry{
		newEntry(areas[0].rows[0], judged{tried: 1500, took: 90 * time.Second, notes: []string{"1 | 2", "3"}}, "2026-01-02, abc"),
		newEntry(areas[0].rows[1], judged{tried: 7, wrong: []string{"7 tried, 1200 wanted"}}, "2026-01-02, abc"),
		kept(areas[0].rows[2], ""),
	}
	text := render(areas, first, "- machine\n")
	for _, want := range []string{
		"| a | kills &#124; of a | 1,500 | 10 kills | 1 &#124; 2; 3 | 1m30s | 2026-01-02, abc | yes |\n",
		"| 7 | 1,200 kills | **not met:** 7 tried, 1200 wanted | 0s | 2026-01-02, abc | no |\n",
		"| c | kills &#124; of c | - | 5 kills |  |  |  | not run |\n",
		"**1,500 kills tried: nothing was lost.** That counts 1 of 3 rows; **not met or not run: b, c.**\n",
		"$ FEEDMIRROR_LONG=1 go test -count=1 -run '^TestKill$' ./one\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "Nothing yet") || strings.Count(text, "$ FEEDMIRROR_LONG") != 1 {
		t.Errorf("an empty table, or a command twice:\n%s", text)
	}
	for i, row := range areas[0].rows {
		if diff := cmp.Diff(first[i].line(), kept(row, text).line()); diff != "" {
			t.Errorf("row %s was not kept:\n%s", row.id, diff)
		}
	}
	higher := areas[0].rows[0]
	higher.goal = 1501
	if kept(higher, text).met != "no" {
		t.Error("a row measured under a lower goal counts as met")
	}
}

func TestTheSummaryNeverPraisesNothing(t *testing.T) {
	if got := summary([]entry{kept(aRow("a", 1), "")}); got != "**No row is met.**\n" {
		t.Error(got)
	}
	all := []entry{newEntry(aRow("a", 1), judged{tried: 3}, ""), newEntry(aRow("b", 1), judged{tried: 4}, "")}
	if got, want := summary(all), "**7 kills tried: nothing was lost.** All 2 rows are met.\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRowsOfOneCommandRunItOnce(t *testing.T) {
	other := aRow("c", 1)
	other.command, other.limit = goTest("^TestRace$", "./one"), time.Minute
	long := aRow("b", 1)
	long.limit = time.Hour
	areas := []area{{"x", []row{aRow("a", 1), other}}, {"y", []row{long}}}
	got := batches(areas, nil)
	if len(got) != 2 || len(got[0].rows) != 2 || got[0].limit != time.Hour || got[1].limit != time.Minute {
		t.Errorf("%+v", got)
	}
	if one := batches(areas, []string{"b"}); len(one) != 1 || len(one[0].rows) != 1 || one[0].rows[0].id != "b" {
		t.Errorf("%+v", one)
	}
	if ids := unknown(areas, []string{"a", "zz"}); !slices.Equal(ids, []string{"zz"}) {
		t.Errorf("unknown: %v", ids)
	}
}

func TestTheRowsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, area := range areas() {
		for _, row := range area.rows {
			if row.id == "" || row.what == "" || row.unit == "" || row.goal < 1 || row.command.program == "" || strings.ContainsAny(row.id, "|, ") {
				t.Errorf("row %+v lacks something", row)
			}
			if seen[row.id] {
				t.Errorf("row %s stands twice", row.id)
			}
			seen[row.id] = true
		}
	}
}

func TestACommandIsRunAndItsEvidenceCollected(t *testing.T) {
	t.Setenv(evidence.LongVariable, "1")
	say := `printf '{"row":"a","tried":1,"long":%s}\n' "${FEEDMIRROR_LONG:-false}" | sed s/:1}/:true}/ >"$FEEDMIRROR_EVIDENCE/1.jsonl"`
	shell := func(script string) batch {
		return batch{command: command{program: "sh", args: []string{"-c", script}}, limit: time.Minute}
	}
	for name, test := range map[string]struct {
		batch batch
		long  bool
		want  ran
	}{
		"long":   {shell(say), true, ran{lines: []evidence.Line{{Row: "a", Tried: 1, Long: true}}}},
		"other":  {batch{command: command{program: "sh", args: []string{"-c", "exit 1"}, short: []string{"-c", say}}, limit: time.Minute}, false, ran{lines: []evidence.Line{{Row: "a", Tried: 1}}}},
		"short":  {shell(say), false, ran{lines: []evidence.Line{{Row: "a", Tried: 1}}}},
		"failed": {shell(say + "; exit 3"), true, ran{failure: "the command ended with exit status 3", lines: []evidence.Line{{Row: "a", Tried: 1, Long: true}}}},
		"slow":   {batch{command: command{program: "sh", args: []string{"-c", "sleep 60"}}, limit: 50 * time.Millisecond}, true, ran{failure: "the command was not done after 50ms"}},
	} {
		folder := filepath.Join(t.TempDir(), "run")
		got, err := execute(t.Context(), test.batch, test.long, folder)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(ran{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if _, err := os.Stat(filepath.Join(folder, "output")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoFolderOfThisMachineIsTold(t *testing.T) {
	if got, want := anonymous("see /home/x/repo/a and /var/tmp/b at 127.0.0.1:8080", "/home/x/repo", "/var/tmp"), "see ./a and ./b at 127.0.0.1:PORT"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

var (
	counted  = regexp.MustCompile(`evidence\.Count\([a-z]+, "([^"]+)"\)`)
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
)

// TestRowsAndTestsKnowEachOther: a test that counts for a row that is none would count for nothing, and a
// row whose tests were renamed would be found out only after an hour of measuring.
func TestRowsAndTestsKnowEachOther(t *testing.T) {
	const root = "../../.."
	areas := areas()
	exist := map[string][]string{} // by folder
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		folder := "." + strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), root)
		for _, match := range testFunc.FindAllSubmatch(text, -1) {
			exist[folder] = append(exist[folder], string(match[1]))
		}
		for _, match := range counted.FindAllSubmatch(text, -1) {
			if folder != "./internal/evidence" && len(unknown(areas, []string{string(match[1])})) > 0 {
				t.Errorf("%s counts for %q, which is no row", path, match[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches(areas, nil) {
		if b.command.program != "go" {
			continue
		}
		run, folders := b.command.args[3], b.command.args[4:]
		var there []string
		for _, folder := range folders {
			there = append(there, exist[folder]...)
		}
		for name := range strings.SplitSeq(strings.Trim(run, "^()$"), "|") {
			whole := strings.HasPrefix(run, "^") && strings.HasSuffix(run, "$")
			if !slices.ContainsFunc(there, func(test string) bool { return test == name || !whole && strings.HasPrefix(test, name) }) {
				t.Errorf("%s: there is no %s", b.command, name)
			}
		}
	}
}

package tables

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"feedmirror/internal/evidence"
)

// checkedAt is the commit of whose state a test's log has a checkpoint.
const checkedAt = 9

// checkedLog is a log with a checkpoint, whose commits have no stamp and no schema: what is told of them is
// left out of what the tests look at.
func checkedLog(t *testing.T) (log, string) {
	t.Helper()
	l, dir := newLog(t)
	for i := range checkedAt + 4 {
		found, err := appendOne(t.Context(), l, fmt.Sprintf("part %d ü", i))
		if err != nil {
			t.Fatal(err)
		}
		if found.head != checkedAt {
			continue
		}
		all, err := l.contents(t.Context(), found)
		if err == nil {
			err = l.checkpoint(t.Context(), found.head, all)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return l, dir
}

func problemsOf(t *testing.T, l log) []Problem {
	t.Helper()
	reading, err := Read(t.Context(), l.store, l.root, nil)
	if err != nil {
		t.Fatal(err)
	}
	var list []Problem
	for _, p := range reading.Problems {
		if p.Code != "foreign-commit" && p.Code != "schema" {
			list = append(list, p)
		}
	}
	return list
}

// TestACheckpointIsHeldAgainstTheCommits, whatever it says otherwise: engines read it in their place.
func TestACheckpointIsHeldAgainstTheCommits(t *testing.T) {
	tally := evidence.Count(t, "checkpoint-disagrees")
	l, dir := checkedLog(t)
	if problems := problemsOf(t, l); len(problems) > 0 {
		t.Fatalf("undamaged: %+v", problems)
	}
	at := int64(checkedAt)
	whole := newContents()
	if err := readCheckpoint(t.Context(), l, at, func(row *checkpointRow) { whole.apply([]action{row.action()}) }); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(c *contents){
		"a file less": func(c *contents) { delete(c.files, "part 5 ü") },
		"a file more": func(c *contents) { c.files["another"] = *addOf("another").Add },
		"a size":      func(c *contents) { f := c.files["part 5 ü"]; f.Size++; c.files["part 5 ü"] = f },
		"statistics":  func(c *contents) { f := c.files["part 5 ü"]; f.Stats = "{}"; c.files["part 5 ü"] = f },
		"a partition": func(c *contents) {
			f := c.files["part 5 ü"]
			f.PartitionValues = map[string]string{"a": "b"}
			c.files["part 5 ü"] = f
		},
		"how far it got":        func(c *contents) { c.txns["ploti:ds"] = txn{AppID: "ploti:ds", Version: 9} },
		"the table's id":        func(c *contents) { c.metaData.ID = "other" },
		"the table's schema":    func(c *contents) { c.metaData.SchemaString = `{"type":"struct"}` },
		"the table's partition": func(c *contents) { c.metaData.PartitionColumns = nil },
		"the protocol":          func(c *contents) { c.protocol = protocolFor(nil, true) },
	} {
		other := newContents()
		other.protocol, other.metaData = whole.protocol, whole.metaData
		for path, f := range whole.files {
			other.files[path] = f
		}
		change(other)
		path := filepath.Join(dir, l.checkpointKey(at))
		file, err := os.CreateTemp(t.TempDir(), "")
		if err == nil {
			_, err = writeCheckpoint(file, other)
		}
		if err == nil {
			err = file.Close()
		}
		if err == nil {
			err = os.Rename(file.Name(), path)
		}
		if err != nil {
			t.Fatal(err)
		}
		problems := problemsOf(t, l)
		if len(problems) != 1 || problems[0].Code != "checkpoint" || problems[0].Key != l.checkpointKey(at) {
			t.Errorf("%s: %+v", name, problems)
		}
		tally.Add(1)
	}
}

// TestClearGoesFromTheNewestDown: the hint first, then each commit after what rests on it. What engines
// pass over stays.
func TestClearGoesFromTheNewestDown(t *testing.T) {
	l, dir := checkedLog(t)
	folder := filepath.Join(dir, l.folder())
	for _, name := range []string{"note.txt", "00000000000000000011.crc", "00000000000000000010.checkpoint.0000000001.0000000002.parquet"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filesToClear(t.Context(), l.store, l.root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, info := range files {
		names = append(names, strings.TrimPrefix(info.Key, l.folder()))
	}
	want := []string{"_last_checkpoint", "00000000000000000012.json", "00000000000000000011.crc", "00000000000000000011.json",
		"00000000000000000010.checkpoint.0000000001.0000000002.parquet", "00000000000000000010.json", "00000000000000000009.checkpoint.parquet", "00000000000000000009.json"}
	if len(names) != 13+4 || strings.Join(names[:len(want)], " ") != strings.Join(want, " ") || names[len(names)-1] != "00000000000000000000.json" {
		t.Errorf("in the order %v", names)
	}
	store, ok := l.store.(ClearStore)
	if !ok {
		t.Fatal("the store deletes nothing")
	}
	if deleted, err := Clear(context.Background(), store, l.root); err != nil || deleted != len(names) {
		t.Errorf("%d deleted, %v", deleted, err)
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 || left[0].Name() != "note.txt" {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestMissingMovesAreTheHolesBelowTheGreatest.
func TestMissingMovesAreTheHolesBelowTheGreatest(t *testing.T) {
	for _, c := range []struct {
		moves []int64
		want  string
	}{
		{nil, ""}, {[]int64{1}, ""}, {[]int64{1, 2, 3}, ""}, {[]int64{2}, "1"}, {[]int64{5, 1}, "2-4"}, {[]int64{4, 4, 2, 9}, "1 3 5-8"},
	} {
		if got := strings.Join(MissingMoves(c.moves), " "); got != c.want {
			t.Errorf("%v: %q, want %q", c.moves, got, c.want)
		}
	}
}

package manifest

import (
	"strings"
	"testing"
	"unicode"
)

func TestDatasetIDs(t *testing.T) {
	for _, good := range []string{"a", "7", "ds_orange_fl_building_permits", "A.b-c_9", strings.Repeat("x", 128)} {
		if err := CheckDataset(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "_a", ".a", "-a", "a..b", "a.", "a/b", `a\b`, "a b", "a:b", "ä", "a\x00", "a\n", "a=b", strings.Repeat("x", 129)} {
		if err := CheckDataset(bad); err == nil {
			t.Errorf("%q: want an error", bad)
		}
	}
}

func TestPaths(t *testing.T) {
	segment := strings.Repeat("x", 255)
	for _, good := range []string{"a", "snapshot/part-0000.parquet", "a b/c=d,e%f#g?.x", "ä/日本", "a_/b.c", segment, strings.Repeat("x/", 511) + "xx", "e\u0301"} {
		if err := CheckPath(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "a/./b", ".a", "a/.b", "_a", "a/_b", `a\b`, "c:/a", "a:b",
		"a\x00", "a\tb", "a\x7f", "a\u0085", "\xff", "a.", "a./b", "a ", "a /b", "a/ ", segment + "x", strings.Repeat("x/", 512) + "x",
	} {
		if err := CheckPath(bad); err == nil {
			t.Errorf("%q: want an error", bad)
		}
	}
}

func TestAttachmentNames(t *testing.T) {
	for _, good := range []string{"original", "source:x", "document:" + sumA, "../x", "/", `a\b`, " ", "日本", strings.Repeat("x", 1024)} {
		if err := CheckAttachmentName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "a\n", "\x1b[2J", "\u009b2J", "\xff", strings.Repeat("x", 1025)} {
		if err := CheckAttachmentName(bad); err == nil {
			t.Errorf("%q: want an error", bad)
		}
	}
}

func TestSizesAndNumbers(t *testing.T) {
	for size, good := range map[int64]bool{-1: false, 0: true, 1 << 53: true, 1<<53 + 1: false} {
		if err := CheckSize(size); (err == nil) != good {
			t.Errorf("size %d: %v", size, err)
		}
	}
	for n, good := range map[Number]bool{-1: false, 0: false, 1: true, MaxNumber: true, MaxNumber + 1: false} {
		if err := CheckNumber(n); (err == nil) != good {
			t.Errorf("number %d: %v", n, err)
		}
	}
}

func TestKindsComeFromTheFirstSegment(t *testing.T) {
	for path, want := range map[string]Kind{
		"snapshot/a": KindSnapshot, "changes/a/b": KindChanges, "id_map/a": KindIDMap, "idMap/a": KindIDMap, "schema.json": KindSchema,
		"snapshot": KindExtra, "Snapshot/a": KindExtra, "a/schema.json": KindExtra, "schema.json/a": KindExtra, "Schema.json": KindExtra, "notes.txt": KindExtra,
	} {
		if got := KindOf(path); got != want {
			t.Errorf("%q: got %s, want %s", path, got, want)
		}
	}
}

func TestFoldMakesExactlyEqualFoldsEqual(t *testing.T) {
	for c := rune(0); c <= unicode.MaxRune; c++ {
		text := "x" + string(c)
		for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
			if Fold(text) != Fold("X"+string(other)) {
				t.Fatalf("%q and %q fold apart", c, other)
			}
		}
		if !strings.EqualFold(Fold(text), text) {
			t.Fatalf("%q folds to %q, which is no fold of it", text, Fold(text))
		}
	}
}

func TestQuotesAreShortAndEscaped(t *testing.T) {
	if got := Quote("a\x1b\"\u202e"); got != `"a\x1b\"\u202e"` {
		t.Errorf("got %s", got)
	}
	if got := Quote(strings.Repeat("日", 100)); !strings.HasSuffix(got, `日"... (300 bytes)`) || len(got) > 200 {
		t.Errorf("got %s", got)
	}
	if got := Quote(strings.Repeat("\x80", 300)); len(got) > 4*maxQuoted+20 {
		t.Errorf("%d bytes", len(got))
	}
}

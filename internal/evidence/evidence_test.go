package evidence

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestATallyWritesOneLineAtTheEndOfItsTest(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(FolderVariable, folder)
	t.Setenv(LongVariable, "1")
	t.Run("inner", func(t *testing.T) {
		tally := Count(t, "kills")
		tally.Add(Size(1, 3))
		tally.Add(2)
		tally.Note("%d processes", 8)
	})
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var got Line
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	got.Took = 0
	want := Line{Row: "kills", Test: t.Name() + "/inner", Tried: 5, Long: true, Notes: []string{"8 processes"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheShortFormIsTheDefault(t *testing.T) {
	t.Setenv(LongVariable, "")
	if Long() || Size(2, 200) != 2 {
		t.Errorf("long %v, size %d", Long(), Size(2, 200))
	}
}

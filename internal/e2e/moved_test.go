package e2e_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"feedmirror/internal/feed/feedsim"
)

// TestAMovedBucketIsTakenOver copies a bucket into a folder by foreign means: the audit passes there,
// and the next pass downloads nothing that is held.
func TestAMovedBucketIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, places()["versitygw"](t), feedsim.Options{})
	d := w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Points, Rows: 8}, feedsim.ReleaseSpec{}, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	moved := w.place.files(t)
	w.place = place{name: "folder", url: "file://" + moved, files: func(*testing.T) string { return moved }}
	w.run(0, "verify", "--level", "bytes")
	w.feed.ResetLog()
	if r := w.sync(0, "--full"); r.Requests.Source != 0 || r.Requests.Links != 0 || r.Files.Copied != 0 || r.Versions.Committed != 0 {
		t.Errorf("the first pass after the move: %+v", r)
	}
	w.idlePass()
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	if r := w.sync(0); r.Versions.Committed != 1 || r.Versions.Published != 1 {
		t.Errorf("the pass with news: %+v", r)
	}
	w.published(permits, 3)
}

// TestANewerLayoutIsRefused meets a bucket that a later program has written to.
func TestANewerLayoutIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, folderPlace(t), feedsim.Options{})
	d := w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Plain, Rows: 3}, feedsim.ReleaseSpec{})
	w.sync(0)
	w.release(d, feedsim.ReleaseSpec{})
	layout := filepath.Join(w.place.files(t), "_mirror", "layout.json")
	today, err := os.ReadFile(layout)
	if err != nil {
		t.Fatal(err)
	}
	newer := bytes.Replace(today, []byte(`"layout": 1`), []byte(`"layout": 2`), 1)
	if bytes.Equal(newer, today) {
		t.Fatalf("no layout number in %s", today)
	}
	write(t, layout, newer)
	before := w.snapshot()
	for _, command := range [][]string{{"sync"}, {"plan"}, {"verify"}, {"status"}, {"approve", permits}, {"rollback", permits, "1"}} {
		done := w.run(2, command...)
		if said := done.out + plainLines(done.err); !strings.Contains(strings.ToLower(said), "layout 2") || !strings.Contains(said, "pgrade") {
			t.Errorf("%s does not say why and what to do: %s", command[0], said)
		}
	}
	if after := w.snapshot(); !maps.Equal(before.Objects, after.Objects) {
		t.Error("something was written")
	}
	write(t, layout, today)
	w.sync(0)
}

// write replaces the bytes of a file that may be read-only.
func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

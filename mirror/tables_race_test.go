package mirror_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/tables"
	"feedmirror/manifest"
)

// beforeCommit does something before the first commit of the table of changes reaches the store.
type beforeCommit struct {
	bucket.Store
	once sync.Once
	do   func()
}

func (b *beforeCommit) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	if strings.HasPrefix(key, tables.ChangesRoot+"_delta_log/") {
		b.once.Do(b.do)
	}
	return b.Store.Create(ctx, key, content)
}

// TestChangesOfAPrunedVersionAreNotListedByWhoLookedBefore lets a prune come to its end between the
// moment in which a pass lists all versions and its commit.
func TestChangesOfAPrunedVersionAreNotListedByWhoLookedBefore(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	for range 2 {
		w.release(d, feedsim.ReleaseSpec{Change: 1})
	}
	w.sync(0)
	if err := os.RemoveAll(filepath.Join(w.dir, "changes", "_delta_log")); err != nil {
		t.Fatal(err)
	}
	sound := w.store
	store := &beforeCommit{Store: sound}
	store.do = func() {
		w.store = sound
		w.prune(0, manifest.KeepRules{Versions: 1})
		w.store = store
	}
	w.store = store
	w.sync(0, full)
	w.store = sound
	if w.has(manifest.FileKey(permits, 2, manifest.File{Kind: manifest.KindChanges, Path: "changes/part-0000.parquet"})) {
		t.Error("nothing was pruned: this test shows nothing")
	}
	w.checkInvariants()
}

package mirror_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/bucket/localstore"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

// copyOf returns a world over the same feed, whose bucket begins as a copy of this one. Files are
// linked: a store never writes into one that stands, and links keep what tags are made of.
func (w *world) copyOf(t *testing.T) (*world, bucket.Store) {
	t.Helper()
	other := &world{t: t, feed: w.feed, clock: w.clock, dir: t.TempDir(), mirrored: w.dir, logs: w.logs}
	err := filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(w.dir, path)
		if err != nil {
			return err
		}
		to := filepath.Join(other.dir, relative)
		switch {
		case relative == filepath.Join("_mirror", "locks"), relative == filepath.Join("_mirror", "tmp"):
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(to, 0o755)
		}
		return os.Link(path, to)
	})
	if err != nil {
		t.Fatal(err)
	}
	store, err := localstore.New(localstore.Options{Root: other.dir})
	if err != nil {
		t.Fatal(err)
	}
	other.store = store
	return other, store
}

// TestARollbackAndAPruneNeverLeadReadersToDeletedFiles stops a rollback before each of its requests
// and lets a prune come as far as each of its first writes, or to its end, before it goes on.
func TestARollbackAndAPruneNeverLeadReadersToDeletedFiles(t *testing.T) {
	tally := evidence.Count(t, "rollback-frozen")
	origin := comebackWorld(t)
	w, store := origin.copyOf(t)
	counter := &frozen{Store: store}
	o := w.decide()
	o.Docs = counter
	if _, err := mirror.Rollback(t.Context(), o, permits, 2); err != nil {
		t.Fatal(err)
	}
	moved, refused := 0, 0
	for at, dies := range []int64{1, 2, 3, 4, 6, 8, 1 << 30} {
		for _, nth := range requests(counter.calls, at) {
			w, store := origin.copyOf(t)
			when := fmt.Sprintf("rollback at request %d, prune to write %d", nth, dies)
			o := w.decide()
			o.Docs = &frozen{Store: store, nth: nth, meanwhile: func() {
				options := w.pruneOptions(keepOne)
				options.Store = &buckettest.CrashAfterNthWrite{Store: store, Nth: dies, When: buckettest.AfterWrite}
				_, _ = mirror.Prune(context.Background(), options) // dead, or done
			}}
			change, err := mirror.Rollback(t.Context(), o, permits, 2)
			switch {
			case err == nil && change.After.Version == 2:
				moved++
			case fault.Is(err, fault.Usage), fault.Is(err, fault.Budget):
				refused++
			default:
				t.Errorf("%s: %v, %+v", when, err, change.After)
			}
			w.whole(when)
			if _, err := mirror.ResumePrune(t.Context(), w.pruneOptions(keepOne)); err != nil {
				t.Errorf("%s: resume: %v", when, err)
			}
			w.whole(when + ", resumed")
			w.settleDecisions(when)
			tally.Add(1)
			if t.Failed() {
				return
			}
		}
	}
	if moved == 0 || refused == 0 {
		t.Errorf("%d rollbacks were carried out, %d refused: want both", moved, refused)
	}
}

// settleDecisions does what the next pass does with decisions that stand, and wants none left.
func (w *world) settleDecisions(when string) {
	w.t.Helper()
	pending, err := state.PendingDecisions(w.t.Context(), w.store, permits, w.pointer(permits))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, decision := range pending {
		if _, err := mirror.Obey(w.t.Context(), w.store, w.pause, permits, decision, manifest.MajorHold, w.clock.Now()); err != nil {
			w.t.Errorf("%s: the decision cannot be settled: %v", when, err)
		}
	}
	w.whole(when + ", decisions settled")
	if pending, err = state.PendingDecisions(w.t.Context(), w.store, permits, w.pointer(permits)); err != nil || len(pending) != 0 {
		w.t.Errorf("%s: %d decisions stay pending (%v)", when, len(pending), err)
	}
}

// TestAPruneLeavesWhatARollbackNeeds: a version that readers were moved back to, and all above it.
func TestAPruneLeavesWhatARollbackNeeds(t *testing.T) {
	w, d := permitsWorld(t)
	for range 3 {
		w.release(d, feedsim.ReleaseSpec{Add: 1})
	}
	w.sync(0)
	if _, err := mirror.Rollback(t.Context(), w.decide(), permits, 3); err != nil {
		t.Fatal(err)
	}
	report := w.prune(0, keepOne)
	if got := numbersOf(report.Versions); fmt.Sprint(got) != "[1 2]" {
		t.Errorf("took %v, want 1 and 2", got)
	}
	if _, err := mirror.Rollback(t.Context(), w.decide(), permits, 2); !fault.Is(err, fault.Usage) {
		t.Errorf("a rollback to a pruned version: %v", err)
	}
	if _, err := mirror.Approve(t.Context(), w.decide(), permits); err != nil {
		t.Fatal(err)
	}
	w.published(permits, 5)
}

// TestAPruneLooksAgainWhoNeedsAVersion: what was planned is overtaken by a rollback, carried out or
// only written down, just before the prune begins.
func TestAPruneLooksAgainWhoNeedsAVersion(t *testing.T) {
	origin := comebackWorld(t)
	undisturbed, store := origin.copyOf(t)
	counter := &frozen{Store: store}
	undisturbed.prune(0, keepOne, func(o *mirror.PruneOptions) { o.Store = counter })
	for name, dies := range map[string]int64{"carried out": 1 << 30, "written down": 2} {
		w, store := origin.copyOf(t)
		o := w.pruneOptions(keepOne)
		o.Store = &frozen{Store: store, nth: counter.firstSwap, meanwhile: func() {
			decide := w.decide()
			decide.Docs = &buckettest.CrashAfterNthWrite{Store: store, Nth: dies, When: buckettest.AfterWrite}
			_, _ = mirror.Rollback(context.Background(), decide, permits, 2) // done, or dead
		}}
		report, err := mirror.Prune(t.Context(), o)
		if err != nil || w.has(manifest.PrunedKey(permits, 2)) || w.filesOf(2) == 0 || !w.has(manifest.PrunedKey(permits, 1)) {
			t.Errorf("%s: %v, version 2 has %d files; notes %+v", name, err, w.filesOf(2), report.Notes)
		}
		w.whole(name)
		w.settleDecisions(name)
		w.published(permits, 2)
	}
}

package mirror_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"feedmirror/attachments"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

// documentsOf returns the names of the documents that a version's manifest lists.
func (w *world) documentsOf(n manifest.Number) []string {
	w.t.Helper()
	in, err := os.Open(filepath.Join(w.dir, filepath.FromSlash(manifest.ManifestKey(permits, n))))
	if err != nil {
		w.t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // only read from
	var names []string
	_, err = manifest.DecodeManifest(in, func(a manifest.Attachment) error {
		if strings.HasPrefix(a.Name, "document:") {
			names = append(names, a.Name)
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return names
}

// comebackWorld has documents that only versions 1 and 2 name, which a prune takes, and that a
// version names again which the next pass meets.
func comebackWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, feedsim.Options{})
	d := w.dataset(permits, feedsim.Points)
	w.release(d, feedsim.ReleaseSpec{})
	w.sync(0)
	names := w.documentsOf(1)
	w.release(d, feedsim.ReleaseSpec{Change: 1})
	w.release(d, feedsim.ReleaseSpec{Change: 1, LeaveOut: names})
	w.release(d, feedsim.ReleaseSpec{Change: 1, LeaveOut: names[1:]})
	w.sync(0)
	w.release(d, feedsim.ReleaseSpec{Change: 1})
	return w
}

var keepOne = manifest.KeepRules{Versions: 1}

// needed wants everything that the published version names to be there.
func (w *world) needed(when string) {
	w.t.Helper()
	pointer := w.pointer(permits)
	record := w.record(permits, pointer.Version)
	keys := []string{record.Manifest.Key, record.Sums.Key}
	for _, file := range record.Files {
		keys = append(keys, file.Key)
	}
	if index := record.Attachments.Index; index != nil {
		data, err := os.ReadFile(filepath.Join(w.dir, filepath.FromSlash(index.Key)))
		if err != nil {
			w.t.Errorf("%s: %v", when, err)
			return
		}
		err = attachments.ReadIndex(context.Background(), strings.NewReader(string(data)), int64(len(data)), func(row attachments.IndexRow) error {
			keys = append(keys, row.Key)
			return nil
		})
		if err != nil {
			w.t.Errorf("%s: %v", when, err)
		}
	}
	for _, key := range keys {
		if !w.has(key) {
			w.t.Errorf("%s: version %d is published, and %s is gone", when, pointer.Version, key)
		}
	}
}

// syncUntilDone makes passes until none is told to wait for a prune.
func (w *world) syncUntilDone() {
	w.t.Helper()
	for range 5 {
		report := mirror.Run(context.Background(), w.options())
		w.needed("after a pass")
		if report.Exit == 0 {
			return
		}
		if report.Exit != mirror.ExitStopped {
			w.t.Fatalf("a pass ended with %d: %+v", report.Exit, report.Failures)
		}
	}
	w.t.Fatal("passes never end")
}

// TestAPruneThatDiesAtAnyWriteIsFinishedByTheNext kills a prune before, after, or in the answer of
// each write in turn, with a pass before it is finished and one behind.
func TestAPruneThatDiesAtAnyWriteIsFinishedByTheNext(t *testing.T) {
	tally := evidence.Count(t, "prune-interruptions")
	origin := comebackWorld(t)
	undisturbed, store := origin.copyOf(t)
	counter := &buckettest.CrashAfterNthWrite{Store: store, Nth: 1 << 30}
	undisturbed.prune(0, keepOne, func(o *mirror.PruneOptions) { o.Store = counter })
	undisturbed.syncUntilDone()
	want := slices.Sorted(maps.Keys(finishedData(t, undisturbed)))
	if counter.Writes() < 20 {
		t.Fatalf("an undisturbed prune makes only %d writes", counter.Writes())
	}
	tally.Note("%d writes", counter.Writes())
	for nth := int64(1); nth <= counter.Writes(); nth++ {
		for _, when := range crashes(nth) {
			w, store := origin.copyOf(t)
			o := w.pruneOptions(keepOne)
			o.Store = &buckettest.CrashAfterNthWrite{Store: store, Nth: nth, When: when}
			_, _ = mirror.Prune(t.Context(), o) // dead
			w.whole(fmt.Sprintf("after the crash at write %d", nth))
			if report := mirror.Run(t.Context(), w.options()); report.Exit != 0 && report.Exit != mirror.ExitStopped {
				t.Errorf("a pass before the prune is finished ended with %d: %+v", report.Exit, report.Failures)
			}
			w.whole("after a pass")
			if _, err := mirror.ResumePrune(t.Context(), w.pruneOptions(keepOne)); err != nil || w.pruneDocument().Running() {
				t.Fatalf("resume: %v", err)
			}
			w.whole("after the resumed prune")
			w.syncUntilDone()
			w.prune(0, manifest.KeepRules{Versions: 2})
			got := slices.Sorted(maps.Keys(finishedData(t, w)))
			if !slices.Equal(got, want) {
				t.Errorf("killed at write %d, ends with %d keys, an undisturbed one with %d: %v", nth, len(got), len(want), difference(got, want))
			}
			tally.Add(1)
			if t.Failed() {
				return
			}
		}
	}
}

// TestAClearingThatDiesAtAnyWriteIsFinishedByTheNext: the clearing of a version that was never
// committed, and whose documents no other names.
func TestAClearingThatDiesAtAnyWriteIsFinishedByTheNext(t *testing.T) {
	tally := evidence.Count(t, "prune-interruptions")
	origin := newWorld(t, feedsim.Options{})
	d := origin.dataset(permits, feedsim.Points)
	origin.release(d, feedsim.ReleaseSpec{})
	origin.sync(0)
	origin.release(d, feedsim.ReleaseSpec{Add: 2})
	origin.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Version: 2, File: "schema.json", Times: feedsim.Always}, feedsim.Refuse(404, "NoSuchKey", "no such key"))
	origin.sync(1)
	clean, store := origin.copyOf(t)
	counter := &buckettest.CrashAfterNthWrite{Store: store, Nth: 1 << 30}
	o := clean.pruneOptions(manifest.KeepRules{})
	o.Store = counter
	if _, err := mirror.ClearUncommitted(t.Context(), o, permits, 2); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(maps.Keys(finishedData(t, clean)))
	for nth := int64(1); nth <= counter.Writes(); nth++ {
		for _, when := range crashes(nth) {
			w, store := origin.copyOf(t)
			o := w.pruneOptions(manifest.KeepRules{})
			o.Store = &buckettest.CrashAfterNthWrite{Store: store, Nth: nth, When: when}
			_, _ = mirror.ClearUncommitted(t.Context(), o, permits, 2) // dead
			w.whole(fmt.Sprintf("after a crash at write %d", nth))
			again := w.pruneOptions(manifest.KeepRules{})
			again.Now = func() time.Time { return late().Add(time.Hour) } // the lease of the dead has expired
			if _, err := mirror.ResumePrune(t.Context(), again); err != nil {
				t.Errorf("write %d: resume: %v", nth, err)
			}
			if _, err := mirror.ClearUncommitted(t.Context(), again, permits, 2); err != nil && !fault.Is(err, fault.Usage) {
				t.Errorf("write %d: again: %v", nth, err)
			}
			w.whole(fmt.Sprintf("after a crash at write %d, resumed", nth))
			if got := slices.Sorted(maps.Keys(finishedData(t, w))); !slices.Equal(got, want) {
				t.Errorf("write %d: %v", nth, difference(got, want))
			}
			tally.Add(1)
		}
	}
}

// crashes are the ways to die at the nth write that are tried: all, or in the short form one of them
// at every third write.
func crashes(nth int64) []buckettest.CrashWhen {
	all := []buckettest.CrashWhen{buckettest.BeforeWrite, buckettest.AfterWrite, buckettest.AnswerLost}
	switch {
	case evidence.Long():
		return all
	case nth%3 == 1:
		return all[nth/3%3:][:1]
	}
	return nil
}

func difference(a, b []string) (list []string) {
	for _, one := range a {
		if !slices.Contains(b, one) {
			list = append(list, "+"+one)
		}
	}
	for _, one := range b {
		if !slices.Contains(a, one) {
			list = append(list, "-"+one)
		}
	}
	return list
}

// TestPrunesInALoopBesideAPass: three prunes that take over from each other without a pause, and
// passes over versions of two datasets that share their documents, which come and go.
func TestPrunesInALoopBesideAPass(t *testing.T) {
	tally := evidence.Count(t, "prune-loop")
	w, d, shared := twins(t)
	w.sync(0)
	names := w.documentsOf(1)
	quit := make(chan struct{})
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
				}
				_, err := mirror.Prune(context.Background(), w.pruneOptions(keepOne))
				if fault.Is(err, fault.Budget) {
					_, err = mirror.ResumePrune(context.Background(), w.pruneOptions(keepOne))
				}
				if err != nil && !fault.Is(err, fault.Budget) {
					t.Errorf("a prune: %v", err)
				}
			}
		})
	}
	rounds := evidence.Size(8, 100)
	for round := range rounds {
		w.release(d, feedsim.ReleaseSpec{Change: 1, LeaveOut: names[:round%3*len(names)/3]})
		w.release(shared, feedsim.ReleaseSpec{Change: 1, LeaveOut: names[(round+1)%3*len(names)/3:]})
		done := false
		for deadline := time.Now().Add(time.Minute); !done && time.Now().Before(deadline); {
			report := mirror.Run(context.Background(), w.options())
			w.needed("after a pass")
			if done = report.Exit == 0; !done && report.Exit != mirror.ExitStopped {
				t.Errorf("a pass ended with %d: %+v", report.Exit, report.Failures)
			}
		}
		if !done {
			t.Error("no pass got through beside the prunes")
		}
		tally.Add(1)
	}
	close(quit)
	group.Wait()
	if _, err := mirror.ResumePrune(t.Context(), w.pruneOptions(keepOne)); err != nil {
		t.Error(err)
	}
	w.whole("at the end")
	w.prune(0, keepOne)
	if left := standing(w); len(left) != 1 {
		t.Errorf("versions %v are left, want one", left)
	}
}

func standing(w *world) []manifest.Number {
	var list []manifest.Number
	holding, err := state.LoadHolding(context.Background(), w.store, permits)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, held := range holding {
		if held.Record && !held.Pruned {
			list = append(list, held.Number)
		}
	}
	return list
}

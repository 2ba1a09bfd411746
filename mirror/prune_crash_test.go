package mirror_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"feedmirror/attachments"
	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
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
	origin := comebackWorld(t)
	undisturbed, store := origin.copyOf(t)
	counter := &buckettest.CrashAfterNthWrite{Store: store, Nth: 1 << 30}
	undisturbed.prune(0, keepOne, func(o *mirror.PruneOptions) { o.Store = counter })
	undisturbed.syncUntilDone()
	want := slices.Sorted(maps.Keys(finishedData(t, undisturbed)))
	if counter.Writes() < 20 {
		t.Fatalf("an undisturbed prune makes only %d writes", counter.Writes())
	}
	for nth := int64(1); nth <= counter.Writes(); nth++ {
		for _, when := range []buckettest.CrashWhen{buckettest.BeforeWrite, buckettest.AfterWrite, buckettest.AnswerLost} {
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
			if t.Failed() {
				return
			}
		}
	}
}

// TestAClearingThatDiesAtAnyWriteIsFinishedByTheNext: the clearing of a version that was never
// committed, and whose documents no other names.
func TestAClearingThatDiesAtAnyWriteIsFinishedByTheNext(t *testing.T) {
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
		for _, when := range []buckettest.CrashWhen{buckettest.BeforeWrite, buckettest.AfterWrite, buckettest.AnswerLost} {
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
		}
	}
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

// frozen runs meanwhile just before the nth call of the store's user, as if that process had been
// stopped there: what it sends afterwards rests on what it saw before.
type frozen struct {
	bucket.Store
	nth       int
	meanwhile func()

	mu        sync.Mutex
	calls     int
	firstSwap int // the call that begins the prune
}

func (f *frozen) step() {
	f.mu.Lock()
	f.calls++
	now := f.calls == f.nth
	f.mu.Unlock()
	if now {
		f.meanwhile()
	}
}

func (f *frozen) Stat(ctx context.Context, key string) (bucket.Info, error) {
	f.step()
	return f.Store.Stat(ctx, key)
}

func (f *frozen) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	f.step()
	return f.Store.Open(ctx, key, offset, length)
}

func (f *frozen) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	f.step()
	return f.Store.List(ctx, prefix, after)
}

func (f *frozen) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	f.step()
	return f.Store.Create(ctx, key, content)
}

func (f *frozen) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	f.step()
	f.mu.Lock()
	if f.firstSwap == 0 {
		f.firstSwap = f.calls
	}
	f.mu.Unlock()
	return f.Store.Swap(ctx, key, old, data)
}

func (f *frozen) Delete(ctx context.Context, key string, tag bucket.Tag) error {
	f.step()
	return f.Store.Delete(ctx, key, tag)
}

// TestAPruneThatSleepsHarmsNothing stops a prune before each of its requests, from the one that
// begins it on, lets others do what it must not undo, and wakes it up.
func TestAPruneThatSleepsHarmsNothing(t *testing.T) {
	another := func(w *world) {
		if _, err := mirror.ResumePrune(context.Background(), w.pruneOptions(keepOne)); err != nil {
			t.Errorf("resume: %v", err)
		}
	}
	meanwhiles := map[string]func(w *world){
		"a pass": func(w *world) { mirror.Run(context.Background(), w.options()) },
		"a pass, another prune, a pass": func(w *world) {
			mirror.Run(context.Background(), w.options())
			another(w)
			w.syncUntilDone()
		},
		"another prune, a pass": func(w *world) {
			another(w)
			w.syncUntilDone()
		},
	}
	origin := comebackWorld(t)
	undisturbed, store := origin.copyOf(t)
	counter := &frozen{Store: store}
	undisturbed.prune(0, keepOne, func(o *mirror.PruneOptions) { o.Store = counter })
	for name, meanwhile := range meanwhiles {
		for nth := counter.firstSwap; nth <= counter.calls; nth++ {
			when := fmt.Sprintf("%s while the prune sleeps at request %d", name, nth)
			w, store := origin.copyOf(t)
			o := w.pruneOptions(keepOne)
			o.Store = &frozen{Store: store, nth: nth, meanwhile: func() { meanwhile(w) }}
			if _, err := mirror.Prune(t.Context(), o); err != nil && !fault.Is(err, fault.Budget) {
				t.Errorf("%s: the prune ended with %v", when, err)
			}
			w.whole(when)
			another(w)
			w.syncUntilDone()
			w.whole(when + ", at the end")
			if t.Failed() {
				t.Fatalf("failed with %s", when)
			}
		}
	}
}

// TestPrunesInALoopBesideAPass: three prunes that take over from each other without a pause, and
// passes over versions whose documents come and go.
func TestPrunesInALoopBesideAPass(t *testing.T) {
	w := newWorld(t, feedsim.Options{})
	d := w.dataset(permits, feedsim.Points)
	w.release(d, feedsim.ReleaseSpec{})
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
	for round := range 10 {
		w.release(d, feedsim.ReleaseSpec{Change: 1, LeaveOut: names[:round%3*len(names)/3]})
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
	}
	close(quit)
	group.Wait()
	if _, err := mirror.ResumePrune(t.Context(), w.pruneOptions(keepOne)); err != nil {
		t.Error(err)
	}
	w.whole("at the end")
	w.prune(0, keepOne)
	if pruned := 11 - len(standing(w)); pruned != 10 {
		t.Errorf("%d versions are pruned, want 10", pruned)
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

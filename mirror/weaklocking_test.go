package mirror_test

import (
	"context"
	"strings"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

// weakWorld is a world whose store ignores conditions.
type weakWorld struct {
	*world
	honest bucket.Store // what it would be after an upgrade
	bare   bucket.Store // without the look before each write
}

func newWeakWorld(t *testing.T) *weakWorld {
	t.Helper()
	w := newWorld(t, feedsim.Options{})
	weak := &weakWorld{world: w, honest: w.store, bare: &buckettest.IgnoreConditions{Store: w.store}}
	w.store = bucket.WithLook(weak.bare)
	return weak
}

// refused passes see the bare store in their probe, as the program's do.
func (w *weakWorld) refused(o *mirror.Options) {
	o.Probe = func(ctx context.Context) (bucket.ProbeReport, error) {
		return bucket.Probe(ctx, w.bare, bucket.ProbeOptions{Run: "probe-" + o.Run})
	}
}

func (w *weakWorld) accepted(o *mirror.Options) {
	w.refused(o)
	o.AcceptWeakLocking = true
}

func (w *world) layout() *state.Layout {
	w.t.Helper()
	layout, err := state.LoadLayout(w.t.Context(), w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	return layout
}

// A store that ignores conditions is refused, with the way out, before any file was asked for.
func TestAStoreThatIgnoresConditionsIsRefused(t *testing.T) {
	w := newWeakWorld(t)
	w.release(w.dataset(permits, feedsim.Points), feedsim.ReleaseSpec{})
	r := w.sync(mirror.ExitBucket, w.refused)
	if len(r.Failures) != 1 || !strings.Contains(r.Failures[0].Hint, "--accept-weak-locking") || !strings.Contains(r.Failures[0].Object, "atomic-create, compare-and-swap") {
		t.Errorf("failures %+v", r.Failures)
	}
	for key := range w.take().Objects {
		t.Errorf("%s was written", key)
	}
}

// The only writer of such a store keeps every promise, and the rules are told once.
func TestTheOnlyWriterOfAWeakStoreKeepsEveryPromise(t *testing.T) {
	w := newWeakWorld(t)
	d := w.dataset(permits, feedsim.Archive)
	w.release(d, feedsim.ReleaseSpec{})
	first := w.sync(0, w.accepted)
	if len(first.Notes) != 1 || first.Notes[0].Kind != "weak-locking" || !strings.Contains(first.Notes[0].Message, "concurrencyPolicy: Forbid") {
		t.Errorf("notes %+v", first.Notes)
	}
	if g := w.layout().Guarantees; g.AtomicCreate || g.CompareAndSwap {
		t.Errorf("layout.json says %+v", g)
	}
	w.release(d, feedsim.ReleaseSpec{Add: 2})
	major := w.release(d, feedsim.ReleaseSpec{Major: true})
	if r := w.sync(0, w.accepted); len(r.Notes) != 0 {
		t.Errorf("the second pass says %+v", r.Notes)
	}
	if _, err := mirror.Approve(t.Context(), w.decide(), permits); err != nil {
		t.Fatal(err)
	}
	w.published(permits, major)
	if _, err := mirror.Rollback(t.Context(), w.decide(), permits, 1); err != nil {
		t.Fatal(err)
	}
	w.sync(0, w.accepted)
	w.published(permits, 1)
	if _, err := mirror.Approve(t.Context(), w.decide(), permits); err != nil {
		t.Fatal(err)
	}
	w.sync(0, w.accepted)
	w.published(permits, major)
}

// What stands is not written over where the store would: a version that the feed rebuilt between
// two tries is a conflict, as elsewhere.
func TestAWeakStoreIsNotWrittenOver(t *testing.T) {
	w := newWeakWorld(t)
	d := w.dataset(permits, feedsim.Points)
	n := w.release(d, feedsim.ReleaseSpec{})
	key := manifest.ManifestKey(permits, n)
	if _, err := bucket.CreateDocument(t.Context(), w.store, key, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	w.damaged = true // a manifest that nobody published stands
	w.sync(mirror.ExitFailed, w.accepted)
	stands, _, err := bucket.ReadAll(t.Context(), w.store, key, 10)
	if err != nil || string(stands) != "{}" {
		t.Errorf("%q stands, %v", stands, err)
	}
}

// A pass without the flag over a bucket that is known to be weak tests the store again: it refuses
// it, or goes on where it learned better.
func TestAWeakBucketNeedsTheFlagAgain(t *testing.T) {
	w := newWeakWorld(t)
	d := w.dataset(permits, feedsim.Points)
	w.release(d, feedsim.ReleaseSpec{})
	w.sync(0, w.accepted)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	r := w.sync(mirror.ExitBucket, w.refused)
	if len(r.Failures) != 1 || !strings.Contains(r.Failures[0].Hint, "--accept-weak-locking") {
		t.Errorf("failures %+v", r.Failures)
	}
	w.published(permits, 1)
	if err := w.layout().CheckLocking(false); !fault.Is(err, fault.BucketUnfit) {
		t.Errorf("other commands are told %v", err)
	}
	prune := mirror.PruneOptions{Store: w.store, Rules: manifest.KeepRules{Versions: 1}, Apply: true, Run: "prune", Now: w.clock.Now, Pause: w.pause}
	if _, err := mirror.Prune(t.Context(), prune); !fault.Is(err, fault.BucketUnfit) {
		t.Errorf("a prune is told %v", err)
	}
	if prune.Apply = false; !prunes(t, prune) {
		t.Error("a dry run is refused")
	}
	prune.Apply, prune.AcceptWeakLocking = true, true
	if !prunes(t, prune) {
		t.Error("an accepted prune is refused")
	}
	w.store = w.honest
	w.sync(0)
	w.published(permits, newest)
	if w.layout().Guarantees.WeakLocking() {
		t.Error("layout.json still calls the store weak")
	}
}

func prunes(t *testing.T, o mirror.PruneOptions) bool {
	t.Helper()
	_, err := mirror.Prune(context.WithoutCancel(t.Context()), o)
	return err == nil
}

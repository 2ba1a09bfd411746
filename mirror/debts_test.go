package mirror_test

import (
	"context"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

func (w *world) countKeys(prefix string) int {
	w.t.Helper()
	count := 0
	for _, err := range w.store.List(context.Background(), prefix, "") {
		if err != nil {
			w.t.Fatal(err)
		}
		count++
	}
	return count
}

func TestAFailureKeepsAReportAndNoSuccess(t *testing.T) {
	w, _ := permitsWorld(t)
	w.sync(0)
	began, reports := w.shards()[0].LastSuccess, w.countKeys(manifest.RunsPrefix)
	w.clock.Advance(time.Hour)
	w.sync(0)
	if got := w.shards()[0].LastSuccess; !got.After(began) || w.countKeys(manifest.RunsPrefix) != reports {
		t.Errorf("after an idle pass: last success %s, %d reports", got, w.countKeys(manifest.RunsPrefix))
	}
	began = w.shards()[0].LastSuccess
	w.clock.Advance(time.Hour)
	w.feed.OverrideList(func([]byte) []byte { return []byte(`{"datasets": [], "nextCursor": null}`) })
	w.sync(1, full)
	shard := w.shards()[0]
	if !shard.LastSuccess.Equal(began) || !shard.LastAttempt.After(began) || shard.LastExit != 1 {
		t.Errorf("after a failed pass: last success %s, last attempt %s, exit %d", shard.LastSuccess, shard.LastAttempt, shard.LastExit)
	}
	if got := w.countKeys(manifest.RunsPrefix); got != reports+1 {
		t.Errorf("%d reports are kept, want %d", got, reports+1)
	}
}

func TestADatasetThatAnotherRunWorksOnStaysOwed(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	rival := &state.Leases{Docs: w.store, Owner: "rival", Host: "elsewhere", TTL: time.Hour, Now: w.clock.Now, Pause: w.pause}
	holder, err := rival.Acquire(t.Context(), permits)
	if err != nil {
		t.Fatal(err)
	}
	report := w.sync(0, func(o *mirror.Options) {
		o.Pause = func(ctx context.Context, d time.Duration) error { // the rival is alive and renews
			w.clock.Advance(d)
			var err error
			holder, err = rival.Acquire(ctx, permits)
			return err
		}
	})
	if report.Datasets.Busy != 1 || report.Datasets.Owed != 1 || len(report.Notes) != 1 || report.Notes[0].Kind != "busy" {
		t.Errorf("datasets %+v, notes %+v", report.Datasets, report.Notes)
	}
	w.published(permits, 2)
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Hour) // behind the overlap: only the debt leads there
	w.sync(0)
	w.published(permits, newest)
}

// TestWhatAStoppedPassDidNotReachIsOwed stops an incremental pass at the first of two datasets.
func TestWhatAStoppedPassDidNotReachIsOwed(t *testing.T) {
	w, d := permitsWorld(t)
	other := w.dataset("ds_aaa", feedsim.Plain)
	w.release(other, feedsim.ReleaseSpec{})
	w.sync(0)
	newest, last := w.release(d, feedsim.ReleaseSpec{Add: 1}), w.release(other, feedsim.ReleaseSpec{Add: 1})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Dataset: "ds_aaa", Match: func(feedsim.Request) bool {
		cancel(mirror.ErrBudget)
		return false
	}}, feedsim.HTML())
	if report := mirror.Run(ctx, w.options(func(o *mirror.Options) { o.AtOnce = 1 })); report.Exit != 6 || report.Datasets.Owed != 2 {
		t.Errorf("ended with %d and %d owed", report.Exit, report.Datasets.Owed)
	}
	w.feed.ClearScript()
	w.clock.Advance(time.Hour)
	if report := w.sync(0); report.Pass != "incremental" {
		t.Errorf("a %s pass", report.Pass)
	}
	w.published(permits, newest)
	w.published("ds_aaa", last)
}

// put puts a document as an operator or another program would.
func (w *world) put(key string, doc any) {
	w.t.Helper()
	body, err := manifest.EncodeDocument(doc)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, ours, err := state.CreateOnce(context.Background(), w.store, key, body); err != nil || !ours {
		w.t.Fatalf("put %s: ours %v, %v", key, ours, err)
	}
}

func TestAnUnfinishedPruneIsWaitedFor(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.put(manifest.PruneKey, state.Prune{State: state.PruneDeleting, Versions: []state.PruneVersion{{Dataset: permits, Version: newest}}})
	report := w.sync(6)
	if report.Files.Copied != 0 || report.Datasets.Owed != 1 || report.Status != "stopped" || len(report.Notes) != 1 {
		t.Errorf("copied %d, owed %d, %s, notes %+v", report.Files.Copied, report.Datasets.Owed, report.Status, report.Notes)
	}
	if !w.has(manifest.ManifestKey(permits, newest)) || w.has(manifest.RecordKey(permits, newest)) {
		t.Error("want its manifest, which claims what it names, and no record")
	}
	w.published(permits, 2)
	_, err := state.Update(t.Context(), w.store, w.pause, manifest.PruneKey, func(*state.Prune) (*state.Prune, error) {
		return &state.Prune{State: state.PruneFinished}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Hour)
	w.sync(0)
	w.published(permits, newest)
}

func TestABucketMirrorsOneFeed(t *testing.T) {
	w, _ := permitsWorld(t)
	w.sync(0)
	before := w.snapshot()
	report := w.sync(2, full, func(o *mirror.Options) { o.FeedURL += "/another" })
	if len(report.Failures) != 1 || report.Failures[0].Object != manifest.LayoutKey || report.Requests.Feed != 0 {
		t.Errorf("asked the feed %d times, failures %+v", report.Requests.Feed, report.Failures)
	}
	if w.snapshot() != before {
		t.Error("something was written")
	}
}

func TestAMovedBucketIsProbedOnceAndNotTrustedBefore(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	probes := 0
	moved := func(o *mirror.Options) {
		o.StoreURL += "/moved"
		probe := o.Probe
		o.Probe = func(ctx context.Context) (bucket.ProbeReport, error) {
			probes++
			return probe(ctx)
		}
	}
	unfit := func(o *mirror.Options) {
		o.Probe = func(context.Context) (bucket.ProbeReport, error) {
			return bucket.ProbeReport{}, &fault.Error{Op: "probe bucket", Side: fault.SideBucket, Kind: fault.BucketUnfit}
		}
	}
	w.sync(5, moved, unfit)
	w.published(permits, 2)
	for range 2 {
		w.sync(0, moved)
	}
	w.published(permits, newest)
	layout, err := state.LoadLayout(t.Context(), w.store)
	if err != nil {
		t.Fatal(err)
	}
	if probes != 1 || layout.Store != "file://"+w.dir+"/moved" {
		t.Errorf("probed %d times, the layout names %s", probes, layout.Store)
	}
}

// TestAFirstPublicationNeedsAChainThatIsKnown fails the newest version, and then does not say which
// one that is.
func TestAFirstPublicationNeedsAChainThatIsKnown(t *testing.T) {
	w, _ := permitsWorld(t)
	w.clock.Advance(time.Hour) // behind the overlap: the next list of datasets does not name it
	w.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Version: 2, File: "schema.json", Times: feedsim.Always}, feedsim.Refuse(404, "NoSuchKey", "no such key"))
	w.sync(1)
	w.feed.ClearScript()
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Dataset: permits, Times: feedsim.Always}, feedsim.HTML())
	w.sync(1)
	if pointer := w.pointer(permits); pointer != nil || !w.has(manifest.RecordKey(permits, 1)) {
		t.Errorf("version 1 stands: %v, published %+v", w.has(manifest.RecordKey(permits, 1)), pointer)
	}
	w.feed.ClearScript()
	w.sync(0)
	w.published(permits, 2)
}

func TestARebuildThatGetsANewNumberIsWaitedForNoLonger(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Version: int64(newest), Times: 3}, feedsim.Refuse(410, "expired", "Its files are being rebuilt."))
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Version: int64(newest), Times: feedsim.Always}, feedsim.Refuse(410, "expired", "It was released again as another number."))
	began := w.clock.Now()
	w.sync(0)
	if waited := w.clock.Now().Sub(began); waited == 0 || waited > time.Minute {
		t.Errorf("waited %s", waited)
	}
	gone, _, err := state.Read[state.Gone](t.Context(), w.store, manifest.GoneKey(permits, newest))
	if err != nil || gone == nil || gone.Reason != manifest.GapWithdrawn {
		t.Errorf("gone.json says %+v, %v", gone, err)
	}
}

func TestWhatEndsAWholePassIsToldOnce(t *testing.T) {
	w, _ := permitsWorld(t)
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Nth: 4, Times: feedsim.Always}, feedsim.Refuse(401, "unauthorized", "bad key"))
	if report := w.sync(4); len(report.Failures) != 1 || report.Failures[0].Hint == "" {
		t.Errorf("failures %+v, want one with a hint", report.Failures)
	}
}

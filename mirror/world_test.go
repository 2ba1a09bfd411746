package mirror_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/localstore"
	"feedmirror/internal/feed"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
	"feedmirror/internal/netclient"
	"feedmirror/internal/tables"
	"feedmirror/internal/transfer"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

// start is when the simulated world begins.
var start = time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC)

// world is a simulated feed and a folder that mirrors it, on one clock that nobody waits for.
type world struct {
	t       *testing.T
	feed    *feedsim.Feed
	clock   *feedsim.Clock
	dir     string
	store   bucket.Store // as the passes see it; may be replaced by one that misbehaves
	logs    *keptLog     // told only when the test fails
	runs    atomic.Int64
	damaged bool // on purpose: the invariants are not checked at the end
	// mirrored is the folder that this one is a copy of, so that it does not count as moved.
	mirrored string
	key      func() (string, error) // where the API key is read from; nil: the feed's own
}

func newWorld(t *testing.T, options feedsim.Options) *world {
	t.Helper()
	t.Parallel() // worlds share nothing, and mostly wait for the disk
	return newWorldAlone(t, options)
}

// newWorldAlone is a world for a test that measures, and so runs beside no other.
func newWorldAlone(t *testing.T, options feedsim.Options) *world {
	t.Helper()
	clock := feedsim.NewClock(start)
	options.Seed, options.Clock = 7, clock
	simulated, err := feedsim.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = simulated.Close() })
	w := &world{t: t, feed: simulated, clock: clock, dir: t.TempDir(), logs: &keptLog{}}
	t.Cleanup(func() { w.logs.tell(t) }) // the last of the cleanups: those after it can fail too
	store, err := localstore.New(localstore.Options{Root: w.dir})
	if err != nil {
		t.Fatal(err)
	}
	w.store = store
	t.Cleanup(w.checkInvariants)
	return w
}

// dataset adds a dataset of the given character.
func (w *world) dataset(id string, character feedsim.Character) *feedsim.Dataset {
	w.t.Helper()
	d, err := w.feed.AddDataset(feedsim.DatasetSpec{ID: id, Character: character, Rows: 12})
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// release releases a version an hour after whatever came before.
func (w *world) release(d *feedsim.Dataset, spec feedsim.ReleaseSpec) manifest.Number {
	w.t.Helper()
	w.clock.Advance(time.Hour)
	n, err := d.Release(spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return manifest.Number(n)
}

// pause lets simulated time pass instead of waiting.
func (w *world) pause(ctx context.Context, d time.Duration) error {
	w.clock.Advance(d)
	return ctx.Err()
}

func (w *world) options(change ...func(*mirror.Options)) mirror.Options {
	w.t.Helper()
	counts := &requestCounts{}
	client, err := feed.New(feed.Options{
		BaseURL: w.feed.URL(), Key: w.readKey, Clock: time.Now,
		Sleep: w.pause, Counts: &counts.feed,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	store := bucket.WithCounts(bucket.WithRetry(w.store, bucket.Policy{Sleep: w.pause}), &counts.bucket)
	source, err := netclient.New(netclient.Options{HTTP1Only: true, RefuseRedirects: true, Connections: 16})
	if err != nil {
		w.t.Fatal(err)
	}
	engine := transfer.Options{HTTP: source.Transport, Sink: store, Linker: client,
		Backoff: time.Millisecond, Counts: &counts.transfer}
	o := mirror.Options{
		Settings: mirror.Settings{ShardOf: 1, History: manifest.HistoryAll, FullEvery: 24 * time.Hour, Overlap: 10 * time.Minute,
			RebuildWait: 10 * time.Minute, LeaseTTL: time.Minute, OnMajor: manifest.MajorHold, AtOnce: 4},
		Feed: client, FeedURL: w.feed.URL(), Store: store, StoreURL: "file://" + cmp.Or(w.mirrored, w.dir),
		Probe: func(ctx context.Context) (bucket.ProbeReport, error) {
			return bucket.Probe(ctx, w.store, bucket.ProbeOptions{Run: "probe" + manifest.Number(w.runs.Add(1)).Padded(), Sleep: w.pause})
		},
		Mover: transfer.New(engine), Manifests: mirror.ManifestReader{Options: engine},
		Observer: noObserver{}, Log: zerolog.New(w.logs).Level(zerolog.WarnLevel),
		Run: "run" + manifest.Number(w.runs.Add(1)).Padded(), Host: "test", Tool: "mirror test",
		Now: w.clock.Now, Pause: w.pause, Requests: counts,
		Tables: w.tables(w.clock.Now),
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func (w *world) readKey() (string, error) {
	if w.key != nil {
		return w.key()
	}
	return w.feed.Key(), nil
}

func full(o *mirror.Options)    { o.Full = true }
func current(o *mirror.Options) { o.History = manifest.HistoryCurrent }

// sync makes one pass and wants this exit code.
func (w *world) sync(exit int, change ...func(*mirror.Options)) mirror.Report {
	w.t.Helper()
	before := w.take()
	report := mirror.Run(context.Background(), w.options(change...))
	for _, violation := range invariant.Compare(before, w.take()) {
		w.t.Errorf("sync violated: %+v", violation)
	}
	if report.Exit != exit {
		text, _ := json.MarshalIndent(report, "", " ")
		w.t.Fatalf("sync ended with %d, want %d:\n%s", report.Exit, exit, text)
	}
	if exit == mirror.ExitDone && report.Datasets.Busy == 0 {
		w.tablesUpToDate()
	}
	return report
}

func (w *world) tables(now func() time.Time) *tables.Projector {
	return &tables.Projector{Store: w.store, Footers: tables.StoredFooters{Reader: w.store}, Now: now, Engine: "mirror test",
		NewID: func() string { return "table" + manifest.Number(w.runs.Add(1)).Padded() }}
}

func (w *world) decide() mirror.DecideOptions {
	return mirror.DecideOptions{Docs: w.store, Pause: w.pause, OnMajor: manifest.MajorHold, Now: w.clock.Now,
		Run: "decide" + manifest.Number(w.runs.Add(1)).Padded(), Who: "tester", Tables: w.tables(w.clock.Now)}
}

func (w *world) pointer(dataset string) *state.Pointer {
	w.t.Helper()
	pointer, _, err := state.Read[state.Pointer](context.Background(), w.store, manifest.PointerKey(dataset))
	if err != nil {
		w.t.Fatal(err)
	}
	return pointer
}

// published wants the pointer of a dataset at a version.
func (w *world) published(dataset string, n manifest.Number) *state.Pointer {
	w.t.Helper()
	pointer := w.pointer(dataset)
	if pointer == nil || pointer.Version != n {
		w.t.Fatalf("pointer of %s is %+v, want version %d", dataset, pointer, n)
	}
	return pointer
}

func (w *world) record(dataset string, n manifest.Number) manifest.Record {
	w.t.Helper()
	committed, err := state.Recall(context.Background(), w.store, dataset, n)
	if err != nil {
		w.t.Fatal(err)
	}
	return committed.Record()
}

func (w *world) has(key string) bool {
	_, err := os.Stat(filepath.Join(w.dir, filepath.FromSlash(key)))
	return err == nil
}

// keptLog keeps what passes log until a test fails: the logs of thousands of passes that went as
// they should would bury it.
type keptLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *keptLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// tell prints the log of a test that failed.
func (l *keptLog) tell(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.Failed() && l.text.Len() > 0 {
		t.Log(l.text.String())
	}
}

type requestCounts struct {
	feed     feed.Counts
	bucket   bucket.Counts
	transfer transfer.Counts
}

func (c *requestCounts) Counts() mirror.RequestCounts {
	return mirror.RequestCounts{Feed: c.feed.Feed.Load(), Links: c.feed.Links.Load(), Source: c.transfer.Requests.Load(),
		BucketRead: c.bucket.Read.Load(), BucketWrite: c.bucket.Write.Load(), BucketList: c.bucket.List.Load()}
}

type noObserver struct{}

func (noObserver) Planned(string, int64, int64) {}
func (noObserver) Finished(string)              {}
func (noObserver) Stage(string, string)         {}

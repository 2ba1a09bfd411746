package soak_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
)

// lasts is how long the accidents last.
func lasts(t *testing.T) time.Duration {
	t.Helper()
	if text := os.Getenv("FEEDMIRROR_SOAK"); text != "" && evidence.Long() {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			t.Fatalf("FEEDMIRROR_SOAK is %q, want a time such as 10m", text)
		}
		return d
	}
	return time.Duration(evidence.Size(3, 600)) * time.Second
}

func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("FEEDMIRROR_SOAK_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano()) % 1e9
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("FEEDMIRROR_SOAK_SEED is %q, want a number", text)
	}
	return n
}

func TestSoak(t *testing.T) {
	length := lasts(t)
	for name, open := range map[string]func(*testing.T, *weather) place{"folder": folderPlace, "versitygw": versityPlace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			soak(t, open, length, seed(t))
		})
	}
}

// The actors, whose numbers make their accidents independent of each other.
const (
	actorWeather = iota
	actorReleaser
	actorDecider
	actorTender
	actorReader
	actorSyncer // and those behind it
)

// syncers is how many processes sync at once.
const syncers = 3

func soak(t *testing.T, open func(*testing.T, *weather) place, length time.Duration, seed uint64) {
	tally := evidence.Count(t, "soak")
	t.Logf("FEEDMIRROR_SOAK_SEED=%d", seed)
	tally.Note("%s, seed %d, %s", t.Name(), seed, length)
	sky := &weather{chance: newChance(seed, actorWeather)}
	w, r := newWorld(t, open, sky, seed)
	w.must(t.Context(), "sync", "--output", "json") // what readers trust from now on
	readers := newReaders(w, newChance(seed, actorReader))
	revised := newRevisions(w, filepath.Base(shardDocument(t, w.place.files(t))))
	watching, stopWatching := context.WithCancel(t.Context())
	defer stopWatching()
	var watchers sync.WaitGroup
	watchers.Go(func() { watch(watching, w, readers, revised) })

	faults := w.act(t.Context(), sky, r, length, seed)
	w.settle(t.Context(), r)
	stopWatching()
	watchers.Wait()
	w.checkFiles()

	for _, one := range readers {
		tally.Add(one.checks)
	}
	tally.Note("%d changes of the mirror's own documents seen", revised.changes)
	tally.Note("%d versions released, %d withdrawn", w.counted("released"), w.counted("withdrawn"))
	tally.Note("%d processes killed, %d terminated, %d frozen", w.counted("killed"), w.counted("terminated"), w.counted("frozen"))
	tally.Note("%s", faults)
	tally.Note("%s", w.exits())
	tally.Note("%d violations", len(w.violations))
	t.Log(w.exits())
}

// newWorld starts a feed with its first versions before a bucket.
func newWorld(t *testing.T, open func(*testing.T, *weather) place, sky *weather, seed uint64) (*world, *releaser) {
	t.Helper()
	feed, err := feedsim.Start(feedsim.Options{Seed: 23, Key: apiKey})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := feed.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, feed: feed, place: open(t, sky), home: t.TempDir(), counts: map[string]int{}}
	r, err := newReleaser(w, newChance(seed, actorReleaser))
	if err != nil {
		t.Fatal(err)
	}
	return w, r
}

// act lets everybody work and everything go wrong until the time is up, and says how much did.
func (w *world) act(ctx context.Context, sky *weather, r *releaser, length time.Duration, seed uint64) string {
	struck := feedNoise(w.feed, sky)
	sky.next()
	acting, stop := context.WithTimeout(ctx, length)
	defer stop()
	var actors sync.WaitGroup
	actors.Go(func() { sky.changing(acting, max(length/40, time.Second)) })
	actors.Go(func() { r.work(acting) })
	actors.Go(func() { w.deciding(acting, newChance(seed, actorDecider), r) })
	actors.Go(func() { w.tending(acting, newChance(seed, actorTender)) })
	for i := range syncers {
		actors.Go(func() { w.syncing(acting, newChance(seed, actorSyncer+uint64(i))) })
	}
	actors.Wait()
	faults := fmt.Sprintf("%d faults of feed and links", struck())
	if w.place.noise != nil {
		faults += fmt.Sprintf(", %d of the bucket", w.place.noise.count.Load())
	}
	sky.clear()
	w.feed.ClearScript()
	return faults
}

// checkFiles wants every promise that the files of the bucket can show, and nothing left to do.
func (w *world) checkFiles() {
	folder := invariant.Folder(w.place.files(w.t))
	for _, violation := range append(invariant.Check(folder), invariant.Unsettled(folder)...) {
		w.violated("in the end: %s", violation)
	}
	for _, broken := range w.feed.ViolationsSeen() {
		w.violated("links host: %+v", broken)
	}
}

func newReaders(w *world, c *chance) []*reader {
	var all []*reader
	for _, id := range datasets() {
		all = append(all, &reader{dataset: id, read: w.place.read, chance: c, broken: w.violated, proven: map[string]string{}})
	}
	return all
}

// watch lets the readers look, one after the other, until it is stopped.
func watch(ctx context.Context, w *world, readers []*reader, revised *revisions) {
	for {
		if err := revised.check(ctx); err != nil && ctx.Err() == nil {
			w.violated("a document could not be read: %v", err)
		}
		for _, one := range readers {
			if err := one.check(ctx); err != nil && ctx.Err() == nil {
				w.violated("a reader could not read: %v", err)
			}
			if !pause(ctx, 5*time.Millisecond) {
				return
			}
		}
	}
}

// shardDocument returns the one document of the passes' progress.
func shardDocument(t *testing.T, files string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(files, "_mirror", "shards", "*.json"))
	if err != nil || len(names) != 1 {
		t.Fatalf("shard documents %v, %v, want one", names, err)
	}
	return names[0]
}

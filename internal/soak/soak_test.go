package soak_test

import (
	"context"
	"os"
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
	actorOperator
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
	w.must(t.Context(), "sync", "--output", "json") // what readers trust from now on
	struck := feedNoise(feed, sky)
	watching, stopWatching := context.WithCancel(t.Context())
	defer stopWatching()
	readers := newReaders(w, newChance(seed, actorReader))
	var watchers sync.WaitGroup
	watchers.Go(func() { watch(watching, w, readers) })

	sky.next()
	acting, stopActing := context.WithTimeout(t.Context(), length)
	defer stopActing()
	var actors sync.WaitGroup
	actors.Go(func() { sky.changing(acting, max(length/40, time.Second)) })
	actors.Go(func() { r.work(acting) })
	actors.Go(func() { w.operating(acting, newChance(seed, actorOperator), r) })
	for i := range syncers {
		actors.Go(func() { w.syncing(acting, newChance(seed, actorSyncer+uint64(i))) })
	}
	actors.Wait()
	faults := struck()
	sky.clear()
	feed.ClearScript()
	w.settle(t.Context(), r)
	stopWatching()
	watchers.Wait()

	checks := 0
	for _, one := range readers {
		checks += one.checks
	}
	tally.Add(checks)
	bucketFaults := 0
	if w.place.noise != nil {
		bucketFaults = int(w.place.noise.count.Load())
	}
	tally.Note("%d versions released, %d withdrawn", w.counted("released"), w.counted("withdrawn"))
	tally.Note("%d processes killed, %d terminated, %d frozen", w.counted("killed"), w.counted("terminated"), w.counted("frozen"))
	tally.Note("%d faults of feed and links, %d of the bucket", faults, bucketFaults)
	tally.Note("%s", w.exits())
	t.Log(w.exits())
	folder := invariant.Folder(w.place.files(t))
	for _, violation := range append(invariant.Check(folder), invariant.Unsettled(folder)...) {
		w.violated("in the end: %s", violation)
	}
	for _, broken := range feed.ViolationsSeen() {
		w.violated("links host: %+v", broken)
	}
	tally.Note("%d violations", len(w.violations))
	if len(w.violations) > 0 {
		t.Errorf("%d violations", len(w.violations))
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
func watch(ctx context.Context, w *world, readers []*reader) {
	for {
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

package mirror_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// heapWatch measures the memory in use at some stages of a pass, with all that is garbage collected.
type heapWatch struct {
	noObserver
	at func(stage string) bool

	mu    sync.Mutex
	bytes []int64
}

// Stage implements mirror.Observer.
func (h *heapWatch) Stage(_, stage string) {
	if !h.at(stage) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes = append(h.bytes, liveHeap())
}

func (h *heapWatch) watch(o *mirror.Options) { o.Observer = h }

// liveHeap returns the bytes that a collection just found in use: what was allocated since does not
// count.
func liveHeap() int64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// TestALongChain mirrors thousands of versions of one dataset, then one more, then all of them
// again when the feed's retention has taken them. Memory and the shard document must not grow with
// the chain's length beyond a few hundred bytes a version.
func TestALongChain(t *testing.T) {
	tally := evidence.Count(t, "chain-5000")
	length := evidence.Size(120, 5000)
	w := newWorldAlone(t, feedsim.Options{Assume: feedsim.Assume{ListOmitsExpired: true}})
	d, err := w.feed.AddDataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Plain, Rows: 3})
	if err != nil {
		t.Fatal(err)
	}
	for range length {
		w.clock.Advance(10 * time.Second)
		if _, err := d.Release(feedsim.ReleaseSpec{Empty: true}); err != nil {
			t.Fatal(err)
		}
	}
	w.feed.ResetLog()
	heap := &heapWatch{at: func(stage string) bool {
		var n int
		scanned, err := fmt.Sscanf(stage, "version %d", &n)
		return err == nil && scanned == 1 && !strings.Contains(stage, ":") && n%(length/4) == 0
	}}
	began := time.Now()
	report := mirror.Run(t.Context(), w.options(heap.watch))
	first := time.Since(began)
	newest := manifest.Number(length)
	if report.Exit != 0 || report.Versions.Committed != length || report.Versions.Published != 1 {
		t.Fatalf("the first pass ended with %d, did %+v", report.Exit, report.Versions)
	}
	w.published(permits, newest)
	if len(heap.bytes) < 4 {
		t.Fatalf("measured the heap %d times", len(heap.bytes))
	}
	// Between the first quarter and the end; the feed's journal of requests, a test's own, is in it.
	grown := (heap.bytes[len(heap.bytes)-1] - heap.bytes[0]) / int64(length*3/4)
	w.feed.ResetLog()
	held := w.release(d, feedsim.ReleaseSpec{})
	began = time.Now()
	if report = mirror.Run(t.Context(), w.options()); report.Exit != 0 || report.Versions.Committed != 1 || report.Requests.Feed > 3 {
		t.Errorf("the incremental pass ended with %d, did %+v with %+v", report.Exit, report.Versions, report.Requests)
	}
	tally.Note("first pass %s, one version more %s, %d bytes a version in use (the test's journal included)", first.Round(time.Second), time.Since(began).Round(time.Millisecond), grown)
	if evidence.Long() && grown > 8<<10 {
		t.Errorf("memory grew by %d bytes a version", grown)
	}
	tally.Add(length)
	w.forgotten(d, held)
}

// forgotten lets the feed's retention take all versions but a new one. Each is asked about once, and
// the shard document stays small.
func (w *world) forgotten(d *feedsim.Dataset, before manifest.Number) {
	w.t.Helper()
	w.clock.Advance(100 * 24 * time.Hour)
	newest := w.release(d, feedsim.ReleaseSpec{})
	report := w.sync(0, full)
	w.published(permits, newest)
	shard := w.shards()[0]
	text, err := json.Marshal(shard)
	if err != nil {
		w.t.Fatal(err)
	}
	expired := shard.Datasets[0].Expired
	if len(text) > 4<<10 || len(expired) != 1 || !expired.Has(1) || !expired.Has(before) || report.Requests.Links < int64(before) {
		w.t.Errorf("the shard document has %d bytes and calls %v expired after %d questions", len(text), expired, report.Requests.Links)
	}
	if report = w.sync(0, full); report.Requests.Links != 0 {
		w.t.Errorf("a further full pass asked %d times about what retention took", report.Requests.Links)
	}
}

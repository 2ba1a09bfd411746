package mirror_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/mirror"
)

// requestsOf counts what a bucket is asked: writes, and reads of parts.
type requestsOf struct {
	bucket.Store
	mu     sync.Mutex
	writes []string
	parts  map[string]int
}

func (r *requestsOf) wrote(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, key)
}

func (r *requestsOf) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	r.wrote(key)
	return r.Store.Create(ctx, key, content)
}

func (r *requestsOf) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	r.wrote(key)
	return r.Store.Swap(ctx, key, old, data)
}

func (r *requestsOf) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	if strings.HasSuffix(key, ".parquet") && !strings.HasPrefix(key, "publications/") {
		r.mu.Lock()
		r.parts[key]++
		r.mu.Unlock()
	}
	return r.Store.Open(ctx, key, offset, length)
}

// TestTablesCostFewWritesAndReadNoPart compares a pass over three datasets that each released one
// version with one that writes no tables.
func TestTablesCostFewWritesAndReadNoPart(t *testing.T) {
	tally := evidence.Count(t, "tables-cost")
	origin, d := permitsWorld(t)
	zoning, parcels := origin.dataset("ds_zoning", feedsim.Plain), origin.dataset("ds_parcels", feedsim.Plain)
	origin.release(zoning, feedsim.ReleaseSpec{})
	origin.release(parcels, feedsim.ReleaseSpec{})
	origin.sync(0)
	for _, one := range []*feedsim.Dataset{d, zoning, parcels} {
		origin.release(one, feedsim.ReleaseSpec{Change: 2, Add: 1, Remove: 1})
	}
	const versions = 3
	pass := func(change ...func(*mirror.Options)) *requestsOf {
		w, store := origin.copyOf(t)
		counted := &requestsOf{Store: store, parts: map[string]int{}}
		w.store = counted
		if report := mirror.Run(t.Context(), w.options(change...)); report.Exit != 0 || report.Versions.Published != versions {
			t.Fatalf("ended with %d and %d published", report.Exit, report.Versions.Published)
		}
		return counted
	}
	without := pass(func(o *mirror.Options) { o.Tables = nil })
	with := pass()
	if added := len(with.writes) - len(without.writes); added <= 0 || added > 4*versions {
		t.Errorf("tables added %d writes to %d: %v", added, len(without.writes), with.writes)
	} else {
		tally.Add(versions)
		tally.Note("%d writes added to %d", added, len(without.writes))
	}
	for key, times := range with.parts {
		if times != without.parts[key] {
			t.Errorf("%s was opened %d times, %d without tables", key, times, without.parts[key])
		}
	}
}

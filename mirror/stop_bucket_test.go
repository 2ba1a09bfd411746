package mirror_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// callAt calls then before the Nth request to a store, counted from 1.
type callAt struct {
	bucket.Store
	nth   int64
	then  func()
	calls atomic.Int64
}

func (c *callAt) count() {
	if c.calls.Add(1) == c.nth {
		c.then()
	}
}

func (c *callAt) Stat(ctx context.Context, key string) (bucket.Info, error) {
	c.count()
	return c.Store.Stat(ctx, key)
}

func (c *callAt) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	c.count()
	return c.Store.Open(ctx, key, offset, length)
}

func (c *callAt) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	c.count()
	return c.Store.List(ctx, prefix, after)
}

func (c *callAt) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	c.count()
	return c.Store.Create(ctx, key, content)
}

func (c *callAt) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	c.count()
	return c.Store.Swap(ctx, key, old, data)
}

// TestAPassStoppedAtAnyBucketRequestHidesNothing stops a pass at each of its requests to the
// bucket, those of the probe included. The next one, which may be incremental, has to finish.
func TestAPassStoppedAtAnyBucketRequestHidesNothing(t *testing.T) {
	stages := map[string]func(t *testing.T) (*world, func(*mirror.Options)){
		"first pass": func(t *testing.T) (*world, func(*mirror.Options)) {
			w, _ := permitsWorld(t)
			w.clock.Advance(time.Hour) // behind the overlap
			return w, func(*mirror.Options) {}
		},
		"incremental pass over a moved bucket": func(t *testing.T) (*world, func(*mirror.Options)) {
			w, d := permitsWorld(t)
			w.sync(0)
			w.release(d, feedsim.ReleaseSpec{Add: 1})
			w.clock.Advance(time.Hour)
			return w, func(o *mirror.Options) { o.StoreURL += "/moved" }
		},
	}
	for name, stage := range stages {
		t.Run(name, func(t *testing.T) {
			undisturbed, change := stage(t)
			counter := &callAt{Store: undisturbed.store}
			undisturbed.store = counter
			undisturbed.sync(0, change)
			// The last request saves the state, when the exit code stands already.
			total, want := counter.calls.Load(), undisturbed.pointer(permits).Version
			for nth := int64(1); nth < total; nth += 1 + nth/40 {
				t.Run(fmt.Sprintf("request %d of %d", nth, total), func(t *testing.T) { stopAtBucketRequest(t, stage, nth, want) })
			}
		})
	}
}

func stopAtBucketRequest(t *testing.T, stage func(t *testing.T) (*world, func(*mirror.Options)), nth int64, want manifest.Number) {
	w, change := stage(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	sound := w.store
	w.store = &callAt{Store: sound, nth: nth, then: func() { cancel(mirror.ErrTerminated) }}
	if report := mirror.Run(ctx, w.options(change)); report.Exit != mirror.ExitTerminated {
		t.Errorf("ended with %d: %+v", report.Exit, report.Failures)
	}
	w.store = sound
	w.sync(0, change)
	w.published(permits, want)
}

// beforeSwap calls then once, before the first swap of one key.
type beforeSwap struct {
	bucket.Store
	key  string
	then func() // may swap the key itself
	done atomic.Bool
}

func (b *beforeSwap) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	if key == b.key && b.done.CompareAndSwap(false, true) {
		b.then()
	}
	return b.Store.Swap(ctx, key, old, data)
}

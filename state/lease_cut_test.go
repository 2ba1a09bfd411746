package state_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/manifest"
	"feedmirror/state"
)

// cutSwap cancels a context in the middle of the first swap: the request reaches the store, at once or
// only before the next swap does, and nobody hears the answer.
type cutSwap struct {
	bucket.Store
	cancel func()
	late   bool
	missed func()
	on     bool
}

func (c *cutSwap) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	if missed := c.missed; missed != nil {
		c.missed = nil
		missed()
	}
	if !c.on {
		return c.Store.Swap(ctx, key, old, data)
	}
	c.on = false
	c.cancel()
	arrives := func() { _, _ = c.Store.Swap(context.WithoutCancel(ctx), key, old, data) } // the point is that nobody hears
	if c.late {
		c.missed = arrives
	} else {
		arrives()
	}
	return bucket.Absent, context.Canceled
}

func wantFree(t *testing.T, store bucket.Store, now time.Time) {
	t.Helper()
	lease, _, err := state.Read[state.Lease](t.Context(), store, manifest.LeaseKey("ds"))
	if err != nil {
		t.Fatal(err)
	}
	if lease == nil || lease.Until.After(now) {
		t.Errorf("the lease is %+v", lease)
	}
}

// A run that is told to stop while it takes a lease gives it back, although it never heard that it
// has it.
func TestALeaseWhoseTakingWasCutOffIsGivenBack(t *testing.T) {
	for name, late := range map[string]bool{"it arrived": false, "it arrives late": true} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			now := time.Now()
			store := &cutSwap{Store: newStore(t), cancel: cancel, late: late, on: true}
			if _, err := leases(store, "a", &now).Acquire(ctx, "ds"); !errors.Is(err, context.Canceled) {
				t.Fatalf("acquire: %v", err)
			}
			wantFree(t, store, now)
		})
	}
}

// The same for a run that is told to stop while it renews one.
func TestALeaseWhoseRenewalWasCutOffIsGivenBack(t *testing.T) {
	for name, late := range map[string]bool{"it arrived": false, "it arrives late": true} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			store := &cutSwap{Store: newStore(t), cancel: cancel, late: late}
			mine := &state.Leases{Docs: store, Owner: "a", TTL: 30 * time.Millisecond, Now: time.Now, Pause: noPause}
			holder, err := mine.Acquire(ctx, "ds")
			if err != nil {
				t.Fatal(err)
			}
			store.on = true
			work, stop := holder.Keep(ctx)
			<-work.Done() // by the renewal
			stop()
			if err := holder.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantFree(t, store, time.Now())
		})
	}
}

// A lease that another run holds is not touched by one that is told to stop.
func TestALeaseOfAnotherIsLeftAlone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	now := time.Now()
	inner := newStore(t)
	store := &cutSwap{Store: inner, late: true, on: true, cancel: func() {
		cancel()
		if _, err := leases(inner, "b", &now).Acquire(t.Context(), "ds"); err != nil {
			t.Error(err)
		}
	}}
	if _, err := leases(store, "a", &now).Acquire(ctx, "ds"); !errors.Is(err, context.Canceled) {
		t.Fatalf("acquire: %v", err)
	}
	lease, _, err := state.Read[state.Lease](t.Context(), inner, manifest.LeaseKey("ds"))
	if err != nil || lease.Owner != "b" || !lease.Until.After(now) {
		t.Errorf("the lease is %+v, %v", lease, err)
	}
}

package state_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// onSwap calls then before the Nth swap, counted from 1.
type onSwap struct {
	bucket.Store
	nth   int64
	then  func()
	calls atomic.Int64
}

func (o *onSwap) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	if o.calls.Add(1) == o.nth {
		o.then()
	}
	return o.Store.Swap(ctx, key, old, data)
}

func TestARunTakesItsOwnLeaseAgain(t *testing.T) {
	store, now := newStore(t), began
	mine := leases(store, "a", &now)
	for range 2 {
		if _, err := mine.Acquire(t.Context(), "ds"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALeaseThatARivalTakesFirstIsTheRivals(t *testing.T) {
	sound, now := newStore(t), began
	store := &onSwap{Store: sound, nth: 1, then: func() {
		if _, err := leases(sound, "rival", &now).Acquire(t.Context(), "ds"); err != nil {
			t.Error(err)
		}
	}}
	var busy *state.BusyError
	if _, err := leases(store, "a", &now).Acquire(t.Context(), "ds"); !errors.As(err, &busy) || busy.Lease.Owner != "rival" {
		t.Errorf("got %v, want busy with the rival", err)
	}
}

func TestALeaseWhoseAnswerWasLostIsHeld(t *testing.T) {
	store, now := newStore(t), began
	holder, err := leases(&buckettest.LostAnswer{Store: store, Nth: 1}, "a", &now).Acquire(t.Context(), "ds")
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := leases(store, "b", &now).Acquire(t.Context(), "ds"); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

// TestWorkGoesOnWhenOnlyARenewalsAnswerWasLost loses the answer of the first renewal: the next one
// is refused, since its own lease stands under another tag.
func TestWorkGoesOnWhenOnlyARenewalsAnswerWasLost(t *testing.T) {
	renewed := make(chan struct{})
	store := &onSwap{Store: &buckettest.LostAnswer{Store: newStore(t), Nth: 2}, nth: 5, then: func() { close(renewed) }}
	mine := &state.Leases{Docs: store, Owner: "a", TTL: 30 * time.Millisecond, Now: time.Now, Pause: noPause}
	holder, err := mine.Acquire(t.Context(), "ds")
	if err != nil {
		t.Fatal(err)
	}
	work, stop := holder.Keep(t.Context())
	defer stop()
	select {
	case <-renewed:
	case <-work.Done():
		t.Errorf("the work ended for %v", context.Cause(work))
	case <-time.After(10 * time.Second):
		t.Error("the lease is no longer renewed")
	}
}

// TestNoWriteIsTriedAgainWhereNothingHelps refuses a swap and a create for every reason that
// another try cannot mend. A document that stands with the same bytes is no success either: the
// next write would meet the same.
func TestNoWriteIsTriedAgainWhereNothingHelps(t *testing.T) {
	body := []byte("{}\n")
	for _, kind := range []fault.Kind{fault.Denied, fault.BucketUnfit, fault.NoSpace, fault.Usage, fault.Unsupported} {
		t.Run(string(kind), func(t *testing.T) {
			refused := &fault.Error{Op: "put object", Side: fault.SideBucket, Kind: kind}
			swaps := &buckettest.FailNth{Store: newStore(t), Op: buckettest.OpSwap, From: 1, To: 99, Err: refused}
			if _, err := state.Update(t.Context(), swaps, noPause, "_mirror/note.json", addLine("one")); !fault.Is(err, kind) || swaps.Calls() != 1 {
				t.Errorf("%d swaps and %v, want one that is refused", swaps.Calls(), err)
			}
			store := newStore(t)
			key := manifest.GoneKey("ds", 1)
			if _, _, err := state.CreateOnce(t.Context(), store, key, body); err != nil {
				t.Fatal(err)
			}
			creates := &buckettest.FailNth{Store: store, Op: buckettest.OpCreate, From: 1, To: 99, Err: refused}
			if standing, ours, err := state.CreateOnce(t.Context(), creates, key, body); !fault.Is(err, kind) || ours || standing != nil {
				t.Errorf("a refused create answers %q, ours %v, %v", standing, ours, err)
			}
		})
	}
}

func TestACreateWhoseAnswerWasLostIsOurs(t *testing.T) {
	body, key := []byte("{}\n"), manifest.GoneKey("ds", 1)
	store := &buckettest.LostAnswer{Store: newStore(t), Nth: 1}
	if standing, ours, err := state.CreateOnce(t.Context(), store, key, body); err != nil || !ours || !bytes.Equal(standing, body) {
		t.Errorf("answers %q, ours %v, %v", standing, ours, err)
	}
	if standing, ours, err := state.CreateOnce(t.Context(), store, key, []byte("other\n")); err != nil || ours || !bytes.Equal(standing, body) {
		t.Errorf("beside another it answers %q, ours %v, %v", standing, ours, err)
	}
}

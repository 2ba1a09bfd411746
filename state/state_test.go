package state_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/bucket/localstore"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

var began = time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC)

func newStore(t *testing.T) bucket.Store {
	t.Helper()
	store, err := localstore.New(localstore.Options{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func noPause(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// note is a small document.
type note struct {
	state.Revised
	Lines []string
}

func addLine(line string) func(*note) (*note, error) {
	return func(standing *note) (*note, error) {
		next := &note{}
		if standing != nil {
			next.Lines = slices.Clone(standing.Lines)
		}
		next.Lines = append(next.Lines, line)
		return next, nil
	}
}

func readNote(t *testing.T, r bucket.Reader) *note {
	t.Helper()
	doc, _, err := state.Read[note](t.Context(), r, "_mirror/note.json")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestUpdateTakesALostAnswerForWhatItIs(t *testing.T) {
	store := newStore(t)
	lossy := &buckettest.LostAnswer{Store: store, Nth: 2}
	for _, line := range []string{"one", "two", "three"} {
		if _, err := state.Update(t.Context(), lossy, noPause, "_mirror/note.json", addLine(line)); err != nil {
			t.Fatal(err)
		}
	}
	got := readNote(t, store)
	if !slices.Equal(got.Lines, []string{"one", "two", "three"}) || got.Revision != 3 {
		t.Errorf("revision %d holds %v, want three lines once each", got.Revision, got.Lines)
	}
}

func TestUpdateComputesAnewAfterARival(t *testing.T) {
	store := newStore(t)
	if _, err := state.Update(t.Context(), store, noPause, "_mirror/note.json", addLine("first")); err != nil {
		t.Fatal(err)
	}
	rivalry := true
	_, err := state.Update(t.Context(), store, noPause, "_mirror/note.json", func(standing *note) (*note, error) {
		if rivalry {
			rivalry = false
			if _, err := state.Update(t.Context(), store, noPause, "_mirror/note.json", addLine("rival")); err != nil {
				return nil, err
			}
		}
		return addLine("ours")(standing)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := readNote(t, store); !slices.Equal(got.Lines, []string{"first", "rival", "ours"}) {
		t.Errorf("lines %v: the rival's was lost", got.Lines)
	}
}

func TestUpdateLosesNothingInARace(t *testing.T) {
	store := newStore(t)
	var group sync.WaitGroup
	const writers, each = 6, 5
	for writer := range writers {
		group.Go(func() {
			for at := range each {
				if _, err := state.Update(t.Context(), store, noPause, "_mirror/note.json", addLine(fmt.Sprint(writer, at))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	got := readNote(t, store)
	if len(got.Lines) != writers*each || got.Revision != writers*each {
		t.Errorf("revision %d holds %d lines, want %d", got.Revision, len(got.Lines), writers*each)
	}
}

func TestUpdateGivesUpAtOnceWhereNothingHelps(t *testing.T) {
	denied := &buckettest.FailNth{Store: newStore(t), Op: buckettest.OpSwap, From: 1, To: 99, Err: &fault.Error{Op: "put object", Kind: fault.Denied}}
	_, err := state.Update(t.Context(), denied, noPause, "_mirror/note.json", addLine("one"))
	if !fault.Is(err, fault.Denied) || denied.Calls() != 1 {
		t.Errorf("%d writes and %v, want one that was denied", denied.Calls(), err)
	}
}

func TestUpdateGivesUpOnAStoreThatRefusesForEver(t *testing.T) {
	stuck := &buckettest.FailNth{Store: newStore(t), Op: buckettest.OpSwap, From: 1, To: 1 << 20, Err: &fault.Error{Op: "put object", Kind: fault.Conflict}}
	_, err := state.Update(t.Context(), stuck, noPause, "_mirror/note.json", addLine("one"))
	if !fault.Is(err, fault.Conflict) || fault.HintOf(err) == "" {
		t.Errorf("got %v, want a conflict with a hint", err)
	}
}

func leases(store bucket.Store, owner string, now *time.Time) *state.Leases {
	return &state.Leases{Docs: store, Owner: owner, Host: "host", TTL: time.Minute, Now: func() time.Time { return *now },
		Pause: func(ctx context.Context, d time.Duration) error { *now = now.Add(d); return ctx.Err() }}
}

func TestALeaseKeepsOthersOutUntilGivenBack(t *testing.T) {
	store, now := newStore(t), began
	holder, err := leases(store, "a", &now).Acquire(t.Context(), "ds")
	if err != nil {
		t.Fatal(err)
	}
	var busy *state.BusyError
	if _, err := leases(store, "b", &now).Acquire(t.Context(), "ds"); !errors.As(err, &busy) || busy.Lease.Owner != "a" {
		t.Fatalf("got %v, want busy with a", err)
	}
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := leases(store, "b", &now).Acquire(t.Context(), "ds"); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

func TestALeaseOfTheDeadIsTakenOverAndOneOfTheLivingIsNot(t *testing.T) {
	store, now := newStore(t), began
	holder, err := leases(store, "a", &now).Acquire(t.Context(), "ds")
	if err != nil {
		t.Fatal(err)
	}
	slow := now.Add(-time.Hour) // b's clock is an hour behind: a's lease never expires by it
	var busy *state.BusyError
	if _, err := leases(store, "b", &slow).Acquire(t.Context(), "ds"); !errors.As(err, &busy) {
		t.Fatalf("got %v, want busy", err)
	}
	began := slow
	if _, err := leases(store, "b", &slow).AcquireAfter(t.Context(), busy); err != nil {
		t.Fatalf("the lease of a silent holder: %v", err)
	}
	if waited := slow.Sub(began); waited > time.Minute {
		t.Errorf("waited %s, more than a TTL", waited)
	}
	if err := holder.Release(t.Context()); err != nil {
		t.Errorf("a release after the lease was lost: %v", err)
	}
	other := leases(store, "c", &slow)
	if _, err := other.Acquire(t.Context(), "ds"); !errors.As(err, &busy) {
		t.Fatalf("got %v: b's lease was given back by a", err)
	}
	renewing := leases(store, "c", &slow)
	renewing.Pause = func(ctx context.Context, _ time.Duration) error {
		b, err := leases(store, "b", &slow).Acquire(ctx, "ds") // b is alive and renews
		if err == nil && b == nil {
			t.Error("no holder")
		}
		return err
	}
	if _, err := renewing.AcquireAfter(t.Context(), busy); !errors.As(err, &busy) {
		t.Errorf("got %v, want busy: the holder gave a sign of life", err)
	}
}

func TestWorkEndsWhenItsLeaseIsLost(t *testing.T) {
	store := newStore(t)
	mine := &state.Leases{Docs: store, Owner: "a", TTL: 30 * time.Millisecond, Now: time.Now, Pause: noPause}
	holder, err := mine.Acquire(t.Context(), "ds")
	if err != nil {
		t.Fatal(err)
	}
	work, stop := holder.Keep(t.Context())
	defer stop()
	_, err = state.Update(t.Context(), store, noPause, manifest.LeaseKey("ds"), func(*state.Lease) (*state.Lease, error) {
		return &state.Lease{Owner: "b", Until: time.Now().Add(time.Hour)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-work.Done():
		if !fault.Is(context.Cause(work), fault.Conflict) {
			t.Errorf("ended for %v", context.Cause(work))
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the work goes on under a lease that is another's")
	}
}

func TestDecisionsKeepTheirOrderWhateverTheClock(t *testing.T) {
	store := newStore(t)
	first, err := state.WriteDecision(t.Context(), store, state.Decision{Dataset: "ds", Action: state.ActionRollback, Version: 1, At: began, Run: "b"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := state.WriteDecision(t.Context(), store, state.Decision{Dataset: "ds", Action: state.ActionApprove, At: began.Add(-time.Hour), Run: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if second <= first {
		t.Errorf("%s sorts before %s", second, first)
	}
	pending, err := state.PendingDecisions(t.Context(), store, "ds", &state.Pointer{Decisions: []string{first}})
	if err != nil {
		t.Fatal(err)
	}
	if len(pending) != 1 || pending[0].Key != second {
		t.Errorf("pending %+v, want the second only", pending)
	}
	if pending, err = state.PendingDecisions(t.Context(), store, "ds", nil); err != nil || len(pending) != 2 {
		t.Errorf("without a pointer %d are pending (%v), want both", len(pending), err)
	}
}

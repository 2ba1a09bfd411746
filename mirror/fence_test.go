package mirror_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/report"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

func (w *world) rollback(to manifest.Number) {
	w.t.Helper()
	w.clock.Advance(time.Second)
	if _, err := mirror.Rollback(context.Background(), w.decide(), permits, to); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) approve() {
	w.t.Helper()
	w.clock.Advance(time.Second)
	if _, err := mirror.Approve(context.Background(), w.decide(), permits); err != nil {
		w.t.Fatal(err)
	}
}

// TestWhatWasReadBeforeADecisionIsNotWrittenAfterIt lets a process wake up with what it read before
// somebody else wrote the pointer.
func TestWhatWasReadBeforeADecisionIsNotWrittenAfterIt(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	ctx := context.Background()
	holding, err := state.LoadHolding(ctx, w.store, permits)
	if err != nil {
		t.Fatal(err)
	}
	stale := state.Publication{Dataset: permits, Holding: holding, OnMajor: manifest.MajorHold, FirstReady: true, Seen: w.pointer(permits).Revision, Fence: true, Now: w.clock.Now()}
	w.release(d, feedsim.ReleaseSpec{Major: true})
	w.sync(0)
	before := w.pointer(permits)
	if before.Held == nil {
		t.Fatal("nothing is held")
	}
	if _, err := state.Publish(ctx, w.store, w.pause, stale); !errors.Is(err, state.ErrPointerMoved) {
		t.Errorf("a publication of what was read before ended with %v", err)
	}
	if after := w.pointer(permits); after.Revision != before.Revision || after.Held == nil {
		t.Errorf("the pointer was written: %+v", after)
	}
}

// TestAPassThatMeetsADecisionReadsAnew makes a decision right before the pass writes the pointer.
func TestAPassThatMeetsADecisionReadsAnew(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	sound := w.store
	w.store = &beforeSwap{Store: sound, key: manifest.PointerKey(permits), then: func() { w.rollback(1) }}
	w.sync(0)
	w.store = sound
	if pointer := w.published(permits, 1); !pointer.Pinned {
		t.Error("the rollback's pin is gone")
	}
	w.approve()
	w.published(permits, newest)
}

func TestADecisionThatALaterOneOvertookIsNotCarriedOut(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	w.rollback(1)
	w.approve() // the pointer obeys decisions from here on
	major := w.release(d, feedsim.ReleaseSpec{Major: true})
	w.sync(0)
	ctx, o := context.Background(), w.decide()
	hold := w.pointer(permits).Held.Hold
	slow := state.Decision{Dataset: permits, Action: state.ActionApprove, Hold: &hold, At: w.clock.Now(), Run: o.Run}
	key, err := state.WriteDecision(ctx, w.store, slow) // and then the operator's process hangs
	if err != nil {
		t.Fatal(err)
	}
	w.rollback(1)
	w.sync(0)
	w.sync(0, full)
	if pointer := w.published(permits, 1); !pointer.Pinned {
		t.Error("an older approval lifted the pin of a later rollback")
	}
	if _, err := mirror.Obey(ctx, w.store, w.pause, permits, state.NamedDecision{Key: key, Decision: slow}, manifest.MajorHold, w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	if pointer := w.published(permits, 1); !pointer.Pinned {
		t.Error("the process that hung undid a later decision when it woke up")
	}
	w.approve()
	w.published(permits, major)
}

// TestADecisionThatDiedIsFinishedOnce writes decisions whose process dies before the pointer.
func TestADecisionThatDiedIsFinishedOnce(t *testing.T) {
	w, _ := permitsWorld(t)
	w.sync(0)
	ctx, o := context.Background(), w.decide()
	died := state.Decision{Dataset: permits, Action: state.ActionRollback, Version: 1, At: w.clock.Now(), Run: o.Run}
	if err := state.Owe(ctx, w.store, w.pause, state.Owed{Dataset: permits, Reason: "rollback", Since: w.clock.Now(), Run: o.Run}); err != nil {
		t.Fatal(err)
	}
	key, err := state.WriteDecision(ctx, w.store, died)
	if err != nil {
		t.Fatal(err)
	}
	if pass := mirror.Run(ctx, w.options()); pass.Exit != 0 {
		t.Fatalf("sync ended with %d: %+v", pass.Exit, pass.Failures)
	}
	first := w.published(permits, 1)
	if _, err := mirror.Obey(ctx, w.store, w.pause, permits, state.NamedDecision{Key: key, Decision: died}, manifest.MajorHold, w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	w.sync(0, full)
	if again := w.published(permits, 1); !again.Pinned || again.Revision != first.Revision {
		t.Errorf("the decision was carried out again: revision %d after %d", again.Revision, first.Revision)
	}
}

func TestAWithdrawalSwapsThePointerWhereverItIs(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	before := w.published(permits, 2)
	if err := d.ReleaseAgain(1); err != nil {
		t.Fatal(err)
	}
	w.sync(0, full)
	if after := w.published(permits, 2); after.Revision != before.Revision+1 || after.Withdrawn {
		t.Errorf("pointer of revision %d after %d, withdrawn %v", after.Revision, before.Revision, after.Withdrawn)
	}
	again := w.pointer(permits)
	w.sync(0, full)
	if after := w.published(permits, 2); after.Revision != again.Revision {
		t.Error("a withdrawal that is known wrote the pointer again")
	}
}

func TestAFirstPublicationThatWaitsForAPersonSaysSo(t *testing.T) {
	w := newWorld(t, feedsim.Options{})
	d := w.dataset(permits, feedsim.Points)
	doubtful := w.release(d, feedsim.ReleaseSpec{RowCountOff: 5})
	for _, change := range []func(*mirror.Options){func(*mirror.Options) {}, full} {
		pass := w.sync(0, change)
		if len(pass.Held) != 1 || pass.Held[0].Version != int64(doubtful) || !strings.Contains(pass.Held[0].Next, "approve") {
			t.Fatalf("the report holds %+v", pass.Held)
		}
	}
	status, err := report.BuildStatus(context.Background(), w.store, nil, w.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	if one := status.Datasets[0]; one.State != "held" || one.Next != "mirror approve "+permits {
		t.Errorf("status %+v", one)
	}
	w.approve()
	w.published(permits, doubtful)
	if pass := w.sync(0); len(pass.Held) != 0 {
		t.Errorf("still held: %+v", pass.Held)
	}
}

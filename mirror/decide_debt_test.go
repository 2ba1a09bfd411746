package mirror_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

// TestARollbackDoesNotPassAHold: what waits for an approval above the published version is not for a
// rollback; what readers had once is.
func TestARollbackDoesNotPassAHold(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	major := w.release(d, feedsim.ReleaseSpec{Major: true})
	later := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	before := w.published(permits, 2)
	for _, to := range []manifest.Number{major, later} {
		_, err := mirror.Rollback(context.Background(), w.decide(), permits, to)
		if !fault.Is(err, fault.Usage) || !strings.Contains(fault.HintOf(err), "mirror approve "+permits) {
			t.Errorf("a rollback to version %d, which is held: %v", to, err)
		}
	}
	if after := w.pointer(permits); after.Revision != before.Revision {
		t.Errorf("the pointer was written: revision %d after %d", after.Revision, before.Revision)
	}
	w.sync(0, full) // a decision that was written down would be carried out
	w.published(permits, 2)
	w.rollback(1)
	w.published(permits, 1)
	w.rollback(2) // readers had it
	w.published(permits, 2)
	w.approve()
	w.published(permits, later)
	w.rollback(2)
	w.rollback(later) // approved once
	w.published(permits, later)
}

// TestARollbackUpLeadsWhereTheRulesWould: a version that readers were only led over is no hold.
func TestARollbackUpLeadsWhereTheRulesWould(t *testing.T) {
	w, d := permitsWorld(t)
	doubtful := w.release(d, feedsim.ReleaseSpec{RowCountOff: 5})
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	w.published(permits, newest)
	w.rollback(1)
	if _, err := mirror.Rollback(context.Background(), w.decide(), permits, doubtful); !fault.Is(err, fault.Usage) {
		t.Errorf("a rollback up to a version with doubts: %v", err)
	}
	w.published(permits, 1)
	w.rollback(2)
	w.published(permits, 2)
}

// TestADebtIsNotPaidBeforeItsDecisionStands: passes come while an operator's command has owed the
// dataset and not written its decision yet; then it writes it and dies.
func TestADebtIsNotPaidBeforeItsDecisionStands(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	ctx, o := context.Background(), w.decide()
	owed := state.Owed{Dataset: permits, Reason: "rollback", Since: w.clock.Now(), Run: o.Run, Decision: true}
	if err := state.Owe(ctx, w.store, w.pause, owed); err != nil {
		t.Fatal(err)
	}
	w.sync(0)
	w.sync(0, full)
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	if list := w.owed(); len(list) != 1 || list[0].Run != o.Run || !list[0].Decision {
		t.Fatalf("owed is %+v, want the operator's", list)
	}
	died := state.Decision{Dataset: permits, Action: state.ActionRollback, Version: 1, At: w.clock.Now(), Run: o.Run}
	if _, err := state.WriteDecision(ctx, w.store, died); err != nil {
		t.Fatal(err)
	}
	if pass := mirror.Run(ctx, w.options()); pass.Exit != 0 {
		t.Fatalf("sync ended with %d: %+v", pass.Exit, pass.Failures)
	}
	w.published(permits, 1)
	if list := w.owed(); len(list) != 0 {
		t.Errorf("still owed: %+v", list)
	}
}

// TestADebtWithoutADecisionEnds: the operator's command died before it wrote one.
func TestADebtWithoutADecisionEnds(t *testing.T) {
	w, _ := permitsWorld(t)
	w.sync(0)
	owed := state.Owed{Dataset: permits, Reason: "approve", Since: w.clock.Now(), Run: "dead", Decision: true}
	if err := state.Owe(context.Background(), w.store, w.pause, owed); err != nil {
		t.Fatal(err)
	}
	w.sync(0)
	if len(w.owed()) != 1 {
		t.Fatal("the debt is paid although nothing was decided")
	}
	w.clock.Advance(25 * time.Hour)
	w.sync(0)
	if list := w.owed(); len(list) != 0 {
		t.Errorf("still owed: %+v", list)
	}
}

func (w *world) owed() (list []state.Owed) {
	for _, shard := range w.shards() {
		list = append(list, shard.Owed...)
	}
	return list
}

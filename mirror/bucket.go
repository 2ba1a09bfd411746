package mirror

import (
	"context"
	"fmt"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// checkLayout refuses a bucket that mirrors another feed, before anybody is asked anything.
func (p *pass) checkLayout(layout *state.Layout) error {
	if layout == nil || layout.FeedURL == p.FeedURL {
		return nil
	}
	return &fault.Error{Op: "use bucket", Object: manifest.LayoutKey, Side: fault.SideBucket, Kind: fault.Usage,
		Err:  fmt.Errorf("the bucket mirrors %s, not %s", layout.FeedURL, p.FeedURL),
		Hint: "One bucket mirrors one feed. Use another bucket or prefix, or set --feed-url to the one it mirrors."}
}

// WeakLockingRules is what an operator takes over from a store that ignores conditional writes.
const WeakLockingRules = "this store ignores conditional writes, so that two processes at once could overwrite each other's work, and the pointer could go back. " +
	"It is accepted, and these rules are yours to keep: " +
	"(1) one process at a time writes to this bucket: one CronJob with concurrencyPolicy: Forbid, no shards, no second cluster, no laptop beside it; " +
	"(2) no approve, rollback, retire, acknowledge, prune or verify --repair while a sync runs: suspend the CronJob and wait for its end first; " +
	"(3) before a run is started in the place of one that seems dead, make sure that its process is gone, frozen ones too. " +
	"Readers need no rules"

// prepareBucket makes sure, before anything is copied, that the store keeps the promises that the
// mirror rests on. It is asked once in a bucket's life, again after a move, and at each pass over a store that was found to
// ignore conditional writes where that is not accepted: it may have learned better.
func (p *pass) prepareBucket(ctx context.Context, layout *state.Layout) error {
	if layout != nil && layout.Store == p.StoreURL && layout.CheckLocking(p.AcceptWeakLocking) == nil {
		if layout.Guarantees.WeakLocking() {
			p.Log.Info().Msg("the store ignores conditional writes, as was accepted: this must be the only process that writes to the bucket")
		}
		return nil
	}
	p.Observer.Stage("", "testing what the bucket guarantees")
	probe, err := p.Probe(ctx)
	p.Observer.Stage("", "")
	if err != nil {
		return unfitBucket(err)
	}
	if err := probe.Unfit(p.AcceptWeakLocking); err != nil {
		return err
	}
	if probe.Observed.WeakLocking() {
		p.tally.note(Note{Kind: "weak-locking", Message: WeakLockingRules})
	}
	_, err = state.SaveLayout(ctx, p.Store, p.Pause, state.Layout{
		Layout: manifest.LayoutVersion, FeedURL: p.FeedURL, Store: p.StoreURL, Guarantees: probe.Observed,
		ProbedAt: p.Now(), CreatedAt: p.Now(), Tool: p.Tool,
	})
	if err != nil {
		return unfitBucket(err)
	}
	return nil
}

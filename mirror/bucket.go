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

// prepareBucket makes sure, before anything is copied, that the store keeps the promises that the
// mirror rests on. It is asked once in a bucket's life, and again after a move.
func (p *pass) prepareBucket(ctx context.Context, layout *state.Layout) error {
	if layout != nil && layout.Store == p.StoreURL {
		return nil
	}
	p.Observer.Stage("", "testing what the bucket guarantees")
	probe, err := p.Probe(ctx)
	p.Observer.Stage("", "")
	if err != nil {
		return unfitBucket(err)
	}
	if err := probe.Unfit(); err != nil {
		return err
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

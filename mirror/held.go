package mirror

import (
	"context"

	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
	"feedmirror/manifest"
	"feedmirror/state"
)

// checkHeld asks the feed about versions that the bucket holds and the feed seems to have dropped:
// those it should list and does not, those above its current one, those it said it withdrew. One
// refusal changes no data; it is written down beside the record, and the pointer is flagged. What
// the feed cannot say of an old version is told and asked again, and keeps no new one waiting.
func (w *worker) checkHeld(ctx context.Context) error {
	for _, n := range w.suspects() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_, err := w.Feed.Links(ctx, w.target.dataset, n, []string{manifestName})
		switch {
		case err == nil:
			err = w.answersAgain(ctx, n)
		case fault.Is(err, fault.Gone):
			err = w.refusedHeld(ctx, n, err)
		case fault.Is(err, fault.NotFound):
			w.tally.note(Note{Dataset: w.target.dataset, Version: int64(n), Kind: "unknown-at-feed", Message: "the feed does not know this version any more; what is mirrored stays"})
			err = nil
		case fault.Is(err, fault.Transient) && ctx.Err() == nil:
			w.fail(n, err)
			return nil // the others would meet the same
		case fault.Is(err, fault.Malformed):
			w.fail(n, err)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// suspects returns the committed versions to ask about, in version order.
func (w *worker) suspects() []manifest.Number {
	listed := make(map[manifest.Number]bool, len(w.listed))
	replaced := map[manifest.Number]bool{}
	for _, v := range w.listed {
		listed[v.Number] = true
		if v.ResyncRequired && !w.holding.HasRecord(v.Number) {
			replaced[v.Previous] = true
		}
	}
	var list []manifest.Number
	for _, held := range w.holding {
		if !held.Record {
			continue
		}
		n := held.Number
		above := w.line.FeedCurrent != 0 && n > w.line.FeedCurrent
		dropped := w.target.full && !listed[n] && !w.expired[n]
		if above || dropped || replaced[n] || (w.target.full && held.Withdrawn) {
			list = append(list, n)
		}
	}
	return list
}

const feedBehind = "the feed's current is behind this version, which still answers"

func (w *worker) answersAgain(ctx context.Context, n manifest.Number) error {
	held, _ := w.holding.Find(n)
	if !held.Withdrawn {
		if w.line.FeedCurrent != 0 && n > w.line.FeedCurrent {
			w.tally.note(Note{Dataset: w.target.dataset, Version: int64(n), Kind: "feed-behind", Message: feedBehind})
			w.notice("feed-behind", n, feedBehind)
		}
		return nil
	}
	now := w.Now()
	if err := state.NoteWithdrawn(ctx, w.Store, w.Pause, state.Withdrawn{Dataset: w.target.dataset, Version: n, Until: &now}); err != nil {
		return err
	}
	w.flag(held, false)
	w.log.Info().Int64("version", int64(n)).Msg("a withdrawn version answers again")
	return nil
}

func (w *worker) refusedHeld(ctx context.Context, n manifest.Number, refusal error) error {
	held, _ := w.holding.Find(n)
	committed, err := w.recall(ctx, n)
	if err != nil {
		return err
	}
	judged := manifest.Refusal{
		Version: n, ReleasedAgain: feed.ReleasedAgain(refusal), FeedCurrent: w.line.FeedCurrent,
		FetchedAt: committed.Record().FetchedAt, FeedNow: w.feedNow,
	}
	if !judged.Withdrawn() {
		w.expired[n] = true
		return nil
	}
	if held.Withdrawn {
		return nil
	}
	note := state.Withdrawn{Dataset: w.target.dataset, Version: n, Message: fault.RedactText(refusal.Error()), From: w.Now()}
	if err := state.NoteWithdrawn(ctx, w.Store, w.Pause, note); err != nil {
		return err
	}
	w.flag(held, true)
	w.tally.note(Note{Dataset: w.target.dataset, Version: int64(n), Kind: "withdrawn", Message: "the feed released it again under another number; it is flagged and stays"})
	w.log.Warn().Int64("version", int64(n)).Msg("the feed withdrew a version that is mirrored; the pointer is flagged and stays")
	return nil
}

func (w *worker) flag(held manifest.Held, withdrawn bool) {
	held.Withdrawn = withdrawn
	w.holding = w.holding.With(held)
	w.changed, w.fence = true, true
	w.touch()
}

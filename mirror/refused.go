package mirror

import (
	"context"
	"fmt"
	"slices"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
	"feedmirror/manifest"
	"feedmirror/state"
)

// refusals counts versions of one chain that answer 410 although retention does not explain it.
type refusals struct {
	chain    []manifest.Number // to be copied, and within the feed's retention
	refused  map[manifest.Number]bool
	surveyed bool
}

func (r *refusals) plan(work manifest.Work, feedNow time.Time) {
	r.refused = map[manifest.Number]bool{}
	for _, v := range work.Copy {
		if !manifest.PastRetention(v, feedNow) {
			r.chain = append(r.chain, v.Number)
		}
	}
}

// goneVersion decides what a 410 for a version to be copied means. It returns nil without an error
// when the version was noted as gone.
func (w *worker) goneVersion(ctx context.Context, s step, err error) (*state.Committed, error) {
	again := feed.ReleasedAgain(err)
	if s.number == w.current && !again {
		return w.awaitRebuild(ctx, s, err)
	}
	if !again && (s.facts == nil || !manifest.PastRetention(*s.facts, w.feedNow)) {
		if alarm := w.countRefusal(ctx, s.number); alarm != nil {
			return nil, alarm
		}
	}
	reason := manifest.GapExpired
	if again {
		reason = manifest.GapWithdrawn
	}
	note := state.Gone{Dataset: w.target.dataset, Version: s.number, Reason: reason, Message: fault.RedactText(err.Error()), At: w.Now()}
	if err := state.NoteGone(ctx, w.Store, w.Pause, note); err != nil {
		return nil, err
	}
	held, _ := w.holding.Find(s.number)
	known := held.Gone && held.GoneFor == reason
	held.Number, held.Gone, held.GoneFor, held.GoneSince = s.number, true, reason, w.Now()
	w.holding = w.holding.With(held)
	if known {
		return nil, nil //nolint:nilnil // an earlier pass noted and told it
	}
	w.touch()
	w.tally.update(func(r *Report) { r.Versions.Gone++ })
	w.tally.note(Note{Dataset: w.target.dataset, Version: int64(s.number), Kind: "gone", Message: string(reason)})
	w.log.Warn().Int64("version", int64(s.number)).Str("reason", string(reason)).Msg("the feed no longer has it; noted, the chain goes on")
	return nil, nil //nolint:nilnil // noted is an outcome of its own
}

// countRefusal returns an alarm when more than half of a chain answers 410: that is a fault at the
// feed and no retention, so nothing is noted. On the first refusal the rest of the chain is asked,
// by the cheap call for links, before any note is written.
func (w *worker) countRefusal(ctx context.Context, n manifest.Number) error {
	r := &w.refused
	if slices.Contains(r.chain, n) { // one that is asked for but not listed is no part of the chain
		r.refused[n] = true
	}
	if !r.surveyed && len(r.chain) >= 4 {
		r.surveyed = true
		for _, other := range r.chain {
			if r.refused[other] || w.holding.HasRecord(other) {
				continue
			}
			_, err := w.Feed.Links(ctx, w.target.dataset, other, []string{manifestName})
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case fault.Is(err, fault.Gone):
				r.refused[other] = true
			case fault.Is(err, fault.Transient), fault.Is(err, fault.NotSubscribed), endsPass(err):
				return err // no answer is no sign that the others are there
			}
			if manifest.MassRefusal(len(r.refused), len(r.chain)) {
				break
			}
		}
	}
	if !manifest.MassRefusal(len(r.refused), len(r.chain)) {
		return nil
	}
	return &fault.Error{Op: "read versions", Object: w.target.dataset, Side: fault.SideFeed, Kind: fault.Gone, Dataset: w.target.dataset,
		Err:  fmt.Errorf("mass-410: at least %d of %d versions answer 410, which retention does not explain", len(r.refused), len(r.chain)),
		Hint: "Nothing was noted as gone; the next pass asks again. If it stays, ask Ploti."}
}

// awaitRebuild waits while the feed rebuilds its current version's files, up to the set time.
func (w *worker) awaitRebuild(ctx context.Context, s step, err error) (*state.Committed, error) {
	deadline := w.Now().Add(w.RebuildWait)
	pause := 5 * time.Second
	for w.Now().Add(pause).Before(deadline) {
		w.Observer.Stage(w.target.dataset, fmt.Sprintf("version %d is being rebuilt at the feed, asking again in %s", s.number, pause))
		if err := w.Pause(ctx, pause); err != nil {
			return nil, err
		}
		committed, again := w.copyVersion(ctx, s)
		switch {
		case !fault.Is(again, fault.Gone):
			return committed, again
		case feed.ReleasedAgain(again):
			return w.goneVersion(ctx, s, again)
		}
		pause = min(2*pause, time.Minute)
	}
	return nil, &fault.Error{Op: "read version", Object: w.target.dataset, Side: fault.SideFeed, Kind: fault.Rebuilding,
		Dataset: w.target.dataset, Version: int64(s.number), Err: fmt.Errorf("its current version %d is being rebuilt at the feed: %w", s.number, err),
		Hint: "The pointer stays where it is; the next pass asks again."}
}

package mirror

import (
	"context"
	"errors"
	"slices"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// maxReadings bounds how often a dataset is read anew because its pointer moved meanwhile.
const maxReadings = 8

// publish moves the dataset's pointer as far as the rules allow.
func (w *worker) publish(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var err error
	for range maxReadings {
		if err = w.tryPublish(ctx); !errors.Is(err, state.ErrPointerMoved) {
			return err
		}
		if err := w.read(ctx); err != nil {
			return err
		}
	}
	return pointerKeepsMoving(w.target.dataset, err)
}

func pointerKeepsMoving(dataset string, err error) error {
	return &fault.Error{Op: "publish", Object: manifest.PointerKey(dataset), Side: fault.SideBucket, Kind: fault.Conflict, Dataset: dataset, Err: err,
		Hint: "Other runs or decisions keep writing it. The next pass goes on."}
}

func (w *worker) tryPublish(ctx context.Context) error {
	ready := w.firstReady()
	if w.pointer == nil && !ready {
		return nil
	}
	candidates, err := w.candidates(ctx)
	if err != nil {
		return err
	}
	if len(candidates) == 0 && !w.flagChanged() && !w.fence {
		return nil
	}
	change, err := state.Publish(ctx, w.Store, w.Pause, state.Publication{
		Dataset: w.target.dataset, Committed: candidates, Holding: w.holding, OnMajor: w.OnMajor, FirstReady: ready,
		Seen: revisionOf(w.pointer), Fence: w.fence, Now: w.Now(),
	})
	if fault.Is(err, fault.Denied) {
		return unfitBucket(err)
	}
	if err != nil {
		return err
	}
	w.fence = false
	w.moved(change)
	if change.Moved() {
		if err := w.show(ctx); err != nil {
			return err
		}
	}
	if change.Before == nil && change.After != nil {
		// A retirement that was decided meanwhile found no pointer to swap. It stands since before it
		// looked, and so it is seen now.
		return w.obeyPending(ctx)
	}
	return nil
}

func revisionOf(pointer *state.Pointer) int64 {
	if pointer == nil {
		return 0
	}
	return pointer.Revision
}

// firstReady reports whether a first pointer may be written: the newest version that the feed
// lists is committed. Readers would otherwise be led through a long history version by version.
func (w *worker) firstReady() bool {
	if !w.chainKnown {
		return false
	}
	newest := max(w.newestListed(), w.current)
	if newest == 0 {
		newest = w.holding.NewestRecord(manifest.MaxNumber + 1)
	}
	return newest != 0 && w.holding.HasRecord(newest)
}

// flagChanged reports whether the pointer says something else about its version than the bucket.
func (w *worker) flagChanged() bool {
	if w.pointer == nil {
		return false
	}
	held, _ := w.holding.Find(w.pointer.Version)
	return w.pointer.Held != nil || w.pointer.Withdrawn != held.Withdrawn
}

// candidates returns the records above the pointer, in version order. While there is no pointer
// only the newest ones count, down to the first that nothing speaks against.
func (w *worker) candidates(ctx context.Context) ([]state.Committed, error) {
	return gatherCandidates(w.holding, w.pointer, func(n manifest.Number) (state.Committed, error) { return w.recall(ctx, n) })
}

func gatherCandidates(holding manifest.Holding, pointer *state.Pointer, recall func(manifest.Number) (state.Committed, error)) ([]state.Committed, error) {
	var list []state.Committed
	for _, held := range slices.Backward(holding) {
		if pointer != nil && held.Number <= pointer.Version {
			break
		}
		if !held.Record || held.Pruned {
			continue
		}
		committed, err := recall(held.Number)
		if err != nil {
			return nil, err
		}
		list = append(list, committed)
		candidate := committed.Candidate(held)
		if pointer == nil && !candidate.Doubts && !candidate.Withdrawn {
			break
		}
	}
	slices.Reverse(list)
	return list, nil
}

// moved takes over what became of the pointer, and tells.
func (w *worker) moved(change state.Change) {
	w.pointer = change.After
	w.committed.moved(w.pointer)
	if change.After == nil {
		w.waits(change.Waits)
		return
	}
	after := change.After
	if change.Moved() {
		w.touch()
		w.changed = true
		w.tally.update(func(r *Report) { r.Versions.Published++ })
		event := w.log.Info().Int64("version", int64(after.Version)).Str("schema", after.SchemaVersion.String())
		if change.Before != nil {
			event = event.Int64("from", int64(change.Before.Version))
		}
		event.Msg("published")
	}
	if newHold := after.Held; newHold != nil && (change.Before == nil || change.Before.Held == nil || change.Before.Held.Hold != newHold.Hold) {
		w.tellHold(newHold.Hold)
	}
}

// waits keeps in the dataset's line what holds its first publication back: there is no pointer yet
// that could say so.
func (w *worker) waits(hold *manifest.Hold) {
	switch {
	case hold == nil:
		w.line.Held = nil
	case w.line.Held == nil || w.line.Held.Hold != *hold:
		w.line.Held = &state.Held{Hold: *hold, Since: w.Now()}
		w.tellHold(*hold)
	}
}

func (w *worker) tellHold(hold manifest.Hold) {
	w.touch()
	w.log.Warn().Int64("version", int64(hold.Version)).Str("reason", string(hold.Reason)).
		Str("next", "mirror approve "+w.target.dataset).Msg("held: the pointer waits for a person")
}

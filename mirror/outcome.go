package mirror

import (
	"slices"

	"feedmirror/internal/tables"
	"feedmirror/manifest"
	"feedmirror/state"
)

// finish hands over what became of the dataset.
func (w *worker) finish() {
	w.Observer.Stage(w.target.dataset, "")
	line := w.line
	line.CheckedAt = w.Now()
	line.Newest = max(line.Newest, w.holding.NewestRecord(manifest.MaxNumber+1))
	if !w.target.since.IsZero() {
		since := w.target.since
		line.FeedSince = &since
	}
	if p := w.pointer; p != nil {
		published := p.PublishedAt
		line.Published, line.Schema, line.PublishedAt = p.Version, p.SchemaVersion.String(), &published
		line.Held, line.Withdrawn, line.Pinned = p.Held, p.Withdrawn, p.Pinned
	}
	line.Waiting = w.unpublished()
	if w.chainKnown { // else what was known before stands
		w.noticeRewritten()
		line.Notices = w.notices
	}
	if w.expired != nil {
		line.Expired = state.RangesOf(w.holding, func(n manifest.Number) bool { return w.expired[n] })
	}
	w.stateOf(&line)
	if w.Tables != nil && w.pointer != nil {
		w.waiting.add(tables.ProgressOf(w.pointer, w.holding), w.Now())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, line)
	switch {
	case w.owe != "":
		w.owed = append(w.owed, state.Owed{Dataset: line.Dataset, Reason: w.owe, Full: w.oweFull, Since: w.tally.report.Started, Run: w.Run})
	case w.undecided: // what is owed stays as it stands
		w.settledNow(line)
	default:
		w.finished = append(w.finished, line.Dataset)
		w.settledNow(line)
	}
	w.count(line)
}

// notice keeps what a person should know in the dataset's line: one of a kind, about the highest
// version.
func (w *worker) notice(kind string, n manifest.Number, message string) {
	at := slices.IndexFunc(w.notices, func(known state.Notice) bool { return known.Kind == kind })
	if at < 0 {
		w.notices = append(w.notices, state.Notice{Kind: kind, Version: n, Versions: 1, Message: message})
		return
	}
	known := &w.notices[at]
	known.Versions++
	known.Version = max(known.Version, n)
}

// noticeRewritten tells of versions that the feed published again with another content.
func (w *worker) noticeRewritten() {
	for _, held := range w.holding {
		if held.Rewritten {
			w.notice("history-changed", held.Number, "the feed published another manifest under its number; the first one stands, the other is kept beside it as manifest.<hash>.json")
		}
	}
}

// unpublished counts the committed versions above the published one.
func (w *worker) unpublished() int {
	count := 0
	for _, held := range w.holding {
		if held.Record && !held.Pruned && (w.pointer == nil || held.Number > w.pointer.Version) {
			count++
		}
	}
	return count
}

func (w *worker) stateOf(line *state.Line) {
	switch {
	case w.bad:
		line.State = "failed"
	case w.owe != "":
		line.State, line.Message = "owed", w.owe
	case line.State == "not-subscribed" && w.line.State == "not-subscribed", line.State == "unknown":
	case w.retired():
		line.State, line.Message = "retired", ""
	case line.Withdrawn:
		line.State, line.Message = "withdrawn", ""
	case line.Held != nil:
		line.State, line.Message = "held", ""
	default:
		line.State, line.Message = "ok", ""
	}
}

// settledNow remembers the version that needs no further look while the list still names it.
func (w *worker) settledNow(line state.Line) {
	published := w.target.since
	if published.IsZero() {
		published = w.feedNow
	}
	if line.FeedCurrent != 0 && !published.Before(w.next) {
		w.recent = append(w.recent, state.Recent{Dataset: line.Dataset, Version: line.FeedCurrent, PublishedAt: published})
	}
}

func (w *worker) count(line state.Line) {
	w.tally.update(func(r *Report) {
		switch {
		case w.bad:
			r.Datasets.Failed++
		case w.changed:
			r.Datasets.Changed++
		}
		if w.owe != "" {
			r.Datasets.Owed++
		}
		if line.Withdrawn {
			r.Datasets.Withdrawn++
		}
		if line.Held != nil {
			r.Datasets.Held++
			r.Held = append(r.Held, HeldDataset{Dataset: line.Dataset, Version: int64(line.Held.Version),
				Reason: string(line.Held.Reason), Next: "mirror approve " + line.Dataset})
		}
	})
}

func (w *worker) touch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched = true
}

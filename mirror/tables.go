package mirror

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"feedmirror/internal/parquetinfo"
	"feedmirror/internal/tables"
	"feedmirror/manifest"
	"feedmirror/state"
)

// sharedEvery is how long what a pass published may wait for the tables of all datasets. A pass of
// hours writes them on the way, and not for each dataset.
const sharedEvery = time.Minute

// ownTables is what became of the tables of one dataset.
type ownTables struct {
	// reason says why engines see no table of what is published, or one that is damaged; empty when they do.
	reason   string
	damaged  bool
	warnings []error // checkpoints that could not be written: the tables are right, and open more slowly
}

// showOwn brings the tables of one dataset up to date with its pointer. A table is a view of what is
// published: a damaged one is told, and stops nothing.
func showOwn(ctx context.Context, projector *tables.Projector, dataset string) (ownTables, error) {
	var own ownTables
	for _, table := range []func(context.Context, string) (tables.Outcome, error){projector.Snapshot, projector.Attachments} {
		outcome, err := table(ctx, dataset)
		var damaged *tables.DamagedError
		switch {
		case errors.As(err, &damaged):
			own.reason, own.damaged = damagedText(damaged), true
		case err != nil:
			return own, err
		case outcome.Reason != "":
			own.reason = outcome.Reason
		}
		if outcome.Warning != nil {
			own.warnings = append(own.warnings, outcome.Warning)
		}
	}
	return own, nil
}

// sharedOutcome is what became of the tables of all datasets.
type sharedOutcome struct {
	left     map[string][]string // versions whose changes cannot be listed, by dataset
	damaged  []error
	warnings []error
}

// showShared brings the tables of all datasets up to date with some of them.
func showShared(ctx context.Context, projector *tables.Projector, datasets []tables.Progress, run string) (sharedOutcome, error) {
	var shared sharedOutcome
	take := func(outcome tables.Outcome, err error) error {
		var damaged *tables.DamagedError
		if errors.As(err, &damaged) {
			shared.damaged = append(shared.damaged, errors.New(damagedText(damaged)))
			return nil
		}
		if outcome.Warning != nil {
			shared.warnings = append(shared.warnings, outcome.Warning)
		}
		return err
	}
	changes, err := projector.Changes(ctx, datasets)
	shared.left = changes.Left
	if err := take(changes.Outcome, err); err != nil {
		return shared, err
	}
	return shared, take(projector.Publications(ctx, datasets, run))
}

// show brings the tables of the worker's dataset up to date with its pointer.
func (w *worker) show(ctx context.Context) error {
	if w.Tables == nil || w.pointer == nil || w.shown == w.pointer.Revision {
		return nil
	}
	w.Observer.Stage(w.target.dataset, "writing tables")
	projector := *w.Tables
	projector.Footers = w.footers
	own, err := showOwn(ctx, &projector, w.target.dataset)
	if err != nil {
		return err
	}
	w.line.Table, w.shown = own.reason, w.pointer.Revision
	switch {
	case own.damaged:
		w.tally.note(Note{Dataset: w.target.dataset, Kind: "table-damaged", Message: own.reason})
	case own.reason != "":
		w.tally.note(Note{Dataset: w.target.dataset, Version: int64(w.pointer.Version), Kind: "no-table", Message: own.reason})
	}
	w.slowTables(own.warnings)
	return nil
}

func (p *pass) slowTables(warnings []error) {
	for _, warning := range warnings {
		p.Log.Warn().Err(warning).Msg("a table has no new checkpoint: it opens more slowly until the next")
	}
}

// waitingTables are the datasets whose tables of all datasets wait for the pass.
type waitingTables struct {
	writing  sync.Mutex // held while they are written
	mu       sync.Mutex
	datasets map[string]tables.Progress
	since    time.Time // when the first of them began to wait
}

func (q *waitingTables) add(one tables.Progress, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.datasets) == 0 {
		q.datasets, q.since = map[string]tables.Progress{}, now
	}
	q.datasets[one.Dataset] = one
}

// due returns what waits, in the order of its names, when something waits since a time.
func (q *waitingTables) due(since time.Time) []tables.Progress {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.since.After(since) {
		return nil
	}
	return slices.SortedFunc(maps.Values(q.datasets), func(a, b tables.Progress) int { return strings.Compare(a.Dataset, b.Dataset) })
}

// done takes out what was written, and did not get further meanwhile.
func (q *waitingTables) done(written []tables.Progress, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, one := range written {
		if q.datasets[one.Dataset] == one {
			delete(q.datasets, one.Dataset)
		}
	}
	q.since = now
}

// writeSharedIfDue writes what waits for long in the tables of all datasets. What fails is tried again,
// and told, at the end of the pass.
func (p *pass) writeSharedIfDue(ctx context.Context) {
	due := p.waiting.due(p.Now().Add(-sharedEvery))
	if len(due) == 0 || ctx.Err() != nil || !p.waiting.writing.TryLock() {
		return
	}
	defer p.waiting.writing.Unlock()
	if err := p.writeShared(ctx, due); err != nil {
		p.Log.Debug().Err(err).Msg("the tables of all datasets could not be written; the end of the pass tries again")
	}
}

func (p *pass) writeShared(ctx context.Context, datasets []tables.Progress) error {
	projector := *p.Tables
	projector.Footers = &p.footersOfChanges
	shared, err := showShared(ctx, &projector, datasets, p.Run)
	if err != nil {
		return err
	}
	p.footersOfChanges.forget()
	for dataset, left := range shared.left {
		p.tally.note(Note{Dataset: dataset, Kind: "changes-not-listed", Message: strings.Join(left, "; ")})
	}
	for _, damaged := range shared.damaged {
		p.tally.note(Note{Kind: "table-damaged", Message: damaged.Error()})
	}
	p.slowTables(shared.warnings)
	p.waiting.done(datasets, p.Now())
	return nil
}

// finishShared writes what still waits at the end of the pass. Datasets whose rows could not be written
// stay owed.
func (p *pass) finishShared(ctx context.Context) {
	p.waiting.writing.Lock()
	defer p.waiting.writing.Unlock()
	left := p.waiting.due(p.Now())
	if len(left) == 0 {
		return
	}
	err := context.Cause(ctx)
	if err == nil {
		err = p.writeShared(ctx, left)
	}
	if err == nil {
		return
	}
	for _, one := range left {
		if !slices.ContainsFunc(p.owed, func(o state.Owed) bool { return o.Dataset == one.Dataset }) {
			p.leave(target{dataset: one.Dataset}, "tables not written")
		}
	}
	if ctx.Err() == nil {
		p.tally.fail(failureOf("", 0, err))
	}
}

// maxRecentFooters bounds the footers of changes that a pass remembers until it lists them: some KiB each.
const maxRecentFooters = 1000

// recentFooters reads the footers of changes, and remembers those that the pass has read at their
// commit. What it forgot is read again.
type recentFooters struct {
	stored tables.StoredFooters
	mu     sync.Mutex
	known  map[string]parquetinfo.PartInfo // by key
}

func (f *recentFooters) remember(key string, info parquetinfo.PartInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) < maxRecentFooters {
		if f.known == nil {
			f.known = map[string]parquetinfo.PartInfo{}
		}
		f.known[key] = info
	}
}

// Footer implements tables.Footers.
func (f *recentFooters) Footer(ctx context.Context, file manifest.RecordFile) (parquetinfo.PartInfo, error) {
	f.mu.Lock()
	info, ok := f.known[file.Key]
	f.mu.Unlock()
	if ok {
		return info, nil
	}
	return f.stored.Footer(ctx, file)
}

func (f *recentFooters) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.known)
}

// versionFooters reads the footers of parts, and remembers those of the version at hand: whoever
// commits it writes its tables next.
type versionFooters struct {
	recent *recentFooters
	known  map[string]parquetinfo.PartInfo // by key
}

// Footer implements tables.Footers.
func (f *versionFooters) Footer(ctx context.Context, file manifest.RecordFile) (parquetinfo.PartInfo, error) {
	if info, ok := f.known[file.Key]; ok {
		return info, nil
	}
	info, err := f.recent.Footer(ctx, file)
	switch {
	case err != nil:
	case file.Kind == manifest.KindChanges:
		f.recent.remember(file.Key, info)
	default:
		if f.known == nil {
			f.known = map[string]parquetinfo.PartInfo{}
		}
		f.known[file.Key] = info
	}
	return info, err
}

func (f *versionFooters) forget() { clear(f.known) }

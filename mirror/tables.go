package mirror

import (
	"context"
	"errors"
	"fmt"

	"feedmirror/internal/tables"
)

// projector returns what writes the bucket's tables.
func (o Options) projector() *tables.Projector {
	return &tables.Projector{Store: o.Store, Footers: tables.StoredFooters{Reader: o.Store}, Now: o.Now, NewID: o.NewID, Engine: o.Tool}
}

// show brings the tables of the worker's dataset up to date with its pointer. A table is a view of what
// is published: a damaged one is told, and stops nothing.
func (w *worker) show(ctx context.Context) error {
	if w.pointer == nil {
		return nil
	}
	w.Observer.Stage(w.target.dataset, "writing tables")
	projector := w.projector()
	w.line.Table = ""
	for _, table := range []func(context.Context, string) (tables.Outcome, error){projector.Snapshot, projector.Attachments} {
		outcome, err := table(ctx, w.target.dataset)
		var damaged *tables.DamagedError
		switch {
		case errors.As(err, &damaged):
			w.line.Table = damaged.Error()
			w.tally.note(Note{Dataset: w.target.dataset, Kind: "table-damaged", Message: damaged.Error()})
		case err != nil:
			return err
		case outcome.Reason != "":
			w.line.Table = outcome.Reason
		}
		if outcome.Warning != nil {
			w.log.Warn().Err(outcome.Warning).Str("table", outcome.Root).Msg("the table has no checkpoint: it opens more slowly until the next")
		}
	}
	w.shown = true
	return nil
}

// showShared brings the tables of all datasets up to date with what the pass did: one commit each.
func (p *pass) showShared(ctx context.Context) error {
	if len(p.published) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		p.owePublished("tables not written")
		return nil
	}
	projector := p.projector()
	changes, err := projector.Changes(ctx, p.published, p.full)
	for dataset, left := range changes.Left {
		p.tally.note(Note{Dataset: dataset, Kind: "changes-not-listed", Message: fmt.Sprint(left)})
	}
	if err == nil {
		_, err = projector.Publications(ctx, p.published, p.Run)
	}
	var damaged *tables.DamagedError
	if errors.As(err, &damaged) {
		p.tally.note(Note{Kind: "table-damaged", Message: damaged.Error()})
		return nil
	}
	if err != nil {
		p.owePublished("tables not written")
		p.tally.fail(failureOf("", 0, err))
	}
	return nil
}

// owePublished keeps datasets owed whose rows in the shared tables are not written yet.
func (p *pass) owePublished(reason string) {
	for _, dataset := range p.published {
		p.leave(target{dataset: dataset}, reason)
	}
}

package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/tables"
	"feedmirror/manifest"
	"feedmirror/state"
)

// PruneOptions are what a prune works with.
type PruneOptions struct {
	Store  bucket.Store
	Rules  manifest.KeepRules
	Filter []string // globs of dataset ids; empty: all
	Apply  bool     // carry the plan out; without it nothing is written
	// AcceptWeakLocking goes on with a store that ignores conditional writes.
	AcceptWeakLocking bool
	LeaseTTL          time.Duration
	Run               string
	Host              string
	Tool              string
	Tables            *tables.Projector // what writes the bucket's tables; nil: nobody does
	Now               func() time.Time
	Pause             state.Pause
	Stage             func(text string) // told what it is at; must be quick
}

// silentFor is how long an unfinished prune must have given no sign of life before another one
// finishes it unasked. It saves double work; nothing rests on it.
const silentFor = 10 * time.Minute

// Prune deletes what no rule keeps and nobody needs, or says what it would delete. It finishes an
// unfinished prune first, where the store makes sure that a process that only slept cannot harm.
func Prune(ctx context.Context, o PruneOptions) (PruneReport, error) {
	p := newPruner(o)
	err := p.prune(ctx)
	return p.finish(ctx), err
}

// ResumePrune finishes an unfinished prune. Whoever calls it knows that the one who began it is
// dead, or that the store refuses its stale deletes.
func ResumePrune(ctx context.Context, o PruneOptions) (PruneReport, error) {
	o.Apply = true
	p := newPruner(o)
	err := p.resume(ctx)
	return p.finish(ctx), err
}

// pruner is one run of a prune.
type pruner struct {
	PruneOptions
	report *PruneReport
	layout *state.Layout
	doc    *state.Prune // prune.json as it stands; nil: none
	tag    bucket.Tag
	tally  removals
}

func newPruner(o PruneOptions) *pruner {
	if o.Stage == nil {
		o.Stage = func(string) {}
	}
	return &pruner{PruneOptions: o, report: &PruneReport{
		Run: o.Run, Tool: o.Tool, Applied: o.Apply, Started: o.Now(), Rules: o.Rules,
		Versions: []state.PruneVersion{}, Kept: []KeptVersion{}, Refused: []Failure{}, Notes: []Note{}}}
}

func (p *pruner) prune(ctx context.Context) error {
	if err := p.Rules.Validate(); err != nil {
		return &fault.Error{Op: "prune", Side: fault.SideConfig, Kind: fault.Usage, Err: err,
			Hint: "Say what to keep: --keep-versions, --keep-days or --keep-majors. What any of them keeps is kept."}
	}
	if err := p.load(ctx); err != nil {
		return err
	}
	if p.doc.Running() {
		if !p.Apply {
			p.note("", 0, "unfinished", fmt.Sprintf("the prune of run %s is not finished; --apply or --resume finishes it first", p.doc.Run))
		} else if err := p.finishOther(ctx); err != nil {
			return err
		}
	}
	marks, err := p.plan(ctx)
	if err != nil || !p.Apply {
		return err
	}
	if len(p.report.Versions) > 0 || len(marks) > 0 {
		if err := p.carryOut(ctx, p.report.Versions, marks); err != nil {
			return err
		}
	}
	return p.trimReports(ctx)
}

func (p *pruner) resume(ctx context.Context) error {
	if err := p.load(ctx); err != nil {
		return err
	}
	if !p.doc.Running() {
		p.note("", 0, "finished", "no prune is unfinished")
		return nil
	}
	return p.takeOver(ctx)
}

func (p *pruner) load(ctx context.Context) error {
	var err error
	if p.layout, err = state.LoadLayout(ctx, p.Store); err != nil {
		return unfitBucket(err)
	}
	if p.layout == nil {
		return &fault.Error{Op: "prune", Object: manifest.LayoutKey, Side: fault.SideBucket, Kind: fault.Usage,
			Err: errors.New("no mirror has used this bucket"), Hint: "Check --bucket: its prefix belongs to it."}
	}
	if err := p.layout.CheckLocking(!p.Apply || p.AcceptWeakLocking); err != nil {
		return err
	}
	p.doc, p.tag, err = state.LoadPrune(ctx, p.Store)
	return err
}

// finishOther finishes the prune of another run. A process that only slept may still send a delete
// for what it saw: where the store would obey although the object was written again since, only a
// person can know that there is no such process.
func (p *pruner) finishOther(ctx context.Context) error {
	alive := p.Now().Sub(p.doc.At) < silentFor
	safe := p.layout.Guarantees.ConditionalDelete && p.Store.Guarantees().FreshTags
	if !alive && safe {
		p.note("", 0, "unfinished", fmt.Sprintf("the prune of run %s was finished first", p.doc.Run))
		return p.takeOver(ctx)
	}
	hint := "If that run is dead, finish its work with: mirror prune --resume"
	if alive {
		hint = "It gave a sign of life less than ten minutes ago. " + hint
	}
	return &fault.Error{Op: "prune", Object: manifest.PruneKey, Side: fault.SideBucket, Kind: fault.Budget,
		Err: fmt.Errorf("the prune of run %s on %s is not finished", p.doc.Run, p.doc.Host), Hint: hint}
}

func (p *pruner) takeOver(ctx context.Context) error {
	if err := p.write(ctx, *p.doc); err != nil {
		return err
	}
	p.report.Versions = append(p.report.Versions, p.doc.Versions...)
	return p.work(ctx)
}

// carryOut begins a prune of its own: what it means to delete is written down before anything else.
func (p *pruner) carryOut(ctx context.Context, versions []state.PruneVersion, marks []state.HashStart) error {
	next := state.Prune{State: state.PruneDeciding, StartedAt: p.Now(), Rules: p.Rules, Versions: versions, Attachments: marks}
	if err := p.write(ctx, next); err != nil {
		return err
	}
	return p.work(ctx)
}

// write swaps prune.json. It is the one who holds the newest revision who may delete: a prune that
// finds another's there ends.
func (p *pruner) write(ctx context.Context, next state.Prune) error {
	held := int64(0)
	if p.doc != nil {
		held = p.doc.Revision
	}
	next.Run, next.Host, next.Tool, next.At = p.Run, p.Host, p.Tool, p.Now()
	doc, tag, err := state.UpdateFrom(ctx, p.Store, p.Pause, manifest.PruneKey, p.doc, p.tag, func(standing *state.Prune) (*state.Prune, error) {
		if standing != nil && standing.Revision != held || standing == nil && held != 0 {
			return nil, takenOver()
		}
		attempt := next
		return &attempt, nil
	})
	if err != nil {
		return err
	}
	p.doc, p.tag = doc, tag
	return nil
}

// confirm makes sure that nobody has taken this prune over, and gives a sign of life now and then. It
// is called after objects were listed and before they are deleted: who takes over afterwards ends
// later still, and what is written again after that end no longer has the state that was listed.
func (p *pruner) confirm(ctx context.Context) error {
	if p.Now().Sub(p.doc.At) >= silentFor/20 {
		return p.write(ctx, *p.doc)
	}
	standing, _, err := state.LoadPrune(ctx, p.Store)
	if err == nil && (standing == nil || standing.Revision != p.doc.Revision) {
		return takenOver()
	}
	return err
}

func takenOver() error {
	return &fault.Error{Op: "prune", Object: manifest.PruneKey, Side: fault.SideBucket, Kind: fault.Budget,
		Err: errors.New("another prune has begun or taken over"), Hint: "See what became of it with: mirror prune --resume"}
}

// work does what prune.json says and closes it.
func (p *pruner) work(ctx context.Context) error {
	err := p.delete(ctx)
	if err == nil {
		return p.close(ctx)
	}
	if p.doc.State == state.PruneDeciding && ctx.Err() == nil && p.close(ctx) == nil {
		return err // nothing was deleted, and nothing is unfinished
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &fault.Error{Op: "prune", Side: fault.SideOf(err), Kind: fault.KindOf(err), Err: err,
		Hint: "The prune is not finished; what it means to delete is written down. Go on with: mirror prune --resume"}
}

// close writes prune.json as finished. It is not deleted: its revision says that it was there.
func (p *pruner) close(ctx context.Context) error {
	next := *p.doc
	next.State, next.Versions, next.Attachments = state.PruneFinished, []state.PruneVersion{}, []state.HashStart{}
	return p.write(ctx, next)
}

func (p *pruner) note(dataset string, n manifest.Number, kind, message string) {
	p.report.Notes = append(p.report.Notes, Note{Dataset: dataset, Version: int64(n), Kind: kind, Message: message})
}

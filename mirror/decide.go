package mirror

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/tables"
	"feedmirror/manifest"
	"feedmirror/state"
)

// DecideOptions are what an operator's decision is made with.
type DecideOptions struct {
	Docs    state.Documents
	Pause   state.Pause
	OnMajor manifest.OnMajor
	Now     func() time.Time
	Run     string
	Who     string // who decides, for the record
	Reason  string
	Tables  *tables.Projector // what writes the bucket's tables; nil: nobody does
	Log     zerolog.Logger
}

// Approve accepts what holds a dataset back, or lifts a rollback's pin or a retirement: it is written down first,
// then carried out, and finished by the next pass if this process dies in between.
func Approve(ctx context.Context, o DecideOptions, dataset string) (state.Change, error) {
	d, err := loadDataset(ctx, o.Docs, dataset)
	if err != nil {
		return state.Change{}, err
	}
	hold := d.hold(o.OnMajor)
	retired, err := d.retired(ctx, o.Docs)
	if err != nil {
		return state.Change{}, err
	}
	if hold == nil && !retired && (d.pointer == nil || !d.pointer.Pinned) {
		return state.Change{}, &fault.Error{Op: "approve", Object: dataset, Side: fault.SideConfig, Kind: fault.Usage,
			Err: fmt.Errorf("nothing of it is held"), Hint: "mirror status shows what waits for a person."}
	}
	return o.decide(ctx, state.Decision{Dataset: dataset, Action: state.ActionApprove, Hold: hold})
}

// Rollback moves readers of a dataset back to a committed version and pins it there until it is
// approved again.
func Rollback(ctx context.Context, o DecideOptions, dataset string, to manifest.Number) (state.Change, error) {
	d, err := loadDataset(ctx, o.Docs, dataset)
	if err != nil {
		return state.Change{}, err
	}
	held, _ := d.holding.Find(to)
	if !held.Record || held.Pruned || d.pointer == nil {
		return state.Change{}, &fault.Error{Op: "roll back", Object: dataset, Side: fault.SideConfig, Kind: fault.Usage,
			Err:  fmt.Errorf("version %d is not mirrored whole", to),
			Hint: "Versions to choose from, the newest last: " + wholeVersions(d.holding)}
	}
	if !d.mayLeadTo(to, o.OnMajor) {
		return state.Change{}, &fault.Error{Op: "roll back", Object: dataset, Side: fault.SideConfig, Kind: fault.Usage,
			Err:  fmt.Errorf("version %d is above the published %d, and waits for an approval", to, d.pointer.Version),
			Hint: "Accept it with: mirror approve " + dataset}
	}
	// Asked before anything is written down: a decision that cannot be carried out is none.
	if pruned, err := state.CheckPruned(ctx, o.Docs, dataset, to); err != nil || pruned {
		return state.Change{}, errors.Join(err, prunedError(dataset, to, pruned))
	}
	change, err := o.decide(ctx, state.Decision{Dataset: dataset, Action: state.ActionRollback, Version: to})
	if err == nil && change.After != nil && change.After.Version != to {
		var pruned bool
		if pruned, err = state.CheckPruned(ctx, o.Docs, dataset, to); err == nil {
			err = prunedError(dataset, to, pruned)
		}
	}
	return change, err
}

// mayLeadTo reports whether a rollback may lead readers to a version: one below the published one, one
// that they were led away from, or one to which the rules lead by themselves. What is held above the
// published version is for an approval, which says what it accepts.
func (d known) mayLeadTo(to manifest.Number, onMajor manifest.OnMajor) bool {
	if to <= d.pointer.Version || !d.pointer.LeftAt(to).IsZero() {
		return true
	}
	var upTo []manifest.Candidate
	for _, c := range d.candidates {
		if n := c.Record().Version; n <= to {
			held, _ := d.holding.Find(n)
			upTo = append(upTo, c.Candidate(held))
		}
	}
	target, _ := manifest.NextPublication(manifest.Published{Version: d.pointer.Version, Schema: d.pointer.SchemaVersion}, upTo, onMajor)
	return target == to
}

func prunedError(dataset string, n manifest.Number, pruned bool) error {
	if !pruned {
		return nil
	}
	return &fault.Error{Op: "roll back", Object: dataset, Side: fault.SideConfig, Kind: fault.Usage,
		Err: fmt.Errorf("the files of version %d were pruned", n), Hint: "Readers stay where they are."}
}

// Retire ends the mirroring of a dataset until it is approved again: no pass asks the feed about it,
// and its absence there is no failure. Everything that is mirrored stays, and so do its readers.
func Retire(ctx context.Context, o DecideOptions, dataset string) (state.Change, error) {
	d, err := loadDataset(ctx, o.Docs, dataset)
	if err != nil {
		return state.Change{}, err
	}
	retired, err := d.retired(ctx, o.Docs)
	if err != nil {
		return state.Change{}, err
	}
	if retired {
		return state.Change{}, &fault.Error{Op: "retire", Object: dataset, Side: fault.SideConfig, Kind: fault.Usage,
			Err: errors.New("it is retired already"), Hint: "mirror status shows the datasets. mirror approve takes one up again."}
	}
	decision := state.Decision{Dataset: dataset, Action: state.ActionRetire}
	if d.pointer != nil {
		decision.Version = d.pointer.Version
	}
	return o.decide(ctx, decision)
}

// retired reports whether no pass asks the feed about a dataset: its pointer says so, or a decision
// where nothing is published.
func (d known) retired(ctx context.Context, docs state.Documents) (bool, error) {
	if d.pointer != nil {
		return d.pointer.Retired, nil
	}
	pending, err := state.PendingDecisions(ctx, docs, d.dataset, nil)
	return state.Retires(pending), err
}

// wholeVersions lists the newest versions that a rollback can lead to.
func wholeVersions(holding manifest.Holding) string {
	var list []string
	for _, held := range holding {
		if held.Record && !held.Pruned {
			list = append(list, strconv.FormatInt(int64(held.Number), 10))
		}
	}
	const most = 20
	if extra := len(list) - most; extra > 0 {
		list = append([]string{"..."}, list[extra:]...)
	}
	return strings.Join(list, ", ")
}

func (o DecideOptions) decide(ctx context.Context, decision state.Decision) (state.Change, error) {
	now := o.Now()
	decision.Who, decision.Reason, decision.At, decision.Run = o.Who, o.Reason, now, o.Run
	owed := state.Owed{Dataset: decision.Dataset, Reason: string(decision.Action), Since: now, Run: o.Run, Decision: true}
	if err := state.Owe(ctx, o.Docs, o.Pause, owed); err != nil {
		return state.Change{}, err
	}
	key, err := state.WriteDecision(ctx, o.Docs, decision)
	if err != nil {
		return state.Change{}, err
	}
	change, err := Obey(ctx, o.Docs, o.Pause, decision.Dataset, state.NamedDecision{Key: key, Decision: decision}, o.OnMajor, now)
	if err != nil && ctx.Err() == nil {
		err = &fault.Error{Op: string(decision.Action), Object: decision.Dataset, Side: fault.SideOf(err), Kind: fault.KindOf(err), Err: err,
			Hint: strings.TrimSpace("The decision is written down: the next pass carries it out where it can. " + fault.HintOf(err))}
	}
	if err == nil && change.Moved() {
		err = o.show(ctx, decision.Dataset)
	}
	return change, err
}

// show brings the tables up to date with a pointer that a decision moved.
func (o DecideOptions) show(ctx context.Context, dataset string) error {
	if o.Tables == nil {
		return nil
	}
	own, err := showOwn(ctx, o.Tables, dataset)
	shared := sharedOutcome{}
	if err == nil {
		var progress []tables.Progress
		if progress, err = progressOf(ctx, o.Docs, dataset); err == nil {
			shared, err = showShared(ctx, o.Tables, progress, o.Run)
		}
	}
	if err != nil {
		return &fault.Error{Op: "write tables", Object: dataset, Side: fault.SideOf(err), Kind: fault.KindOf(err), Err: err,
			Hint: strings.TrimSpace("The decision is carried out; current/ shows it, and the next pass writes the tables. " + fault.HintOf(err))}
	}
	if own.damaged {
		o.Log.Warn().Str("dataset", dataset).Msg(own.reason)
	}
	for _, err := range append(append(own.warnings, shared.damaged...), shared.warnings...) {
		o.Log.Warn().Err(err).Str("dataset", dataset).Msg("a table is not as it should be")
	}
	return nil
}

// progressOf reads how far a dataset has come; nothing while nothing of it is published.
func progressOf(ctx context.Context, r bucket.Reader, dataset string) ([]tables.Progress, error) {
	pointer, _, err := state.Read[state.Pointer](ctx, r, manifest.PointerKey(dataset))
	if err != nil || pointer == nil {
		return nil, err
	}
	holding, err := state.LoadHolding(ctx, r, dataset)
	return []tables.Progress{tables.ProgressOf(pointer, holding)}, err
}

// Obey carries out a decision that stands.
func Obey(ctx context.Context, docs state.Documents, pause state.Pause, dataset string, decision state.NamedDecision, onMajor manifest.OnMajor, now time.Time) (state.Change, error) {
	var err error
	for range maxReadings {
		var change state.Change
		if change, err = tryObey(ctx, docs, pause, dataset, decision, onMajor, now); !errors.Is(err, state.ErrPointerMoved) {
			return change, err
		}
	}
	return state.Change{}, pointerKeepsMoving(dataset, err)
}

func tryObey(ctx context.Context, docs state.Documents, pause state.Pause, dataset string, decision state.NamedDecision, onMajor manifest.OnMajor, now time.Time) (state.Change, error) {
	d, err := loadDataset(ctx, docs, dataset)
	if err != nil {
		return state.Change{}, err
	}
	publication := state.Publication{Dataset: dataset, Holding: d.holding, OnMajor: onMajor, FirstReady: true, Seen: revisionOf(d.pointer), Now: now}
	if decision.Action == state.ActionRollback {
		target, err := state.Recall(ctx, docs, dataset, decision.Version)
		if err != nil {
			return state.Change{}, err
		}
		below := &state.Pointer{Version: decision.Version}
		if publication.Committed, err = gatherCandidates(d.holding, below, d.recall(ctx, docs)); err != nil {
			return state.Change{}, err
		}
		return publication.Rollback(ctx, docs, pause, decision.Key, target)
	}
	if decision.Action == state.ActionRetire {
		return publication.Retire(ctx, docs, pause, decision.Key)
	}
	if d.pointer == nil && decision.Hold == nil {
		return state.Change{}, nil // it ended a retirement before anything was published; a pass publishes
	}
	publication.Committed = d.candidates
	return publication.Approve(ctx, docs, pause, decision.Key, decision.Decision)
}

// known is what the bucket says of a dataset.
type known struct {
	dataset    string
	holding    manifest.Holding
	pointer    *state.Pointer
	candidates []state.Committed
}

func loadDataset(ctx context.Context, docs state.Documents, dataset string) (known, error) {
	d := known{dataset: dataset}
	var err error
	// The pointer comes first: its revision then says whether anything decided since is unknown here.
	if d.pointer, _, err = state.Read[state.Pointer](ctx, docs, manifest.PointerKey(dataset)); err != nil {
		return d, err
	}
	if d.holding, err = state.LoadHolding(ctx, docs, dataset); err != nil {
		return d, err
	}
	if len(d.holding) == 0 {
		return d, &fault.Error{Op: "read dataset", Object: dataset, Side: fault.SideBucket, Kind: fault.Usage,
			Err: fmt.Errorf("the bucket has no such dataset"), Hint: "mirror status lists the datasets."}
	}
	if err = state.ReadNotes(ctx, docs, dataset, d.holding, 0); err != nil {
		return d, err
	}
	d.candidates, err = gatherCandidates(d.holding, d.pointer, d.recall(ctx, docs))
	return d, err
}

func (d known) recall(ctx context.Context, docs state.Documents) func(manifest.Number) (state.Committed, error) {
	return func(n manifest.Number) (state.Committed, error) {
		committed, err := state.Recall(ctx, docs, d.dataset, n)
		return committed.Brief(), err
	}
}

// hold returns what the pointer waits for, also where nothing is published yet.
func (d known) hold(onMajor manifest.OnMajor) *manifest.Hold {
	if d.pointer != nil {
		if d.pointer.Held == nil {
			return nil
		}
		hold := d.pointer.Held.Hold
		return &hold
	}
	list := make([]manifest.Candidate, 0, len(d.candidates))
	for _, c := range d.candidates {
		held, _ := d.holding.Find(c.Record().Version)
		list = append(list, c.Candidate(held))
	}
	_, hold := manifest.NextPublication(manifest.Published{}, list, onMajor)
	return hold
}

package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// worker brings one dataset up to date.
type worker struct {
	*pass
	target  target
	log     zerolog.Logger
	line    state.Line
	holding manifest.Holding
	pointer *state.Pointer
	listed  []manifest.Version // the chain that the feed lists, in version order
	// chainKnown tells that the list was read to its end.
	chainKnown bool
	current    manifest.Number // the feed's current version; zero when it did not say

	committed recalled
	failed    map[manifest.Number]bool
	expired   map[manifest.Number]bool // committed versions that the feed no longer has, by its retention
	refused   refusals
	notices   []state.Notice
	owe       string // why the dataset stays owed; empty when it does not
	oweFull   bool   // what is owed lies below the newest record
	bad       bool   // a failure was told
	changed   bool   // a version was committed, published or flagged
	fence     bool   // a version was flagged, and the pointer not swapped since
	shown     int64  // revision of the pointer that the dataset's own tables were brought up to
	footers   *versionFooters
	leftAlone bool // a decision retires it, which only counts while nothing is published
	undecided bool // an operator's command owes it and has not written its decision yet
}

// work brings one dataset up to date and reports who else is at it. after is what an earlier try
// in this pass met.
func (p *pass) work(ctx context.Context, t target, after *state.BusyError) *state.BusyError {
	w := &worker{
		pass: p, target: t, current: t.current, line: p.lineOf(t.dataset),
		log:    p.Log.With().Str("dataset", t.dataset).Logger(),
		failed: map[manifest.Number]bool{}, footers: &versionFooters{recent: &p.footersOfChanges},
	}
	holder, err := p.take(ctx, t.dataset, after)
	var busy *state.BusyError
	if errors.As(err, &busy) {
		return busy
	}
	if err != nil {
		w.end(ctx, err)
		if ctx.Err() == nil && fault.Is(err, fault.Denied) {
			p.abort(unfitBucket(err))
		}
		w.finish()
		return nil
	}
	leased, stop := holder.Keep(ctx)
	w.run(leased)
	if err := w.show(leased); err != nil { // whatever ended the work: the tables follow the pointer
		w.end(leased, err)
	}
	stop()
	release, cancel := lasting(ctx, 3*time.Second)
	defer cancel()
	if err := holder.Release(release); err != nil {
		w.log.Warn().Err(err).Msg("the lease could not be given back; it expires by itself")
	}
	w.finish()
	p.writeSharedIfDue(ctx)
	return nil
}

func (p *pass) take(ctx context.Context, dataset string, after *state.BusyError) (*state.Holder, error) {
	if after != nil {
		p.Observer.Stage(dataset, fmt.Sprintf("waiting for the lease of run %s to expire", after.Lease.Owner))
		return p.leases.AcquireAfter(ctx, after)
	}
	return p.leases.Acquire(ctx, dataset)
}

// run goes through the stages. What fails is told where it fails; only what ends the dataset's
// work comes back here.
func (w *worker) run(ctx context.Context) {
	if err := w.load(ctx); err != nil {
		w.end(ctx, err)
		return
	}
	if w.retired() {
		return // a person decided that the feed is not asked about it
	}
	err := w.list(ctx)
	if err == nil {
		err = w.checkHeld(ctx)
	}
	if err == nil {
		err = w.publish(ctx) // what an earlier pass committed: readers need not wait for the next version
	}
	if err == nil {
		err = w.copyAll(ctx)
	}
	// Whatever ended the listing or the copying: what is committed is published.
	if publishErr := w.publish(ctx); err == nil {
		err = publishErr
	}
	if err != nil {
		w.end(ctx, err)
	}
}

// load reads what the bucket holds of the dataset, and finishes decisions that stand.
func (w *worker) load(ctx context.Context) error {
	w.Observer.Stage(w.target.dataset, "reading what is held")
	if err := w.read(ctx); err != nil {
		return err
	}
	w.expired = map[manifest.Number]bool{}
	for _, held := range w.holding {
		if held.Record && w.line.Expired.Has(held.Number) {
			w.expired[held.Number] = true
		}
	}
	if w.pointer != nil && !w.target.owed && !w.target.full {
		return nil
	}
	return w.obeyPending(ctx)
}

// obeyPending finishes decisions that stand. A retirement that was taken back is none any more.
func (w *worker) obeyPending(ctx context.Context) error {
	if err := w.expectDecision(ctx); err != nil { // asked first: what is written after it stays owed
		return err
	}
	pending, err := state.PendingDecisions(ctx, w.Store, w.target.dataset, w.pointer)
	if err != nil {
		return err
	}
	w.leftAlone = state.Retires(pending)
	for at, decision := range pending {
		if decision.Action == state.ActionRetire && at < len(pending)-1 {
			continue
		}
		change, err := Obey(ctx, w.Store, w.Pause, w.target.dataset, decision, w.OnMajor, w.Now())
		if err != nil {
			return err
		}
		if change.After != nil {
			w.moved(change)
		}
	}
	return nil
}

// expectDecision finds out whether an operator's command that owes the dataset has written its
// decision. One that died before it did is not waited for longer than a full pass takes to come: that
// finds every decision, owed or not.
func (w *worker) expectDecision(ctx context.Context) error {
	if w.seen == nil {
		return nil
	}
	at := slices.IndexFunc(w.seen.Owed, func(o state.Owed) bool { return o.Dataset == w.target.dataset && o.Decision })
	if at < 0 || w.Now().Sub(w.seen.Owed[at].Since) >= w.FullEvery {
		return nil
	}
	made, err := state.HasDecision(ctx, w.Store, w.target.dataset, w.seen.Owed[at].Run)
	w.undecided = !made
	return err
}

// retired reports whether the feed is not asked about the dataset, by a decision.
func (w *worker) retired() bool {
	if w.pointer == nil {
		return w.leftAlone
	}
	return w.pointer.Retired
}

func (w *worker) read(ctx context.Context) error {
	var err error
	// The pointer comes first: its revision then says whether anything decided since is unknown here.
	if w.pointer, _, err = state.Read[state.Pointer](ctx, w.Store, manifest.PointerKey(w.target.dataset)); err != nil {
		return err
	}
	if w.holding, err = state.LoadHolding(ctx, w.Store, w.target.dataset); err != nil {
		return err
	}
	from := manifest.Number(0)
	if w.pointer != nil && !w.target.full {
		from = w.pointer.Version
	}
	return state.ReadNotes(ctx, w.Store, w.target.dataset, w.holding, from)
}

// list reads the chain above what is held; the whole chain where there is reason to compare it.
func (w *worker) list(ctx context.Context) error {
	w.Observer.Stage(w.target.dataset, "listing versions")
	newest := w.holding.NewestRecord(manifest.MaxNumber + 1)
	after := newest
	for _, held := range w.holding {
		if held.Claimed && !held.Record && !held.Gone && held.Number <= after {
			after = held.Number - 1 // a pass that failed on it died before it could say so
			break
		}
	}
	if w.target.full {
		after = 0
	}
	if w.current == 0 {
		item, err := w.Feed.Dataset(ctx, w.target.dataset)
		if err != nil {
			return err
		}
		w.current, w.target.since = item.Current, item.PublishedAt
	}
	w.line.FeedCurrent = w.current
	seen := map[manifest.Number]bool{}
	err := w.Feed.Versions(ctx, w.target.dataset, after, func(v manifest.Version) error {
		switch {
		case seen[v.Number]:
			return w.malformed(v.Number, "the list of versions names it twice")
		case v.Previous >= v.Number:
			return w.malformed(v.Number, fmt.Sprintf("its previousVersion %d is not lower", v.Previous))
		}
		seen[v.Number] = true
		w.listed = append(w.listed, v)
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(w.listed, func(a, b manifest.Version) int { return int(a.Number - b.Number) })
	if w.current == 0 && len(w.listed) > 0 {
		w.current = w.listed[len(w.listed)-1].Number
	}
	w.chainKnown = true
	return nil
}

func (w *worker) malformed(n manifest.Number, what string) error {
	return &fault.Error{Op: "read version", Object: w.target.dataset, Side: fault.SideFeed, Kind: fault.Malformed,
		Dataset: w.target.dataset, Version: int64(n), Err: fmt.Errorf("version %d: %s", n, what),
		Hint: "The feed's answer cannot be used; nothing was changed. Report it to Ploti with the dataset and version."}
}

// copyAll copies and commits what the chain has and the bucket lacks, oldest first, and publishes
// after each version.
func (w *worker) copyAll(ctx context.Context) error {
	work := manifest.PlanWork(w.listed, w.holding, manifest.PlanOptions{
		History: w.History, Current: w.current, Full: w.target.full, FeedNow: w.feedNow})
	w.refused.plan(work, w.feedNow)
	for _, step := range steps(work) {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := w.copyStep(ctx, step); err != nil {
			return err
		}
	}
	w.expectCurrent()
	return nil
}

// expectCurrent keeps the dataset owed while the feed calls a version current that its own list of
// versions lacks: the list may lag, and the version's time is behind the watermark by the next pass.
func (w *worker) expectCurrent() {
	n := w.line.FeedCurrent
	held, _ := w.holding.Find(n)
	if n <= w.newestListed() || n <= w.holding.NewestRecord(manifest.MaxNumber+1) || held.Gone {
		return
	}
	w.tally.note(Note{Dataset: w.target.dataset, Version: int64(n), Kind: "not-listed", Message: "the feed calls it current, but does not list it yet; the next pass asks again"})
	w.oweFor("the current version is not listed yet", w.target.full)
}

// step is one version to copy; facts is nil for one that the list does not name.
type step struct {
	number manifest.Number
	facts  *manifest.Version
}

func steps(work manifest.Work) []step {
	var list []step
	for _, v := range work.Copy {
		list = append(list, step{v.Number, &v})
	}
	for _, n := range work.Ask {
		list = append(list, step{n, nil})
	}
	slices.SortFunc(list, func(a, b step) int { return int(a.number - b.number) })
	return list
}

// copyStep copies one version. It returns an error only when the dataset's work has to end: what
// is wrong with this one version is told, and later versions go on.
func (w *worker) copyStep(ctx context.Context, s step) error {
	w.footers.forget()
	committed, err := w.copyVersion(ctx, s)
	if fault.Is(err, fault.Gone) {
		committed, err = w.goneVersion(ctx, s, err)
	}
	if err != nil {
		return w.afterFailure(ctx, s, err)
	}
	if committed == nil {
		return nil // noted as gone
	}
	n := s.number
	held, _ := w.holding.Find(n)
	held.Number, held.Record, held.Claimed, held.Gone = n, true, true, false
	w.holding = w.holding.With(held)
	w.committed.remember(*committed, w.pointer)
	w.changed = true
	w.touch()
	w.tally.update(func(r *Report) { r.Versions.Committed++ })
	w.log.Info().Int64("version", int64(n)).Int("files", len(committed.Record().Files)).Int64("attachments", committed.Record().Attachments.Count).Msg("committed")
	return w.publish(ctx)
}

// afterFailure decides what one version's failure means for the rest of the dataset.
func (w *worker) afterFailure(ctx context.Context, s step, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch fault.KindOf(err) {
	case fault.Missing, fault.Malformed, fault.WrongBytes, fault.Conflict, fault.History:
	case fault.NotFound:
		if fault.SideOf(err) == fault.SideSource {
			break // a link that leads nowhere: as good as missing
		}
		if fault.SideOf(err) != fault.SideFeed {
			return err
		}
		err = &fault.Error{Op: "read version", Object: w.target.dataset, Side: fault.SideFeed, Kind: fault.NotFound, Err: err,
			Dataset: w.target.dataset, Version: int64(s.number), Hint: "unknown-version: the feed names a version that it does not know. Nothing was written; ask Ploti."}
	default:
		return err
	}
	w.failed[s.number] = true
	w.fail(s.number, err)
	return nil
}

// end tells what ended the dataset's work, and what else it ends.
func (w *worker) end(ctx context.Context, err error) {
	if cause := context.Cause(ctx); ctx.Err() != nil {
		w.oweFor("interrupted", w.target.full)
		if fault.Is(cause, fault.Conflict) { // the lease was lost; the new owner goes on
			w.tally.update(func(r *Report) { r.Datasets.Busy++ })
			w.tally.note(Note{Dataset: w.target.dataset, Kind: "busy", Message: cause.Error()})
		}
		return
	}
	switch fault.KindOf(err) {
	case fault.NotSubscribed:
		w.notSubscribed()
		return
	case fault.Rebuilding, fault.Budget:
		w.tally.stop()
		w.tally.note(Note{Dataset: w.target.dataset, Kind: string(fault.KindOf(err)), Message: err.Error()})
		w.oweFor(string(fault.KindOf(err)), w.target.full)
		return
	case fault.NotFound:
		if fault.SideOf(err) == fault.SideFeed && w.holding.NewestRecord(manifest.MaxNumber+1) == 0 && !w.listedByFeed() {
			w.line.State, w.line.Message = "unknown", "the feed does not know it"
			return
		}
	case fault.BucketUnfit, fault.NoSpace:
		w.abort(unfitBucket(err))
	case fault.Denied, fault.FeedUnfit:
		if endsPass(err) {
			w.abort(unfitFeed(err))
		}
	}
	w.fail(0, err)
}

func (w *worker) listedByFeed() bool { return w.target.current != 0 || len(w.listed) > 0 }

func (w *worker) notSubscribed() {
	w.line.State = "not-subscribed"
	w.line.Message = "no subscription delivers it; what is mirrored stays"
	w.tally.update(func(r *Report) { r.Datasets.NotSubscribed++ })
	if w.holding.NewestRecord(manifest.MaxNumber+1) != 0 {
		w.tally.note(Note{Dataset: w.target.dataset, Kind: "not-subscribed", Message: w.line.Message})
	}
}

// fail tells of a failure and keeps the dataset owed.
func (w *worker) fail(n manifest.Number, err error) {
	w.bad = true
	f := failureOf(w.target.dataset, int64(n), err)
	w.tally.fail(f)
	w.line.Message = f.Message
	w.oweFor("failed", w.target.full || (n != 0 && n < w.newestListed()))
	event := w.log.Error().Err(err)
	if f.Version != 0 {
		event = event.Int64("version", f.Version)
	}
	if f.Hint != "" {
		event = event.Str("hint", f.Hint)
	}
	event.Msg("failed")
}

func (w *worker) newestListed() manifest.Number {
	if len(w.listed) == 0 {
		return 0
	}
	return w.listed[len(w.listed)-1].Number
}

func (w *worker) oweFor(reason string, full bool) {
	if w.owe == "" {
		w.owe = reason
	}
	w.oweFull = w.oweFull || full
}

package mirror

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// Run makes one pass: every dataset that moved at the feed, or is owed, is brought up to date. It
// returns a report whatever happened.
func Run(ctx context.Context, o Options) Report {
	p := newPass(o)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.abort = cancel
	fatal := p.run(ctx)
	switch {
	case stopped(ctx):
		fatal = nil // it failed because it was told to stop
	case fatal == nil:
		fatal = p.fatalCause(ctx) // told already by the worker that met it
	default:
		p.tally.fail(failureOf("", 0, fatal))
	}
	p.tally.finish(ctx, fatal)
	p.close(ctx)
	return *p.tally.report
}

// pass is one run of the mirror over the datasets of its filter and shard.
type pass struct {
	Options
	tally    tally
	leases   *state.Leases
	kept     *semaphore.Weighted // bytes of manifests in memory
	abort    context.CancelCauseFunc
	seen     *state.Shard // as it stood when the pass began; nil at the first
	seenTag  bucket.Tag
	full     bool
	begun    bool      // every dataset of the list is owed, or one that workAll gets to or leaves
	doubtful bool      // the list is empty although the bucket has datasets: it settles nothing
	feedNow  time.Time // by the feed's own clock; zero when it does not send it
	next     time.Time // the watermark for the next pass
	leftOut  []string  // subscribed datasets that the filter leaves out; a full pass knows them
	// refusedByName counts datasets that the list lacks, and that the feed refused or could not
	// answer for by name.
	refusedByName int

	mu       sync.Mutex
	lines    []state.Line
	owed     []state.Owed
	finished []string
	recent   []state.Recent
	touched  bool // something was committed, published, noted or decided
	waiting  waitingTables

	footersOfChanges recentFooters
}

func newPass(o Options) *pass {
	started := o.Now()
	if o.ManifestMemory == 0 {
		o.ManifestMemory = defaultManifestMemory
	}
	p := &pass{Options: o, kept: semaphore.NewWeighted(o.ManifestMemory)}
	p.footersOfChanges.stored.Reader = o.Store
	p.leases = &state.Leases{Docs: o.Store, Owner: o.Run, Host: o.Host, TTL: o.LeaseTTL, Now: o.Now, Pause: o.Pause}
	p.tally.report = &Report{Run: o.Run, Tool: o.Tool, Pass: "incremental", Started: started, Failures: []Failure{}, Held: []HeldDataset{}, Notes: []Note{}}
	return p
}

func (p *pass) run(ctx context.Context) error {
	layout, err := state.LoadLayout(ctx, p.Store)
	if err != nil {
		return unfitBucket(err)
	}
	if err := p.checkLayout(layout); err != nil {
		return err
	}
	if p.seen, p.seenTag, err = state.LoadShard(ctx, p.Store, p.shard()); err != nil {
		return unfitBucket(err)
	}
	p.full = p.Full || p.seen == nil || p.Now().Sub(p.seen.LastFull) >= p.FullEvery
	if p.full {
		p.tally.report.Pass = "full"
	}
	targets, err := p.selectTargets(ctx)
	if err != nil {
		return err
	}
	if err := p.prepareBucket(ctx, layout); err != nil {
		return err
	}
	// Until here nothing may be written down: a pass that ends earlier has looked at no dataset,
	// and a document that says otherwise would hide all of them until the next full pass.
	if p.full && len(targets) > 0 {
		if err := p.oweAll(ctx, targets); err != nil {
			return unfitBucket(err)
		}
	}
	p.begun = true
	err = p.workAll(ctx, targets)
	p.finishShared(ctx)
	return err
}

// workAll works on all targets, several at a time. Datasets that another run holds are tried once
// more at the end: a run that died leaves its lease behind.
func (p *pass) workAll(ctx context.Context, targets []target) error {
	busy := make([]*state.BusyError, len(targets))
	var group errgroup.Group
	group.SetLimit(max(p.AtOnce, 1))
	for at, t := range targets {
		group.Go(func() error {
			if ctx.Err() != nil {
				p.leave(t, "not reached")
				return nil
			}
			busy[at] = p.work(ctx, t, nil)
			return nil
		})
	}
	_ = group.Wait() // the workers keep their errors in the tally
	for at, was := range busy {
		if was == nil {
			continue
		}
		if ctx.Err() != nil {
			p.leave(targets[at], "not reached")
			continue
		}
		if still := p.work(ctx, targets[at], was); still != nil {
			p.busy(targets[at], still)
		}
	}
	return nil
}

// stopped reports whether a signal or a budget ended the pass.
func stopped(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, ErrInterrupted) || errors.Is(cause, ErrTerminated) || errors.Is(cause, ErrBudget)
}

// fatalCause returns what a worker ended the whole pass with; nil when nothing or a signal did.
func (p *pass) fatalCause(ctx context.Context) error {
	cause := context.Cause(ctx)
	switch fault.KindOf(cause) {
	case fault.Usage, fault.BucketUnfit, fault.FeedUnfit:
		return cause
	}
	return nil
}

// oweAll writes down, before a full pass begins, that every dataset is owed: a pass that is cut
// short goes on where it stopped.
func (p *pass) oweAll(ctx context.Context, targets []target) error {
	progress := p.progress()
	progress.Watermark = p.next
	for _, t := range targets {
		progress.Owed = append(progress.Owed, state.Owed{Dataset: t.dataset, Reason: "full pass", Full: true, Since: p.tally.report.Started, Run: p.Run})
	}
	shard, tag, err := state.SaveShard(ctx, p.Store, p.Pause, progress)
	if err != nil {
		return err
	}
	p.seen, p.seenTag = shard, tag
	return nil
}

func (p *pass) progress() state.Progress {
	progress := state.Progress{
		ID: p.shard(), Run: p.Run, Seen: p.seen, SeenTag: p.seenTag, Attempt: p.tally.report.Started,
		Owed: p.owed, Finished: p.finished, Recent: p.recent, Lines: p.lines, Watermark: p.next, LeftOut: p.leftOut,
	}
	switch {
	case p.full && !p.doubtful:
		progress.LastFull = p.tally.report.Started
	case p.seen != nil:
		progress.LastFull = p.seen.LastFull
	}
	return progress
}

// close saves what the pass achieved, under a context of its own: a pass that was told to stop
// must still give back what it knows.
func (p *pass) close(ctx context.Context) {
	report := p.tally.report
	report.Seconds = p.Now().Sub(report.Started).Seconds()
	report.Requests = p.Requests.Counts()
	ctx, cancel := lasting(ctx, 5*time.Second)
	defer cancel()
	if report.Exit == ExitUsage || report.Exit == ExitBucket || !p.begun {
		return // nothing was done, or nothing may be written
	}
	progress := p.progress()
	progress.Exit, progress.Success = report.Exit, report.Exit == ExitDone
	if _, _, err := state.SaveShard(ctx, p.Store, p.Pause, progress); err != nil {
		p.tally.fail(failureOf("", 0, unsaved(p.shard().Key(), err)))
		report.Exit, report.Status = max(report.Exit, ExitFailed), "failed"
	}
	if p.touched || len(report.Failures) > 0 {
		p.keepReport(ctx)
	}
	report.Requests = p.Requests.Counts()
}

// unsaved tells what could not be saved, where the error does not.
func unsaved(key string, err error) error {
	if fault.KindOf(err) != "" {
		return err
	}
	return &fault.Error{Op: "save what the pass achieved", Object: key, Side: fault.SideBucket, Kind: fault.Transient, Err: err,
		Hint: "Nothing is lost: the next pass looks at the same datasets again."}
}

func (p *pass) keepReport(ctx context.Context) {
	body, err := manifest.EncodeDocument(p.tally.report)
	if err == nil {
		_, _, err = state.CreateOnce(ctx, p.Store, reportKey(p.tally.report.Started, p.Run), body)
	}
	if err != nil {
		p.Log.Warn().Err(err).Msg("the run's report could not be kept in the bucket")
	}
}

// leave notes a dataset as owed that this pass did not get to.
func (p *pass) leave(t target, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owed = append(p.owed, state.Owed{Dataset: t.dataset, Reason: reason, Full: t.full, Since: p.tally.report.Started, Run: p.Run})
	p.tally.update(func(r *Report) { r.Datasets.Owed++ })
}

func (p *pass) busy(t target, b *state.BusyError) {
	p.leave(t, "another run works on it")
	p.tally.update(func(r *Report) { r.Datasets.Busy++ })
	p.tally.note(Note{Dataset: t.dataset, Kind: "busy", Message: b.Error()})
}

// unfitBucket marks an error of the very first requests as one of the bucket as a whole.
func unfitBucket(err error) error {
	switch fault.KindOf(err) {
	case fault.Usage, fault.Malformed, fault.Budget:
		return err
	case fault.BucketUnfit:
		if fault.HintOf(err) != "" {
			return err
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &fault.Error{Op: "use bucket", Side: fault.SideBucket, Kind: fault.BucketUnfit, Err: err, Hint: hintOr(err,
		"Check the bucket's name, region and credentials; mirror doctor says what is missing.")}
}

func hintOr(err error, otherwise string) string {
	if hint := fault.HintOf(err); hint != "" {
		return hint
	}
	return otherwise
}

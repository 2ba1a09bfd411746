package transfer

import (
	"context"

	"golang.org/x/time/rate"
)

// Engine copies files for all jobs of a pass. It holds no goroutines while no job runs.
type Engine struct {
	opts    Options
	limiter *rate.Limiter // nil: no limit
	buffers buffers
	slots   *slots
}

// New returns an engine.
func New(opts Options) *Engine {
	opts = opts.withDefaults()
	e := &Engine{opts: opts}
	if opts.Bandwidth > 0 {
		e.limiter = rate.NewLimiter(rate.Limit(opts.Bandwidth), max(streamBuffer, int(min(opts.Bandwidth/10, smallFile))))
	}
	e.slots = newSlots(opts.Concurrency, func(t *task) { go e.work(t) })
	return e
}

// Copy copies the files of a job and calls done once for each that ended, one call at a time.
// Files that fail are counted and do not keep others from being copied. The error is not nil
// when the job could not go on: the context ended, the sequence yielded an error, the feed
// refused to sign, or the bucket is full or closed to us; the summary then tells how far it got.
// Copy returns when no goroutine of the job is left. Many jobs may run at once.
func (e *Engine) Copy(ctx context.Context, work Job, done func(File, Outcome)) (Summary, error) {
	jobCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if done == nil {
		done = func(File, Outcome) {}
	}
	j := &job{Job: work, engine: e, ctx: jobCtx, stop: stop, done: done, wake: make(chan struct{}, 1)}
	j.pace = pace{workers: e.opts.Concurrency, lifetime: work.Lifetime}
	if j.pace.lifetime <= 0 {
		j.pace.lifetime = standardLife
	}
	e.slots.add(j)
	defer e.slots.remove(j)
	err := j.feed()
	if err != nil {
		stop(err)
		for j.drop() {
			<-j.wake
		}
	} else if ctx.Err() == nil {
		err = context.Cause(jobCtx) // the last file's error stopped the job
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.summary, err
}

// work runs a file and then others, as long as there are any.
func (e *Engine) work(t *task) {
	for t != nil {
		outcome := e.copyFile(t)
		stopped := t.job.ctx.Err() != nil
		if stopsJob(outcome.Err) {
			t.job.stop(outcome.Err)
		}
		t.job.finish(t, outcome, stopped && outcome.Status == Failed)
		t = e.slots.next(t)
	}
}

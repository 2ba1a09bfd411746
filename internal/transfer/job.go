package transfer

import (
	"context"
	"iter"
	"sync"
	"time"
)

// job is a Job at work: its files between the sequence and the workers, and their links.
type job struct {
	Job
	engine *Engine
	ctx    context.Context //nolint:containedctx // workers serve many jobs; the context belongs to the job
	stop   context.CancelCauseFunc
	wake   chan struct{} // the feeding loop has something to do; capacity 1

	paused int // files that gave their worker back for a while; guarded by the slots' mutex

	report sync.Mutex // held while done is called, so that callers need no lock of their own
	done   func(File, Outcome)

	mu      sync.Mutex
	pace    pace
	summary Summary
	small   queue   // not started
	big     queue   // not started
	fresh   []*task // never signed, in order; started or not
	renew   []*task // workers wait for a new link
	waiting int     // started files among fresh
	ready   int     // signed files that are not started
	pending int     // pulled and not finished
	begun   bool    // a worker took a file
	ended   bool    // the sequence is
	pulled  int64   // files so far; the next one's order
}

// pop returns the next file to start of the sizes that may start, nil when there is none.
func (j *job) pop(smallAllowed, largeAllowed bool) *task {
	j.mu.Lock()
	defer j.mu.Unlock()
	var from *queue
	if smallAllowed && j.small.len() > 0 {
		from = &j.small
	}
	if largeAllowed && j.big.len() > 0 && (from == nil || j.big.head().order < j.small.head().order) {
		from = &j.big
	}
	if from == nil {
		return nil
	}
	t := from.pop()
	t.started = true
	if !j.begun {
		j.begun = true
		j.pace.begin(j.engine.opts.Now())
	}
	switch t.state {
	case unsigned:
		j.waiting++
	case signed:
		j.ready--
	case asked:
	}
	j.wakeIfDueLocked()
	return t
}

// finish books the end of a file. One that was given up because its job stopped is not reported:
// nothing is known against it.
func (j *job) finish(t *task, outcome Outcome, abandoned bool) {
	if !abandoned {
		j.report.Lock()
		j.done(t.File, outcome)
		j.report.Unlock()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !abandoned {
		j.summary.add(t.File, outcome)
	}
	j.pace.end(j.engine.opts.Now())
	j.pending--
	if t.state == unsigned { // it ended before it was signed: its job was stopped
		j.waiting--
	}
	if j.pending == 0 {
		j.signal()
		return
	}
	j.wakeIfDueLocked()
}

func (j *job) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

func (j *job) wakeIfDueLocked() {
	if j.dueLocked(j.engine.opts.Now()) {
		j.signal()
	}
}

// dueLocked reports whether links should be asked for now: a worker waits for one, or the files
// with a link are about to run out.
func (j *job) dueLocked(now time.Time) bool {
	return len(j.renew) > 0 || j.aheadLocked(now)
}

// aheadLocked reports whether files that never had a link should be signed now.
func (j *job) aheadLocked(now time.Time) bool {
	if j.waiting > 0 {
		return true
	}
	more := len(j.fresh) > 0 || !j.ended
	return j.begun && more && j.ready < j.pace.reserve(now)
}

// feed pulls files and has them signed until all have ended.
func (j *job) feed() error {
	next, stop := iter.Pull2(j.Files)
	defer stop()
	for {
		if err := j.fill(next); err != nil {
			return err
		}
		batch, over := j.take(j.engine.opts.Now())
		if over {
			return nil
		}
		if len(batch) > 0 {
			if err := j.sign(batch); err != nil {
				return err
			}
			continue
		}
		select {
		case <-j.wake:
		case <-j.ctx.Done():
			return context.Cause(j.ctx)
		}
	}
}

// fill pulls files until a whole batch waits to be signed, and hands them to the workers.
func (j *job) fill(next func() (File, error, bool)) error {
	j.mu.Lock()
	missing := j.pace.batch(j.engine.opts.Now()) - len(j.fresh)
	ended := j.ended
	j.mu.Unlock()
	if ended || missing <= 0 {
		return nil
	}
	files := make([]*task, 0, missing)
	for range missing {
		file, err, ok := next()
		if err != nil {
			return err
		}
		if !ok {
			ended = true
			break
		}
		files = append(files, &task{File: file, job: j})
	}
	j.enqueue(files, ended)
	j.engine.slots.dispatch()
	return nil
}

func (j *job) enqueue(files []*task, ended bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = ended
	j.pending += len(files)
	j.fresh = append(j.fresh, files...)
	for _, t := range files {
		t.order = j.pulled
		j.pulled++
		if t.large() {
			j.big.push(t)
		} else {
			j.small.push(t)
		}
	}
}

// drop empties the queues of a stopped job and reports whether workers still hold files of it.
func (j *job) drop() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending -= j.small.len() + j.big.len()
	j.small, j.big, j.ready = queue{}, queue{}, 0
	return j.pending > 0
}

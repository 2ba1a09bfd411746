package transfer

import (
	"context"
	"sync"
	"time"
)

// slots shares the workers among jobs: free ones go to the jobs in turn, a file at a time, and
// some are kept from large files, so that neither many nor huge files of one dataset keep
// another waiting.
type slots struct {
	mu     sync.Mutex
	free   int // workers that may be started
	large  int // large files that may be started
	small  int // small files that may be started
	paused int // files that gave their worker back for a while
	// maxPaused bounds them: each holds a goroutine and perhaps a buffer. Beyond it a file keeps
	// its worker while it waits. A job starts no file while half as many of its own are paused,
	// or one whose every file answers 404 would have all of them under way.
	maxPaused int
	resuming  []*resume
	jobs      []*job
	turn      int
	start     func(*task) // runs a task in a goroutine of its own
}

// resume is a file whose pause is over and that waits for a worker.
type resume struct {
	task    *task
	granted chan struct{}
}

func newSlots(workers int, start func(*task)) *slots {
	// Small files have workers beside those that large ones fill: taken off instead, they would
	// cost bandwidth where the connections are what limits it.
	return &slots{
		free: workers + smallWorkers(workers), large: workers, small: workers, maxPaused: 2 * workers, start: start,
	}
}

// smallWorkers returns how many workers beyond the number asked for take small files while all
// of that number hold large ones.
func smallWorkers(workers int) int { return max(1, workers/8) }

// roomLocked returns the counter for files of t's size.
func (s *slots) roomLocked(t *task) *int {
	if t.large() {
		return &s.large
	}
	return &s.small
}

func (s *slots) add(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs = append(s.jobs, j)
}

func (s *slots) remove(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.jobs {
		if other == j {
			s.jobs = append(s.jobs[:i], s.jobs[i+1:]...)
			if s.turn > i {
				s.turn--
			}
			return
		}
	}
}

// dispatch starts what can be started.
func (s *slots) dispatch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dispatchLocked()
}

func (s *slots) dispatchLocked() {
	for s.free > 0 {
		t := s.pickLocked()
		if t == nil {
			return
		}
		s.start(t)
	}
}

// next gives back the worker that ran t and takes it again for the task returned; nil when
// there is none.
func (s *slots) next(t *task) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveLocked(t)
	if s.free <= 0 {
		return nil
	}
	return s.pickLocked()
}

// pickLocked takes a worker for the next task: files whose pause is over first, then the jobs
// in turn. A file that resumes gets its worker here and is not returned.
func (s *slots) pickLocked() *task {
	for i := 0; i < len(s.resuming) && s.free > 0; {
		waiting := s.resuming[i]
		if *s.roomLocked(waiting.task) <= 0 {
			i++
			continue
		}
		s.resuming = append(s.resuming[:i], s.resuming[i+1:]...)
		s.takeLocked(waiting.task)
		close(waiting.granted)
	}
	if s.free <= 0 {
		return nil
	}
	for i := range s.jobs {
		at := (s.turn + i) % len(s.jobs)
		if s.jobs[at].paused >= s.maxPaused/2 {
			continue
		}
		if t := s.jobs[at].pop(s.small > 0, s.large > 0); t != nil {
			s.turn = (at + 1) % len(s.jobs)
			s.takeLocked(t)
			return t
		}
	}
	return nil
}

func (s *slots) takeLocked(t *task) {
	s.free--
	*s.roomLocked(t)--
}

func (s *slots) giveLocked(t *task) {
	s.free++
	*s.roomLocked(t)++
}

// pause sleeps for the duration and lends t's worker to others meanwhile. It returns with a
// worker again, or with the context's error; in both cases the caller gives the worker back.
func (s *slots) pause(ctx context.Context, t *task, duration time.Duration) error {
	s.mu.Lock()
	if s.paused >= s.maxPaused {
		s.mu.Unlock()
		return sleep(ctx, duration)
	}
	s.paused++
	t.job.paused++
	s.giveLocked(t)
	s.dispatchLocked()
	s.mu.Unlock()

	err := sleep(ctx, duration)

	waiting := &resume{task: t, granted: make(chan struct{})}
	s.mu.Lock()
	s.paused--
	t.job.paused--
	if err != nil {
		s.takeLocked(t) // for a moment there may be one too many; the caller ends now
		s.mu.Unlock()
		return err
	}
	s.resuming = append(s.resuming, waiting)
	s.dispatchLocked()
	s.mu.Unlock()
	select {
	case <-waiting.granted:
		return nil
	case <-ctx.Done():
		s.withdraw(waiting)
		return context.Cause(ctx)
	}
}

// withdraw takes a worker for a file that stops waiting, unless it was granted one just now.
func (s *slots) withdraw(waiting *resume) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.resuming {
		if other == waiting {
			s.resuming = append(s.resuming[:i], s.resuming[i+1:]...)
			s.takeLocked(waiting.task)
			return
		}
	}
}

// sleep returns after the duration, or earlier with the context's cause.
func sleep(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

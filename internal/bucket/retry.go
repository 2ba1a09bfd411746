package bucket

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"feedmirror/internal/fault"
)

// Policy is how often and how fast a request to a bucket is sent again. The zero value is usable.
type Policy struct {
	Attempts int           // tries of one request in all; 0: 5
	Initial  time.Duration // about the first pause; 0: 200 ms
	Longest  time.Duration // about the longest pause; 0: 20 s
	// Retries counts repeated requests; nil: not counted.
	Retries *atomic.Int64
	// Now and Sleep are replaced in tests; nil: the real ones.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// longestRetryAfter is how long a store may make us wait; a longer wish ends the request with the
// store's error, since sending earlier would break the wish.
const longestRetryAfter = 5 * time.Minute

// sameKeyFloor is what a store that answered 429 or 503 gets between two writes of one key: GCS
// allows one a second and says 429, others say 503, and instant retries keep hitting the limit.
const sameKeyFloor = time.Second

// Retryable reports whether err is worth the same request once more.
func Retryable(err error) bool { return fault.Is(err, fault.Transient) }

// Do calls try until it succeeds, fails with an error for which again is false, the attempts are
// used up, or the next pause would outlast ctx; the last error of try is returned. try gets the
// number of the attempt, from 1.
func (p Policy) Do(ctx context.Context, again func(error) bool, try func(attempt int) error) error {
	pauses := p.pauses()
	for attempt := 1; ; attempt++ {
		err := try(attempt)
		if err == nil || attempt >= p.attempts() || !again(err) {
			return err
		}
		if p.pause(ctx, pauses, err) != nil {
			return err
		}
	}
}

// pause waits before the next attempt, no less than the server asked for.
func (p Policy) pause(ctx context.Context, pauses *backoff.ExponentialBackOff, cause error) error {
	floor := fault.RetryAfter(cause)
	if floor > longestRetryAfter {
		return cause
	}
	if err := p.wait(ctx, max(pauses.NextBackOff(), floor)); err != nil {
		return err
	}
	if p.Retries != nil {
		p.Retries.Add(1)
	}
	return nil
}

func (p Policy) attempts() int {
	if p.Attempts <= 0 {
		return 5
	}
	return p.Attempts
}

func (p Policy) pauses() *backoff.ExponentialBackOff {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval = 200 * time.Millisecond
	pauses.MaxInterval = 20 * time.Second
	pauses.Multiplier = 2
	if p.Initial > 0 {
		pauses.InitialInterval = p.Initial
	}
	if p.Longest > 0 {
		pauses.MaxInterval = p.Longest
	}
	pauses.Reset()
	return pauses
}

func (p Policy) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

// wait sleeps for d, or refuses at once when ctx would end before: the caller's time is better
// spent on saving its state.
func (p Policy) wait(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d <= 0 {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && p.now().Add(d).After(deadline) {
		return context.DeadlineExceeded
	}
	if p.Sleep != nil {
		return p.Sleep(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// floors remembers which keys a store was too busy for, and until when they rest.
type floors struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// busy are the statuses with which stores limit how often; 403 is one of Cloud Storage's.
func busy() []int {
	return []int{http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusForbidden}
}

func (f *floors) note(key string, err error, now time.Time) {
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.Transient || !slices.Contains(busy(), e.Status) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.until == nil {
		f.until = make(map[string]time.Time)
	}
	for other, until := range f.until {
		if !until.After(now) {
			delete(f.until, other)
		}
	}
	f.until[key] = now.Add(sameKeyFloor)
}

func (f *floors) left(key string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.until[key].Sub(now)
}

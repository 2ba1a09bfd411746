package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cenkalti/backoff/v5"

	"feedmirror/internal/fault"
)

// policy decides whether and when a call is tried again. It is the only place that retries.
type policy struct {
	attempts int
	tried    int
	longest  time.Duration
	pauses   *backoff.ExponentialBackOff
}

func newPolicy(options Options) *policy {
	pauses := backoff.NewExponentialBackOff()
	pauses.Multiplier = 2
	pauses.MaxInterval = 30 * time.Second
	pauses.Reset()
	return &policy{attempts: options.Attempts, longest: options.Limits.Wait, pauses: pauses}
}

// next returns how long to wait after err, or the error to give up with.
func (p *policy) next(ctx context.Context, err error) (time.Duration, error) {
	p.tried++
	if !worthRetry(err) {
		return 0, err
	}
	if p.tried >= p.attempts {
		return 0, giveUp(err, fmt.Sprintf("gave up after %d tries", p.tried))
	}
	asked := fault.RetryAfter(err)
	wait := max(p.pauses.NextBackOff(), asked)
	if wait > p.longest {
		return 0, giveUp(err, fmt.Sprintf("the feed asks to wait %s, longer than the %s this client waits", wait, p.longest))
	}
	if deadline, ok := ctx.Deadline(); ok {
		if left := time.Until(deadline); wait > left {
			return 0, giveUp(err, fmt.Sprintf("the next try is due in %s, but only %s are left of this run",
				wait.Round(time.Millisecond), max(left, 0).Round(time.Millisecond)))
		}
	}
	return wait, nil
}

// worthRetry reports whether another try can help: the connection or the server broke, or the
// answer ended in its middle.
func worthRetry(err error) bool {
	return fault.Is(err, fault.Transient) || errors.Is(err, io.ErrUnexpectedEOF)
}

// giveUp adds why no further try is made, and keeps everything else of err.
func giveUp(err error, why string) error {
	var place *fault.Error
	if !errors.As(err, &place) {
		return fmt.Errorf("%w (%s)", err, why)
	}
	last := *place
	if last.Err == nil {
		last.Err = fmt.Errorf("status %d", last.Status)
	}
	last.Err = fmt.Errorf("%w (%s)", last.Err, why)
	return &last
}

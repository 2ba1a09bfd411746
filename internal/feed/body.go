package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

var (
	errIdle = errors.New("the server went silent")
	errSlow = errors.New("the server sends less than the least rate")
)

// idleTimer cancels a request when the server sends nothing for too long. It runs only while the
// client waits for the server: a slow consumer of an answer is not the server's fault.
type idleTimer struct {
	limit time.Duration
	timer *time.Timer
}

func newIdleTimer(limit time.Duration, cancel context.CancelCauseFunc) *idleTimer {
	timer := time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w for %s", errIdle, limit)) })
	timer.Stop()
	return &idleTimer{limit: limit, timer: timer}
}

func (t *idleTimer) start() { t.timer.Reset(t.limit) }
func (t *idleTimer) pause() { t.timer.Stop() }
func (t *idleTimer) stop()  { t.timer.Stop() }

// tooLargeError says that an answer passed its bound.
type tooLargeError struct{ limit int64 }

func (e tooLargeError) Error() string {
	return fmt.Sprintf("the answer is larger than %d bytes", e.limit)
}

// minRate, in bytes a second on average over rateWindow of waiting, is less than any server sends
// that still works. Without it a drip of bytes, none of them late, would hold a pass for days.
const minRate = 1024

// guardedBody bounds a body in bytes, in silence and in slowness. A failed read is kept apart from
// what a decoder makes of it: whatever the connection's error is, another try is worth it.
type guardedBody struct {
	from   io.Reader
	left   int64
	limit  int64
	idle   *idleTimer
	clock  func() time.Time
	window time.Duration // over which the rate is judged
	failed error

	waited time.Duration // in this window
	came   int64         // bytes, likewise
}

// Read implements io.Reader.
func (b *guardedBody) Read(p []byte) (int, error) {
	if b.failed != nil {
		return 0, b.failed
	}
	began := b.clock()
	b.idle.start()
	n, err := b.from.Read(p)
	b.idle.pause()
	if int64(n) > b.left {
		return 0, tooLargeError{b.limit}
	}
	b.left -= int64(n)
	if err == nil {
		err = b.rate(n, b.clock().Sub(began))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed = err
	}
	return n, err
}

// rate adds a read to the window and judges the window when it is full.
func (b *guardedBody) rate(n int, took time.Duration) error {
	b.waited += took
	b.came += int64(n)
	if b.waited < b.window {
		return nil
	}
	rate := int64(float64(b.came) / b.waited.Seconds())
	if rate < minRate {
		return fmt.Errorf("%w: %d bytes/s over %s, %d wanted", errSlow, rate, b.waited.Round(time.Millisecond), minRate)
	}
	b.waited, b.came = 0, 0
	return nil
}

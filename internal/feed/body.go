package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

var errIdle = errors.New("the server went silent")

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

// guardedBody bounds a body in bytes and in silence. A failed read is kept apart from what a
// decoder makes of it: whatever the connection's error is, another try is worth it.
type guardedBody struct {
	from   io.Reader
	left   int64
	limit  int64
	idle   *idleTimer
	failed error
}

// Read implements io.Reader.
func (b *guardedBody) Read(p []byte) (int, error) {
	b.idle.start()
	n, err := b.from.Read(p)
	b.idle.pause()
	if int64(n) > b.left {
		return 0, tooLargeError{b.limit}
	}
	b.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed = err
	}
	return n, err
}

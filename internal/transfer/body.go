package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

var (
	errSilent = errors.New("the source sent nothing for too long")
	errSlow   = errors.New("the source is slower than the least rate")
)

// body is an answer's body under watch: a read that gets nothing for too long, or bytes that
// come too slowly on average, end the connection. Only time spent waiting for the source counts,
// so that a slow bucket is not taken for a slow source. There is no limit on the whole.
type body struct {
	response *http.Response
	cancel   context.CancelCauseFunc
	ctx      context.Context //nolint:containedctx // the request's own; its cause tells why a read ended
	idle     *time.Timer
	opts     *Options
	moved    string // the host that redirects led to, "" for none
	err      error  // sticky

	windowTime  time.Duration
	windowBytes int64
}

// send sends a request under watch. The answer's body must be closed.
func (e *Engine) send(request *http.Request) (*body, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	b := &body{ctx: ctx, cancel: cancel, opts: &e.opts}
	b.idle = time.AfterFunc(e.opts.IdleTimeout, func() {
		cancel(fmt.Errorf("%w: %s", errSilent, e.opts.IdleTimeout))
	})
	e.opts.Counts.Requests.Add(1)
	response, err := e.opts.HTTP.RoundTrip(request.WithContext(ctx)) //nolint:bodyclose // closed by body.close
	b.idle.Stop()
	if err != nil {
		err = b.reason(err)
		cancel(nil)
		return nil, err
	}
	b.response = response
	return b, nil
}

// Read reads from the source.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	began := b.opts.Now()
	b.idle.Reset(b.opts.IdleTimeout)
	n, err := b.response.Body.Read(p)
	b.idle.Stop()
	b.opts.Counts.Bytes.Add(int64(n))
	switch {
	case err == io.EOF:
		b.err = io.EOF
	case err != nil:
		b.err = b.reason(err)
	default:
		b.err = b.rate(n, b.opts.Now().Sub(began))
	}
	if n > 0 {
		return n, nil // the error is met by the next read
	}
	return 0, b.err
}

// rate adds a read to the window and judges the window when it is full.
func (b *body) rate(n int, took time.Duration) error {
	b.windowTime += took
	b.windowBytes += int64(n)
	if b.windowTime < b.opts.RateWindow {
		return nil
	}
	rate := int64(float64(b.windowBytes) / b.windowTime.Seconds())
	if rate < b.opts.MinRate {
		return fmt.Errorf("%w: %d bytes/s over %s, %d wanted",
			errSlow, rate, b.windowTime.Round(time.Second), b.opts.MinRate)
	}
	b.windowTime, b.windowBytes = 0, 0
	return nil
}

// reason returns why a request or read ended.
func (b *body) reason(err error) error {
	if cause := context.Cause(b.ctx); cause != nil {
		return cause
	}
	return err
}

// whence says what kind of answer bytes came with, for messages.
func (b *body) whence() string {
	text := mediaType(b.response)
	if encoding := contentEncoding(b.response); encoding != "" {
		text += ", encoded as " + encoding
	}
	if b.moved != "" {
		text += ", after a redirect to " + b.moved
	}
	return text
}

// drainLimit is how much of an unwanted body is read to keep its connection.
const drainLimit = 16 << 10

// drain reads and returns the beginning of a body that is not wanted.
func (b *body) drain() []byte {
	text, err := io.ReadAll(io.LimitReader(b, drainLimit))
	if err != nil {
		return nil // an unwanted body that breaks off has nothing to say
	}
	return text
}

func (b *body) close() {
	b.idle.Stop()
	b.cancel(nil)
	_ = b.response.Body.Close() // only read from: closing it can lose nothing
}

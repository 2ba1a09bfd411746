package transfer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"feedmirror/internal/fault"
)

const (
	// maxWrong is how often a file may come with other bytes than named: each time can cost the
	// whole download.
	maxWrong = 3
	// maxRefused is how often in a row a link may be refused: once it may have expired, a fresh
	// one that is refused too will not be accepted the fifth time either.
	maxRefused = 2
	// maxUnsatisfied is how often a resume may meet 416.
	maxUnsatisfied = 2
	// longestBackoff bounds the pauses that grow; a Retry-After can be longer.
	longestBackoff = 30 * time.Second
)

// errRestart says that a file has to be fetched from byte zero again. What it costs was booked.
var errRestart = errors.New("start over")

// fetch is one file's dealings with the source: which link, from where on, and how many tries
// are left. All tries of a file are counted here and nowhere else.
type fetch struct {
	engine *Engine
	task   *task
	ctx    context.Context //nolint:containedctx // of the current try; a stream has no other way to it
	held   bool            // a write to the bucket is open: the worker cannot be lent
	stale  bool            // the link was refused or gave wrong bytes
	etag   string          // of the answer that the stream began with

	tries       int // failed, since the last progress
	refused     int // in a row
	wrong       int
	unsatisfied int
	furthest    int64 // the highest offset ever reached
}

// open returns a body that begins at offset. It tries until it has one, the tries are used up,
// or the file has to be started over (errRestart).
func (f *fetch) open(offset int64) (*body, error) {
	for {
		l, err := f.task.job.link(f.ctx, f.task, f.stale)
		if err != nil {
			return nil, err
		}
		f.stale = false
		b, p := f.request(l, offset)
		if p == nil {
			f.refused = 0
			return b, nil
		}
		if err := f.spend(p); err != nil {
			return nil, err
		}
		if offset > 0 && (p.verdict == restart || p.verdict == wrong) {
			return nil, errRestart
		}
	}
}

// request asks for the bytes from offset on and judges the answer.
func (f *fetch) request(l link, offset int64) (*body, *problem) {
	b, p := f.follow(l, offset)
	if p != nil {
		return nil, p
	}
	if p := judge(b, offset, f.task.Size, f.etag); p != nil {
		b.close()
		return nil, p
	}
	if offset == 0 {
		f.etag = strongETag(b.response.Header)
	}
	return b, nil
}

// describe adds what a request to the source says beside its address.
func (f *fetch) describe(request *http.Request, offset int64) {
	request.Header.Set("Accept-Encoding", "identity")
	request.Header.Set("User-Agent", f.engine.opts.UserAgent)
	if offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		if f.etag != "" {
			request.Header.Set("If-Range", f.etag)
		}
	}
}

// connectProblem judges a request that got no answer.
func connectProblem(err error) *problem {
	p := &problem{verdict: again, kind: fault.Transient, cause: err, hint: hintAgain}
	var certificate *tls.CertificateVerificationError
	var address *RefusedAddressError
	var host *RefusedHostError
	switch {
	case errors.As(err, &address):
		p.verdict, p.kind = final, fault.Denied
		p.hint = "If links lead into your own network on purpose, name its range with --allow-private-links."
	case errors.As(err, &host):
		p.verdict, p.kind = final, fault.Denied
		p.hint = "If links lead to this host on purpose, name it with --links-hosts."
	case errors.As(err, &certificate):
		p.verdict, p.kind = final, fault.Denied
		p.hint = "If a proxy of yours signs certificates, name its authority with --ca-file."
	}
	return p
}

// broken judges a body that ended too early, at got bytes.
func (f *fetch) broken(got int64, err error) error {
	if step := max(256<<10, f.task.Size/1000); got-f.furthest >= step {
		f.tries = 0 // it moves: a large file on a bad line may break often
		f.furthest = got
	}
	p := &problem{
		verdict: again, kind: fault.Transient, hint: hintAgain,
		cause: fmt.Errorf("body broke at byte %d of %d: %w", got, f.task.Size, err),
	}
	if errors.Is(err, io.EOF) {
		// A clean end too early is a proxy that hides a broken connection, or a file that is
		// shorter than named. A resume tells one from the other.
		p.kind, p.hint = fault.WrongBytes, hintBytes
		p.cause = fmt.Errorf("the source ends the body at byte %d of %d", got, f.task.Size)
		f.stale = true
	}
	return f.spend(p)
}

// spend books a failed try and waits for the next one. It returns the file's error when there
// is none left.
func (f *fetch) spend(p *problem) error {
	if f.ctx.Err() != nil {
		return context.Cause(f.ctx)
	}
	if f.book(p) {
		return f.fault(p)
	}
	if p.after > f.engine.opts.MaxWait {
		p.cause = fmt.Errorf("%w; asked to wait %s, which is longer than we do", p.cause, p.after)
		return f.fault(p)
	}
	f.engine.opts.Counts.Retries.Add(1)
	f.stale = f.stale || p.verdict == renew || p.verdict == renewLater || p.verdict == wrong
	return f.wait(p)
}

// book counts a failed try and reports whether it was the last.
func (f *fetch) book(p *problem) bool {
	f.tries++
	over := f.tries >= f.engine.opts.Attempts
	switch p.verdict {
	case renew:
		f.refused++
		over = over || f.refused >= maxRefused
	case wrong:
		f.wrong++
		over = over || f.wrong >= maxWrong
	case restart:
		if p.status == http.StatusRequestedRangeNotSatisfiable {
			f.unsatisfied++
			over = over || f.unsatisfied >= maxUnsatisfied
		}
	case final:
		over = true
	case accepted, again, renewLater:
	}
	return over
}

// wait pauses before the next try: a refused link or a body to start over is answered at once.
func (f *fetch) wait(p *problem) error {
	if p.verdict == renew || p.verdict == restart {
		return nil
	}
	pause := max(f.engine.backoff(f.tries, p.verdict == renewLater), p.after)
	if f.held {
		return sleep(f.ctx, pause)
	}
	return f.engine.slots.pause(f.ctx, f.task, pause)
}

// backoff doubles with each try, a quarter up or down by chance so that files that failed
// together do not come back together. A file that is not there gets twice the time.
func (e *Engine) backoff(tries int, long bool) time.Duration {
	pause := e.opts.Backoff << min(tries-1, 16)
	if long {
		pause *= 2
	}
	pause = min(pause, longestBackoff)
	return time.Duration(float64(pause) * (0.75 + rand.Float64()/2)) //nolint:gosec // jitter, not a secret
}

// fault is the file's error.
func (f *fetch) fault(p *problem) error {
	cause := p.cause
	if f.tries > 1 {
		cause = fmt.Errorf("%w (try %d)", cause, f.tries)
	}
	return &fault.Error{
		Op: "fetch file", Object: f.task.Name, Side: fault.SideSource, Kind: p.kind, Status: p.status,
		After: p.after, Hint: p.hint, Dataset: f.task.job.Dataset, Version: int64(f.task.job.Version), Err: cause,
	}
}

package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// call is one question to the feed. Its answer may take several requests.
type call struct {
	op      string // verb noun, for errors
	method  string
	path    []string // segments below /v1/feeds/datasets
	query   url.Values
	body    []byte
	dataset string
	version manifest.Number
	limit   int64         // bytes of a good answer
	count   *atomic.Int64 // where requests are counted
}

// answer is a response with status 200 and a JSON body.
type answer struct {
	body     io.Reader // bounded; fails on silence
	date     time.Time // the server's Date, or zero
	received time.Time // when the headers were there
}

// visitError carries a caller's own error through the retries untouched.
type visitError struct{ error }

// do sends a call and hands its answer to read, again after every failure that is worth it. read
// must therefore cope with being called more than once.
func (c *Client) do(ctx context.Context, call call, read func(answer) error) error {
	policy := newPolicy(c.options)
	session := &session{client: c, call: call}
	for {
		err := session.try(ctx, read)
		var own visitError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &own):
			return own.error
		case ctx.Err() != nil:
			return fmt.Errorf("%s %s: %w", call.op, call.object(), context.Cause(ctx))
		}
		wait, err := policy.next(ctx, err)
		if err != nil {
			return err
		}
		if err := c.options.Sleep(ctx, wait); err != nil {
			return fmt.Errorf("%s %s: %w", call.op, call.object(), err)
		}
	}
}

// session is one call's tries: a key that the feed refused is replaced at most once in all of them.
type session struct {
	client *Client
	call   call
	reread bool
}

func (s *session) try(ctx context.Context, read func(answer) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := newIdleTimer(s.client.options.Limits.Idle, cancel)
	defer idle.stop()
	response, key, err := s.open(ctx, idle)
	if err != nil {
		return s.call.transport(ctx, err)
	}
	defer drain(response, idle)
	body := &guardedBody{
		from: response.Body, left: s.call.limit, limit: s.call.limit, idle: idle,
		clock: s.client.options.Clock, window: s.client.options.Limits.Idle,
	}
	if response.StatusCode != http.StatusOK {
		return s.refused(ctx, response, body, key)
	}
	if kind := response.Header.Get("Content-Type"); !isJSON(kind) {
		return s.call.malformed(fmt.Errorf("the answer is %s, not JSON", describe(kind)))
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return s.call.malformed(fmt.Errorf("the answer is encoded as %s though none was asked for", describe(encoding)))
	}
	err = read(answer{body: body, date: parseDate(response.Header.Get("Date")), received: s.client.options.Clock()})
	if body.failed != nil && !errors.As(err, new(visitError)) {
		return s.call.transport(ctx, body.failed)
	}
	return s.call.wrap(err)
}

// open sends the request, once more with the key read anew when the feed refuses the one held,
// and returns the key that was used last.
func (s *session) open(ctx context.Context, idle *idleTimer) (*http.Response, string, error) {
	key, err := s.client.apiKey("")
	if err != nil {
		return nil, "", err
	}
	response, err := s.send(ctx, key, idle)
	if err != nil || response.StatusCode != http.StatusUnauthorized || s.reread {
		return response, key, err
	}
	drain(response, idle)
	s.reread = true
	if key, err = s.client.apiKey(key); err != nil {
		return nil, "", err
	}
	second, err := s.send(ctx, key, idle)
	return second, key, err
}

func (s *session) send(ctx context.Context, key string, idle *idleTimer) (*http.Response, error) {
	target := s.client.base.JoinPath(append([]string{"v1", "feeds", "datasets"}, s.call.path...)...)
	target.RawQuery = s.call.query.Encode()
	request, err := http.NewRequestWithContext(ctx, s.call.method, target.String(), bytes.NewReader(s.call.body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Accept-Encoding", "identity")
	request.Header.Set("User-Agent", s.client.options.UserAgent)
	if s.call.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	s.call.count.Add(1)
	idle.start()
	defer idle.pause()
	return s.client.http.RoundTrip(request)
}

// drain leaves the connection usable when little is left of the body and comes at once, and closes it.
func drain(response *http.Response, idle *idleTimer) {
	idle.start() // it cancels the request when nothing more comes
	defer idle.pause()
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10) // a failure only costs the connection
	_ = response.Body.Close()
}

// object names what is asked about, as errors show it.
func (c call) object() string {
	if c.version != 0 {
		return c.dataset + " version " + strconv.FormatInt(int64(c.version), 10)
	}
	return c.dataset
}

func (c call) fault(kind fault.Kind, err error) *fault.Error {
	return &fault.Error{
		Op: c.op, Object: c.object(), Side: fault.SideFeed, Kind: kind,
		Dataset: c.dataset, Version: int64(c.version), Err: err,
	}
}

// againHint is what to do about a feed that is busy or cannot be reached.
const againHint = "Nothing was lost: the next run asks again. Check the way out to the network if it goes on."

// spoiledHint is what to do about an answer that cannot be used, whoever spoiled it.
const spoiledHint = "A proxy between the mirror and the feed may change answers; else report it to Ploti. Nothing was lost: the next run asks again."

func (c call) malformed(err error) error {
	out := c.fault(fault.Malformed, err)
	out.Hint = spoiledHint
	return out
}

// wrap gives an error of a reader its place. Errors that are settled already pass.
func (c call) wrap(err error) error {
	if err == nil || errors.As(err, new(visitError)) || errors.As(err, new(*fault.Error)) {
		return err
	}
	return c.malformed(err)
}

func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json"))
}

func describe(contentType string) string {
	if contentType == "" {
		return "without a content type"
	}
	return strconv.Quote(clip(contentType, 100))
}

func parseDate(text string) time.Time {
	date, err := http.ParseTime(text)
	if err != nil {
		return time.Time{} // a missing or odd Date is no reason to refuse an answer
	}
	return date
}

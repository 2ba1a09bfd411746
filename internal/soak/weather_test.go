package soak_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// weather says how much goes wrong now. It changes, so that there are times in which work gets done and
// times in which nothing does.
type weather struct {
	chance *chance
	mu     sync.Mutex
	level  float64 // probability that a request goes wrong
}

// next draws what comes now: calm, some accidents, or a storm.
func (w *weather) next() {
	levels := []float64{0, 0.02, 0.05, 0.05, 0.1, 0.3}
	drawn := levels[w.chance.number(len(levels))]
	w.mu.Lock()
	defer w.mu.Unlock()
	w.level = drawn
}

// clear ends all accidents.
func (w *weather) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.level = 0
}

// strikes reports whether an accident that is one of n happens to a request.
func (w *weather) strikes(n int) bool {
	w.mu.Lock()
	level := w.level
	w.mu.Unlock()
	return level > 0 && w.chance.hits(level/float64(n))
}

// feedNoise lets answers of the feed and its links go wrong for as long as the weather does. It returns
// how many did.
func feedNoise(feed *feedsim.Feed, sky *weather) func() int {
	wait := http.Header{"Retry-After": {"1"}}
	api := []feedsim.Fault{
		feedsim.Status(http.StatusTooManyRequests, wait, ""), feedsim.Status(http.StatusServiceUnavailable, nil, "busy"),
		feedsim.Status(http.StatusInternalServerError, nil, `{"error":"oops"}`), feedsim.HTML(), feedsim.Status(http.StatusOK, nil, `{"versions":[`),
		feedsim.Drop(-1), feedsim.Drop(20), feedsim.Truncate(30, feedsim.TruncateChunked), feedsim.Stall(10, nil, time.Second),
		feedsim.Refuse(http.StatusUnauthorized, "unauthorized", "The key is not known."),
	}
	version := []feedsim.Fault{
		feedsim.Refuse(http.StatusGone, "expired", "This version is past retention."), feedsim.Refuse(http.StatusNotFound, "not_found", "There is no such version."),
		feedsim.WrongLinks(), feedsim.WrongHashes(),
	}
	links := []feedsim.Fault{
		feedsim.Drop(-1), feedsim.Drop(700), feedsim.FlipByte(100), feedsim.FlipByte(0), feedsim.FlipByte(1000), feedsim.FlipByte(-1), feedsim.ExpireLink(), feedsim.Truncate(300, feedsim.TruncateShortLength),
		feedsim.WrongContentRange(), feedsim.IgnoreRange(), feedsim.OtherETag(), feedsim.Append("more"), feedsim.Gzip(), feedsim.HTML(),
		feedsim.Status(http.StatusForbidden, nil, ""), feedsim.Status(http.StatusNotFound, nil, ""), feedsim.Status(http.StatusServiceUnavailable, wait, ""),
		feedsim.Stall(200, nil, 2*time.Second), feedsim.SlowDrip(4 << 10),
	}
	var counts []func() int
	script := func(rule feedsim.Rule, faults []feedsim.Fault) {
		rule.Times, rule.Match = feedsim.Always, func(feedsim.Request) bool { return sky.strikes(len(faults)) }
		for _, fault := range faults {
			counts = append(counts, feed.Script(rule, fault))
		}
	}
	script(feedsim.Rule{Side: feedsim.SideAPI}, api)
	script(feedsim.Rule{Side: feedsim.SideAPI, Path: "/versions/"}, version)
	script(feedsim.Rule{Side: feedsim.SideLinks}, links)
	// An empty list is an alarm, never an instruction.
	counts = append(counts, feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Resource: "-", Times: feedsim.Always,
		Match: func(r feedsim.Request) bool { return r.Dataset == "" && sky.strikes(4) }}, feedsim.Status(http.StatusOK, nil, `{"datasets":[],"nextCursor":null}`)))
	return func() int {
		sum := 0
		for _, count := range counts {
			sum += count()
		}
		return sum
	}
}

// bucketNoise is a proxy before an S3 server that lets requests go wrong.
type bucketNoise struct {
	url     string
	sky     *weather
	forward *httputil.ReverseProxy
	count   atomic.Int64
}

func newBucketNoise(t *testing.T, server string, sky *weather) *bucketNoise {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	n := &bucketNoise{sky: sky, forward: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // which the signature covers
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		Transport:    transport,
	}}
	front := httptest.NewServer(n)
	t.Cleanup(func() { front.Close(); transport.CloseIdleConnections() })
	n.url = front.URL
	return n
}

// kinds is how many accidents ServeHTTP knows.
const kinds = 7

// ServeHTTP implements http.Handler.
func (n *bucketNoise) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for kind := range kinds {
		if n.sky.strikes(kinds) {
			n.count.Add(1)
			n.fail(w, r, kind)
			return
		}
	}
	n.forward.ServeHTTP(w, r)
}

func (n *bucketNoise) fail(w http.ResponseWriter, r *http.Request, kind int) {
	switch kind {
	case 0: // refused before it was done
		_, _ = io.Copy(io.Discard, r.Body) // a client that stopped sending reads no answer either
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
	case 1:
		_, _ = io.Copy(io.Discard, r.Body)
		refuse(w, http.StatusInternalServerError, "InternalError")
	case 2: // the connection ends before anything was done
		panic(http.ErrAbortHandler)
	case 3: // done, and told that it was not
		n.forward.ServeHTTP(httptest.NewRecorder(), r)
		refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable")
	case 4: // done, and the answer is lost
		n.forward.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case 5: // slow
		timer := time.NewTimer(n.sky.chance.between(100*time.Millisecond, 2*time.Second))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
		n.forward.ServeHTTP(w, r)
	default: // the answer breaks off in the middle
		answer := httptest.NewRecorder()
		n.forward.ServeHTTP(answer, r)
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		panic(http.ErrAbortHandler)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>not now</Message></Error>`, code)
}

// changing lets the weather change until the time is up.
func (w *weather) changing(ctx context.Context, every time.Duration) {
	for pause(ctx, every) {
		w.next()
	}
}

// pause waits, and reports whether there is time left.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// short returns the end of an output.
func short(output []byte) string {
	output = bytes.TrimSpace(output)
	return string(output[max(0, len(output)-1500):])
}

package e2e_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"feedmirror/internal/testservers"
)

// gate stands before a versitygw. It holds back one request when it is told to, and notes every
// pointer that was stored.
type gate struct {
	place place

	mu     sync.Mutex
	wanted func(r *http.Request, n int) bool // nil: nothing is to be held
	seen   int                               // requests since it was armed
	held   chan struct{}                     // closed when one is held
	open   chan struct{}                     // closed to let it go on
	passed chan struct{}                     // closed when it was answered
	moves  []move
}

// move is one pointer as it was stored.
type move struct {
	key string
	pointer
}

func newGate(t *testing.T) *gate {
	t.Helper()
	server := servers.VersityGW(t)
	target, err := url.Parse(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // signed
		},
		ErrorLog: log.New(io.Discard, "", 0), // clients that were killed are part of the tests
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, proxy) }))
	t.Cleanup(front.Close)
	t.Cleanup(g.letGo)
	behind := server
	behind.Endpoint = front.URL
	g.place = s3Place(t, behind)
	g.place.files = directly(t, server, g.place)
	return g
}

// directly reads a place past its proxy.
func directly(t *testing.T, server testservers.S3, at place) func(*testing.T) string {
	t.Helper()
	bucket, _, _ := strings.Cut(strings.TrimPrefix(at.url, "s3://"), "/")
	return below(func(t *testing.T, dir string) { server.Download(t, bucket, dir) })
}

func (g *gate) serve(w http.ResponseWriter, r *http.Request, proxy http.Handler) {
	body, err := io.ReadAll(r.Body) // all objects are small; a frozen client has sent its own
	if err != nil {
		return // the client is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if passed := g.hold(r); passed != nil {
		defer close(passed)
	}
	answer := &status{ResponseWriter: w, code: http.StatusOK}
	proxy.ServeHTTP(answer, r)
	if key, ok := keyOf(r.URL.Path); ok && r.Method == http.MethodPut && answer.code == http.StatusOK && strings.HasPrefix(key, "current/") {
		g.note(key, body)
	}
}

// hold waits where this is the request that is wanted.
func (g *gate) hold(r *http.Request) (passed chan struct{}) {
	g.mu.Lock()
	g.seen++
	if g.wanted == nil || !g.wanted(r, g.seen) {
		g.mu.Unlock()
		return nil
	}
	g.wanted = nil
	open, passed := g.open, g.passed
	close(g.held)
	g.mu.Unlock()
	<-open
	return passed
}

// arm makes the gate hold the first request that is wanted; n counts them from here, from 1.
func (g *gate) arm(wanted func(r *http.Request, n int) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wanted, g.seen = wanted, 0
	g.held, g.open, g.passed = make(chan struct{}), make(chan struct{}), make(chan struct{})
}

// letGo lets the request that is held go on, if there is one.
func (g *gate) letGo() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wanted = nil
	if g.open != nil {
		close(g.open)
		g.open = nil
	}
}

func (g *gate) note(key string, body []byte) {
	var p pointer
	if err := json.Unmarshal(body, &p); err != nil {
		p.Revision = -1 // the history will not be whole
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.moves = append(g.moves, move{key, p})
}

// history wants every pointer's revisions to be whole, and its version to go down by a rollback only.
func (g *gate) history(t *testing.T) (moves int) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	list := slices.Clone(g.moves)
	slices.SortFunc(list, func(a, b move) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.Revision, b.Revision)) })
	last := move{}
	for _, now := range list {
		if now.key != last.key {
			last = move{key: now.key}
		}
		if now.Revision != last.Revision+1 {
			t.Errorf("%s: revision %d follows %d", now.key, now.Revision, last.Revision)
		}
		if now.Version < last.Version && !now.Pinned {
			t.Errorf("%s went back from version %d to %d", now.key, last.Version, now.Version)
		}
		last = now
	}
	return len(list)
}

// waitHeld waits until a request is held; false when the run ended before.
func (g *gate) waitHeld(r *run) bool {
	r.t.Helper()
	ended := make(chan struct{})
	go func() { r.ended(); close(ended) }()
	select {
	case <-g.held:
		return true
	case <-ended:
		return false
	case <-time.After(time.Minute):
		r.t.Fatal("a minute passed before the request came")
		return false
	}
}

// keyOf returns the key below the mirror's prefix of a request's path.
func keyOf(path string) (string, bool) {
	_, key, ok := strings.Cut(path, "/"+prefix+"/")
	return key, ok
}

// puts matches writes of keys that begin and end so.
func puts(begin, end string) func(*http.Request, int) bool {
	return func(r *http.Request, _ int) bool {
		key, ok := keyOf(r.URL.Path)
		return ok && r.Method == http.MethodPut && strings.HasPrefix(key, begin) && strings.HasSuffix(key, end)
	}
}

// nth matches the n-th request, whatever it is.
func nth(n int) func(*http.Request, int) bool {
	return func(_ *http.Request, seen int) bool { return seen == n }
}

// status keeps the status that a proxy answered with.
type status struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap lets the proxy flush.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

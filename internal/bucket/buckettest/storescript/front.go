package storescript

import (
	"bytes"
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
)

// Request is a request as it came over the wire.
type Request struct {
	*http.Request
	Op   string // what is asked for, in the words of the front's Namer
	Key  string // object, or the prefix of a listing
	Body []byte
}

// Namer says what a request asks for.
type Namer func(r *http.Request) (op, key string)

// Action answers a request. next is the server behind the front.
type Action func(w http.ResponseWriter, r Request, next http.Handler)

// Rule is one fault: what it meets, and what it does.
type Rule struct {
	Ops  string               // names with spaces between; empty: all
	Key  string               // a part of the key; empty: all
	When func(r Request) bool // nil: always; called by one goroutine at a time
	Skip int                  // as many matching requests go on first
	Most int                  // as many are met at most; 0: no limit
	Do   Action
}

// Front meets requests with rules, the first that applies, and passes on the others. It is an
// http.Handler; its methods are safe for concurrent use.
type Front struct {
	next http.Handler
	name Namer

	mu    sync.Mutex
	rules []*armed
	seen  []Request
}

type armed struct {
	Rule
	matched, met int
}

// NewFront returns a front without rules.
func NewFront(next http.Handler, name Namer) *Front { return &Front{next: next, name: name} }

// Set replaces the rules, and forgets what was seen.
func (f *Front) Set(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules, f.seen = nil, nil
	for _, rule := range rules {
		f.rules = append(f.rules, &armed{Rule: rule})
	}
}

// Met returns how many requests the rules met since Set.
func (f *Front) Met() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	met := 0
	for _, rule := range f.rules {
		met += rule.met
	}
	return met
}

// Seen returns the requests since Set, without their bodies.
func (f *Front) Seen() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away; nobody reads an answer
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	asked := Request{Request: r, Body: body}
	asked.Op, asked.Key = f.name(r)
	f.remember(asked) //nolint:contextcheck // a clone of a request that is kept for the test
	if do := f.choose(asked); do != nil {
		do(w, asked, f.next)
		return
	}
	f.next.ServeHTTP(w, r)
}

func (f *Front) remember(asked Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, Request{Request: asked.Clone(asked.Context()), Op: asked.Op, Key: asked.Key})
}

func (f *Front) choose(asked Request) Action {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, rule := range f.rules {
		if !rule.applies(asked) {
			continue
		}
		rule.matched++
		if rule.matched <= rule.Skip || rule.Most > 0 && rule.met == rule.Most {
			continue
		}
		rule.met++
		return rule.Do
	}
	return nil
}

func (r *armed) applies(asked Request) bool {
	return (r.Ops == "" || slices.Contains(strings.Fields(r.Ops), asked.Op)) && strings.Contains(asked.Key, r.Key) &&
		(r.When == nil || r.When(asked))
}

// Start serves a front until the test ends and returns its address.
func Start(t testing.TB, front http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(front)
	server.Config.ErrorLog = quiet() // connections that are cut are part of the tests
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// Proxy passes requests on to a server, under the Host that the client named: it may be signed.
func Proxy(t testing.TB, address string) http.Handler {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 32, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &httputil.ReverseProxy{
		Transport: transport, ErrorLog: quiet(),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
	}
}

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

package mirror_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/bucket/buckettest/storescript"
	"feedmirror/internal/bucket/s3store"
	"feedmirror/internal/evidence"
)

// TestInterruptionsOnTheWireToS3 goes through the life of a bucket on S3 and interrupts it at its
// writes on the wire: puts and deletes, and the beginnings, parts and completions of what goes in parts.
func TestInterruptionsOnTheWireToS3(t *testing.T) {
	tally := evidence.Count(t, "interruptions-s3")
	services := map[*world]*storescript.S3{}
	open := func(t *testing.T, w *world, line *wire) *wire {
		if services[w] == nil {
			services[w] = storescript.NewS3(t, w.dir)
		}
		line.service = services[w]
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		store, err := s3store.New(t.Context(), s3store.Options{
			Bucket: "b", Endpoint: storescript.Start(t, line), Region: "eu-central-1", HTTPClient: &http.Client{Transport: transport},
			Credentials: storescript.Keys(), MaxSinglePut: 3 << 10, PartSize: 2 << 10, Retry: bucket.Policy{Sleep: w.pause},
		})
		if err != nil {
			t.Fatal(err)
		}
		line.Store = store
		return line
	}
	s3 := place{
		sound: func(t *testing.T, w *world) bucket.Store { return open(t, w, &wire{}) },
		interrupted: func(t *testing.T, w *world, nth int64, kind kind) interruption {
			return open(t, w, &wire{nth: nth, kind: kind})
		},
		bodied: []buckettest.Op{"put", "part"}, pace: oneAtATime, exact: true,
	}
	s3.walk(t, evidence.Size(709, 5), func(kind) *evidence.Tally { return tally })
}

// wire carries requests to a service, and is cut at the nth write for good, or once. It is also the
// store that sends them.
type wire struct {
	bucket.Store
	service http.Handler
	nth     int64 // from 1; 0: never
	kind    kind

	mu     sync.Mutex
	writes []buckettest.Write
	dead   bool
}

// Journal implements interruption.
func (l *wire) Journal() []buckettest.Write {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.writes)
}

// ServeHTTP implements http.Handler. A cut connection is all that the dead leave, and all that they get.
func (l *wire) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fatal := l.begin(r)
	ends := fatal && !l.kind.live
	switch {
	case ends && l.kind.when == buckettest.BeforeWrite:
		l.die()
	case ends && l.kind.when == buckettest.MidWrite:
		_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2) // the service gets no body that is not whole
		l.die()
	case !fatal:
		l.service.ServeHTTP(w, r)
	case ends && l.kind.when == buckettest.AfterWrite:
		l.service.ServeHTTP(w, r)
		l.end()
	case ends:
		l.service.ServeHTTP(httptest.NewRecorder(), r)
		l.die()
	default:
		l.service.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
}

// begin notes a write, and reports whether it is the one to be interrupted.
func (l *wire) begin(r *http.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		panic(http.ErrAbortHandler)
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return false
	}
	op, key := storescript.NameS3(r)
	l.writes = append(l.writes, buckettest.Write{Op: buckettest.Op(op), Key: key})
	return int64(len(l.writes)) == l.nth
}

func (l *wire) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
}

func (l *wire) die() {
	l.end()
	panic(http.ErrAbortHandler)
}

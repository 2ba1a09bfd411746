package s3store_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/s3store"
	"feedmirror/manifest"
)

// seen is a request as it came over the wire.
type seen struct {
	*http.Request
	body []byte
	err  error // of reading the body
}

// scripted is a service that records requests and answers as the test says.
type scripted struct {
	*httptest.Server
	mu       sync.Mutex
	requests []seen
}

// serve starts a service. answer gets each request after its body was read.
func serve(t *testing.T, answer func(w http.ResponseWriter, r seen)) *scripted {
	t.Helper()
	s := &scripted{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		request := seen{Request: r.Clone(context.WithoutCancel(r.Context())), body: body, err: err}
		s.mu.Lock()
		s.requests = append(s.requests, request)
		s.mu.Unlock()
		answer(w, request)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *scripted) all() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.requests...)
}

// ops returns what was asked, in S3's words.
func (s *scripted) ops() []string {
	var ops []string
	for _, r := range s.all() {
		ops = append(ops, op(r))
	}
	return ops
}

func op(r seen) string {
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPost && query.Has("uploads"):
		return "begin"
	case r.Method == http.MethodPost && query.Has("uploadId"):
		return "complete"
	case r.Method == http.MethodPut && query.Has("partNumber"):
		return "part " + query.Get("partNumber")
	case r.Method == http.MethodDelete && query.Has("uploadId"):
		return "abort"
	case r.Method == http.MethodGet && query.Has("list-type"):
		return "list"
	default:
		return r.Method
	}
}

// quick is a retry policy that does not wait.
func quick() bucket.Policy {
	return bucket.Policy{Attempts: 3, Sleep: func(context.Context, time.Duration) error { return nil }}
}

func (s *scripted) store(t *testing.T, change func(*s3store.Options)) *s3store.Store {
	t.Helper()
	options := s3store.Options{
		Bucket: "b", Prefix: "p", Endpoint: s.URL, Region: "eu-central-1", HTTPClient: s.Client(), Retry: quick(),
		Credentials: credentials.NewStaticCredentialsProvider("key", "not-a-secret-of-anyone", ""),
	}
	if change != nil {
		change(&options)
	}
	return open(t, options)
}

// fail answers with an S3 error.
func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>`+code+`</Code><Message>as scripted</Message></Error>`)
}

func bytesOf(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	return data
}

func content(data []byte) bucket.Content {
	return bucket.Content{
		Size: int64(len(data)), SHA256: manifest.SumBytes(data), Class: bucket.Data,
		Body: struct{ io.Reader }{bytes.NewReader(data)}, // a stream: it cannot seek
	}
}

// noTime leaves Last-Modified out of an answer.
var noTime time.Time

func sumText(data []byte) string { return manifest.SumBytes(data).String() }

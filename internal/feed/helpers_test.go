package feed_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testKey = "key-for-tests-0123456789"

// api is a scripted feed: the n-th request gets the n-th answer, the last one repeats.
type api struct {
	*httptest.Server
	counts feed.Counts

	mutex    sync.Mutex
	requests []request
	pauses   []time.Duration // what the client slept, without sleeping
}

type request struct{ method, target, key, body string }

type answer func(http.ResponseWriter)

func serve(t *testing.T, answers ...answer) *api {
	t.Helper()
	a := &api{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read request: %v", err)
		}
		a.mutex.Lock()
		n := min(len(a.requests), len(answers)-1)
		a.requests = append(a.requests, request{r.Method, r.RequestURI, r.Header.Get("Authorization"), string(body)})
		a.mutex.Unlock()
		answers[n](w)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *api) client(t *testing.T, change ...func(*feed.Options)) *feed.Client {
	t.Helper()
	options := feed.Options{
		BaseURL: a.URL,
		Key:     func() (string, error) { return testKey, nil },
		HTTP:    a.Client(),
		Counts:  &a.counts,
		Sleep: func(_ context.Context, d time.Duration) error {
			a.mutex.Lock()
			defer a.mutex.Unlock()
			a.pauses = append(a.pauses, d)
			return nil
		},
	}
	for _, one := range change {
		one(&options)
	}
	client, err := feed.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (a *api) seen() []request {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return append([]request(nil), a.requests...)
}

func (a *api) slept() []time.Duration {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return append([]time.Duration(nil), a.pauses...)
}

// say answers with a status, a JSON body and headers given in pairs.
func say(status int, body string, headers ...string) answer {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the client may have hung up on purpose
	}
}

// cut answers 200 with a Content-Length that the body does not reach.
func cut(body string) answer {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", fmt.Sprint(len(body)+100))
		_, _ = io.WriteString(w, body)
	}
}

func item(id string, version int) string {
	return fmt.Sprintf(`{"id":%q,"current":{"version":%d},"place":null}`, id, version)
}

func versionBody(id string, n, previous int, more string) string {
	return fmt.Sprintf(`{"datasetId":%q,"version":%d,"previousVersion":%d,"schemaVersion":"2.1",`+
		`"publishedAt":"2026-10-18T06:12:40.000Z","sourceUrl":null,"fetchedAt":null,"rowCount":3,`+
		`"counts":{"added":1,"changed":0,"removed":0},"resyncRequired":false,"recordIdsChanged":false%s}`, id, n, previous, more)
}

var testSum = strings.Repeat("9f", 32)

func entry(name string) string {
	return fmt.Sprintf(`{"file":%q,"filename":"a.pdf","contentType":"application/pdf","sizeBytes":12,"sha256":%q,"url":"https://links.example/x?sig=S3CRET"}`, name, testSum)
}

func wantKind(t *testing.T, err error, kind fault.Kind, texts ...string) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Fatalf("got kind %q (%v), want %q", fault.KindOf(err), err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
	if kind == fault.Malformed && fault.HintOf(err) == "" {
		t.Errorf("error %q says nothing of what to do", err)
	}
	if text := err.Error() + fault.HintOf(err); strings.Contains(text, testKey) || strings.Contains(text, "S3CRET") {
		t.Errorf("error %q holds a secret", text)
	}
}

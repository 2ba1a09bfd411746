package netclient_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/netclient"
)

func watched(t *testing.T) *http.Client {
	t.Helper()
	return mustNew(t, netclient.Options{Silence: 200 * time.Millisecond})
}

func wantTimeout(t *testing.T, err error, began time.Time) {
	t.Helper()
	var network net.Error
	if !errors.As(err, &network) || !network.Timeout() {
		t.Errorf("got %v, want a timeout", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

func post(t *testing.T, client *http.Client, address string, body io.Reader) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err == nil {
		_ = answer.Body.Close()
	}
	return err
}

func TestSilenceInABodyBreaksTheConnection(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "begun")
		w.(http.Flusher).Flush()
		<-release
	}))
	defer server.Close()
	defer close(release)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	answer, err := watched(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	_, err = io.ReadAll(answer.Body)
	wantTimeout(t, err, began)
}

func TestAPeerThatTakesNoMoreOfABodyIsLeft(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // nothing was written
	began := time.Now()
	// Nobody accepts: the kernel takes what its buffers hold, and no more.
	err = post(t, watched(t), "http://"+listener.Addr().String(), bytes.NewReader(make([]byte, 64<<20)))
	wantTimeout(t, err, began)
}

// A long upload is no silence, although nothing is read meanwhile; nor is a slow download.
func TestWhatMovesIsNotSilent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Errorf("upload: %v", err)
		}
		for range 6 {
			_, _ = io.WriteString(w, "more")
			w.(http.Flusher).Flush()
			time.Sleep(80 * time.Millisecond)
		}
	}))
	defer server.Close()
	body, feed := io.Pipe()
	go func() {
		for range 6 {
			time.Sleep(80 * time.Millisecond)
			_, _ = io.WriteString(feed, strings.Repeat("x", 1000))
		}
		_ = feed.Close()
	}()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := watched(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got, err := io.ReadAll(answer.Body); err != nil || len(got) != 24 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 512<<10))
	}))
	defer server.Close()
	if _, _, err := get(t, mustNew(t, netclient.Options{}), server.URL); err == nil || !strings.Contains(err.Error(), "headers exceeded") {
		t.Errorf("got %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 10, 18, 6, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	const ever = 1<<63 - 1
	tests := []struct {
		name, after, date string
		want              time.Duration
	}{
		{"nothing", "", "", 0},
		{"seconds", "7", "", 7 * time.Second},
		{"ten years", "315360000", "", 10 * 365 * 24 * time.Hour},
		{"more than 31 bits", "9999999999", "", ever},
		{"more than 63 bits", "99999999999999999999999", "", ever},
		{"negative", "-1", "", 0},
		{"fraction", "1.5", "", 0},
		{"words", "soon", "", 0},
		{"date by our clock", at(7 * time.Second), "", 7 * time.Second},
		{"date by the server's clock", at(time.Hour + 7*time.Second), at(time.Hour), 7 * time.Second},
		{"date that is past", at(-time.Hour), "", 0},
		{"date beside an unreadable Date", at(7 * time.Second), "yesterday", 7 * time.Second},
		{"year 9999", "Fri, 31 Dec 9999 23:59:59 GMT", "", ever},
	}
	for _, test := range tests {
		header := http.Header{"Retry-After": {test.after}, "Date": {test.date}}
		if got := netclient.RetryAfter(header, now); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

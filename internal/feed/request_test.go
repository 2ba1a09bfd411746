package feed_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
)

func TestNewTakesHTTPSOrLoopbackOnly(t *testing.T) {
	cases := []struct {
		url  string
		good bool
	}{
		{"https://api.ploti.ai", true},
		{"https://api.ploti.ai/", true},
		{"https://gateway.example/ploti", true},
		{"http://localhost:1", true},
		{"http://127.0.0.1:8080", true},
		{"http://[::1]:8080", true},
		{"http://api.ploti.ai", false},
		{"http://127.0.0.1.example", false},
		{"ftp://127.0.0.1", false},
		{"api.ploti.ai", false},
		{"https:api.ploti.ai", false},
		{"https://user:S3CRET@api.ploti.ai", false},
		{"https://api.ploti.ai?x=S3CRET", false},
		{"https://", false},
		{"", false},
	}
	for _, c := range cases {
		t.Run(c.url, func(t *testing.T) {
			_, err := feed.New(feed.Options{BaseURL: c.url, Key: func() (string, error) { return testKey, nil }})
			if c.good && err != nil {
				t.Errorf("refused: %v", err)
			}
			if !c.good {
				wantKind(t, err, fault.Usage)
			}
		})
	}
}

func TestRequestCarriesKeyAndPath(t *testing.T) {
	a := serve(t, say(200, item("ds_a", 3)))
	client := a.client(t, func(o *feed.Options) { o.BaseURL += "/gateway/" })
	if _, err := client.Dataset(t.Context(), "ds_a"); err != nil {
		t.Fatal(err)
	}
	want := request{"GET", "/gateway/v1/feeds/datasets/ds_a", "Bearer " + testKey, ""}
	if got := a.seen(); len(got) != 1 || got[0] != want {
		t.Errorf("sent %+v, want %+v", got, want)
	}
	if a.counts.Feed.Load() != 1 || a.counts.Links.Load() != 0 {
		t.Errorf("counted %d and %d", a.counts.Feed.Load(), a.counts.Links.Load())
	}
}

func TestRedirectIsRefusedAndSendsNoKey(t *testing.T) {
	other := serve(t, say(200, item("ds_a", 3)))
	a := serve(t, say(302, "", "Location", other.URL+"/x?sig=S3CRET"))
	_, err := a.client(t).Dataset(t.Context(), "ds_a")
	wantKind(t, err, fault.Malformed, strings.TrimPrefix(other.URL, "http://"))
	if n := len(other.seen()); n != 0 {
		t.Errorf("the redirect's target saw %d requests", n)
	}
	if n := len(a.seen()); n != 1 {
		t.Errorf("sent %d requests, want 1", n)
	}
}

func TestBadKeyStopsWithinTwoRequests(t *testing.T) {
	for _, status := range []int{401, 403} {
		a := serve(t, say(status, `{"error":{"code":"unauthorized","message":"bad key `+testKey+`"}}`))
		_, err := a.client(t).Dataset(t.Context(), "ds_a")
		wantKind(t, err, fault.Denied)
		if n := len(a.seen()); n > 2 {
			t.Errorf("status %d: sent %d requests, want at most 2", status, n)
		}
		if len(a.slept()) != 0 {
			t.Errorf("status %d: waited before giving up", status)
		}
	}
}

func TestRenewedKeyIsReadOnceAfter401(t *testing.T) {
	a := serve(t, say(401, ""), say(200, item("ds_a", 3)))
	reads := 0
	client := a.client(t, func(o *feed.Options) {
		o.Key = func() (string, error) {
			reads++
			return []string{"old", "new", "newer"}[reads-1] + "\n", nil
		}
	})
	for range 2 {
		if _, err := client.Dataset(t.Context(), "ds_a"); err != nil {
			t.Fatal(err)
		}
	}
	got := a.seen()
	if len(got) != 3 || got[0].key != "Bearer old" || got[1].key != "Bearer new" || got[2].key != "Bearer new" || reads != 2 {
		t.Errorf("sent %+v after %d reads of the key", got, reads)
	}
}

func TestKeyIsReadAnewOnceInAllTriesOfACall(t *testing.T) {
	a := serve(t, say(401, ""), say(503, ""), say(401, ""))
	reads := 0
	client := a.client(t, func(o *feed.Options) { o.Key = func() (string, error) { reads++; return testKey, nil } })
	_, err := client.Dataset(t.Context(), "ds_a")
	wantKind(t, err, fault.Denied)
	if n := len(a.seen()); n != 3 || reads != 2 {
		t.Errorf("sent %d requests with %d reads of the key, want 3 and 2", n, reads)
	}
}

func TestUnusableKeySendsNothing(t *testing.T) {
	cases := map[string]func() (string, error){
		"missing":           func() (string, error) { return "", nil },
		"unreadable":        func() (string, error) { return "", errors.New("no such file") },
		"two lines":         func() (string, error) { return testKey + "\n" + testKey, nil },
		"control character": func() (string, error) { return testKey + "\x00", nil },
	}
	for name, key := range cases {
		t.Run(name, func(t *testing.T) {
			a := serve(t, say(200, item("ds_a", 3)))
			_, err := a.client(t, func(o *feed.Options) { o.Key = key }).Dataset(t.Context(), "ds_a")
			wantKind(t, err, fault.FeedUnfit)
			if n := len(a.seen()); n != 0 {
				t.Errorf("sent %d requests", n)
			}
		})
	}
}

func TestAnswerThatIsNoJSONNamesItsContentType(t *testing.T) {
	for _, kind := range []string{"text/html; charset=utf-8", "application/octet-stream", ""} {
		a := serve(t, func(w http.ResponseWriter) {
			w.Header()["Content-Type"] = []string{kind}
			_, _ = io.WriteString(w, "<html>please sign in</html>")
		})
		_, err := a.client(t).Dataset(t.Context(), "ds_a")
		want := kind
		if kind == "" {
			want = "without a content type"
		}
		wantKind(t, err, fault.Malformed, want)
		if n := len(a.seen()); n != 1 {
			t.Errorf("%q: sent %d requests, want 1", kind, n)
		}
	}
}

func TestEncodedAnswerIsNamed(t *testing.T) {
	a := serve(t, say(200, "x", "Content-Encoding", "br"))
	_, err := a.client(t).Dataset(t.Context(), "ds_a")
	wantKind(t, err, fault.Malformed, `"br"`)
}

func TestUnusableTextIsMalformed(t *testing.T) {
	cases := map[string]string{
		"html":          "<html>",
		"empty":         "",
		"array":         "[]",
		"trailing data": item("ds_a", 3) + "{}",
		"not UTF-8":     `{"id":"ds_a` + "\xff" + `"}`,
		"no id":         "{}",
		"other dataset": item("ds_b", 3),
		"two ids":       `{"id":"ds_a","datasetId":"ds_b"}`,
		"bad version":   item("ds_a", -1),
		"huge version":  `{"id":"ds_a","current":{"version":10000000000}}`,
		"fraction":      `{"id":"ds_a","current":{"version":1.5}}`,
		"text version":  `{"id":"ds_a","current":{"version":"1"}}`,
	}
	for name, body := range cases {
		t.Run(name, func(t *testing.T) {
			a := serve(t, say(200, body))
			_, err := a.client(t).Dataset(t.Context(), "ds_a")
			wantKind(t, err, fault.Malformed, "read dataset ds_a (feed)")
		})
	}
}

func TestTruncatedJSONIsTriedAgain(t *testing.T) {
	for name, broken := range map[string]answer{"clean end": say(200, `{"id":"ds_a",`), "cut": cut(`{"id":"ds_a",`)} {
		t.Run(name, func(t *testing.T) {
			a := serve(t, broken, say(200, item("ds_a", 3)))
			if _, err := a.client(t).Dataset(t.Context(), "ds_a"); err != nil {
				t.Error(err)
			}
			a = serve(t, broken)
			_, err := a.client(t).Dataset(t.Context(), "ds_a")
			if !fault.Is(err, fault.Malformed) && !fault.Is(err, fault.Transient) {
				t.Errorf("got %v", err)
			}
			if n := len(a.seen()); n != 5 {
				t.Errorf("sent %d requests, want 5", n)
			}
		})
	}
}

func TestAnswerBeyondItsBoundIsMalformed(t *testing.T) {
	a := serve(t, say(200, `{"id":"ds_a","more":"`+strings.Repeat("x", 5000)+`"}`))
	_, err := a.client(t, func(o *feed.Options) { o.Limits.Page = 4096 }).Dataset(t.Context(), "ds_a")
	wantKind(t, err, fault.Malformed, "larger than 4096 bytes")
	if n := len(a.seen()); n != 1 {
		t.Errorf("sent %d requests, want 1", n)
	}
}

func TestSilentServerIsLeft(t *testing.T) {
	for name, text := range map[string]string{"before the answer": "", "within it": `{"id":`} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			a := serve(t, func(w http.ResponseWriter) {
				if text != "" {
					say(200, text)(w)
					_ = http.NewResponseController(w).Flush()
				}
				<-release
			}, say(200, item("ds_a", 3)))
			t.Cleanup(func() { close(release) }) // runs before the server's Close waits for the handler
			client := a.client(t, func(o *feed.Options) { o.Limits.Idle = 50 * time.Millisecond; o.Attempts = 1 })
			_, err := client.Dataset(t.Context(), "ds_a")
			wantKind(t, err, fault.Transient, "silent for 50ms")
			if _, err := client.Dataset(t.Context(), "ds_a"); err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

func TestCancelledCallSaysSo(t *testing.T) {
	a := serve(t, say(503, ""))
	ctx, cancel := context.WithCancel(t.Context())
	client := a.client(t, func(o *feed.Options) {
		o.Sleep = func(ctx context.Context, _ time.Duration) error { cancel(); return ctx.Err() }
	})
	_, err := client.Dataset(ctx, "ds_a")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestUnreachableFeedIsTransientWithoutItsAddress(t *testing.T) {
	a := serve(t, say(200, ""))
	client := a.client(t)
	a.Close()
	_, err := client.Datasets(t.Context(), time.Time{}, nil)
	wantKind(t, err, fault.Transient, "refused", "5 tries")
	if strings.Contains(err.Error(), "/v1/feeds") {
		t.Errorf("error %q holds the address", err)
	}
}

func TestBadDatasetIDSendsNothing(t *testing.T) {
	a := serve(t, say(200, item("ds_a", 3)))
	for _, id := range []string{"", "..", "../x", "a/b", "a?b", strings.Repeat("a", 129)} {
		_, err := a.client(t).Dataset(t.Context(), id)
		wantKind(t, err, fault.Malformed)
	}
	if n := len(a.seen()); n != 0 {
		t.Errorf("sent %d requests", n)
	}
}

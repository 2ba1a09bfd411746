package e2e_test

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/testservers"
)

// TestABucketThatIsMissingOrDeniedIsRefusedBeforeAnyDownload asks each kind of store for a bucket
// that is not there, and with credentials that are not right.
func TestABucketThatIsMissingOrDeniedIsRefusedBeforeAnyDownload(t *testing.T) {
	for name, open := range places() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, open(t), feedsim.Options{})
			w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Plain, Rows: 3}, feedsim.ReleaseSpec{})
			for _, env := range [][]string{w.place.missing, w.place.wrong} {
				if env == nil {
					continue // the store knows no such thing, see places
				}
				for _, command := range [][]string{{"doctor"}, {"sync"}, {"status"}, {"verify"}, {"plan"}, {"approve", permits}, {"rollback", permits, "1"}} {
					w.refuses(env, command...)
				}
			}
		})
	}
}

// refuses wants a command to end with 5, with one message and a way out, before any file was asked for.
func (w *world) refuses(env []string, command ...string) string {
	w.t.Helper()
	w.feed.ResetLog()
	done := w.start(env, command...).wait()
	text := strings.Join(command, " ")
	if done.exit != 5 {
		w.t.Errorf("%s ended with %d, want 5\n%s%s", text, done.exit, done.out, tail(done.err))
	}
	for _, event := range w.feed.Log() {
		if event.Side == feedsim.SideLinks || event.Version != 0 || event.Resource != "" {
			w.t.Errorf("%s asked the feed for %+v", text, event.Request)
		}
	}
	said := strings.TrimSpace(done.out + plainLines(done.err))
	if said == "" {
		w.t.Errorf("%s says nothing", text)
	}
	return said
}

// plainLines drops the log from standard error.
func plainLines(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "{") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// TestAStoreThatLacksAGuaranteeIsRefused puts a proxy before versitygw that takes one kind of condition
// away, or answers as if the condition had held.
func TestAStoreThatLacksAGuaranteeIsRefused(t *testing.T) {
	cases := map[string]struct {
		server func(*testing.T, testservers.S3) testservers.S3
		lacks  string
	}{
		"If-None-Match is ignored": {without("If-None-Match"), "atomic-create"},
		"If-Match is ignored":      {without("If-Match"), "compare-and-swap"},
		"If-None-Match lies":       {lying("If-None-Match"), "atomic-create"},
		"If-Match lies":            {lying("If-Match"), "compare-and-swap"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, s3Place(t, c.server(t, servers.VersityGW(t))), feedsim.Options{})
			w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Plain, Rows: 3}, feedsim.ReleaseSpec{})
			for _, command := range [][]string{{"doctor"}, {"doctor", "--output", "json"}, {"sync"}, {"sync", "--output", "json"}} {
				if said := w.refuses(nil, command...); !strings.Contains(said, c.lacks) {
					t.Errorf("%s does not name %s: %s", strings.Join(command, " "), c.lacks, said)
				}
			}
			for key := range w.snapshot().Objects {
				t.Errorf("%s was left in the bucket", key)
			}
		})
	}
}

func without(headers ...string) func(*testing.T, testservers.S3) testservers.S3 {
	return func(t *testing.T, server testservers.S3) testservers.S3 {
		return server.Behind(t, func(r *http.Request) {
			if r.Method == http.MethodPut || r.Method == http.MethodPost || r.Method == http.MethodDelete {
				for _, header := range headers {
					r.Header.Del(header)
				}
			}
		})
	}
}

// lying answers 200 to a PUT whose condition failed.
func lying(header string) func(*testing.T, testservers.S3) testservers.S3 {
	return func(t *testing.T, server testservers.S3) testservers.S3 {
		target, err := url.Parse(server.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		proxy := httptest.NewServer(&httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				r.Out.Host = r.In.Host // signed
			},
			ErrorLog: log.New(io.Discard, "", 0), // racers are cut off when the race is decided
			ModifyResponse: func(answer *http.Response) error {
				asked := answer.Request
				if asked.Method == http.MethodPut && asked.Header.Get(header) != "" && answer.StatusCode == http.StatusPreconditionFailed {
					answer.StatusCode, answer.ContentLength = http.StatusOK, 0
					answer.Header.Set("Content-Length", "0")
					answer.Header.Set("ETag", `"0123456789abcdef0123456789abcdef"`)
					answer.Body = io.NopCloser(strings.NewReader(""))
				}
				return nil
			},
		})
		t.Cleanup(proxy.Close)
		server.Endpoint = proxy.URL
		return server
	}
}

// nobody returns the address of a port where nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}

func TestAnUnreachableBucketIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, folderPlace(t), feedsim.Options{})
	w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Plain, Rows: 3}, feedsim.ReleaseSpec{})
	env := append(s3Keys("key", "secret-of-nobody"), "MIRROR_BUCKET=s3://bucket?region=us-east-1&endpoint=http://"+nobody(t))
	for _, command := range []string{"doctor", "sync", "status", "verify"} {
		if said := w.refuses(env, command); !strings.Contains(said, "connection refused") || !strings.Contains(said, "Check") && !strings.Contains(said, "check") {
			t.Errorf("%s does not say why and what to do: %s", command, said)
		}
	}
}

func TestAnUnreachableFeedIsToldApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, folderPlace(t), feedsim.Options{})
	for _, command := range []string{"sync", "plan"} {
		done := w.runWith(4, []string{"MIRROR_FEED_URL=http://" + nobody(t)}, command)
		if said := done.out + plainLines(done.err); !strings.Contains(said, "connection refused") || !strings.Contains(said, "--feed-url") {
			t.Errorf("%s does not say why and what to do: %s", command, said)
		}
	}
	if w.stored() != 0 {
		t.Error("something was stored")
	}
}

// TestAnUnknownAuthorityIsToldApart meets a feed over TLS whose authority nobody trusts.
func TestAnUnknownAuthorityIsToldApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, folderPlace(t), feedsim.Options{TLS: true})
	w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Plain, Rows: 3}, feedsim.ReleaseSpec{})
	done := w.run(4, "sync")
	if !strings.Contains(done.out, "--ca-file") || !strings.Contains(done.out, "certificate") {
		t.Errorf("the way out is not named: %s", done.out)
	}
	if len(w.feed.Log()) != 0 {
		t.Errorf("the feed was asked: %+v", w.feed.Log())
	}
}

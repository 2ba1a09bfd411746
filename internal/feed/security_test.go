package feed_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
	"feedmirror/manifest"
)

// calls are all calls of the API.
func calls() map[string]func(context.Context, *feed.Client) error {
	return map[string]func(context.Context, *feed.Client) error{
		"datasets": func(ctx context.Context, c *feed.Client) error {
			_, err := c.Datasets(ctx, time.Time{}, func(feed.Dataset) error { return nil })
			return err
		},
		"dataset": func(ctx context.Context, c *feed.Client) error { _, err := c.Dataset(ctx, "ds_a"); return err },
		"versions": func(ctx context.Context, c *feed.Client) error {
			return c.Versions(ctx, "ds_a", 0, func(manifest.Version) error { return nil })
		},
		"version": func(ctx context.Context, c *feed.Client) error {
			_, err := c.Version(ctx, "ds_a", 3, func(feed.Entry) error { return nil })
			return err
		},
		"links": func(ctx context.Context, c *feed.Client) error {
			_, err := c.Links(ctx, "ds_a", 3, []string{"document:a"})
			return err
		},
	}
}

// The key reaches the API's exact scheme, host and port, whatever redirects say: no call follows one,
// not even to the API itself, also where the client that was handed in would.
func TestTheKeyFollowsNoRedirect(t *testing.T) {
	tally := evidence.Count(t, "key-origin")
	other := serve(t, say(200, item("ds_a", 3)))
	port := other.URL[strings.LastIndexByte(other.URL, ':'):]
	targets := map[string]string{
		"another port": other.URL, "another host": "http://localhost" + port, "another scheme": "https://127.0.0.1" + port,
		"a user": "http://user:S3CRET@127.0.0.1" + port, "a trailing dot": "http://localhost." + port, "upper case": "HTTP://LOCALHOST" + port,
		"no scheme": "//127.0.0.1" + port, "a query": other.URL + "/?sig=S3CRET", "IPv6": "http://[::1]" + port, "the API itself": "/v1/elsewhere",
		"nowhere": "", "rubbish": "http://%zz" + port,
	}
	for name, call := range calls() {
		for where, target := range targets {
			for _, status := range []int{301, 302, 303, 307, 308} {
				a := serve(t, say(status, "", "Location", target, "Set-Cookie", "session=S3CRET", "WWW-Authenticate", "Bearer"), say(200, item("ds_a", 3)))
				jar, err := cookiejar.New(nil)
				if err != nil {
					t.Fatal(err)
				}
				client := a.client(t, func(o *feed.Options) {
					o.HTTP = &http.Client{Transport: a.Client().Transport, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
				})
				err = call(t.Context(), client)
				wantKind(t, err, fault.Malformed, "redirects are not followed")
				if n := len(a.seen()); n != 1 {
					t.Errorf("%s, %d to %s: %d requests, want 1", name, status, where, n)
				}
				tally.Add(1)
				a.Close()
			}
		}
	}
	if seen := other.seen(); len(seen) > 0 {
		t.Errorf("the redirects' target saw %+v", seen)
	}
	tally.Note("%d calls, %d targets, 5 statuses", len(calls()), len(targets))
}

// An address with a user, a query or a plain way to another machine is refused before any key is read.
func TestTheKeyIsNotReadForAnAddressItMayNotGoTo(t *testing.T) {
	for _, address := range []string{
		"http://api.example.org", "https://user:S3CRET@api.example.org", "https://api.example.org/?key=S3CRET", "https://api.example.org#S3CRET",
		"http://localhost.", "http://localhost.example.org", "http://127.0.0.1.example.org", "http://2130706433", "ftp://127.0.0.1", "//127.0.0.1",
		"https:api.example.org", "https://", "http://127.0.0.1@example.org", "http://[::ffff:10.0.0.1]",
	} {
		_, err := feed.New(feed.Options{BaseURL: address, Key: func() (string, error) { t.Errorf("the key was read for %s", address); return testKey, nil }})
		wantKind(t, err, fault.Usage)
	}
}

// An unwanted answer that stops in its middle is left like any other: it is read only to keep the
// connection.
func TestTheRestOfAnUnwantedAnswerIsNotWaitedFor(t *testing.T) {
	answers := map[string]answer{
		"page":     say(200, "<html>", "Content-Type", "text/html"),
		"gzip":     say(200, "{", "Content-Encoding", "gzip"),
		"redirect": say(302, "moved", "Location", "/elsewhere"),
		"401":      say(401, `{"code":"unauthorized"`),
		"404":      say(404, `{"code":"not_found"`),
	}
	for name, begin := range answers {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			a := serve(t, func(w http.ResponseWriter) {
				begin(w)
				_ = http.NewResponseController(w).Flush()
				<-release
			})
			t.Cleanup(func() { close(release) })
			client := a.client(t, func(o *feed.Options) { o.Limits.Idle = 50 * time.Millisecond; o.Attempts = 1 })
			began := time.Now()
			if _, err := client.Dataset(t.Context(), "ds_a"); err == nil {
				t.Error("no error")
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// A drip, no byte of it late, is left: a page would take days.
func TestADripIsLeft(t *testing.T) {
	ended := make(chan struct{})
	a := serve(t, func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		for range 2000 {
			if _, err := io.WriteString(w, " "); err != nil {
				break
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				break
			}
			select {
			case <-ended:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}, say(200, item("ds_a", 3)))
	t.Cleanup(func() { close(ended) })
	client := a.client(t, func(o *feed.Options) { o.Limits.Idle = 200 * time.Millisecond; o.Attempts = 1 })
	_, err := client.Dataset(t.Context(), "ds_a")
	wantKind(t, err, fault.Transient, "less than the least rate")
	if _, err := client.Dataset(t.Context(), "ds_a"); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// Every answer is bounded, also one that refuses.
func TestEveryAnswerIsBounded(t *testing.T) {
	huge := `{"code":"` + strings.Repeat("x", 1<<20) + `"}`
	for name, call := range calls() {
		for _, status := range []int{200, 400, 500} {
			a := serve(t, say(status, huge))
			client := a.client(t, func(o *feed.Options) { o.Limits.Page, o.Limits.Version, o.Attempts = 4096, 4096, 1 })
			err := call(t.Context(), client)
			if err == nil || len(err.Error()) > 2000 {
				t.Errorf("%s, status %d: an error of %d bytes", name, status, len(fmt.Sprint(err)))
			}
		}
	}
}

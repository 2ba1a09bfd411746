package transfer

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
)

func TestRedirectTarget(t *testing.T) {
	tests := []struct{ from, location, want string }{
		{"https://a/x/y?sig=1", "https://b:8/z?q=%2F#f", "https://b:8/z?q=%2F#f"},
		{"https://a/x/y?sig=1", "HTTP://b/", "HTTP://b/"},
		{"https://a/x/y?sig=1", "//b/z", "https://b/z"},
		{"https://a:9/x/y?sig=1", "/z?u=http://c/", "https://a:9/z?u=http://c/"},
		{"https://a/x/y?sig=1", "z%20?q", "https://a/x/z%20?q"},
		{"https://a/x/y?sig=1", "?q=2", "https://a/x/y?q=2"},
		{"https://a", "z", "https://a/z"},
		{"https://a?sig=/x", "z", "https://a/z"},
		{"https://a/x#/y/", "z", "https://a/z"},
		{"https://a/x", "javascript:alert(1)", "javascript:alert(1)"},
		{"https://a/x/", "z/a:b", "https://a/x/z/a:b"},
	}
	for _, test := range tests {
		if got := redirectTarget(test.from, test.location); got != test.want {
			t.Errorf("from %s to %q: %q, want %q", test.from, test.location, got, test.want)
		}
	}
}

// Redirects to another port and to another host are followed, a few, with the range that is still
// missing, and nothing but the request itself goes along.
func TestRedirectsAreFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		bothSizes(t, Options{}, func(w *world, file File) {
			hosts := map[string]bool{}
			broken := false
			w.handle = func(v visit) {
				hosts[v.r.Host] = true
				if v.r.Header.Get("Referer") != "" || v.r.Header.Get("Cookie") != "" {
					w.t.Errorf("header %v", v.r.Header)
				}
				switch v.r.Host {
				case "localhost":
					v.w.Header().Set("Set-Cookie", "session=1")
					v.w.Header().Set("Location", "http://127.0.0.1:8080"+v.r.RequestURI)
					v.w.WriteHeader(status)
				case "127.0.0.1:8080":
					v.w.Header().Set("Location", "//127.0.0.2"+v.r.RequestURI)
					v.w.WriteHeader(status)
				default:
					if !broken {
						broken = true
						v.cut(len(v.data) / 3)
					}
					w.serve(v)
				}
			}
			summary, err := w.copy(file)
			w.wantCopied(summary, err, file)
			if len(hosts) != 3 || w.visits[file.Name] != 6 || w.signed[file.Name] != 1 || len(w.ranges) != 3 {
				w.t.Errorf("hosts %v, %d visits, signed %d times, ranges %v", hosts, w.visits[file.Name], w.signed[file.Name], w.ranges)
			}
		})
	}
}

// What no redirect may do fails cleanly, after an exact number of requests, and says so.
func TestRedirectsThatAreNotFollowed(t *testing.T) {
	tests := []struct {
		name, to string
		kind     fault.Kind
		text     string
		visits   int
	}{
		{"in a circle", "http://localhost/SELF?sig=SECRET1", fault.Malformed, "redirected more than 3 times", maxWrong * (maxRedirects + 1)},
		{"nowhere", "", fault.Malformed, "leads nowhere", maxWrong},
		{"plain http elsewhere", "http://example.org/a?sig=SECRET9", fault.Malformed, "plain http", 1},
		{"another scheme", "ftp://example.org/a?sig=SECRET9", fault.Malformed, "no absolute http", 1},
		{"a password", "https://user:SECRET9@example.org/", fault.Malformed, "no absolute http", 1},
		{"no host", "https:///a?sig=SECRET9", fault.Malformed, "no absolute http", 1},
		{"a control character", "http://localhost/a\tb?sig=SECRET9", fault.Malformed, "cannot be sent", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bothSizes(t, Options{}, func(w *world, file File) {
				w.handle = func(v visit) {
					if test.to != "" {
						v.w.Header().Set("Location", strings.ReplaceAll(test.to, "SELF", v.name))
					}
					v.w.WriteHeader(http.StatusFound)
				}
				summary, err := w.copy(file)
				w.wantFailed(summary, err, file, test.kind, fault.SideSource, test.text)
				if w.visits[file.Name] != test.visits {
					t.Errorf("%d visits, want %d", w.visits[file.Name], test.visits)
				}
			})
		})
	}
}

// A login page behind a redirect is told as such.
func TestWrongBytesBehindARedirectNameTheHost(t *testing.T) {
	bothSizes(t, Options{}, func(w *world, file File) {
		w.handle = func(v visit) {
			if v.r.Host == "localhost" {
				v.w.Header().Set("Location", "http://127.0.0.1:8080/"+v.name)
				v.w.WriteHeader(http.StatusFound)
				return
			}
			v.w.Header().Set("Content-Type", "text/html")
			_, _ = v.w.Write([]byte("<html>please log in</html>"))
		}
		w.expiry[file.Name] = w.expiry[file.Name].AddDate(9000, 0, 0) // the page asks for no signature
		summary, err := w.copy(file)
		w.wantFailed(summary, err, file, fault.WrongBytes, fault.SideSource, "(text/html, after a redirect to 127.0.0.1)")
	})
}

// A hop into a private network, or from https to plain http, is refused: what a link may not name, a
// redirect may not either. The host behind the redirect is never reached.
func TestRedirectsPassTheGuard(t *testing.T) {
	tally := evidence.Count(t, "links-guard")
	var mu sync.Mutex
	reached := map[string]int{}
	var to string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		reached[r.Host]++
		hop(w, r, to)
	}))
	defer server.Close()
	allowed := GuardOptions{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	port := server.URL[strings.LastIndexByte(server.URL, ':'):]
	for target, text := range map[string]string{
		"https://127.0.0.2" + port + "/a": "127.0.0.2, which is not a public address",
		"https://10.255.255.1/a":          "10.255.255.1, which is not a public address",
		"https://169.254.169.254/latest":  "169.254.169.254, which is not a public address",
		"https://[::1]" + port + "/":      "::1, which is not a public address",
		"http://127.0.0.1" + port + "/a":  "from https to plain http",
		"http://localhost" + port + "/a":  "from https to plain http",
	} {
		tally.Add(1)
		to = target
		reached = map[string]int{}
		transport := server.Client().Transport.(*http.Transport).Clone()
		engine, w, file := engineFor(t, transport, allowed, server.URL+"/a?sig=SECRET")
		summary, err := engine.Copy(t.Context(), Job{Dataset: "ds", Version: 7, Files: sequence(file)}, nil)
		w.wantFailed(summary, err, file, summaryKind(summary), fault.SideSource, text)
		if len(reached) != 1 || reached[strings.TrimPrefix(server.URL, "https://")] != 1 {
			t.Errorf("%s: reached %v", target, reached)
		}
	}
}

// summaryKind returns the kind of the one failure, where the text decides.
func summaryKind(summary Summary) fault.Kind {
	if len(summary.Failures) == 0 {
		return ""
	}
	return fault.KindOf(summary.Failures[0].Err)
}

package transfer

import (
	"strings"
	"testing"

	"feedmirror/internal/netclient"
)

// Whatever a link holds, its target is sent byte for byte or not at all.
func FuzzRequestTarget(f *testing.F) {
	for _, link := range []string{
		"https://host/a%2Fb?X=%2B", "https://host//x?y#z", "http://127.0.0.1:1/a", "https://host", "https://u:p@host/",
		"https://ho st/", "https://[::1]:8/a", "HTTPS://host/?", "https://host/%zz", "https:///a", "https://host:port/a",
	} {
		f.Add(link)
	}
	f.Fuzz(func(t *testing.T, link string) {
		request, err := newRequest(t.Context(), link)
		if err != nil {
			return
		}
		_, rest, _ := strings.Cut(link, "://")
		target := "/"
		if at := strings.IndexAny(rest, "/?#"); at >= 0 {
			target, _, _ = strings.Cut(rest[at:], "#")
			if !strings.HasPrefix(target, "/") {
				target = "/" + target
			}
		}
		if got := request.URL.RequestURI(); got != target {
			t.Errorf("%q sends %q, want %q", link, got, target)
		}
		if strings.ContainsAny(target, " \r\n\t") || request.URL.User != nil {
			t.Errorf("%q was accepted", link)
		}
		if request.URL.Scheme == "http" && !netclient.IsLoopback(request.URL.Hostname()) {
			t.Errorf("%q is plain http", link)
		}
	})
}

func FuzzContentRange(f *testing.F) {
	for _, text := range []string{"bytes 0-4/5", "bytes 5-4/9", "bytes */5", "bytes 1-2/*", "bytes -1-2/3", "items 0-1/2", "bytes 0-99999999999999999999/1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		start, end, total, ok := parseContentRange(text)
		if ok && (start < 0 || end < start || total < 0) {
			t.Errorf("%q: %d-%d/%d", text, start, end, total)
		}
	})
}

func TestContentRange(t *testing.T) {
	if start, end, total, ok := parseContentRange("bytes 500-999/1000"); !ok || start != 500 || end != 999 || total != 1000 {
		t.Errorf("got %d-%d/%d %v", start, end, total, ok)
	}
	for _, text := range []string{"", "bytes", "bytes 1-2", "bytes */5", "bytes 1-2/*", "bytes 2-1/5", "rows 1-2/5", "bytes +1-2/5"} {
		if _, _, _, ok := parseContentRange(text); ok {
			t.Errorf("%q was accepted", text)
		}
	}
}

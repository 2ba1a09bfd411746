package feedsim_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// newArchive returns a feed with one version of an archive, and that version's answer.
func newArchive(t *testing.T, options feedsim.Options) (*feedsim.Feed, versionAnswer) {
	t.Helper()
	feed := newFeed(t, options)
	release(t, addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_a", Character: feedsim.Archive}), feedsim.ReleaseSpec{})
	return feed, fetchVersion(t, feed, "ds_a", 1)
}

func attachment(t *testing.T, v versionAnswer, name string) entry {
	t.Helper()
	for _, e := range v.Files.Attachments {
		if e.File == name {
			return e
		}
	}
	t.Fatalf("no attachment %s", name)
	return entry{}
}

func TestLinksHostRefusesWhatWasNotSigned(t *testing.T) {
	feed, v := newArchive(t, feedsim.Options{})
	original := attachment(t, v, "original").URL
	changed := func(old, new string) string {
		if !strings.Contains(original, old) {
			t.Fatalf("the link %s has no %q", original, old)
		}
		return strings.Replace(original, old, new, 1)
	}
	unsigned, _, _ := strings.Cut(original, "&X-Feed-Signature")
	parsed, err := url.Parse(original)
	if err != nil {
		t.Fatal(err)
	}
	encoded := *parsed
	encoded.RawQuery = parsed.Query().Encode()
	cases := []struct {
		name, method, address string
		header                http.Header
		rule                  string
	}{
		{"authorization", "GET", original, http.Header{"Authorization": {"Bearer " + feed.Key()}}, "authorization"},
		{"cookie", "GET", original, http.Header{"Cookie": {"a=b"}}, "cookie"},
		{"head", "HEAD", original, nil, "method"},
		{"post", "POST", original, nil, "method"},
		{"query encoded again", "GET", encoded.String(), nil, "target"},
		{"escape in upper case", "GET", changed("%2bd", "%2Bd"), nil, "target"},
		{"plus as escape", "GET", changed("a+b", "a%20b"), nil, "target"},
		{"slash decoded", "GET", changed("feed%2Fv1", "feed/v1"), nil, "target"},
		{"empty parameter dropped", "GET", changed("&empty=", ""), nil, "target"},
		{"path plus escaped", "GET", changed("/feed+files/", "/feed%2Bfiles/"), nil, "target"},
		{"parameter added", "GET", original + "&more=1", nil, "target"},
		{"later expiry", "GET", changed("X-Feed-Expires=1", "X-Feed-Expires=2"), nil, "target"},
		{"other file", "GET", changed("original", "schema%2Ejson"), nil, "target"},
		{"no signature", "GET", unsigned, nil, "target"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := len(feed.ViolationsSeen())
			request, err := http.NewRequestWithContext(t.Context(), c.method, c.address, nil)
			if err != nil {
				t.Fatal(err)
			}
			for key, values := range c.header {
				request.Header[key] = values
			}
			response, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode < 400 {
				t.Errorf("answered %d", response.StatusCode)
			}
			seen := feed.ViolationsSeen()
			if len(seen) != before+1 || seen[before].Rule != c.rule {
				t.Errorf("violations %v, want one more of %s", seen, c.rule)
			}
		})
	}
}

func TestExpiredLinks(t *testing.T) {
	want := map[feedsim.ExpiredLink]struct {
		status int
		body   string
	}{
		feedsim.ExpiredAccessDenied: {403, "<Code>AccessDenied</Code>"},
		feedsim.ExpiredHTML:         {403, "<html>"},
		feedsim.ExpiredEmpty:        {403, ""},
		feedsim.ExpiredRequest400:   {400, "<Code>ExpiredRequest</Code>"},
		feedsim.ExpiredToken400:     {400, "<Code>ExpiredToken</Code>"},
		feedsim.ExpiredUnauthorized: {401, ""},
	}
	for style, expected := range want {
		feed, v := newArchive(t, feedsim.Options{LinkLifetime: time.Minute, Assume: feedsim.Assume{ExpiredLink: style}})
		expires, err := time.Parse(time.RFC3339, v.Files.ExpiresAt)
		if err != nil || !expires.Equal(start.Add(time.Minute)) {
			t.Errorf("expiresAt is %s", v.Files.ExpiresAt)
		}
		feed.Clock().Advance(time.Minute - time.Millisecond)
		download(t, v.Files.Schema)
		feed.Clock().Advance(time.Millisecond)
		response, body, err := get(t, v.Files.Schema.URL, nil)
		if err != nil || response.StatusCode != expected.status || !strings.Contains(string(body), expected.body) {
			t.Errorf("style %d: %v %v %s", style, err, response, body)
		}
		fresh := fetchVersion(t, feed, "ds_a", 1).Files.Schema
		download(t, fresh)
		feed.ExpireLinks()
		if response, _, err := get(t, fresh.URL, nil); err != nil || response.StatusCode != expected.status {
			t.Errorf("after ExpireLinks: %v %v", err, response)
		}
		if seen := feed.ViolationsSeen(); len(seen) != 0 {
			t.Errorf("an expired link is no violation: %v", seen)
		}
	}
}

func TestRanges(t *testing.T) {
	_, v := newArchive(t, feedsim.Options{})
	original := attachment(t, v, "original")
	whole := download(t, original)
	size := len(whole)
	response, _, err := get(t, original.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	etag := response.Header.Get("ETag")
	cases := []struct {
		name   string
		header http.Header
		status int
		from   int
		to     int
	}{
		{"first bytes", http.Header{"Range": {byteRange(0, 10)}}, 206, 0, 10},
		{"to the end", http.Header{"Range": {"bytes=100-"}}, 206, 100, size},
		{"last bytes", http.Header{"Range": {"bytes=-7"}}, 206, size - 7, size},
		{"past the end", http.Header{"Range": {"bytes=5-999999"}}, 206, 5, size},
		{"unit unknown", http.Header{"Range": {"lines=1-2"}}, 200, 0, size},
		{"same file", http.Header{"Range": {byteRange(3, 9)}, "If-Range": {etag}}, 206, 3, 9},
		{"other file", http.Header{"Range": {byteRange(3, 9)}, "If-Range": {`"x"`}}, 200, 0, size},
	}
	for _, c := range cases {
		response, body, err := get(t, original.URL, c.header)
		if err != nil || response.StatusCode != c.status || !bytes.Equal(body, whole[c.from:c.to]) {
			t.Errorf("%s: %v %v, %d bytes", c.name, err, response, len(body))
		}
		if c.status == 206 && !strings.HasPrefix(response.Header.Get("Content-Range"), "bytes "+byteRange(c.from, c.to)[6:]+"/") {
			t.Errorf("%s: Content-Range %s", c.name, response.Header.Get("Content-Range"))
		}
		if response.Header.Get("ETag") != etag {
			t.Errorf("%s: ETag %s", c.name, response.Header.Get("ETag"))
		}
	}
	for name, header := range map[string]http.Header{
		"beyond": {"Range": {"bytes=999999-"}}, "no match": {"If-Match": {`"x"`}},
	} {
		if response, _, err := get(t, original.URL, header); err != nil || response.StatusCode != http.StatusRequestedRangeNotSatisfiable && response.StatusCode != http.StatusPreconditionFailed {
			t.Errorf("%s: %v %v", name, err, response)
		}
	}
	if empty := download(t, attachment(t, v, "source:empty-notice")); len(empty) != 0 {
		t.Errorf("the empty attachment has %d bytes", len(empty))
	}
}

func TestKeyIsChecked(t *testing.T) {
	for _, want := range []int{401, 403} {
		feed := newFeed(t, feedsim.Options{Key: "secret", Assume: feedsim.Assume{BadKeyStatus: want}})
		for _, header := range []string{"", "Bearer wrong", "secret", "Basic secret"} {
			response, body, err := get(t, feed.URL()+"/v1/feeds/datasets", http.Header{"Authorization": {header}})
			if err != nil || response.StatusCode != want || !strings.Contains(string(body), "unauthorized") {
				t.Errorf("%q: %v %v %s", header, err, response, body)
			}
		}
		if status, _ := call(t, feed, http.MethodGet, "/v1/feeds/datasets", ""); status != http.StatusOK {
			t.Errorf("the right key answered %d", status)
		}
	}
}

func TestAtMost200Names(t *testing.T) {
	feed, _ := newArchive(t, feedsim.Options{})
	ask := func(n int) int {
		names := make([]string, n)
		for i := range names {
			names[i] = "original"
		}
		body, err := json.Marshal(map[string]any{"files": names})
		if err != nil {
			t.Fatal(err)
		}
		status, _ := call(t, feed, http.MethodPost, versionPath("ds_a", 1)+"/links", string(body))
		return status
	}
	if got := ask(200); got != http.StatusOK {
		t.Errorf("200 names answered %d", got)
	}
	if got := ask(201); got != http.StatusBadRequest {
		t.Errorf("201 names answered %d", got)
	}
	if n := feed.LinkCalls(); n != 1 {
		t.Errorf("%d calls for links counted, want 1", n)
	}
	if n := feed.SignedNames()[feedsim.FileKey("ds_a", 1, "original")]; n != 200 {
		t.Errorf("%d names counted, want 200", n)
	}
}

func TestTLS(t *testing.T) {
	feed := newFeed(t, feedsim.Options{TLS: true})
	if !strings.HasPrefix(feed.URL(), "https://") || !strings.HasPrefix(feed.LinksURL(), "https://") {
		t.Fatalf("addresses %s and %s", feed.URL(), feed.LinksURL())
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(feed.CertificateAuthority())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for _, address := range []string{feed.URL(), feed.LinksURL()} {
		response, err := client.Do(newRequest(t, address+"/"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Error(err)
		}
		response.Body.Close()
		if refused, err := http.DefaultClient.Do(newRequest(t, address+"/")); err == nil {
			refused.Body.Close()
			t.Error("a client without the authority was served")
		}
	}
}

func TestDateIsTheFeedsClock(t *testing.T) {
	feed := newFeed(t, feedsim.Options{})
	response, _, err := get(t, feed.URL()+"/v1/feeds/datasets", nil)
	if err != nil || response.Header.Get("Date") != start.Format(http.TimeFormat) {
		t.Errorf("%v: Date %s", err, response.Header.Get("Date"))
	}
}

func TestCloseEndsAStall(t *testing.T) {
	feed, v := newArchive(t, feedsim.Options{})
	feed.Script(feedsim.Rule{Side: feedsim.SideLinks}, feedsim.Stall(10, nil, 0))
	address, err := url.Parse(v.Files.Schema.URL)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := connection.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := io.WriteString(connection, "GET "+address.RequestURI()+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Read(make([]byte, 1)); err != nil { // the answer has begun
		t.Fatal(err)
	}
	if err := feed.Close(); err != nil {
		t.Error(err)
	}
	// What is left is read to its end, which is a reset or not, by chance.
	if err := connection.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, connection); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stays open")
	}
}

package e2e_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"feedmirror/internal/feed/feedsim"
)

// TestAFileOfAuthoritiesIsTrusted mirrors a feed whose two ports speak TLS with an authority of their own.
func TestAFileOfAuthoritiesIsTrusted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, folderPlace(t), feedsim.Options{TLS: true})
	w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Points, Rows: 4}, feedsim.ReleaseSpec{})
	file := filepath.Join(w.home, "ca.pem")
	if err := os.WriteFile(file, w.feed.CertificateAuthority(), 0o600); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(w.feed.URL(), "https://") || !strings.HasPrefix(w.feed.LinksURL(), "https://") {
		t.Fatalf("the feed is at %s and %s", w.feed.URL(), w.feed.LinksURL())
	}
	if r := w.sync(0, "--ca-file", file); r.Versions.Committed != 1 || r.Files.Copied == 0 {
		t.Errorf("report: %+v", r)
	}
	w.published(permits, 1)
	w.env = []string{"MIRROR_CA_FILE=" + file}
	w.idlePass()
}

// company is a network in which feed, links and bucket are reached over TLS, with an authority of
// its own and a proxy.
type company struct {
	*world
	proxy               *connectProxy
	api, links, storage front
}

func newCompany(t *testing.T) *company {
	t.Helper()
	with := newCertified(t)
	server := servers.VersityGW(t)
	c := &company{storage: newFront(t, with, server.Endpoint)}
	at := s3Place(t, server)
	at.url = strings.Replace(at.url, server.Endpoint, "https://"+c.storage.address, 1)
	c.world = newWorld(t, at, feedsim.Options{})
	c.links = newFront(t, with, c.feed.LinksURL())
	c.api = newFront(t, with, rewriting(t, c.feed.URL(), c.feed.LinksURL(), "https://"+c.links.address))
	c.proxy = newConnectProxy(t)
	c.env = []string{"MIRROR_FEED_URL=https://" + c.api.address, "MIRROR_CA_FILE=" + with.file, "HTTPS_PROXY=" + c.proxy.url,
		"MIRROR_ALLOW_PRIVATE_LINKS=0.0.0.0/32", "MIRROR_LEASE_TTL=2s"}
	c.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Points, Rows: 6, Parts: 2}, feedsim.ReleaseSpec{}, feedsim.ReleaseSpec{Add: 2})
	return c
}

// rewriting returns a server that answers as target does, with one address replaced by another.
func rewriting(t *testing.T, target, from, to string) string {
	t.Helper()
	address, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(address) },
		ModifyResponse: func(answer *http.Response) error {
			body, err := io.ReadAll(answer.Body)
			body = bytes.ReplaceAll(body, []byte(from), []byte(to))
			answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			answer.Header.Set("Content-Length", strconv.Itoa(len(body)))
			return err
		},
	})
	t.Cleanup(server.Close)
	return server.URL
}

// TestAProxyCarriesFeedLinksAndBucket counts the tunnels of a whole mirror.
func TestAProxyCarriesFeedLinksAndBucket(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	if r := c.sync(0); r.Versions.Committed != 2 || r.Files.Failed != 0 {
		t.Errorf("report: %+v", r)
	}
	all := []string{c.api.address, c.links.address, c.storage.address}
	slices.Sort(all)
	if hosts := c.proxy.hosts(t); !slices.Equal(hosts, all) {
		t.Errorf("tunnels to %v, want %v", hosts, all)
	}
	c.fetchedOnce()
	c.published(permits, 2)
	c.run(0, "verify")
	c.run(0, "doctor")
}

// TestHostsInNoProxyAreReachedDirectly names two of three hosts in NO_PROXY.
func TestHostsInNoProxyAreReachedDirectly(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	c.env = append(c.env, "NO_PROXY="+c.api.address+","+c.storage.address)
	c.sync(0)
	if hosts := c.proxy.hosts(t); !slices.Equal(hosts, []string{c.links.address}) {
		t.Errorf("tunnels to %v, want %s", hosts, c.links.address)
	}
	// Reached directly, a link that leads into a private network is refused unless it is allowed.
	c.release(c.feed.Dataset(permits), feedsim.ReleaseSpec{Add: 1})
	c.env = append(c.env, "NO_PROXY=0.0.0.0")
	if r := c.sync(1, "--transfer-attempts", "1", "--allow-private-links", "10.0.0.0/8"); len(r.Failures) == 0 || !strings.Contains(r.Failures[0].Message, "not a public address") {
		t.Errorf("report: %+v", r)
	}
	c.sync(0)
	if hosts := c.proxy.hosts(t); len(hosts) != 1 {
		t.Errorf("tunnels to %v", hosts)
	}
	c.published(permits, 3)
}

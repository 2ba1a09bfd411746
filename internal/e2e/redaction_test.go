package e2e_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/feed/feedsim/catalogue"
	"feedmirror/internal/invariant"
)

var signature = regexp.MustCompile(`X-Feed-Signature=([0-9a-f]{64})`)

// planted is what the catalogue's redirects carry where a signature or a password stands.
const planted = "0123456789abcdef"

// TestNoFaultMakesASecretTold runs the program once under each case of the catalogue, at the most verbose
// level, and looks in everything it said and stored for the key and for each signature that went over the
// wire. Tries are few here: what is said at the first failure is said at the last.
func TestNoFaultMakesASecretTold(t *testing.T) {
	t.Parallel()
	tally := evidence.Count(t, "redaction")
	cases := make(chan catalogue.Case)
	var group sync.WaitGroup
	for range 6 { // most of a run is waiting
		place := folderPlace(t)
		w := newWorld(t, place, feedsim.Options{})
		w.secrets = append(w.secrets, planted)
		w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Points, Rows: 4, DocumentBytes: 4000}, feedsim.ReleaseSpec{})
		api, links := recordingLine(t, w.feed.URL()), recordingLine(t, w.feed.LinksURL())
		w.feed.AdvertiseLinks(links.url)
		w.env = []string{"MIRROR_FEED_URL=" + api.url, "MIRROR_TRANSFER_ATTEMPTS=1", "MIRROR_TRANSFER_IDLE_TIMEOUT=1s", "MIRROR_TRANSFER_RATE_WINDOW=1s"}
		buckets := t.TempDir()
		group.Go(func() {
			number := 0
			for c := range cases {
				number++
				w.redacted(c, filepath.Join(buckets, fmt.Sprint(number)), number)
				tally.Add(1)
			}
		})
		t.Cleanup(func() { w.searchRedacted(buckets, api, links) }) // before the world's own search, for which it adds secrets
	}
	for _, c := range redactionCases() {
		cases <- c
	}
	close(cases)
	group.Wait()
}

// redactionCases are all cases, in the short form a third of them, but those in which the API's client waits a minute for a silence to end.
// Nothing that it says then differs from what it says of any broken connection.
func redactionCases() []catalogue.Case {
	all := catalogue.Short()
	if evidence.Long() {
		all = catalogue.Cases()
	}
	var list []catalogue.Case
	for number, c := range all {
		short := number%3 != 0 && !evidence.Long() // package resilience searches every case in process
		if !short && (!c.Slow || c.Place == catalogue.Files) {
			list = append(list, c)
		}
	}
	return list
}

// redacted runs the program into a bucket of its own.
func (w *world) redacted(c catalogue.Case, bucket string, number int) {
	targets := []string{"snapshot/part-0000.parquet", "manifest.json", "source:permit-index"}
	w.feed.ClearScript()
	hits := c.Script(w.feed, c.Rule(targets[number%len(targets)]), 1)
	done := w.start([]string{"MIRROR_BUCKET=file://" + bucket}, "sync", "--output", "json").wait()
	if hits() == 0 {
		w.t.Errorf("%s: no fault struck", c)
	}
	if c.Exit != 0 && done.exit != c.Exit {
		w.t.Errorf("%s: ended with %d, want %d\n%s", c, done.exit, c.Exit, tail(done.err))
	}
	if done.exit != 0 && done.exit != 1 && done.exit != 4 {
		w.t.Errorf("%s: ended with %d\n%s", c, done.exit, tail(done.err))
	}
}

// searchRedacted judges the buckets, and takes every signature that was seen for a secret.
func (w *world) searchRedacted(buckets string, api, links plainLine) {
	w.t.Helper()
	for _, match := range signature.FindAllStringSubmatch(links.seen.text(), -1) {
		w.secrets = append(w.secrets, match[1])
	}
	if len(w.secrets) < 4 {
		w.t.Errorf("only %d secrets were seen on the wire", len(w.secrets))
	}
	if !strings.Contains(api.seen.text(), apiKey) || strings.Contains(links.seen.text(), apiKey) {
		w.t.Error("the API key must go to the API and nowhere else")
	}
	entries, err := os.ReadDir(buckets)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, entry := range entries {
		root := filepath.Join(buckets, entry.Name())
		for _, violation := range invariant.Check(invariant.Folder(root)) {
			w.t.Errorf("%s: %s", root, violation)
		}
	}
	w.checkFiles(buckets)
}

// plainLine is a port before another that keeps what clients send.
type plainLine struct {
	url  string
	seen *recorder
}

func recordingLine(t *testing.T, target string) plainLine {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	line := plainLine{url: "http://" + listener.Addr().String(), seen: &recorder{}}
	pairs := &tunnels{}
	pairs.serve(t, listener, func(client net.Conn) {
		server, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(target, "http://"))
		if err != nil {
			_ = client.Close() // the client is told by that
			return
		}
		pairs.splice(client, server, line.seen)
	})
	return line
}

// TestNoSecretIsToldBehindAProxy meets refusals that hold the key and signatures, over TLS and a proxy.
func TestNoSecretIsToldBehindAProxy(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	link := feedsim.Rule{Side: feedsim.SideLinks, Times: feedsim.Always}
	page := "<html>" + strings.Repeat("https://example.invalid/?X-Feed-Signature="+strings.Repeat("ab", 32)+" ", 3) + "Bearer " + apiKey + "</html>"
	faults := map[string]struct {
		rule  feedsim.Rule
		fault feedsim.Fault
	}{
		"link refused":    {link, feedsim.Refuse(403, "AccessDenied", "no "+apiKey)},
		"page for a file": {link, feedsim.Status(200, nil, page)},
		"link moved":      {link, feedsim.RedirectTo("https://" + c.links.address + "/x?X-Feed-Signature=" + strings.Repeat("cd", 32))},
		"api says it all": {feedsim.Rule{Side: feedsim.SideAPI, Resource: "versions", Times: feedsim.Always}, feedsim.Status(400, nil, page)},
		"api moved":       {feedsim.Rule{Side: feedsim.SideAPI, Times: feedsim.Always}, feedsim.RedirectTo("https://" + c.api.address + "/?api_key=" + url.QueryEscape(apiKey))},
	}
	for name, f := range faults {
		hits := c.feed.Script(f.rule, f.fault)
		done := c.start(nil, "sync", "--transfer-attempts", "1").wait()
		if done.exit == 0 || hits() == 0 {
			t.Errorf("%s: ended with %d after %d hits", name, done.exit, hits())
		}
		c.feed.ClearScript()
	}
	c.sync(0)
	for _, match := range signature.FindAllStringSubmatch(c.links.seen.text(), -1) {
		c.secrets = append(c.secrets, match[1])
	}
	if len(c.secrets) < 10 {
		t.Errorf("only %d secrets were seen on the wire", len(c.secrets))
	}
	if !strings.Contains(c.api.seen.text(), apiKey) || strings.Contains(c.links.seen.text(), apiKey) || strings.Contains(c.storage.seen.text(), apiKey) {
		t.Error("the API key must go to the API and nowhere else")
	}
	c.secrets = append(c.secrets, strings.Repeat("ab", 32), strings.Repeat("cd", 32))
	c.published(permits, 2)
}

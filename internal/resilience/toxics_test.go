package resilience_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/s3store"
	"feedmirror/internal/evidence"
	"feedmirror/internal/invariant"
	"feedmirror/internal/netclient"
)

// toxic is a way in which a network spoils connections.
type toxic struct {
	name       string
	kind       string
	attributes map[string]any
	toxicity   float32 // share of the connections, 0 for all
	// dead says that nothing gets through: a pass must fail. harmless, that all does: it must not.
	dead, harmless bool
}

// toxics are all kinds, in several strengths in the long form. Sizes are bytes, rates KB a second, times
// milliseconds (microseconds of the slicer).
func toxics() []toxic {
	list := []toxic{
		{name: "latency", kind: "latency", attributes: map[string]any{"latency": 20, "jitter": 15}, harmless: true},
		{name: "bandwidth", kind: "bandwidth", attributes: map[string]any{"rate": 4000}, harmless: true},
		{name: "slow close", kind: "slow_close", attributes: map[string]any{"delay": 100}, harmless: true},
		{name: "silence", kind: "timeout", attributes: map[string]any{"timeout": 0}, dead: true},
		{name: "silence, then closed", kind: "timeout", attributes: map[string]any{"timeout": 50}, dead: true},
		{name: "reset at once", kind: "reset_peer", attributes: map[string]any{"timeout": 0}, dead: true},
		{name: "reset after a while", kind: "reset_peer", attributes: map[string]any{"timeout": 15}},
		{name: "slices", kind: "slicer", attributes: map[string]any{"average_size": 4096, "size_variation": 2048, "delay": 10}, harmless: true},
		{name: "300 KB a connection", kind: "limit_data", attributes: map[string]any{"bytes": 300_000}},
	}
	if !evidence.Long() {
		return list
	}
	half := func(t toxic) toxic {
		t.name, t.toxicity, t.dead = t.name+", every other connection", 0.5, false
		return t
	}
	for _, t := range list {
		list = append(list, half(t))
	}
	return append(list,
		toxic{name: "long latency", kind: "latency", attributes: map[string]any{"latency": 150, "jitter": 100}, harmless: true},
		toxic{name: "narrow", kind: "bandwidth", attributes: map[string]any{"rate": 500}, harmless: true},
		toxic{name: "tiny slices", kind: "slicer", attributes: map[string]any{"average_size": 200, "size_variation": 100, "delay": 5}, harmless: true},
		toxic{name: "reset in the middle", kind: "reset_peer", attributes: map[string]any{"timeout": 60}},
		toxic{name: "60 KB a connection", kind: "limit_data", attributes: map[string]any{"bytes": 60_000}},
		toxic{name: "20 KB a connection", kind: "limit_data", attributes: map[string]any{"bytes": 20_000}},
		toxic{name: "1 KB a connection", kind: "limit_data", attributes: map[string]any{"bytes": 1000}},
		toxic{name: "no byte", kind: "limit_data", attributes: map[string]any{"bytes": 0}, dead: true},
	)
}

// line is a network between two sides.
type line struct{ proxy *toxiproxy.Proxy }

// newLine opens a way to an http URL.
func newLine(t *testing.T, to string) line {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, "line", "127.0.0.1:0", strings.TrimPrefix(to, "http://"))
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	return line{proxy}
}

func (l line) url() string { return "http://" + l.proxy.Listen }

// spoil adds a toxic to one direction.
func (l line) spoil(t *testing.T, what toxic, direction string) {
	t.Helper()
	settings := map[string]any{"type": what.kind, "stream": direction, "attributes": what.attributes, "toxicity": 1}
	if what.toxicity > 0 {
		settings["toxicity"] = what.toxicity
	}
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.proxy.Toxics.AddToxicJson(bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

// nervous are limits so short that a test can wait for them. What is harmless is not held to them: a busy
// machine would look like a bad line.
func (x toxic) nervous() limits {
	if x.harmless {
		return limits{}
	}
	return limits{idle: 400 * time.Millisecond, rate: 1024, window: time.Second}
}

// exits returns how a pass may end over a line with the toxic: well, or with one of these codes.
func (x toxic) exits(failed ...int) []int {
	switch {
	case x.harmless:
		return []int{0}
	case x.dead:
		return failed
	default:
		return append([]int{0}, failed...)
	}
}

// directions of a line; in the short form a toxic spoils one of them, in turn.
var directions = []string{"downstream", "upstream"}

// spoiling returns the toxics that spoil a direction.
func spoiling(direction string) []toxic {
	all := toxics()
	if evidence.Long() {
		return all
	}
	var list []toxic
	for at, x := range all {
		if directions[at%len(directions)] == direction {
			list = append(list, x)
		}
	}
	return list
}

// TestFeedBehindToxics spoils the line to the API (lists, versions and /links) and the one to the links
// host, in each direction.
func TestFeedBehindToxics(t *testing.T) {
	tally := evidence.Count(t, "network-toxics")
	for _, side := range []string{"api", "links"} {
		for _, direction := range directions {
			t.Run(side+" "+direction, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, smallVersion())
				for _, x := range spoiling(direction) {
					t.Run(x.name, func(t *testing.T) { w.feedToxic(t, side, direction, x) })
					tally.Add(1)
				}
			})
		}
	}
}

func (w *world) feedToxic(t *testing.T, side, direction string, x toxic) {
	l, at := x.nervous(), w.memory()
	exits := x.exits(1)
	defer w.feed.AdvertiseLinks(w.feed.LinksURL())
	if side == "api" {
		way := newLine(t, w.feed.URL())
		way.spoil(t, x, direction)
		l.feedURL, exits = way.url(), x.exits(1, 4)
	} else {
		way := newLine(t, w.feed.LinksURL())
		way.spoil(t, x, direction)
		w.feed.AdvertiseLinks(way.url())
	}
	report := w.limitedPass(t, at, l, exits...)
	w.feed.AdvertiseLinks(w.feed.LinksURL())
	w.healed(t, at, report)
}

// TestBucketBehindToxics spoils the line to a real S3 server.
func TestBucketBehindToxics(t *testing.T) {
	tally := evidence.Count(t, "network-toxics-bucket")
	for _, direction := range directions {
		t.Run(direction, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, smallVersion())
			for _, x := range spoiling(direction) {
				t.Run(x.name, func(t *testing.T) { w.bucketToxic(t, direction, x) })
				tally.Add(1)
			}
		})
	}
}

func (w *world) bucketToxic(t *testing.T, direction string, x toxic) {
	server := servers.VersityGW(t)
	name := server.NewBucket(t)
	open := func(endpoint string, patience time.Duration) bucket.Store {
		client, err := netclient.New(netclient.Options{Silence: patience + patience/8, HeaderTimeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.CloseIdleConnections)
		store, err := s3store.New(t.Context(), s3store.Options{Bucket: name, Endpoint: endpoint, Region: server.Region, HTTPClient: client,
			Credentials: server.Credentials(),
			Retry:       bucket.Policy{Initial: time.Millisecond, Longest: 20 * time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	way := newLine(t, server.Endpoint)
	patience := x.nervous().idle // as long as a test can wait
	if x.harmless {
		patience = time.Minute
	}
	way.spoil(t, x, direction)
	at := place{store: open(way.url(), patience), url: "s3://" + name, seen: new(invariant.Snapshot), bucket: func() invariant.Bucket {
		dir := t.TempDir()
		server.Download(t, name, dir)
		return invariant.Folder(dir)
	}}
	report := w.pass(t, at, x.exits(1, 5)...)
	at.store = open(server.Endpoint, time.Minute)
	w.healed(t, at, report)
}

// A line that works must carry what it carries without it: else the tests above would prove nothing.
func TestALineCarriesWhatItIsGiven(t *testing.T) {
	w := newWorld(t, smallVersion())
	way := newLine(t, w.feed.URL())
	address, err := url.Parse(way.url())
	if err != nil || address.Port() == "0" {
		t.Fatalf("%s, %v", way.url(), err)
	}
	at := w.memory()
	w.healed(t, at, w.limitedPass(t, at, limits{feedURL: way.url()}, 0))
	if sent := fmt.Sprint(w.feed.APICalls()); sent == "0" {
		t.Error("nothing came through")
	}
}

package resilience_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/feed"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
	"feedmirror/internal/netclient"
	"feedmirror/internal/testservers"
	"feedmirror/internal/transfer"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

var servers = testservers.New()

func TestMain(m *testing.M) { os.Exit(servers.Run(m)) }

// dataset is the one that every world mirrors: a part that is streamed, attachments that are fetched whole.
const dataset = "ds_bulk"

// apiKey is nothing that stands anywhere by chance; planted is what the catalogue's redirects carry where
// a signature or a password stands.
const (
	apiKey  = "pk_live_7f3d+resilience/never=shown"
	planted = "0123456789abcdef"
)

// signed is a signature or a credential of a link in any spelling, with its value.
var signed = regexp.MustCompile(`X-Feed-(Signature|Credential)(=|%3[Dd]|\\u003[dD])[0-9a-zA-Z%]{4,}`)

// checkTold wants no secret in a text.
func checkTold(t *testing.T, what, text string) {
	t.Helper()
	for _, secret := range []string{apiKey, planted, url.QueryEscape(apiKey)} {
		if at := strings.Index(text, secret); at >= 0 {
			t.Errorf("%s tells a secret: ...%s", what, text[max(0, at-200):at+8])
		}
	}
	if found := signed.FindString(text); found != "" {
		t.Errorf("%s tells a signature: %s", what, found)
	}
}

// world is a simulated feed with a version to mirror.
type world struct {
	t      *testing.T
	feed   *feedsim.Feed
	runs   atomic.Int64
	want   map[string]string // sha256 of every data object of a mirror, by key
	copied int64             // files that an undisturbed pass copies
	// fetched are the files of the version, as the links host knows them; targets one of each way in which
	// a file is fetched: streamed, whole, and read before all others.
	fetched, targets []string
}

// newWorld starts a feed and mirrors it once undisturbed.
func newWorld(t *testing.T, spec feedsim.BulkSpec) *world {
	t.Helper()
	simulated, err := feedsim.Start(feedsim.Options{Seed: 11, Key: apiKey})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := simulated.Close(); err != nil {
			t.Error(err)
		}
	})
	spec.Dataset = dataset
	if _, err := simulated.AddBulk(spec); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, feed: simulated}
	place := w.memory()
	w.copied = w.pass(t, place, 0).Files.Copied
	w.want = place.data()
	w.targets = []string{"snapshot/part-0000.parquet", "manifest.json"}
	for _, event := range simulated.Log() {
		if event.Side == feedsim.SideLinks {
			w.fetched = append(w.fetched, event.File)
			if strings.HasPrefix(event.File, "document:") && len(w.targets) == 2 {
				w.targets = append(w.targets, event.File)
			}
		}
	}
	if len(w.want) < 4 {
		t.Fatalf("the reference holds %v", w.want)
	}
	return w
}

// smallVersion has a streamed part and a few attachments.
func smallVersion() feedsim.BulkSpec {
	return feedsim.BulkSpec{Parts: 1, PartBytes: 1<<20 + 4096, Attachments: 4, AttachmentBytes: 2 << 10}
}

// place is where a mirror stands, for one or more passes.
type place struct {
	store  bucket.Store
	url    string
	bucket func() invariant.Bucket // what it holds now
	// seen is what it held after the last pass; nothing but passes writes to it.
	seen *invariant.Snapshot
}

// look reads everything that a place holds, and wants it to keep its promises.
func (p place) look(t *testing.T) {
	t.Helper()
	held := p.bucket()
	now, err := invariant.Take(held)
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range append(invariant.Check(held), invariant.Compare(*p.seen, now)...) {
		t.Errorf("the pass left: %s", violation)
	}
	for key, object := range now.Objects {
		if object.Size < 1<<20 && p.seen.Objects[key] != object {
			checkTold(t, key, read(t, held, key))
		}
	}
	*p.seen = now
}

func (w *world) memory() place {
	memory := buckettest.NewMemory()
	return place{store: memory, url: fmt.Sprintf("file:///memory/%d", w.runs.Add(1)), seen: new(invariant.Snapshot),
		bucket: func() invariant.Bucket { return inMemory{memory} }}
}

// inMemory shows the checker a bucket in memory.
type inMemory struct{ *buckettest.Memory }

// List implements invariant.Bucket.
func (m inMemory) List() ([]string, error) { return m.Keys(), nil }

// Read implements invariant.Bucket.
func (m inMemory) Read(key string) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(m.Bytes(key))), nil
}

func read(t *testing.T, from invariant.Bucket, key string) string {
	t.Helper()
	body, err := from.Read(key)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// data returns the sha256 of every object that readers use, as it stood after the last pass.
func (p place) data() map[string]string {
	data := map[string]string{}
	for key, object := range p.seen.Objects {
		for _, prefix := range []string{"snapshot/", "changes/", "id_map/", "attachments/", "versions/"} {
			// A record and what the store said of objects carry times and names of runs.
			if strings.HasPrefix(key, prefix) && !strings.Contains(key, "/_delta_log/") && !strings.HasSuffix(key, "/record.json") && !strings.HasSuffix(key, "/stored.json") {
				data[key] = object.SHA256
			}
		}
	}
	return data
}

// limits are how a pass's clients are set up; zero values are what the program uses.
type limits struct {
	feedURL  string // of the API, or what stands in front of it
	idle     time.Duration
	rate     int64 // least bytes a second of downloads, over window
	window   time.Duration
	attempts int
	http     *http.Client // to the API
}

// requests reads what a pass counted.
type requests struct {
	feed     feed.Counts
	bucket   bucket.Counts
	transfer transfer.Counts
}

// Counts implements mirror.Requests.
func (r *requests) Counts() mirror.RequestCounts {
	return mirror.RequestCounts{Feed: r.feed.Feed.Load(), Links: r.feed.Links.Load(), Source: r.transfer.Requests.Load(),
		BucketRead: r.bucket.Read.Load(), BucketWrite: r.bucket.Write.Load(), BucketList: r.bucket.List.Load()}
}

// noPause passes the pauses between calls at once.
func noPause(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func (w *world) options(t *testing.T, at place, log io.Writer, l limits) mirror.Options {
	t.Helper()
	counts := &requests{}
	address := l.feedURL
	if address == "" {
		address = w.feed.URL()
	}
	client, err := feed.New(feed.Options{BaseURL: address, Key: func() (string, error) { return w.feed.Key(), nil }, HTTP: l.http,
		Sleep: noPause, Counts: &counts.feed, Limits: feed.Limits{Idle: l.idle}})
	if err != nil {
		t.Fatal(err)
	}
	store := bucket.WithCounts(bucket.WithRetry(at.store, bucket.Policy{Initial: time.Millisecond, Longest: 20 * time.Millisecond}), &counts.bucket)
	source, err := netclient.New(netclient.Options{HTTP1Only: true, RefuseRedirects: true, Connections: 16})
	if err != nil {
		t.Fatal(err)
	}
	transport := source.Transport.(*http.Transport)
	transfer.Guard(transport, transfer.GuardOptions{Loopback: true})
	t.Cleanup(transport.CloseIdleConnections)
	engine := transfer.Options{HTTP: transport, Sink: store, Linker: client, Backoff: time.Millisecond, Counts: &counts.transfer,
		IdleTimeout: l.idle, MinRate: l.rate, RateWindow: l.window, Attempts: l.attempts}
	run := fmt.Sprintf("run%04d", w.runs.Add(1))
	return mirror.Options{
		Settings: mirror.Settings{ShardOf: 1, History: manifest.HistoryAll, FullEvery: 24 * time.Hour, Overlap: 10 * time.Minute,
			RebuildWait: 10 * time.Minute, LeaseTTL: time.Minute, OnMajor: manifest.MajorHold, AtOnce: 4},
		Feed: client, FeedURL: w.feed.URL(), Store: store, StoreURL: at.url,
		Probe: func(ctx context.Context) (bucket.ProbeReport, error) {
			return bucket.Probe(ctx, at.store, bucket.ProbeOptions{Run: run})
		},
		Mover: transfer.New(engine), Manifests: mirror.ManifestReader{Options: engine},
		Observer: nobody{}, Log: zerolog.New(log).Level(zerolog.TraceLevel), Run: run, Host: "test", Tool: "mirror test",
		Now: time.Now, Pause: noPause, Requests: counts,
	}
}

// nobody watches.
type nobody struct{}

func (nobody) Planned(string, int64, int64) {}
func (nobody) Finished(string)              {}
func (nobody) Stage(string, string)         {}

// pass makes one and wants one of these exit codes. Whatever it ended with, the bucket keeps its promises.
func (w *world) pass(t *testing.T, at place, exits ...int) mirror.Report {
	t.Helper()
	return w.limitedPass(t, at, limits{}, exits...)
}

func (w *world) limitedPass(t *testing.T, at place, l limits, exits ...int) mirror.Report {
	t.Helper()
	var log bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	report := mirror.Run(ctx, w.options(t, at, &log, l))
	at.look(t)
	text, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	checkTold(t, "the log", log.String())
	checkTold(t, "the report", string(text))
	for _, exit := range exits {
		if report.Exit == exit {
			return report
		}
	}
	t.Fatalf("the pass ended with %d, want %v:\n%s\n%s", report.Exit, exits, text, log.String())
	return report
}

// healed wants a pass without faults to end well and to fetch no file again that the pass before it had
// copied, the manifest excepted, and the mirror to be what an undisturbed one is.
func (w *world) healed(t *testing.T, at place, before mirror.Report) {
	t.Helper()
	w.feed.ClearScript()
	after := w.pass(t, at, 0)
	if before.Files.Copied+after.Files.Copied > w.copied+1 {
		t.Errorf("copied %d files and then %d, an undisturbed pass copies %d", before.Files.Copied, after.Files.Copied, w.copied)
	}
	if got := at.data(); !maps.Equal(got, w.want) {
		t.Errorf("the mirror holds %v, an undisturbed one %v", got, w.want)
	}
	pointer := struct{ Version int64 }{}
	if err := json.Unmarshal([]byte(read(t, at.bucket(), manifest.PointerKey(dataset))), &pointer); err != nil || pointer.Version != 1 {
		t.Errorf("the pointer is at %d, %v", pointer.Version, err)
	}
	for _, broken := range w.feed.ViolationsSeen() {
		t.Errorf("links host: %+v", broken)
	}
}

package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/bucket/localstore"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
)

// simulated is a feed on loopback, a folder, and an engine between them.
type simulated struct {
	t       *testing.T
	feed    *feedsim.Feed
	client  *feed.Client
	store   *localstore.Store
	engine  *Engine
	counts  *Counts
	dataset string
	version manifest.Number
}

func simulate(t *testing.T, assume feedsim.Assume) *simulated {
	t.Helper()
	s := &simulated{t: t, dataset: "ds_permits", counts: new(Counts)}
	var err error
	if s.feed, err = feedsim.Start(feedsim.Options{Seed: 1, Assume: assume}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.feed.Close(); err != nil {
			t.Errorf("close feed: %v", err)
		}
	})
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16}
	Guard(transport, GuardOptions{Loopback: true})
	t.Cleanup(transport.CloseIdleConnections)
	api := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(api.CloseIdleConnections)
	s.client, err = feed.New(feed.Options{
		BaseURL: s.feed.URL(), Key: func() (string, error) { return s.feed.Key(), nil }, HTTP: api,
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.store, err = localstore.New(localstore.Options{Root: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	s.engine = New(Options{
		HTTP: transport, Sink: s.store, Linker: s.client, Counts: s.counts,
		Backoff: time.Millisecond,
	})
	return s
}

// bulk releases a version of two streamed parts and attachments, one of them streamed too.
func (s *simulated) bulk(attachments int) {
	s.t.Helper()
	dataset, err := s.feed.AddBulk(feedsim.BulkSpec{
		Dataset: s.dataset, Parts: 2, PartBytes: 3 << 20, Attachments: attachments, AttachmentBytes: 2 << 10, OriginalBytes: 1<<20 + 1,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.version = manifest.Number(dataset.Current())
}

// files reads the version's files from the feed.
func (s *simulated) files() (files []File, lifetime time.Duration) {
	s.t.Helper()
	answer, err := s.client.Version(s.t.Context(), s.dataset, s.version, func(entry feed.Entry) error {
		key := manifest.AttachmentKey(entry.SHA256)
		if entry.Kind != "" {
			key = manifest.FileKey(s.dataset, s.version, manifest.File{Kind: entry.Kind, Path: entry.Name})
		}
		files = append(files, File{Name: entry.Name, Key: key, Size: entry.Size, SHA256: entry.SHA256})
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return files, answer.Lifetime
}

func (s *simulated) copy(files []File, lifetime time.Duration) Summary {
	s.t.Helper()
	job := Job{Dataset: s.dataset, Version: s.version, Lifetime: lifetime, Files: sequence(files...)}
	summary, err := s.engine.Copy(s.t.Context(), job, nil)
	if err != nil {
		s.t.Fatalf("copy: %v", err)
	}
	return summary
}

// wantStored checks that the folder holds each file, that each was sent to its end once, and
// that no request broke the rules of signed links.
func (s *simulated) wantStored(files []File, sentOnce bool) {
	s.t.Helper()
	for _, file := range files {
		body, _, err := s.store.Open(s.t.Context(), file.Key, 0, -1)
		if err != nil {
			s.t.Fatalf("%s: %v", file.Name, err)
		}
		digest := sha256.New()
		if _, err := io.Copy(digest, body); err != nil {
			s.t.Fatal(err)
		}
		if err := body.Close(); err != nil {
			s.t.Fatal(err)
		}
		if !bytes.Equal(digest.Sum(nil), file.SHA256[:]) {
			s.t.Errorf("%s holds other bytes", file.Key)
		}
		if sent := s.feed.CompletedFile(s.dataset, int64(s.version), file.Name); sentOnce && sent != 1 {
			s.t.Errorf("%s was sent to its end %d times", file.Name, sent)
		}
	}
	if broken := s.feed.ViolationsSeen(); len(broken) > 0 {
		s.t.Errorf("requests that break the rules: %+v", broken)
	}
}

func TestCopiesFromTheSimulatedFeed(t *testing.T) {
	s := simulate(t, feedsim.Assume{})
	s.bulk(450)
	files, lifetime := s.files()
	if summary := s.copy(files, lifetime); summary.Copied != int64(len(files)) {
		t.Fatalf("summary %+v of %d files", summary, len(files))
	}
	s.wantStored(files, true)
	if want := (len(files) + 199) / 200; s.feed.LinkCalls() != want {
		t.Errorf("%d calls for links, want %d", s.feed.LinkCalls(), want)
	}
	if summary := s.copy(files[:3], lifetime); summary.Present != 3 {
		t.Errorf("a second copy: %+v", summary)
	}
}

func TestFaultsOfTheSimulatedFeed(t *testing.T) {
	faults := map[string][]feedsim.Fault{
		"drop": {feedsim.Drop(700)}, "drop at once": {feedsim.Drop(-1)}, "flipped byte": {feedsim.FlipByte(-1)},
		"html": {feedsim.HTML()}, "gzip": {feedsim.Gzip()}, "append": {feedsim.Append("x")},
		"short length": {feedsim.Truncate(900, feedsim.TruncateShortLength)},
		"short chunks": {feedsim.Truncate(900, feedsim.TruncateChunked)},
		"short body":   {feedsim.Truncate(900, feedsim.TruncateFullLength)},
		"expired":      {feedsim.ExpireLink()}, "stall": {feedsim.Stall(900, nil, 0)},
		"503":             {feedsim.Status(503, nil, "")},
		"404":             {feedsim.Status(404, nil, "")},
		"redirect":        {feedsim.RedirectTo("http://localhost/elsewhere")},
		"range ignored":   {feedsim.Drop(900), feedsim.IgnoreRange()},
		"wrong range":     {feedsim.Drop(900), feedsim.WrongContentRange()},
		"other etag":      {feedsim.Drop(900), feedsim.OtherETag()},
		"expired midfile": {feedsim.Drop(900), feedsim.ExpireLink()},
		"416":             {feedsim.Drop(900), feedsim.Status(416, nil, "")},
	}
	for name, sequence := range faults {
		t.Run(name, func(t *testing.T) {
			s := simulate(t, feedsim.Assume{})
			if name == "stall" { // a busy machine looks like a stall: only this one is judged by it
				s.engine.opts.IdleTimeout = 500 * time.Millisecond
			}
			s.bulk(30)
			files, lifetime := s.files()
			var hits []func() int
			for _, file := range []string{files[0].Name, files[len(files)-2].Name} { // a part and an attachment
				for i, what := range sequence {
					hits = append(hits, s.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, File: file, Nth: i + 1}, what))
				}
			}
			if summary := s.copy(files, lifetime); summary.Copied != int64(len(files)) {
				t.Fatalf("summary %+v of %d files", summary, len(files))
			}
			s.wantStored(files, false)
			for i, hit := range hits {
				if hit() != 1 {
					t.Errorf("fault %d hit %d times", i, hit())
				}
			}
			if s.feed.LinkCalls() > (len(files)+199)/200+2 {
				t.Errorf("%d calls for links", s.feed.LinkCalls())
			}
		})
	}
}

// However a store words expiry, all links that expire at once cost a few shared calls.
func TestAllLinksExpireAtTheSimulatedFeed(t *testing.T) {
	for wording := feedsim.ExpiredAccessDenied; wording <= feedsim.ExpiredUnauthorized; wording++ {
		t.Run(fmt.Sprint(wording), func(t *testing.T) {
			s := simulate(t, feedsim.Assume{ExpiredLink: wording})
			s.bulk(100)
			files, lifetime := s.files()
			expired := false
			job := Job{Dataset: s.dataset, Version: s.version, Lifetime: lifetime, Files: sequence(files...)}
			summary, err := s.engine.Copy(t.Context(), job, func(File, Outcome) {
				if !expired {
					expired = true
					s.feed.ExpireLinks()
				}
			})
			if err != nil || summary.Copied != int64(len(files)) {
				t.Fatalf("summary %+v, %v", summary, err)
			}
			s.wantStored(files, false)
			for name, times := range s.feed.SignedNames() {
				if times > 2 {
					t.Errorf("%s was signed %d times", name, times)
				}
			}
		})
	}
}

func TestWrongLinksOfTheSimulatedFeed(t *testing.T) {
	tests := map[string]struct {
		what feedsim.Fault
		kind fault.Kind
		side fault.Side
	}{
		"links":  {feedsim.WrongLinks(), fault.WrongBytes, fault.SideSource},
		"hashes": {feedsim.WrongHashes(), fault.Malformed, fault.SideFeed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := simulate(t, feedsim.Assume{})
			s.bulk(30)
			files, lifetime := s.files()
			s.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Resource: "links", Times: feedsim.Always}, test.what)
			summary := s.copy(files[:2], lifetime)
			if summary.Failed != 2 {
				t.Fatalf("summary %+v", summary)
			}
			for _, failure := range summary.Failures {
				if !fault.Is(failure.Err, test.kind) || fault.SideOf(failure.Err) != test.side {
					t.Errorf("%v, want %s of %s", failure.Err, test.kind, test.side)
				}
				if _, err := s.store.Stat(t.Context(), failure.File.Key); !fault.Is(err, fault.NotFound) {
					t.Errorf("%s stands: %v", failure.File.Key, err)
				}
			}
		})
	}
}

// The context ends while files are in flight: nothing is left under a key that is not whole.
func TestStopWhileCopyingFromTheSimulatedFeed(t *testing.T) {
	s := simulate(t, feedsim.Assume{})
	s.bulk(30)
	files, lifetime := s.files()
	s.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Times: feedsim.Always}, feedsim.SlowDrip(1<<20))
	ctx, cancel := context.WithCancel(t.Context())
	job := Job{Dataset: s.dataset, Version: s.version, Lifetime: lifetime, Files: sequence(files...)}
	copied := map[string]bool{}
	_, err := s.engine.Copy(ctx, job, func(file File, _ Outcome) {
		copied[file.Key] = true
		cancel()
	})
	cancel()
	if err == nil {
		t.Fatal("copy ended well")
	}
	var whole []File
	for _, file := range files {
		if _, err := s.store.Stat(t.Context(), file.Key); err == nil {
			whole = append(whole, file)
		} else if copied[file.Key] {
			t.Errorf("%s was reported and does not stand", file.Key)
		}
	}
	s.wantStored(whole, false)
	for info, err := range s.store.List(t.Context(), "", "") {
		if err != nil || strings.HasPrefix(info.Key, "_") {
			t.Errorf("left behind: %s, %v", info.Key, err)
		}
	}
}

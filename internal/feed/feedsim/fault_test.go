package feedsim_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// faulty returns a feed whose next download of the original is hit by the fault, the original's entry and its bytes.
func faulty(t *testing.T, fault feedsim.Fault) (*feedsim.Feed, entry, []byte) {
	t.Helper()
	feed, v := newArchive(t, feedsim.Options{})
	original := attachment(t, v, "original")
	whole := download(t, original)
	feed.ResetLog()
	feed.Script(feedsim.Rule{Side: feedsim.SideLinks, File: "original"}, fault)
	return feed, original, whole
}

func TestFaultsOfAFile(t *testing.T) {
	flipped := func(whole []byte, at int) []byte {
		other := bytes.Clone(whole)
		other[at] ^= 0xff
		return other
	}
	cases := []struct {
		name   string
		fault  feedsim.Fault
		status int
		failed bool // the client sees a broken body
		body   func(whole []byte) []byte
	}{
		{"status", feedsim.Status(503, http.Header{"Retry-After": {"2"}}, "later"), 503, false, func([]byte) []byte { return []byte("later") }},
		{"drop", feedsim.Drop(100), 200, true, func(w []byte) []byte { return w[:100] }},
		{"truncate short length", feedsim.Truncate(100, feedsim.TruncateShortLength), 200, false, func(w []byte) []byte { return w[:100] }},
		{"truncate chunked", feedsim.Truncate(100, feedsim.TruncateChunked), 200, false, func(w []byte) []byte { return w[:100] }},
		{"truncate full length", feedsim.Truncate(100, feedsim.TruncateFullLength), 200, true, func(w []byte) []byte { return w[:100] }},
		{"flip first", feedsim.FlipByte(0), 200, false, func(w []byte) []byte { return flipped(w, 0) }},
		{"flip last", feedsim.FlipByte(-1), 200, false, func(w []byte) []byte { return flipped(w, len(w)-1) }},
		{"append", feedsim.Append("!"), 200, false, func(w []byte) []byte { return append(bytes.Clone(w), '!') }},
		{"html", feedsim.HTML(), 200, false, nil},
		{"expire link", feedsim.ExpireLink(), 403, false, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			feed, original, whole := faulty(t, c.fault)
			response, body, err := get(t, original.URL, nil)
			if response == nil || response.StatusCode != c.status || (err != nil) != c.failed {
				t.Fatalf("%v %v", err, response)
			}
			if c.body != nil && !bytes.Equal(body, c.body(whole)) {
				t.Errorf("%d bytes of %d: %q", len(body), len(whole), body)
			}
			if n := feed.CompletedFile("ds_a", 1, "original"); n != 0 {
				t.Errorf("%d completions of a spoilt file", n)
			}
			if e := feed.Log()[0]; e.Fault == "" || e.File != "original" {
				t.Errorf("event %+v", e)
			}
			if again := download(t, original); !bytes.Equal(again, whole) {
				t.Error("the fault hit twice")
			}
			if n := feed.Completed()[feedsim.FileKey("ds_a", 1, "original")]; n != 1 {
				t.Errorf("%d completions, want 1", n)
			}
		})
	}
}

func TestDropBeforeTheAnswer(t *testing.T) {
	_, original, _ := faulty(t, feedsim.Drop(-1))
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(newRequest(t, original.URL))
	if err == nil {
		response.Body.Close()
		t.Fatalf("answered %v", response)
	}
	download(t, original)
}

func newRequest(t *testing.T, address string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	return request
}

func TestRangeFaults(t *testing.T) {
	header := http.Header{"Range": {"bytes=50-99"}}
	_, original, whole := faulty(t, feedsim.IgnoreRange())
	if response, body, err := get(t, original.URL, header); err != nil || response.StatusCode != http.StatusOK || !bytes.Equal(body, whole) {
		t.Errorf("ignore range: %v %v", err, response)
	}
	_, original, _ = faulty(t, feedsim.WrongContentRange())
	if response, _, err := get(t, original.URL, header); err != nil || !strings.HasPrefix(response.Header.Get("Content-Range"), "bytes 51-100/") {
		t.Errorf("wrong content range: %v %v", err, response)
	}
	_, original, _ = faulty(t, feedsim.OtherETag())
	first, _, err := get(t, original.URL, header)
	second, _, err2 := get(t, original.URL, header)
	if errors.Join(err, err2) != nil || first.Header.Get("ETag") == second.Header.Get("ETag") {
		t.Errorf("other etag: %v", errors.Join(err, err2))
	}
	_, original, _ = faulty(t, feedsim.RedirectTo("http://127.0.0.1:1/elsewhere"))
	response, err := http.DefaultTransport.RoundTrip(newRequest(t, original.URL))
	if err != nil || response.StatusCode != http.StatusFound || response.Header.Get("Location") != "http://127.0.0.1:1/elsewhere" {
		t.Fatalf("redirect: %v %v", err, response)
	}
	response.Body.Close()
}

func TestGzipNobodyAskedFor(t *testing.T) {
	_, original, whole := faulty(t, feedsim.Gzip())
	response, body, err := get(t, original.URL, nil)
	if err != nil || response.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("%v %v", err, response)
	}
	reader, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := io.ReadAll(reader); err != nil || !bytes.Equal(plain, whole) {
		t.Errorf("%v, %d bytes", err, len(plain))
	}
}

func TestStallGoesOnWhenReleased(t *testing.T) {
	released := make(chan struct{})
	feed, original, whole := faulty(t, feedsim.Stall(64, released, 0))
	response, err := http.DefaultClient.Do(newRequest(t, original.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	begin := make([]byte, 64)
	if _, err := io.ReadFull(response.Body, begin); err != nil {
		t.Fatal(err)
	}
	if e := feed.Log()[0]; !e.End.IsZero() {
		t.Errorf("the stalled request has ended: %+v", e)
	}
	close(released)
	rest, err := io.ReadAll(response.Body)
	if err != nil || !bytes.Equal(append(begin, rest...), whole) {
		t.Errorf("%v, %d bytes", err, len(rest))
	}
	if n := feed.CompletedFile("ds_a", 1, "original"); n != 1 {
		t.Errorf("%d completions, want 1", n)
	}
}

func TestAStallThatTheClientGaveUpCompletesNothing(t *testing.T) {
	feed, original, _ := faulty(t, feedsim.Stall(64, nil, 0))
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	response, err := http.DefaultClient.Do(newRequest(t, original.URL).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.ReadFull(response.Body, make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	giveUp()
	for deadline := time.Now().Add(time.Minute); feed.Log()[0].End.IsZero(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the stalled request does not end")
		}
	}
	if e := feed.Log()[0]; e.Complete || e.Sent != 64 {
		t.Errorf("the event is %+v, want 64 bytes sent and not complete", e)
	}
}

func TestStallEndsAfterItsTime(t *testing.T) {
	_, original, whole := faulty(t, feedsim.Stall(64, nil, 50*time.Millisecond))
	before := time.Now()
	_, body, err := get(t, original.URL, nil)
	if took := time.Since(before); err != nil || !bytes.Equal(body, whole) || took < 50*time.Millisecond {
		t.Errorf("%v, %d bytes in %s", err, len(body), took)
	}
}

func TestSlowDripKeepsItsRate(t *testing.T) {
	feed, original, whole := faulty(t, feedsim.SlowDrip(4000))
	before := time.Now()
	_, body, err := get(t, original.URL, nil)
	least := time.Duration(float64(len(whole)) / 4000 * 0.9 * float64(time.Second))
	if took := time.Since(before); err != nil || !bytes.Equal(body, whole) || took < least {
		t.Errorf("%v, %d bytes in %s, want at least %s", err, len(body), took, least)
	}
	feed.Script(feedsim.Rule{File: "original"}, feedsim.SlowDrip(1))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	response, err := http.DefaultClient.Do(newRequest(t, original.URL).WithContext(ctx))
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cancelled request ended with %v", err)
	}
}

func TestWrongLinksAndHashes(t *testing.T) {
	feed, honest := newArchive(t, feedsim.Options{})
	right := attachment(t, honest, "original")
	feed.Script(feedsim.Rule{Resource: "versions"}, feedsim.WrongLinks())
	wrong := attachment(t, fetchVersion(t, feed, "ds_a", 1), "original")
	if _, body, err := get(t, wrong.URL, nil); err != nil || wrong.SHA256 != right.SHA256 || int64(len(body)) == right.SizeBytes {
		t.Errorf("wrong links: %v, %d bytes", err, len(body))
	}
	feed.Script(feedsim.Rule{Resource: "links"}, feedsim.WrongHashes())
	_, body := call(t, feed, http.MethodPost, versionPath("ds_a", 1)+"/links", `{"files":["original"]}`)
	var links struct{ Files []entry }
	if err := json.Unmarshal(body, &links); err != nil {
		t.Fatal(err)
	}
	if links.Files[0].SHA256 == right.SHA256 {
		t.Error("the hash is the right one")
	}
}

func TestRulesCountWhatTheyMatch(t *testing.T) {
	feed, _ := newArchive(t, feedsim.Options{})
	hits := feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Dataset: "ds_a", Nth: 2, Times: 2}, feedsim.Refuse(503, "unavailable", "later"))
	var got []int
	for range 4 {
		status, _ := call(t, feed, http.MethodGet, "/v1/feeds/datasets/ds_a", "")
		got = append(got, status)
		call(t, feed, http.MethodGet, "/v1/feeds/datasets", "") // does not match
	}
	if want := []int{200, 503, 503, 200}; !slices.Equal(got, want) || hits() != 2 {
		t.Errorf("answers %v, want %v; %d hits", got, want, hits())
	}
	feed.Script(feedsim.Rule{Resource: "-", Match: func(r feedsim.Request) bool { return r.Dataset == "" }, Times: feedsim.Always}, feedsim.HTML())
	for range 3 {
		if _, body := call(t, feed, http.MethodGet, "/v1/feeds/datasets", ""); !strings.Contains(string(body), "<html>") {
			t.Errorf("answered %s", body)
		}
	}
	feed.ClearScript()
	if _, body := call(t, feed, http.MethodGet, "/v1/feeds/datasets", ""); strings.Contains(string(body), "<html>") {
		t.Error("a cleared rule hit")
	}
}

// Every answer that a client has read to its end is in the log as complete: nothing is recorded late.
func TestCountersNeverLag(t *testing.T) {
	feed := newFeed(t, feedsim.Options{})
	if _, err := feed.AddBulk(feedsim.BulkSpec{Dataset: "ds_a", PartBytes: 300_000}); err != nil {
		t.Fatal(err)
	}
	part := fetchVersion(t, feed, "ds_a", 1).Files.Snapshot[0]
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 25 {
				before := feed.CompletedFile("ds_a", 1, part.File)
				if _, _, err := get(t, part.URL, nil); err != nil {
					t.Error(err)
				}
				if after := feed.CompletedFile("ds_a", 1, part.File); after <= before {
					t.Errorf("%d completions before, %d after", before, after)
				}
			}
		})
	}
	group.Wait()
	if n := feed.CompletedFile("ds_a", 1, part.File); n != 100 {
		t.Errorf("%d completions, want 100", n)
	}
}

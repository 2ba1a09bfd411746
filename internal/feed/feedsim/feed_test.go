package feedsim_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// start is the time at which the tests' clocks stand: that of the documents' example.
var start = time.Date(2026, 10, 18, 6, 12, 40, 0, time.UTC)

func newFeed(t *testing.T, options feedsim.Options) *feedsim.Feed {
	t.Helper()
	if options.Clock == nil {
		options.Clock = feedsim.NewClock(start)
	}
	feed, err := feedsim.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := feed.Close(); err != nil {
			t.Error(err)
		}
	})
	return feed
}

func addDataset(t *testing.T, feed *feedsim.Feed, spec feedsim.DatasetSpec) *feedsim.Dataset {
	t.Helper()
	dataset, err := feed.AddDataset(spec)
	if err != nil {
		t.Fatal(err)
	}
	return dataset
}

func release(t *testing.T, dataset *feedsim.Dataset, spec feedsim.ReleaseSpec) int64 {
	t.Helper()
	number, err := dataset.Release(spec)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// call sends one API request with the feed's key and returns status and body.
func call(t *testing.T, feed *feedsim.Feed, method, path, body string) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, feed.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+feed.Key())
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, data
}

type entry struct {
	File, Path, Filename, ContentType, SHA256, URL string
	SizeBytes                                      int64
	ExpiresAt                                      string
}

type versionAnswer struct {
	Version, RowCount int64
	PreviousVersion   *int64
	SchemaVersion     string
	Counts            *struct{ Added, Changed, Removed int }
	ResyncRequired    bool
	RecordIDsChanged  bool `json:"recordIdsChanged"`
	Files             struct {
		ExpiresAt                                    string
		Snapshot, Changes, IDMap, Attachments, Extra []entry
		Schema, Manifest                             entry
	}
}

func (v versionAnswer) all() []entry {
	var all []entry
	for _, group := range [][]entry{v.Files.Snapshot, v.Files.Changes, v.Files.IDMap, v.Files.Extra, v.Files.Attachments} {
		all = append(all, group...)
	}
	return append(all, v.Files.Schema, v.Files.Manifest)
}

// fetchVersion reads a version's answer, which must be 200.
func fetchVersion(t *testing.T, feed *feedsim.Feed, dataset string, number int64) versionAnswer {
	t.Helper()
	status, body := call(t, feed, http.MethodGet, versionPath(dataset, number), "")
	if status != http.StatusOK {
		t.Fatalf("version %d answered %d: %s", number, status, body)
	}
	var answer versionAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// reply is an answer whose body has been read and closed.
type reply struct {
	StatusCode int
	Status     string
	Header     http.Header
}

// get fetches an address. The reply is nil when there was no answer at all.
func get(t *testing.T, address string, header http.Header) (*reply, []byte, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, values := range header {
		request.Header[key] = values
	}
	request.Header.Set("Accept-Encoding", "identity")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return &reply{StatusCode: response.StatusCode, Status: response.Status, Header: response.Header}, body, err
}

// download fetches a whole file and checks it against its entry.
func download(t *testing.T, e entry) []byte {
	t.Helper()
	response, body, err := get(t, e.URL, nil)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("download %s%s: %v %v", e.File, e.Path, response, err)
	}
	sum := sha256.Sum256(body)
	if !strings.EqualFold(hex.EncodeToString(sum[:]), e.SHA256) || int64(len(body)) != e.SizeBytes {
		t.Fatalf("%s%s: %d bytes, not what the entry says", e.File, e.Path, len(body))
	}
	return body
}

func TestEveryFileIsServedAsListed(t *testing.T) {
	feed := newFeed(t, feedsim.Options{Seed: 1})
	for _, character := range []feedsim.Character{feedsim.Points, feedsim.Polygons, feedsim.Plain, feedsim.Archive} {
		dataset := addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_" + string(character), Character: character, Parts: 2})
		release(t, dataset, feedsim.ReleaseSpec{})
		number := release(t, dataset, feedsim.ReleaseSpec{Extra: []feedsim.ExtraFile{{Path: "tiles/a.pmtiles", Data: []byte("x")}}})
		answer := fetchVersion(t, feed, dataset.ID(), number)
		var manifest struct{ Files, Attachments []entry }
		if err := json.Unmarshal(download(t, answer.Files.Manifest), &manifest); err != nil {
			t.Fatal(err)
		}
		listed := map[string]entry{}
		for _, e := range append(manifest.Files, manifest.Attachments...) {
			listed[e.Path+e.File] = e
		}
		for _, e := range answer.all() {
			download(t, e)
			in, ok := listed[e.File]
			if !ok && e.File != "manifest.json" || ok && (in.SHA256 != e.SHA256 || in.SizeBytes != e.SizeBytes) {
				t.Errorf("%s: manifest says %+v, answer says %+v", e.File, in, e)
			}
			delete(listed, e.File)
		}
		if len(listed) > 0 {
			t.Errorf("only in the manifest: %v", listed)
		}
		if character != feedsim.Plain && len(answer.Files.Attachments) == 0 {
			t.Errorf("%s has no attachments", character)
		}
	}
	if seen := feed.ViolationsSeen(); len(seen) > 0 {
		t.Errorf("violations: %v", seen)
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	build := func(seed int64) []byte {
		feed := newFeed(t, feedsim.Options{Seed: seed})
		var all bytes.Buffer
		for _, character := range []feedsim.Character{feedsim.Points, feedsim.Archive} {
			dataset := addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_" + string(character), Character: character})
			release(t, dataset, feedsim.ReleaseSpec{})
			number := release(t, dataset, feedsim.ReleaseSpec{Minor: true, Add: 4, Change: 5, Remove: 2})
			all.Write(download(t, fetchVersion(t, feed, dataset.ID(), number).Files.Manifest))
		}
		return all.Bytes()
	}
	first, second, other := build(1), build(1), build(2)
	if !bytes.Equal(first, second) {
		t.Error("the same seed gave other bytes")
	}
	if bytes.Equal(first, other) {
		t.Error("another seed gave the same bytes")
	}
}

func versionPath(dataset string, number int64) string {
	return "/v1/feeds/datasets/" + dataset + "/versions/" + strconv.FormatInt(number, 10)
}

// byteRange is the header that asks for [from, to).
func byteRange(from, to int) string { return fmt.Sprintf("bytes=%d-%d", from, to-1) }

package feedsim_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime"
	"testing"

	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/feed/feedsim"
)

func TestBulkServesWhatItLists(t *testing.T) {
	feed := newFeed(t, feedsim.Options{Seed: 3})
	spec := feedsim.BulkSpec{
		Dataset: "ds_bulk", Parts: 2, PartBytes: 3_000_001, Attachments: 1500, AttachmentBytes: 2048, OriginalBytes: 1 << 20,
	}
	dataset, err := feed.AddBulk(spec)
	if err != nil {
		t.Fatal(err)
	}
	answer := fetchVersion(t, feed, "ds_bulk", 1)
	checkParts(t, answer)
	if len(answer.Files.Attachments) != 1501 {
		t.Fatalf("%d attachments", len(answer.Files.Attachments))
	}
	seen := map[string]bool{}
	for i, e := range answer.Files.Attachments {
		seen[e.SHA256] = true
		if i%100 == 0 || e.File == "original" {
			download(t, e)
		}
	}
	if len(seen) != 1501 {
		t.Errorf("%d distinct hashes", len(seen))
	}
	var manifest struct{ Attachments []entry }
	if err := json.Unmarshal(download(t, answer.Files.Manifest), &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest.Attachments) != 1501 {
		t.Errorf("manifest lists %d attachments", len(manifest.Attachments))
	}
	checkRanges(t, answer.Files.Snapshot[0])
	checkRanges(t, answer.Files.Manifest)

	spec.FirstAttachment = 1000
	second, err := dataset.ReleaseBulk(spec)
	if err != nil {
		t.Fatal(err)
	}
	shared := 0
	for _, e := range fetchVersion(t, feed, "ds_bulk", second).Files.Attachments {
		if seen[e.SHA256] {
			shared++
		}
	}
	if shared != 501 {
		t.Errorf("versions share %d attachments, want 500 and the original", shared)
	}
}

// checkParts checks that the snapshot's parts are Parquet of the size asked for and hold rowCount rows.
func checkParts(t *testing.T, answer versionAnswer) {
	t.Helper()
	rows := int64(0)
	for _, part := range answer.Files.Snapshot {
		data := download(t, part)
		if len(data) != 3_000_001 {
			t.Errorf("part of %d bytes", len(data))
		}
		file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		rows += file.NumRows()
	}
	if rows != answer.RowCount {
		t.Errorf("%d rows, rowCount %d", rows, answer.RowCount)
	}
}

// checkRanges fetches a file in ranges that start at awkward places and compares with the whole.
func checkRanges(t *testing.T, e entry) {
	t.Helper()
	whole := download(t, e)
	for _, from := range []int{0, 1, 15, 4095, 4096, 5000, 70_000, len(whole) - 1} {
		to := min(len(whole), from+66_000)
		header := http.Header{"Range": {byteRange(from, to)}}
		response, body, err := get(t, e.URL, header)
		if err != nil || response.StatusCode != http.StatusPartialContent || !bytes.Equal(body, whole[from:to]) {
			t.Errorf("range [%d,%d) of %s: %v, %d bytes", from, to, e.File, err, len(body))
		}
	}
}

func TestListingOfManyAttachmentsNeedsLittleMemory(t *testing.T) {
	feed := newFeed(t, feedsim.Options{Seed: 4})
	const count = 50_000
	if _, err := feed.AddBulk(feedsim.BulkSpec{Dataset: "ds_many", Attachments: count, AttachmentBytes: 64}); err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, feed.URL()+versionPath("ds_many", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+feed.Key())
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	size, peak := int64(0), uint64(0)
	for {
		n, err := io.CopyN(io.Discard, response.Body, 8<<20)
		size += n
		var memory runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&memory)
		peak = max(peak, memory.HeapAlloc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if size < count*300 {
		t.Errorf("the listing has %d bytes", size)
	}
	if limit := uint64(16<<20 + count*36); peak > limit {
		t.Errorf("heap of %d bytes while a listing of %d bytes was served, want at most %d", peak, size, limit)
	}
}

package mirror_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"testing"
	"time"

	"feedmirror/attachments"
	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/parquetinfo"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

// strictly decodes a document into its type, refusing fields that the type lacks, and wants the
// same bytes back: nothing is written that cannot be read.
func strictly[T any](raw []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	var doc T
	if err := decoder.Decode(&doc); err != nil {
		return err
	}
	again, err := manifest.EncodeDocument(doc)
	if err != nil {
		return err
	}
	if !bytes.Equal(raw, again) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func parquetFile(raw []byte) error {
	_, err := parquetinfo.Inspect(bytes.NewReader(raw), int64(len(raw)))
	return err
}

func indexFile(raw []byte) error {
	return attachments.ReadIndex(context.Background(), bytes.NewReader(raw), int64(len(raw)), func(attachments.IndexRow) error { return nil })
}

func manifestFile(raw []byte) error {
	_, err := manifest.DecodeManifest(bytes.NewReader(raw), func(manifest.Attachment) error { return nil })
	return err
}

func schemaFile(raw []byte) error {
	_, err := manifest.DecodeSchema(raw)
	return err
}

func sumsFile(raw []byte) error {
	_, err := manifest.DecodeSums(bytes.NewReader(raw))
	return err
}

func jsonLines(raw []byte) error {
	for line := range bytes.Lines(raw) {
		if !json.Valid(line) {
			return fmt.Errorf("no JSON: %s", line)
		}
	}
	return nil
}

func anyFile([]byte) error { return nil }

// TestEveryKindOfDocumentIsReadBack makes a bucket with every kind of key and reads each back by the
// type that wrote it. A key of no kind turns it red, as does a kind that no key has.
func TestEveryKindOfDocumentIsReadBack(t *testing.T) {
	kinds := []struct {
		name string
		key  *regexp.Regexp
		read func([]byte) error
		seen int
	}{
		{"snapshot part", regexp.MustCompile(`^snapshot/ploti_dataset_id=[^/]+/ploti_version=\d{10}/part-\d+\.parquet$`), parquetFile, 0},
		{"changes part", regexp.MustCompile(`^changes/ploti_dataset_id=[^/]+/ploti_version=\d{10}/part-\d+\.parquet$`), parquetFile, 0},
		{"id map part", regexp.MustCompile(`^id_map/ploti_dataset_id=[^/]+/ploti_version=\d{10}/part-\d+\.parquet$`), parquetFile, 0},
		{"attachment", regexp.MustCompile(`^attachments/sha256/[0-9a-f]{2}/[0-9a-f]{64}$`), anyFile, 0},
		{"attachment index", regexp.MustCompile(`^attachment_index/ploti_dataset_id=[^/]+/ploti_version=\d{10}/index\.parquet$`), indexFile, 0},
		{"manifest", regexp.MustCompile(`^versions/[^/]+/\d{10}/manifest\.json$`), manifestFile, 0},
		{"schema", regexp.MustCompile(`^versions/[^/]+/\d{10}/schema\.json$`), schemaFile, 0},
		{"extra file", regexp.MustCompile(`^versions/[^/]+/\d{10}/files/.+$`), anyFile, 0},
		{"sums", regexp.MustCompile(`^versions/[^/]+/\d{10}/SHA256SUMS$`), sumsFile, 0},
		{"record", regexp.MustCompile(`^versions/[^/]+/\d{10}/record\.json$`), strictly[manifest.Record], 0},
		{"stored", regexp.MustCompile(`^versions/[^/]+/\d{10}/stored\.json$`), strictly[state.StoredDocument], 0},
		{"gone", regexp.MustCompile(`^versions/[^/]+/\d{10}/gone\.json$`), strictly[state.Gone], 0},
		{"withdrawn", regexp.MustCompile(`^versions/[^/]+/\d{10}/withdrawn\.json$`), strictly[state.Withdrawn], 0},
		{"pointer", regexp.MustCompile(`^current/[^/]+\.json$`), strictly[state.Pointer], 0},
		{"layout", regexp.MustCompile(`^_mirror/layout\.json$`), strictly[state.Layout], 0},
		{"shard", regexp.MustCompile(`^_mirror/shards/\d+-of-\d+-[0-9a-f]{8}\.json$`), strictly[state.Shard], 0},
		{"lease", regexp.MustCompile(`^_mirror/leases/[^/]+\.json$`), strictly[state.Lease], 0},
		{"decision", regexp.MustCompile(`^_mirror/decisions/[^/]+/\d{8}T\d{6}\.\d{3}Z-.+\.json$`), strictly[state.Decision], 0},
		{"table commit", regexp.MustCompile(`^((snapshot|attachment_index)/ploti_dataset_id=[^/]+|changes|publications)/_delta_log/\d{20}\.json$`), jsonLines, 0},
		{"publications", regexp.MustCompile(`^publications/\d{4}-\d\d-\d\d/[^/]+-[0-9a-f]{16}\.parquet$`), parquetFile, 0},
		{"run report", regexp.MustCompile(`^_mirror/runs/\d{8}T\d{6}Z-.+\.json$`), strictly[mirror.Report], 0},
	}
	w := everythingWorld(t)
	for info, err := range w.store.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		raw, _, err := bucket.ReadAll(t.Context(), w.store, info.Key, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		known := false
		for at := range kinds {
			if !kinds[at].key.MatchString(info.Key) {
				continue
			}
			known = true
			kinds[at].seen++
			if err := kinds[at].read(raw); err != nil {
				t.Errorf("%s %s: %v", kinds[at].name, info.Key, err)
			}
		}
		if !known {
			t.Errorf("%s is of no kind", info.Key)
		}
	}
	for _, kind := range kinds {
		if kind.seen == 0 {
			t.Errorf("no %s was written", kind.name)
		}
	}
}

// everythingWorld has a bucket in which everything happened once.
func everythingWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, feedsim.Options{})
	d := w.dataset(permits, feedsim.Points)
	w.release(d, feedsim.ReleaseSpec{})
	w.clock.Advance(95 * 24 * time.Hour) // the first version is gone
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.release(d, feedsim.ReleaseSpec{Add: 1, Extra: []feedsim.ExtraFile{{Path: "notes/readme.txt", Data: []byte("hello")}}})
	w.release(d, feedsim.ReleaseSpec{ReplaceIDs: true})
	major := w.release(d, feedsim.ReleaseSpec{Major: true})
	w.sync(0)
	if err := d.ReleaseAgain(int64(major)); err != nil {
		t.Fatal(err)
	}
	w.sync(0, full)
	if _, err := mirror.Rollback(t.Context(), w.decide(), permits, 3); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestAStoreThatLacksAPromiseIsRefusedBeforeAnyDownload gives the pass a store that breaks one
// promise at a time.
func TestAStoreThatLacksAPromiseIsRefusedBeforeAnyDownload(t *testing.T) {
	stores := map[string]func(bucket.Store) bucket.Store{
		"conditions are ignored": func(s bucket.Store) bucket.Store { return &buckettest.IgnoreConditions{Store: s} },
		"creates are not atomic": func(s bucket.Store) bucket.Store {
			return &buckettest.WeakCreate{Store: s, Between: buckettest.Meeting()}
		},
		"the first write is denied": func(s bucket.Store) bucket.Store {
			return &buckettest.FailNth{Store: s, Op: buckettest.OpCreate, From: 1, To: 1 << 20, Err: denied()}
		},
		"reading is denied": func(s bucket.Store) bucket.Store {
			return &buckettest.FailNth{Store: s, Op: buckettest.OpOpen, From: 1, To: 1 << 20, Err: denied()}
		},
	}
	for name, wrap := range stores {
		t.Run(name, func(t *testing.T) {
			w, _ := permitsWorld(t)
			w.store = wrap(w.store)
			report := w.sync(5)
			if len(report.Failures) != 1 || report.Failures[0].Hint == "" {
				t.Errorf("failures %+v, want one with a hint", report.Failures)
			}
			if report.Requests.Source != 0 || report.Versions.Committed != 0 || len(w.feed.Completed()) != 0 {
				t.Errorf("files were fetched: %+v", report)
			}
			w.damaged = true // what a probe left behind where it could not be cleaned up is no data
		})
	}
}

func denied() error {
	return &fault.Error{Op: "put object", Side: fault.SideBucket, Kind: fault.Denied, Status: 403}
}

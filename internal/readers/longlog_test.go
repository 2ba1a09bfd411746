//go:build readers

package readers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/bucket/open"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/tables"
	"feedmirror/manifest"
)

// longLog is how many versions the long log has.
const longLog = 5000

// opened is what an engine tells of opening tables.
type opened struct {
	Engine  string
	Seconds map[string][]float64 // by dataset
	Rows    map[string]int
}

// TestALogOf5000VersionsOpensLikeALogOfOne wants at most a second more for it, in the median.
func TestALogOf5000VersionsOpensLikeALogOfOne(t *testing.T) {
	const most = 1.0 // seconds
	w, stop := newWorld(t, newPlace(t, inFolder))
	defer stop(t)
	for _, id := range []string{"ds_one", "ds_long"} {
		d := w.dataset(t, feedsim.DatasetSpec{ID: id, Character: feedsim.Plain, Rows: 8})
		w.release(t, d, feedsim.ReleaseSpec{})
		if id == "ds_long" {
			w.mirror(t, "sync")
			w.release(t, d, feedsim.ReleaseSpec{Change: 1})
			w.mirror(t, "sync")
		}
	}
	began := time.Now()
	lengthen(t, folder(w.place.root), "ds_long", longLog)
	t.Logf("%d commits after %.0f s", longLog, time.Since(began).Seconds())
	s3 := newPlace(t, onS3)
	upload(t, folder(w.place.root), s3, "snapshot/ploti_dataset_id=ds_one", "snapshot/ploti_dataset_id=ds_long/_delta_log",
		fmt.Sprintf("snapshot/ploti_dataset_id=ds_long/ploti_version=%010d", longLog))

	for _, reader := range []struct {
		engine string
		at     place
	}{{"duckdb", w.place}, {"deltalake", w.place}, {"duckdb", s3}, {"deltalake", s3}, {"clickhouse", s3}} {
		asked := task{Mode: "open", Repeats: 5, Database: "ploti", Root: reader.at.root, S3: reader.at.access(), Scratch: t.TempDir()}
		for _, id := range []string{"ds_one", "ds_long"} {
			asked.Datasets = append(asked.Datasets, taskDataset{Dataset: id, Location: reader.at.root + "/snapshot/ploti_dataset_id=" + id})
		}
		asked.Script = openScript(t, reader.engine, reader.at)
		heard := ask[opened](t, reader.at, reader.engine+"_reader", asked)
		one, long := median(heard.Seconds["ds_one"]), median(heard.Seconds["ds_long"])
		if heard.Rows["ds_one"] != 8 || heard.Rows["ds_long"] != 8 {
			t.Errorf("%s in a %s counted %v", reader.engine, reader.at.kind, heard.Rows)
		}
		if long-one > most {
			t.Errorf("%s in a %s: a log of %d versions opens in %.3f s, one of a single version in %.3f s", reader.engine, reader.at.kind, longLog, long, one)
		}
		seen.note("%s in a %s: a log of 1 version opens in %.3f s, one of %d in %.3f s (medians of %d)",
			reader.engine, reader.at.kind, one, longLog, long, len(heard.Seconds["ds_one"]))
	}
}

// openScript is what an engine needs before it opens a location.
func openScript(t *testing.T, engine string, at place) string {
	t.Helper()
	dialect := tables.Engine(engine)
	if engine == "deltalake" {
		dialect = tables.Polars
	}
	where := tables.Place{Scheme: "file", Prefix: at.root + "/"}
	if at.server != nil {
		name, _, _ := strings.Cut(strings.TrimPrefix(at.root, "s3://"), "/")
		where = tables.Place{Scheme: "s3", Bucket: name, Prefix: prefix + "/", Endpoint: at.server.Endpoint, Region: at.server.Region, PathStyle: true}
	}
	var script strings.Builder
	if err := (tables.DDL{Engine: dialect, Place: where}).Write(&script); err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(script.String()) {
		if !strings.HasPrefix(line, "CREATE OR REPLACE VIEW") { // of tables that are not there
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func median(seconds []float64) float64 {
	seconds = slices.Sorted(slices.Values(seconds))
	return seconds[len(seconds)/2]
}

// lengthen gives a dataset versions up to the last, as passes would: the part, the record and the pointer
// of each, and then its table. They are those of version 2 under other numbers. It works in memory, and
// keeps of parts only those of the version that the table shows at its end.
func lengthen(t *testing.T, f folder, dataset string, last int64) {
	t.Helper()
	store := buckettest.NewMemory()
	root := tables.SnapshotRoot(dataset)
	recordKey := func(n int64) string { return fmt.Sprintf("versions/%s/%010d/record.json", dataset, n) }
	partKey := func(n int64) string { return fmt.Sprintf("%sploti_version=%010d/part-0000.parquet", root, n) }
	pointerKey := "current/" + dataset + ".json"
	for _, key := range []string{recordKey(2), partKey(2), pointerKey, root + "_delta_log/" + commitName(0), root + "_delta_log/" + commitName(1)} {
		create(t, store, key, f.read(t, key))
	}
	projector := &tables.Projector{Store: store, Footers: tables.StoredFooters{Reader: store}, Now: time.Now, NewID: t.Name, Engine: "mirror test"}
	var record, pointer map[string]any
	f.document(t, recordKey(2), &record)
	f.document(t, pointerKey, &pointer)
	part := f.read(t, partKey(2))
	for n := int64(3); n <= last; n++ {
		record["version"], record["previousVersion"] = n, n-1
		record["previousRecord"] = map[string]any{"version": n - 1, "sha256": manifest.SumBytes(store.Bytes(recordKey(n - 1))).String()}
		text := renumbered(t, record, n)
		create(t, store, recordKey(n), text)
		create(t, store, partKey(n), part)
		remove(t, store, recordKey(n-2))
		remove(t, store, partKey(n-1))
		remove(t, store, pointerKey)
		pointer["version"], pointer["previousVersion"], pointer["move"], pointer["revision"] = n, n-1, n, n
		pointer["record"] = map[string]any{"key": recordKey(n), "sha256": manifest.SumBytes(text).String()}
		create(t, store, pointerKey, renumbered(t, pointer, n))
		outcome, err := projector.Snapshot(t.Context(), dataset)
		if err != nil || outcome.Warning != nil || outcome.Commit != n-1 {
			t.Fatalf("version %d is commit %d: %v, %v", n, outcome.Commit, err, outcome.Warning)
		}
	}
	for _, key := range store.Under(root) {
		f.put(t, key, store.Bytes(key))
	}
}

func commitName(n int64) string { return fmt.Sprintf("%020d.json", n) }

// renumbered encodes a document whose keys are of version n.
func renumbered(t *testing.T, document map[string]any, n int64) []byte {
	t.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.ReplaceAll(text, fmt.Appendf(nil, "%010d/", 2), fmt.Appendf(nil, "%010d/", n))
}

func create(t *testing.T, to bucket.Writer, key string, data []byte) {
	t.Helper()
	content := bucket.Content{Size: int64(len(data)), SHA256: manifest.SumBytes(data), Class: bucket.Data, Body: bytes.NewReader(data)}
	if _, err := to.Create(t.Context(), key, content); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, from *buckettest.Memory, key string) {
	t.Helper()
	info, err := from.Stat(t.Context(), key)
	if fault.Is(err, fault.NotFound) {
		return
	}
	if err == nil {
		err = from.Delete(t.Context(), key, info.Tag)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (f folder) read(t *testing.T, key string) []byte {
	t.Helper()
	data, err := os.ReadFile(f.path(key))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (f folder) put(t *testing.T, key string, data []byte) {
	t.Helper()
	path := f.path(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// upload puts what stands below some prefixes of a folder into a bucket on S3.
func upload(t *testing.T, f folder, to place, prefixes ...string) {
	t.Helper()
	for _, line := range to.env {
		name, value, _ := strings.Cut(line, "=")
		t.Setenv(name, value)
	}
	store, err := open.Open(t.Context(), to.bucket, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // nothing is buffered in a store
	for _, below := range prefixes {
		err := filepath.WalkDir(f.path(below), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			key, err := filepath.Rel(string(f), path)
			if err == nil {
				create(t, store, filepath.ToSlash(key), f.read(t, filepath.ToSlash(key)))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

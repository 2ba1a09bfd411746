package feedsim_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/feed/feedsim"
)

func TestEveryCellJoinsAnAttachment(t *testing.T) {
	feed := newFeed(t, feedsim.Options{})
	dataset := addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_a", Character: feedsim.Points, DocumentBytes: 3000})
	for _, spec := range []feedsim.ReleaseSpec{{}, {Add: 6, Change: 4, Remove: 5}} {
		v := fetchVersion(t, feed, "ds_a", release(t, dataset, spec))
		named, nulls, mismatched := map[string]int{}, 0, 0
		for _, row := range readParts(t, v.Files.Snapshot).rows {
			if row["permit_pdf"] == null {
				nulls++
				continue
			}
			named[row["permit_pdf"]]++
		}
		shared := 0
		for name, rows := range named {
			e := attachment(t, v, name)
			if data := download(t, e); !bytes.HasPrefix(data, []byte("%PDF-1.4")) || len(data) < 2000 {
				t.Errorf("%s is no PDF of about 3000 bytes: %d", name, len(data))
			}
			if "document:"+e.SHA256 != name {
				mismatched++
			}
			if rows > 1 {
				shared++
			}
		}
		if len(v.Files.Attachments) != len(named)+1 { // and the permit index
			t.Errorf("%d attachments for %d names", len(v.Files.Attachments), len(named))
		}
		if v.Version == 1 && (nulls == 0 || shared == 0 || mismatched != 1) {
			t.Errorf("%d rows without a document, %d shared documents, %d whose name is not their hash", nulls, shared, mismatched)
		}
	}
}

func TestSameBytesUnderTwoNames(t *testing.T) {
	_, v := newArchive(t, feedsim.Options{})
	original, survey := attachment(t, v, "original"), attachment(t, v, "source:survey")
	if original.SHA256 != survey.SHA256 || original.Filename == survey.Filename {
		t.Errorf("%+v and %+v", original, survey)
	}
}

func TestAttachmentsBetweenVersions(t *testing.T) {
	feed := newFeed(t, feedsim.Options{})
	dataset := addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_a", Character: feedsim.Archive})
	release(t, dataset, feedsim.ReleaseSpec{})
	release(t, dataset, feedsim.ReleaseSpec{ChangeSource: true, LeaveOut: []string{"source:survey"}})
	first, second := fetchVersion(t, feed, "ds_a", 1), fetchVersion(t, feed, "ds_a", 2)
	if len(second.Files.Attachments) != len(first.Files.Attachments)-1 {
		t.Errorf("%d attachments, then %d", len(first.Files.Attachments), len(second.Files.Attachments))
	}
	if attachment(t, first, "original").SHA256 != attachment(t, second, "original").SHA256 {
		t.Error("the original changed")
	}
	if attachment(t, first, "source:route-log").SHA256 == attachment(t, second, "source:route-log").SHA256 {
		t.Error("the source did not change")
	}
}

func TestGeoParquet(t *testing.T) {
	feed := newFeed(t, feedsim.Options{})
	kinds := map[feedsim.Character]string{
		feedsim.Points: "Point", feedsim.Polygons: "Polygon", feedsim.Archive: "LineString", feedsim.Plain: "",
	}
	for character, kind := range kinds {
		dataset := addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_" + string(character), Character: character})
		release(t, dataset, feedsim.ReleaseSpec{})
		s := readParts(t, fetchVersion(t, feed, dataset.ID(), 1).Files.Snapshot)
		if kind == "" {
			if s.geo != "" {
				t.Errorf("a table without geometry has %s", s.geo)
			}
			continue
		}
		var geo struct {
			Version       string
			PrimaryColumn string `json:"primary_column"`
			Columns       map[string]struct {
				Encoding      string
				GeometryTypes []string  `json:"geometry_types"`
				Box           []float64 `json:"bbox"`
			}
		}
		if err := json.Unmarshal([]byte(s.geo), &geo); err != nil {
			t.Fatal(err)
		}
		column := geo.Columns["geometry"]
		if geo.PrimaryColumn != "geometry" || column.Encoding != "WKB" || column.GeometryTypes[0] != kind || len(column.Box) != 4 {
			t.Errorf("%s: %s", character, s.geo)
		}
		if column.Box[0] < -82 || column.Box[2] > -80 || column.Box[1] < 28 || column.Box[3] > 29 {
			t.Errorf("%s: bbox %v", character, column.Box)
		}
	}
}

func TestContradictions(t *testing.T) {
	feed := newFeed(t, feedsim.Options{})
	dataset := addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_a", Character: feedsim.Polygons, Parts: 2})
	release(t, dataset, feedsim.ReleaseSpec{})
	v := fetchVersion(t, feed, "ds_a", release(t, dataset, feedsim.ReleaseSpec{RowCountOff: 5}))
	if rows := len(readParts(t, v.Files.Snapshot).rows); int64(rows)+5 != v.RowCount {
		t.Errorf("%d rows, rowCount %d", rows, v.RowCount)
	}
	v = fetchVersion(t, feed, "ds_a", release(t, dataset, feedsim.ReleaseSpec{MixedParts: true}))
	var schemas []string
	for _, part := range v.Files.Snapshot {
		data := download(t, part)
		file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		schemas = append(schemas, file.Schema().String())
	}
	if schemas[0] == schemas[1] {
		t.Errorf("both parts have %s", schemas[0])
	}
	v = fetchVersion(t, feed, "ds_a", release(t, dataset, feedsim.ReleaseSpec{BrokenFooter: true}))
	data := download(t, v.Files.Snapshot[0])
	if _, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data))); err == nil {
		t.Error("the footer can be read")
	}
	v = fetchVersion(t, feed, "ds_a", release(t, dataset, feedsim.ReleaseSpec{WrongManifest: true}))
	manifest := string(download(t, v.Files.Manifest))
	part := v.Files.Changes[0] // the first file of the manifest
	if strings.Contains(manifest, part.SHA256) || !strings.Contains(manifest, v.Files.Snapshot[0].SHA256) {
		t.Errorf("the manifest agrees: %s", manifest)
	}
	fork := int64(2)
	v = fetchVersion(t, feed, "ds_a", release(t, dataset, feedsim.ReleaseSpec{Previous: &fork}))
	if *v.PreviousVersion != 2 || v.ResyncRequired {
		t.Errorf("the fork: %+v", v)
	}
}

func TestOverrides(t *testing.T) {
	feed := newFeed(t, feedsim.Options{})
	dataset := addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_a", Character: feedsim.Polygons})
	release(t, dataset, feedsim.ReleaseSpec{})
	before := fetchVersion(t, feed, "ds_a", 1)
	replace := func(old, new string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(new), 1) }
	}
	if err := dataset.OverrideManifest(1, replace("schema.json", "../schema.json")); err != nil {
		t.Fatal(err)
	}
	after := fetchVersion(t, feed, "ds_a", 1)
	if manifest := download(t, after.Files.Manifest); !bytes.Contains(manifest, []byte("../schema.json")) {
		t.Errorf("manifest %s", manifest)
	}
	if before.Files.Manifest.SHA256 == after.Files.Manifest.SHA256 {
		t.Error("the manifest's hash did not move")
	}
	if err := dataset.OverrideVersion(1, replace(`"rowCount":40`, `"rowCount":-1`)); err != nil {
		t.Fatal(err)
	}
	if v := fetchVersion(t, feed, "ds_a", 1); v.RowCount != -1 {
		t.Errorf("rowCount %d", v.RowCount)
	}
	feed.OverrideList(func([]byte) []byte { return []byte(`{"datasets":[]}`) })
	if _, body := call(t, feed, "GET", "/v1/feeds/datasets", ""); string(body) != `{"datasets":[]}` {
		t.Errorf("the list: %s", body)
	}
	for _, err := range []error{
		dataset.OverrideManifest(9, nil), dataset.OverrideVersion(9, nil), dataset.RewriteHistory(9), dataset.DropChanges(9),
	} {
		if err == nil || !strings.Contains(err.Error(), "never released") {
			t.Errorf("a version that is not there: %v", err)
		}
	}
}

func TestRewrittenHistory(t *testing.T) {
	feed := newFeed(t, feedsim.Options{})
	dataset := addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_a", Character: feedsim.Polygons, Parts: 2})
	release(t, dataset, feedsim.ReleaseSpec{})
	release(t, dataset, feedsim.ReleaseSpec{})
	before := fetchVersion(t, feed, "ds_a", 2)
	if err := dataset.RewriteHistory(2); err != nil {
		t.Fatal(err)
	}
	after := fetchVersion(t, feed, "ds_a", 2)
	manifest := string(download(t, after.Files.Manifest))
	for i, part := range after.Files.Snapshot {
		if part.SHA256 == before.Files.Snapshot[i].SHA256 || !strings.Contains(manifest, part.SHA256) {
			t.Errorf("part %d: %s", i, part.SHA256)
		}
		download(t, part)
	}
	if got := len(readParts(t, after.Files.Snapshot).rows); int64(got) != after.RowCount {
		t.Errorf("%d rows", got)
	}
	if after.Files.Changes[0].SHA256 != before.Files.Changes[0].SHA256 {
		t.Error("the changes were rewritten too")
	}
	if err := dataset.DropChanges(2); err != nil {
		t.Fatal(err)
	}
	if v := fetchVersion(t, feed, "ds_a", 2); len(v.Files.Changes) != 0 {
		t.Errorf("changes %v", v.Files.Changes)
	}
}

func TestDatasetsAreRefused(t *testing.T) {
	feed := newFeed(t, feedsim.Options{})
	addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_a", Character: feedsim.Plain})
	for _, spec := range []feedsim.DatasetSpec{{ID: "ds_a", Character: feedsim.Plain}, {Character: feedsim.Plain}, {ID: "ds_b", Character: "odd"}} {
		if _, err := feed.AddDataset(spec); err == nil {
			t.Errorf("added %+v", spec)
		}
	}
	bulk, err := feed.AddBulk(feedsim.BulkSpec{Dataset: "ds_bulk"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bulk.Release(feedsim.ReleaseSpec{}); err == nil {
		t.Error("a bulk dataset released rows")
	}
	if _, err := feed.Dataset("ds_a").ReleaseBulk(feedsim.BulkSpec{}); err == nil {
		t.Error("a dataset of rows released bulk")
	}
	if _, err := bulk.ReleaseBulk(feedsim.BulkSpec{Attachments: 3, AttachmentBytes: 15}); err == nil {
		t.Error("attachments that are all the same were accepted")
	}
}

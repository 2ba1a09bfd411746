package manifest

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func refTo(key string) ObjectRef { return ObjectRef{Key: key, SHA256: SumBytes([]byte(key))} }

func recordFile(dataset string, n Number, path string) RecordFile {
	f := File{Kind: KindOf(path), Path: path, Size: int64(len(path)), SHA256: SumBytes([]byte(path))}
	return RecordFile{Kind: f.Kind, Path: f.Path, Key: FileKey(dataset, n, f), Size: f.Size, SHA256: f.SHA256}
}

// goodRecord returns a valid record that uses every field.
func goodRecord() Record {
	at, rows, source := time.Date(2026, 10, 18, 6, 12, 40, 1000, time.UTC), int64(184220), "https://county.example/a?b=<c>&d"
	index := refTo(IndexKey("ds_a", 42))
	r := Record{
		Layout: 1, Dataset: "ds_a", Version: 42, PreviousVersion: 41, PreviousRecord: &RecordRef{Version: 39, SHA256: SumBytes(nil)},
		Gap: &Gap{Expected: 41, Reason: GapExpired}, PublishedAt: at, SchemaVersion: SchemaVersion{2, 1}, RowCount: rows, Counts: &Counts{212, 38, 3},
		RecordIDsChanged: true, SourceURL: &source, FetchedAt: &at, Manifest: refTo(ManifestKey("ds_a", 42)), ManifestSize: 9, Sums: refTo(SumsKey("ds_a", 42)),
		Files:   []RecordFile{recordFile("ds_a", 42, "snapshot/a.parquet"), recordFile("ds_a", 42, "schema.json"), recordFile("ds_a", 42, "notes/é.txt")},
		Changes: ChangesPresent, Attachments: RecordAttachments{Count: 3, Objects: 2, Bytes: 20, NewObjects: 1, NewBytes: 10, Carried: 1, Index: &index},
		Doubts: []string{"rows: 184219 in the footers, 184220 in rowCount"}, Run: "r1", Tool: "1.0.0", CommittedAt: at,
	}
	r.Files[0].Rows = &rows
	return r
}

func TestStoredRecordDecodesToTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := goodRecord()
		r.Dataset, r.Version = anyDataset.Draw(t, "dataset"), anyNumber.Draw(t, "version")
		r.PreviousVersion, r.Gap, r.PreviousRecord = 0, nil, nil
		if r.Version > 1 && rapid.Bool().Draw(t, "has a previous record") {
			before := Number(rapid.Int64Range(1, int64(r.Version-1)).Draw(t, "previous"))
			r.PreviousVersion, r.PreviousRecord = before, &RecordRef{Version: before, SHA256: SumBytes([]byte{1})}
			r.Gap = &Gap{Expected: before, Reason: rapid.SampledFrom([]GapReason{GapExpired, GapWithdrawn, GapIncomplete, GapHistoryCurrent, GapFork}).Draw(t, "reason")}
		}
		r.Manifest, r.Sums = refTo(ManifestKey(r.Dataset, r.Version)), refTo(SumsKey(r.Dataset, r.Version))
		index := refTo(IndexKey(r.Dataset, r.Version))
		r.Attachments.Index = &index
		r.Files = []RecordFile{}
		var unique Unique
		for _, path := range rapid.SliceOf(anyPath).Draw(t, "paths") {
			f := recordFile(r.Dataset, r.Version, path)
			if unique.Add(f.File()) == nil {
				r.Files = append(r.Files, f)
			}
		}
		r.ResyncRequired = rapid.Bool().Draw(t, "resync")
		r.Doubts = append([]string{}, rapid.SliceOf(rapid.String()).Draw(t, "doubts")...)
		data, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeRecord(data)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, r) {
			t.Fatalf("got %+v, want %+v", got, r)
		}
		again, err := got.Encode()
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("encoded again: %v, %s, want %s", err, again, data)
		}
	})
}

func TestRecordEncodesEmptyListsAndTimesInUTC(t *testing.T) {
	r := goodRecord()
	r.Files, r.Doubts, r.Gap = nil, nil, nil
	r.PublishedAt = r.PublishedAt.In(time.FixedZone("east", 7200))
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"files": []`, `"doubts": []`, `"publishedAt": "2026-10-18T06:12:40.000001Z"`, `?b=<c>&d"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("want %s in:\n%s", want, data)
		}
	}
}

func TestRecordsThatCannotBeActedOnAreRefused(t *testing.T) {
	if err := goodRecord().Validate(); err != nil {
		t.Fatal(err)
	}
	minus := int64(-1)
	for name, spoil := range map[string]func(*Record){
		"layout of the future":        func(r *Record) { r.Layout = 2 },
		"no layout":                   func(r *Record) { r.Layout = 0 },
		"bad dataset":                 func(r *Record) { r.Dataset = "../a" },
		"other dataset":               func(r *Record) { r.Dataset = "ds_b" },
		"other version":               func(r *Record) { r.Version = 43 },
		"version out of range":        func(r *Record) { r.Version = MaxNumber + 1 },
		"negative rows":               func(r *Record) { r.RowCount = -1 },
		"negative counts":             func(r *Record) { r.Counts.Removed = -1 },
		"unknown changes":             func(r *Record) { r.Changes = "lost" },
		"previous not lower":          func(r *Record) { r.PreviousVersion = 42 },
		"previous negative":           func(r *Record) { r.PreviousVersion = -1 },
		"previous record not lower":   func(r *Record) { r.PreviousRecord.Version = 42 },
		"previous record zero":        func(r *Record) { r.PreviousRecord.Version = 0 },
		"previous record no hash":     func(r *Record) { r.PreviousRecord.SHA256 = SHA256{} },
		"gap not lower":               func(r *Record) { r.Gap.Expected = 42 },
		"gap without reason":          func(r *Record) { r.Gap.Reason = "" },
		"manifest key elsewhere":      func(r *Record) { r.Manifest.Key = ManifestKey("ds_a", 41) },
		"manifest without hash":       func(r *Record) { r.Manifest.SHA256 = SHA256{} },
		"manifest size":               func(r *Record) { r.ManifestSize = -1 },
		"sums key elsewhere":          func(r *Record) { r.Sums.Key = RecordKey("ds_a", 42) },
		"file key of another version": func(r *Record) { r.Files[0].Key = recordFile("ds_a", 41, r.Files[0].Path).Key },
		"file key of another dataset": func(r *Record) { r.Files[0].Key = recordFile("ds_b", 42, r.Files[0].Path).Key },
		"file key with dots":          func(r *Record) { r.Files[0].Key = "snapshot/../x" },
		"file path with dots":         func(r *Record) { r.Files[2].Path = "notes/../é.txt" },
		"file path that readers skip": func(r *Record) { r.Files[0] = recordFile("ds_a", 42, "snapshot/_a") },
		"file of another kind":        func(r *Record) { r.Files[0].Kind = KindChanges },
		"table part as schema":        func(r *Record) { r.Files[0].Kind, r.Files[0].Key, r.Files = KindSchema, r.Files[1].Key, r.Files[:1] },
		"file without hash":           func(r *Record) { r.Files[0].SHA256 = SHA256{} },
		"file of negative size":       func(r *Record) { r.Files[0].Size = -1 },
		"file of negative rows":       func(r *Record) { r.Files[0].Rows = &minus },
		"file twice":                  func(r *Record) { r.Files[2] = r.Files[0] },
		"more objects than names":     func(r *Record) { r.Attachments.Objects = 4 },
		"more new than all":           func(r *Record) { r.Attachments.NewBytes = 21 },
		"more carried than names":     func(r *Record) { r.Attachments.Carried = 4 },
		"negative attachments":        func(r *Record) { r.Attachments.NewObjects = -1 },
		"attachments without index":   func(r *Record) { r.Attachments.Index = nil },
		"index elsewhere":             func(r *Record) { r.Attachments.Index.Key = "attachments/../x" },
	} {
		t.Run(name, func(t *testing.T) {
			r := goodRecord()
			spoil(&r)
			if err := r.Validate(); err == nil || !strings.Contains(err.Error(), "record of dataset") {
				t.Errorf("want an error that names the record, got %v", err)
			}
			if data, err := r.Encode(); err == nil {
				t.Errorf("encoded all the same: %s", data)
			}
		})
	}
}

func FuzzDecodeRecord(f *testing.F) {
	good, err := goodRecord().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"layout":1,"version":1}`))
	f.Add([]byte(`<html>`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeRecord(data)
		if err != nil || r.Validate() != nil {
			return
		}
		stored, err := r.Encode()
		if err != nil {
			t.Fatalf("decoded and valid, but: %v", err)
		}
		again, err := DecodeRecord(stored)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := again.Encode(); err != nil || !bytes.Equal(twice, stored) {
			t.Fatalf("%v: %s is not %s", err, twice, stored)
		}
	})
}

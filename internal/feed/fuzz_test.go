package feed

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"feedmirror/manifest"
	"feedmirror/manifest/jsonstream"
)

var fuzzEntry = `{"file":"original","sizeBytes":1,"sha256":"` + strings.Repeat("0f", 32) + `","url":"https://h/x?s=1"}`

func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte(`{"datasetId":"ds_a","version":2,"previousVersion":1,"schemaVersion":"1.0","publishedAt":"2026-10-18T06:12:40Z",` +
		`"rowCount":1,"counts":null,"resyncRequired":true,"recordIdsChanged":false,"files":{"manifest":` + fuzzEntry +
		`,"attachments":[` + fuzzEntry + `],"expiresAt":"2026-10-18T07:12:40Z"}}`))
	f.Add([]byte(`{"files":{"snapshot":null,"schema":[` + fuzzEntry + `]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		read := func(in io.Reader) (Answer, []Entry, error) {
			var entries []Entry
			out, err := readAnswer(answer{body: in, date: time.Unix(1, 0)}, func(e Entry) error { entries = append(entries, e); return nil })
			return out, entries, err
		}
		out, entries, err := read(bytes.NewReader(data))
		slow, slowEntries, slowErr := read(iotest.OneByteReader(bytes.NewReader(data)))
		if (err == nil) != (slowErr == nil) || len(entries) != len(slowEntries) || out.Manifest != slow.Manifest {
			t.Fatalf("the answer depends on how it is cut: %v, %v", err, slowErr)
		}
		for _, one := range entries {
			if one.Kind == "" && manifest.CheckAttachmentName(one.Name) != nil || one.Kind != "" && manifest.CheckPath(one.Name) != nil {
				t.Errorf("entry %q passed unchecked", one.Name)
			}
			if one.Size < 0 || one.SHA256.IsZero() {
				t.Errorf("entry %q has no size or hash", one.Name)
			}
		}
		if err == nil && (manifest.CheckDataset(out.Version.Dataset) != nil || out.Manifest.URL == "") {
			t.Errorf("unusable answer passed: %+v", out.Version)
		}
	})
}

func FuzzReadLinks(f *testing.F) {
	f.Add([]byte(`{"files":[` + fuzzEntry + `],"missing":["a"],"expiresAt":"2026-10-18T07:12:40Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		asked := map[string]bool{"original": true, "a": true}
		out, err := readLinks(answer{body: bytes.NewReader(data)}, asked)
		if err == nil && len(out.Entries)+len(out.Missing) != len(asked) {
			t.Errorf("%d names answered with %d entries and %d missing", len(asked), len(out.Entries), len(out.Missing))
		}
	})
}

func FuzzReadPages(f *testing.F) {
	f.Add([]byte(`{"datasets":[{"id":"ds_a","current":{"version":3,"publishedAt":"2026-10-18T07:12:40Z"}}],"nextCursor":"x"}`))
	f.Add([]byte(`{"versions":[{"datasetId":"ds_a"}],"nextCursor":7}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		items, err := readPage(jsonstream.New(bytes.NewReader(data)), []string{"datasets", "items", "data"}, readDataset)
		for _, one := range items.items {
			if err == nil && one.problem == nil && (manifest.CheckDataset(one.ID) != nil || one.Current < 0 || one.Current > manifest.MaxNumber) {
				t.Errorf("unusable item passed: %+v", one.Dataset)
			}
		}
		versions, err := readPage(jsonstream.New(bytes.NewReader(data)), []string{"versions"}, manifest.ReadVersion)
		for _, one := range versions.items {
			if err == nil && manifest.CheckNumber(one.Number) != nil {
				t.Errorf("unusable version passed: %+v", one)
			}
		}
	})
}

func FuzzReadRefusal(f *testing.F) {
	f.Add([]byte(`{"error":{"code":"expired","message":"released again https://h/?s=1"}}`))
	f.Add([]byte(`{"type":"https://ploti.ai/not_subscribed","detail":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		said := readRefusal(410, bytes.NewReader(data), "S3CRETKEY")
		if text := said.Error(); strings.Contains(text, "S3CRETKEY") || strings.ContainsAny(text, "\n\r\x1b") || len(text) > 700 {
			t.Errorf("refusal text is not clean: %q", text)
		}
	})
}

package state

import (
	"bytes"
	"testing"

	"feedmirror/manifest"
)

// FuzzDecodeDocuments reads one text as each document of ours. A text that is one is stored the same
// way as often as it is read and written: a swap that changes nothing would otherwise change something.
func FuzzDecodeDocuments(f *testing.F) {
	for _, seed := range []string{
		`{"revision":3,"dataset":"ds_a","version":42,"previousVersion":41,"schemaVersion":"2.1","publishedAt":"2026-10-18T06:12:40Z","movedAt":"2026-10-18T08:12:40.5+02:00",` +
			`"record":{"key":"versions/ds_a/0000000042/record.json","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},"snapshot":["a"],"schema":{"key":"b"},` +
			`"held":{"version":43,"schemaVersion":"3.0","reason":"major","since":"2026-10-18T06:12:40Z"},"decisions":["c"],"left":[{"version":40,"at":"2026-10-18T06:12:40Z"}]}`,
		`{"revision":1,"owner":"r1","host":"h","since":"2026-10-18T06:12:40Z","until":"2026-10-18T06:13:40Z"}`,
		`{"revision":9,"filter":["ds_*"],"history":"all","watermark":"2026-10-18T06:12:40Z","owed":[{"dataset":"ds_a","reason":"busy","full":true}],` +
			`"recent":[{"dataset":"ds_a","version":1}],"outbox":{"a":[1]},"datasets":[{"dataset":"ds_a","state":"ok","expiredRanges":[[1,3],[5,5]]}]}`,
		`{"revision":2,"state":"deleting","versions":[{"dataset":"ds_a","version":3,"why":"old"}],"attachments":["0011223344556677"]}`,
		`{"dataset":"ds_a","action":"approve","hold":{"version":43,"schemaVersion":"3.0","reason":"major"},"finding":{"id":"x","kind":"missing"}}`,
		`{"revision":1,"layout":1,"feedUrl":"https://api.example","guarantees":{}}`, `{"revision":1,"version":3,"reason":"expired"}`,
		`{"revision":1,"version":3,"until":null}`, `null`, `[]`, `{}`, `<html>`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		readAgain[Pointer](t, data)
		readAgain[Lease](t, data)
		readAgain[Shard](t, data)
		readAgain[Layout](t, data)
		readAgain[Prune](t, data)
		readAgain[Pruned](t, data)
		readAgain[Decision](t, data)
		readAgain[Gone](t, data)
		readAgain[Withdrawn](t, data)
		readAgain[StoredDocument](t, data)
	})
}

func readAgain[T any](t *testing.T, data []byte) {
	t.Helper()
	doc, err := decode[T]("key", data)
	if err != nil || doc == nil {
		return
	}
	stored, err := manifest.EncodeDocument(doc)
	if err != nil {
		t.Fatalf("%T was read from %q and cannot be stored: %v", doc, data, err)
	}
	again, err := decode[T]("key", stored)
	if err != nil {
		t.Fatalf("%T was stored as %q and cannot be read: %v", doc, stored, err)
	}
	if twice, err := manifest.EncodeDocument(again); err != nil || !bytes.Equal(twice, stored) {
		t.Fatalf("%T was stored as %q and then as %q: %v", doc, stored, twice, err)
	}
}

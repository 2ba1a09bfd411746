package invariant

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"sort"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// memory is a bucket in a map.
type memory map[string][]byte

func (m memory) List() ([]string, error) {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys, nil
}

func (m memory) Read(key string) (io.ReadCloser, error) {
	data, ok := m[key]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (m memory) clone() memory {
	copied := make(memory, len(m))
	for key, data := range m {
		copied[key] = data
	}
	return copied
}

type fields = map[string]any

// builder writes a small valid bucket by hand. edits change a document just before it is written,
// so that the hashes that later documents keep of it are those of the changed one.
type builder struct {
	t      *testing.T
	bucket memory
	edits  map[string]func(fields)
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (b *builder) put(key string, data string) { b.bucket[key] = []byte(data) }

func (b *builder) putJSON(key string, document fields) {
	b.t.Helper()
	if edit := b.edits[key]; edit != nil {
		edit(document)
	}
	data, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		b.t.Fatal(err)
	}
	b.bucket[key] = append(data, '\n')
}

func (b *builder) ref(key string) fields {
	return fields{"key": key, "sha256": sumOf(b.bucket[key])}
}

const (
	ds          = "berlin.plans"
	bytesOfPDF  = "%PDF-1.7 plan"
	bytesOfCSV  = "a,b\n1,2\n"
	v3          = "versions/berlin.plans/0000000003/"
	v5          = "versions/berlin.plans/0000000005/"
	pointerKey  = "current/berlin.plans.json"
	decisionKey = "_mirror/decisions/berlin.plans/20260102T030405Z-run.json"
	part5       = "snapshot/ploti_dataset_id=berlin.plans/ploti_version=0000000005/part-0000.parquet"
	changes5    = "changes/ploti_dataset_id=berlin.plans/ploti_version=0000000005/part-0000.parquet"
	index5      = "attachment_index/ploti_dataset_id=berlin.plans/ploti_version=0000000005/index.parquet"
)

func pdfKey() string { return attachmentKey(sumOf([]byte(bytesOfPDF))) }

// build writes versions 3 and 5, the pointer, a version 7 that was not finished, a version 6 that
// is gone, and one document of every other kind.
func build(t *testing.T, edits map[string]func(fields)) memory {
	t.Helper()
	b := &builder{t: t, bucket: make(memory), edits: edits}
	b.put(pdfKey(), bytesOfPDF)
	b.put(attachmentKey(sumOf([]byte(bytesOfCSV))), bytesOfCSV)
	b.version(3, 0, map[string]string{"snapshot/part-0000.parquet": "three", "schema.json": `{"columns":[]}`}, "not-applicable")
	b.version(5, 3, map[string]string{
		"snapshot/part-0000.parquet": "five", "snapshot/part-0001.parquet": "", "changes/part-0000.parquet": "delta",
		"id_map/part-0000.parquet": "ids", "schema.json": `{"columns":[1]}`, "docs/readme.txt": "hello",
	}, "present")
	b.unfinished(7)
	b.pointer(5)
	b.others()
	return b.bucket
}

func (b *builder) version(number, previous int64, files map[string]string, changes string) {
	where := place{dataset: ds, version: fmt.Sprintf("%010d", number)}
	prefix := versionPrefix(where)
	var manifestFiles, recordFiles []any
	var sums []string
	for _, path := range sortedKeys(files) {
		key := fileKey(where, path)
		b.put(key, files[path])
		sum := sumOf([]byte(files[path]))
		manifestFiles = append(manifestFiles, fields{"path": path, "sizeBytes": len(files[path]), "sha256": strings.ToUpper(sum)})
		recordFiles = append(recordFiles, fields{"kind": kindOf(key), "path": path, "key": key, "sizeBytes": len(files[path]), "sha256": sum})
		sums = append(sums, sum+"  "+key)
	}
	b.putJSON(prefix+"manifest.json", fields{"datasetId": ds, "version": number, "files": manifestFiles, "attachments": b.attachments()})
	index := fmt.Sprintf("attachment_index/ploti_dataset_id=%s/ploti_version=%s/index.parquet", ds, where.version)
	b.index(index)
	for _, key := range []string{prefix + "manifest.json", index} {
		sums = append(sums, sumOf(b.bucket[key])+"  "+key)
	}
	b.put(prefix+"SHA256SUMS", strings.Join(sums, "\n")+"\n")
	if edit := b.edits[prefix+"SHA256SUMS"]; edit != nil {
		edited := fields{"text": string(b.bucket[prefix+"SHA256SUMS"])}
		edit(edited)
		b.put(prefix+"SHA256SUMS", edited["text"].(string))
	}
	var link any
	if previous != 0 {
		key := recordKey(ds, previous)
		link = fields{"version": previous, "sha256": sumOf(b.bucket[key])}
	}
	b.putJSON(prefix+"record.json", fields{
		"layout": 1, "dataset": ds, "version": number, "previousVersion": previous, "previousRecord": link,
		"schemaVersion": "1.0", "manifest": b.ref(prefix + "manifest.json"), "manifestSizeBytes": len(b.bucket[prefix+"manifest.json"]),
		"sha256sums": b.ref(prefix + "SHA256SUMS"), "files": recordFiles, "changes": changes,
		"attachments": fields{"count": 3, "objects": 2, "bytes": len(bytesOfPDF) + len(bytesOfCSV), "index": b.ref(index)},
	})
	b.putJSON(prefix+"stored.json", fields{"revision": 1, "dataset": ds, "version": number, "objects": []any{}})
}

func (b *builder) attachments() []any {
	pdf, csv := sumOf([]byte(bytesOfPDF)), sumOf([]byte(bytesOfCSV))
	return []any{
		fields{"file": "document:" + pdf, "filename": "plan.pdf", "sizeBytes": len(bytesOfPDF), "sha256": pdf},
		fields{"file": "source:12", "sizeBytes": len(bytesOfCSV), "sha256": csv},
		fields{"file": "source:13", "sizeBytes": len(bytesOfCSV), "sha256": csv},
	}
}

// index writes the rows that attachments calls for; an edit of the key gets them as "rows".
func (b *builder) index(key string) {
	b.t.Helper()
	var rows []indexRow
	for _, entry := range b.attachments() {
		entry := entry.(fields)
		row := indexRow{File: entry["file"].(string), SizeBytes: int64(entry["sizeBytes"].(int)), SHA256: entry["sha256"].(string), Kind: "source"}
		row.Key = attachmentKey(row.SHA256)
		if id, ok := strings.CutPrefix(row.File, "document:"); ok {
			row.Kind, row.DocumentSHA256 = "document", &id
		}
		rows = append(rows, row)
	}
	if edit := b.edits[key]; edit != nil {
		edited := fields{"rows": rows}
		edit(edited)
		rows = edited["rows"].([]indexRow)
	}
	var out bytes.Buffer
	if err := parquet.Write(&out, rows); err != nil {
		b.t.Fatal(err)
	}
	b.bucket[key] = out.Bytes()
}

// unfinished writes what a pass leaves that was cut after its first part.
func (b *builder) unfinished(number int64) {
	where := place{dataset: ds, version: fmt.Sprintf("%010d", number)}
	b.put(fileKey(where, "snapshot/part-0000.parquet"), "seven")
	b.putJSON(versionPrefix(where)+"manifest.json", fields{"files": fields{
		"snapshot": []any{
			fields{"file": "snapshot/part-0000.parquet", "sizeBytes": 5, "sha256": sumOf([]byte("seven"))},
			fields{"file": "snapshot/part-0001.parquet", "sizeBytes": 9, "sha256": sumOf([]byte("not there"))},
		},
		"schema": fields{"file": "schema.json", "sizeBytes": 2, "sha256": sumOf([]byte("{}"))},
	}})
}

func (b *builder) pointer(number int64) {
	where := place{dataset: ds, version: fmt.Sprintf("%010d", number)}
	var snapshot []any
	for _, key := range []string{"snapshot/part-0000.parquet", "snapshot/part-0001.parquet"} {
		snapshot = append(snapshot, fileKey(where, key))
	}
	b.putJSON(pointerKey, fields{
		"revision": 4, "dataset": ds, "version": number, "schemaVersion": "1.0", "record": b.ref(where.recordKey()),
		"manifest": b.ref(versionPrefix(where) + "manifest.json"), "snapshot": snapshot,
		"schema": fields{"key": fileKey(where, "schema.json")}, "held": nil, "withdrawn": false, "pinned": false,
	})
}

func (b *builder) others() {
	when := "2026-01-02T03:04:05Z"
	b.putJSON("versions/"+ds+"/0000000006/gone.json", fields{"dataset": ds, "version": 6, "reason": "expired", "at": when})
	b.putJSON(v3+"withdrawn.json", fields{"revision": 1, "dataset": ds, "version": 3, "from": when, "until": nil})
	b.put(v3+"manifest.01234567.json", "{}")
	b.putJSON("_mirror/layout.json", fields{"revision": 1, "layout": 1})
	b.putJSON("_mirror/shards/0-of-1-ab12.json", fields{"revision": 9})
	b.putJSON("_mirror/leases/"+ds+".json", fields{"revision": 2, "owner": "run", "until": when})
	b.putJSON(decisionKey, fields{"dataset": ds, "action": "approve", "at": when})
	b.put("_mirror/status.html", "<html>")
	b.put("_mirror/runs/2026-01-02/run.json", "{}")
	b.put("_mirror/audits/ledger/"+ds+".parquet", "ledger")
	b.put("_mirror/tmp/half-a-file", "ha")
	b.put("_mirror/locks/current", "")
	b.put("snapshot/ploti_dataset_id="+ds+"/_delta_log/00000000000000000000.json", "{}")
	b.put("snapshot/ploti_dataset_id="+ds+"/_delta_log/_last_checkpoint", "{}")
	b.put("changes/_delta_log/00000000000000000000.json", "{}")
	b.put("changes/_delta_log/00000000000000000010.checkpoint.parquet", "PAR1")
	b.put("attachment_index/ploti_dataset_id="+ds+"/_delta_log/00000000000000000000.json", "{}")
	b.put("publications/_delta_log/00000000000000000000.json", "{}")
	b.put("publications/2026-01-02/run.parquet", "PAR1")
}

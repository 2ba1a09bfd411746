package tables

import (
	"bytes"
	"testing"
)

// FuzzDecodeCommit: a log lies in a bucket that others can write to.
func FuzzDecodeCommit(f *testing.F) {
	f.Add([]byte(`{"commitInfo":{"timestamp":1,"operation":"WRITE","userMetadata":"{\"table_id\":\"t\",\"columns_sha256\":\"c\"}"}}` + "\n" +
		`{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}` + "\n" + `{"metaData":{"id":"t","schemaString":"{}","partitionColumns":[]}}` + "\n" +
		`{"txn":{"appId":"ploti:ds","version":3}}` + "\n" + `{"add":{"path":"ploti_version=0000000003/part-0000.parquet","size":4,"stats":"{\"numRecords\":1}"}}` + "\n"))
	f.Add([]byte(`{"remove":{"path":"%zz"}}` + "\n\n{}"))
	f.Add([]byte(`{"add":null,"txn":{"version":-9223372036854775808}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		actions, err := decodeCommit(text)
		if err != nil {
			return
		}
		_, _ = readStamp(actions)
		all := newContents()
		all.apply(actions)
		for path := range all.files {
			_, _ = keyOf(ChangesRoot, path)
		}
		again, err := encodeCommit(actions)
		if err != nil {
			t.Fatalf("what was decoded cannot be encoded: %v", err)
		}
		twice, err := decodeCommit(again)
		if err != nil {
			t.Fatalf("what was encoded cannot be decoded: %v", err)
		}
		third, err := encodeCommit(twice)
		_ = decodeHint(text)
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("encoded twice it differs: %v\n%s\n%s", err, again, third)
		}
	})
}

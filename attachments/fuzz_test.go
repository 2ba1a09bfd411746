package attachments

import (
	"bytes"
	"context"
	"testing"

	"feedmirror/manifest"
)

// FuzzReadIndex reads damaged indexes, all rows and the hashes alone. Neither may panic, what is read
// agrees with itself, and both say the same of an index that is whole.
func FuzzReadIndex(f *testing.F) {
	for _, rows := range []int{0, 1, 3, indexBatchRows + 1} {
		var out bytes.Buffer
		if _, err := WriteIndex(&out, firstN(rows)); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
	}
	f.Add([]byte("PAR1PAR1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var rows, digests []manifest.SHA256
		rowsErr := ReadIndex(context.Background(), bytes.NewReader(data), int64(len(data)), func(row IndexRow) error {
			if row.Key != manifest.AttachmentKey(row.SHA256) || row.Size < 0 {
				t.Fatalf("row %+v contradicts itself", row)
			}
			rows = append(rows, row.SHA256)
			return nil
		})
		var digestsErr error
		for sum, err := range IndexDigests(context.Background(), bytes.NewReader(data), int64(len(data))) {
			if err != nil {
				digestsErr = err
				break
			}
			digests = append(digests, sum)
		}
		if rowsErr != nil {
			return
		}
		if digestsErr != nil || len(digests) != len(rows) {
			t.Fatalf("%d rows, but %d hashes and %v", len(rows), len(digests), digestsErr)
		}
		for i, sum := range digests {
			if sum != rows[i] {
				t.Fatalf("row %d has hash %s, the column %s", i, rows[i], sum)
			}
		}
	})
}

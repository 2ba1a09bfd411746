package rows

import (
	"testing"
)

// maxFuzzed bounds inputs, in bytes: greater ones take longer and show no more.
const maxFuzzed = 16 << 10

// FuzzRows holds small Parquet files, of real writers, of the feed and of nobody, against all that an audit
// looks at. Whatever stands in them, they are read or told as findings, in bounded time and memory.
func FuzzRows(f *testing.F) {
	for _, files := range []map[string][]byte{rightFiles(f), realFiles(f), hostileFiles(f, 1<<18, 50)} {
		for _, data := range files {
			if len(data) <= maxFuzzed {
				f.Add(data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) <= maxFuzzed {
			audited(t, "an input", data)
		}
	})
}

package bucket_test

import (
	"fmt"
	"testing"

	"feedmirror/internal/bucket"
)

func TestParseContentRange(t *testing.T) {
	for text, want := range map[string][2]int64{
		"bytes 0-0/1": {0, 1}, "bytes 5-9/10": {5, 10}, "bytes 0-4/9223372036854775807": {0, 1<<63 - 1},
	} {
		if first, size, err := bucket.ParseContentRange(text); err != nil || first != want[0] || size != want[1] {
			t.Errorf("%q: %d of %d, %v", text, first, size, err)
		}
	}
	for _, text := range []string{
		"", "bytes */10", "bytes 0-4/*", "bytes -1-4/10", "bytes 0--4/10", "bytes 5-4/10", "bytes 5-10/10", "bytes 0-4/-1", "bytes 0-4/10x",
		"bytes 0-4/10 ", "bytes  0-4/10", "items 0-4/10", "bytes +0-4/10", "bytes 0-4/9223372036854775808", "bytes 0x0-4/10",
	} {
		if first, size, err := bucket.ParseContentRange(text); err == nil {
			t.Errorf("%q was read as %d of %d", text, first, size)
		}
	}
}

// FuzzParseContentRange: what is read is a range of an object, and its numbers are those that stand there.
func FuzzParseContentRange(f *testing.F) {
	for _, seed := range []string{"bytes 5-9/10", "bytes */10", "bytes -5--1/-1", "bytes 0-4/10 junk", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, size, err := bucket.ParseContentRange(text)
		if err != nil {
			return
		}
		if first < 0 || first >= size {
			t.Fatalf("%q was read as byte %d of %d", text, first, size)
		}
		var numbers [3]int64
		if _, err := fmt.Sscanf(text, "bytes %d-%d/%d", &numbers[0], &numbers[1], &numbers[2]); err != nil || numbers[0] != first || numbers[2] != size ||
			numbers[1] < first || numbers[1] >= size {
			t.Fatalf("%q was read as byte %d of %d, but holds %v, %v", text, first, size, numbers, err)
		}
	})
}

package e2e_test

import (
	"slices"
	"strings"
	"testing"
)

// TestNoTextOfTheFeedReachesTheWireOfTheBucket: file names, content types and all other words of the feed
// stand in documents. A header that carried one could be broken out of.
func TestNoTextOfTheFeedReachesTheWireOfTheBucket(t *testing.T) {
	t.Parallel()
	_, seen := newRecorded(t, "")
	types := []string{"application/octet-stream", "application/vnd.apache.parquet", "application/json", "text/plain; charset=utf-8"}
	puts := seen.puts(t)
	for _, put := range puts {
		put.has(t, "Content-Disposition", "")
		if kind := put.header.Get("Content-Type"); !slices.Contains(types, kind) {
			t.Errorf("PUT %s has content type %q", put.key, kind)
		}
		for name := range put.header {
			if strings.HasPrefix(name, "X-Amz-Meta-") {
				t.Errorf("PUT %s has %s", put.key, name)
			}
		}
	}
	if len(puts) < 10 {
		t.Errorf("only %d writes were seen", len(puts))
	}
}

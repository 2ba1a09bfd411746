package azurestore_test

import (
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/azurestore"
	"feedmirror/internal/bucket/buckettest"
)

func TestConformance(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) bucket.Store {
		return openStore(t, azurestore.Options{Prefix: "some/prefix", PartSize: 256 << 10})
	})
}

package localstore_test

import (
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/bucket/localstore"
)

func open(t *testing.T) bucket.Store {
	t.Helper()
	store, err := localstore.New(localstore.Options{Root: t.TempDir()})
	if err != nil {
		t.Fatalf("open folder: %v", err)
	}
	return store
}

func TestConformance(t *testing.T) { buckettest.Run(t, open) }

func TestConformanceWithRetry(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) bucket.Store {
		return bucket.WithRetry(open(t), bucket.Policy{})
	})
}

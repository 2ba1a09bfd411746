package gcsstore_test

import (
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/bucket/gcsstore"
)

func TestConformance(t *testing.T) {
	front := newFront(t, "http://"+servers.FakeGCS(t).Host)
	buckettest.Run(t, func(t *testing.T) bucket.Store {
		return openAt(t, front.URL, gcsstore.Options{Prefix: "some/prefix", PartSize: 256 << 10})
	})
}

package gcsstore_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/gcsstore"
	"feedmirror/internal/testservers"
	"feedmirror/manifest"
)

func TestMain(m *testing.M) {
	servers = testservers.New()
	os.Exit(servers.Run(m))
}

// servers are shared by the tests of this binary; each test has a bucket of its own.
var servers *testservers.Servers

// noEnvironment keeps a developer's own settings out of the tests.
func noEnvironment(string) string { return "" }

// openAt returns a store that reaches the fake server under endpoint.
func openAt(t *testing.T, endpoint string, options gcsstore.Options) *gcsstore.Store {
	t.Helper()
	if options.Bucket == "" {
		options.Bucket = servers.FakeGCS(t).NewBucket(t)
	}
	options.Endpoint, options.Getenv = endpoint, noEnvironment
	if options.HTTPClient == nil {
		options.HTTPClient = &http.Client{Transport: &http.Transport{DisableCompression: true}}
	}
	store, err := gcsstore.New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(options.HTTPClient.CloseIdleConnections)
	return store
}

func openStore(t *testing.T) *gcsstore.Store {
	t.Helper()
	return openAt(t, "http://"+servers.FakeGCS(t).Host, gcsstore.Options{Prefix: "some/prefix"})
}

// bytesOf returns n bytes that do not repeat.
func bytesOf(n int) []byte {
	data := make([]byte, n)
	source := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	_, _ = source.Read(data)
	return data
}

func content(data []byte, class bucket.ContentClass) bucket.Content {
	return bucket.Content{
		Size: int64(len(data)), SHA256: manifest.SumBytes(data), Class: class, Body: bytes.NewReader(data),
	}
}

func create(ctx context.Context, store bucket.Writer, key string, data []byte) error {
	_, err := store.Create(ctx, key, content(data, bucket.Data))
	return err
}

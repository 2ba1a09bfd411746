package azurestore_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/azurestore"
	"feedmirror/internal/testservers"
	"feedmirror/manifest"
)

func TestMain(m *testing.M) {
	servers = testservers.New()
	os.Exit(servers.Run(m))
}

// servers are shared by the tests of this binary; each test has a container of its own.
var servers *testservers.Servers

// environment reads these settings only, so that a developer's own stay out of the tests.
func environment(settings map[string]string) func(string) string {
	return func(key string) string { return settings[key] }
}

// openStore returns a store on azurite, in a new container unless the options name one.
func openStore(t *testing.T, options azurestore.Options) *azurestore.Store {
	t.Helper()
	azurite := servers.Azurite(t)
	if options.Container == "" {
		options.Container = azurite.NewContainer(t)
	}
	if options.Endpoint == "" {
		options.Endpoint = azurite.Endpoint
	}
	if options.Getenv == nil {
		options.Getenv = environment(map[string]string{"AZURE_STORAGE_KEY": azurite.Key})
	}
	return open(t, options)
}

func open(t *testing.T, options azurestore.Options) *azurestore.Store {
	t.Helper()
	if options.HTTPClient == nil {
		options.HTTPClient = &http.Client{Transport: &http.Transport{}}
	}
	store, err := azurestore.New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(options.HTTPClient.CloseIdleConnections)
	return store
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

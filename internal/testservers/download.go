package testservers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcp"
	"google.golang.org/api/option"
)

// Download copies every object of a bucket into a folder by gocloud.dev, a client that the
// product does not use: what a test finds there does not rest on the code that it tests.
func (s S3) Download(t testing.TB, bucket, dir string) {
	t.Helper()
	opened, err := s3blob.OpenBucket(t.Context(), s.Client(), bucket, nil)
	download(t, s.Name, opened, err, dir)
}

// Download copies every object of a bucket into a folder by gocloud.dev.
func (g GCS) Download(t testing.TB, bucket, dir string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // clean-up functions call it too
	client := gcp.NewAnonymousHTTPClient(gcp.DefaultTransport())
	opened, err := gcsblob.OpenBucket(ctx, client, bucket, &gcsblob.Options{ClientOptions: []option.ClientOption{option.WithEndpoint(g.Endpoint)}})
	download(t, "fake-gcs-server", opened, err, dir)
}

// Download copies every blob of a container into a folder by gocloud.dev.
func (a Azure) Download(t testing.TB, container, dir string) {
	t.Helper()
	client, err := a.Client()
	if err != nil {
		t.Fatal(err)
	}
	opened, err := azureblob.OpenBucket(t.Context(), client.NewContainerClient(container), nil)
	download(t, "azurite", opened, err, dir)
}

func download(t testing.TB, server string, bucket *blob.Bucket, err error, dir string) {
	t.Helper()
	if err != nil {
		t.Fatalf("open bucket on %s: %v", server, err)
	}
	defer bucket.Close()                      //nolint:errcheck // only read from
	ctx := context.WithoutCancel(t.Context()) // clean-up functions call it too
	objects := bucket.List(nil)
	for {
		object, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("list bucket on %s: %v", server, err)
		}
		in, err := bucket.NewReader(ctx, object.Key, nil)
		if err != nil {
			t.Fatalf("get %s on %s: %v", object.Key, server, err)
		}
		if err := errors.Join(keepObject(dir, object.Key, in), in.Close()); err != nil {
			t.Fatalf("keep %s: %v", object.Key, err)
		}
	}
}

func keepObject(dir, key string, in io.Reader) error {
	name := filepath.FromSlash(key)
	if !filepath.IsLocal(name) {
		return fmt.Errorf("key %q leads out of the folder", key)
	}
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

package testservers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"cloud.google.com/go/storage"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"google.golang.org/api/iterator"
)

// Download copies every object of a bucket into a folder, by the vendor's SDK alone: what a test
// finds there does not rest on the code that it tests.
func (s S3) Download(t testing.TB, bucket, dir string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // clean-up functions call it too
	pages := s3.NewListObjectsV2Paginator(s.Client(), &s3.ListObjectsV2Input{Bucket: &bucket})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Fatalf("list bucket on %s: %v", s.Name, err)
		}
		for _, object := range page.Contents {
			answer, err := s.Client().GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: object.Key})
			if err != nil {
				t.Fatalf("get %s on %s: %v", *object.Key, s.Name, err)
			}
			keep(t, dir, *object.Key, answer.Body)
		}
	}
}

// Download copies every object of a bucket into a folder, by the vendor's SDK alone.
func (g GCS) Download(t testing.TB, bucket, dir string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // clean-up functions call it too
	client, err := g.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // only read from
	objects := client.Bucket(bucket).Objects(ctx, nil)
	for {
		object, err := objects.Next()
		if errors.Is(err, iterator.Done) {
			return
		}
		if err != nil {
			t.Fatalf("list bucket on fake-gcs-server: %v", err)
		}
		keep(t, dir, object.Name, readGCS(t, client, bucket, object.Name))
	}
}

func readGCS(t testing.TB, client *storage.Client, bucket, key string) io.ReadCloser {
	t.Helper()
	in, err := client.Bucket(bucket).Object(key).NewReader(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatalf("get %s on fake-gcs-server: %v", key, err)
	}
	return in
}

// Download copies every blob of a container into a folder, by the vendor's SDK alone.
func (a Azure) Download(t testing.TB, container, dir string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // clean-up functions call it too
	client, err := a.Client()
	if err != nil {
		t.Fatal(err)
	}
	blobs := client.NewContainerClient(container)
	pages := blobs.NewListBlobsFlatPager(nil)
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Fatalf("list container on azurite: %v", err)
		}
		for _, blob := range page.Segment.BlobItems {
			answer, err := blobs.NewBlobClient(*blob.Name).DownloadStream(ctx, nil)
			if err != nil {
				t.Fatalf("get %s on azurite: %v", *blob.Name, err)
			}
			keep(t, dir, *blob.Name, answer.Body)
		}
	}
}

// keep stores an object under its key and closes in.
func keep(t testing.TB, dir, key string, in io.ReadCloser) {
	t.Helper()
	if err := keepObject(dir, key, in); err != nil {
		t.Fatalf("keep %s: %v", key, errors.Join(err, in.Close()))
	}
	if err := in.Close(); err != nil {
		t.Fatalf("read %s: %v", key, err)
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

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"feedmirror/internal/testservers"
)

// place is a prefix in a bucket of an S3 server.
type place struct {
	server testservers.S3
	bucket string
	prefix string // ends in a slash, or is empty
}

// newPlace makes a bucket.
func newPlace(ctx context.Context, server testservers.S3, bucket, prefix string) (place, error) {
	if _, err := server.Client().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket}); err != nil {
		return place{}, fmt.Errorf("make bucket: %w", err)
	}
	return place{server, bucket, prefix}, nil
}

// url is the place as the program takes it, by way of an endpoint.
func (p place) url(endpoint string) string {
	return fmt.Sprintf("s3://%s/%s?region=%s&endpoint=%s&path_style=true", p.bucket, strings.TrimSuffix(p.prefix, "/"), p.server.Region, endpoint)
}

// list returns the sizes of all objects by key.
func (p place) list(ctx context.Context) (map[string]int64, error) {
	found := map[string]int64{}
	err := p.each(ctx, func(key string, object types.Object) { found[key] = aws.ToInt64(object.Size) })
	return found, err
}

// tags returns the ETag and time of all objects by key.
func (p place) tags(ctx context.Context) (map[string]string, error) {
	found := map[string]string{}
	err := p.each(ctx, func(key string, object types.Object) {
		found[key] = aws.ToString(object.ETag) + " " + aws.ToTime(object.LastModified).String()
	})
	return found, err
}

func (p place) each(ctx context.Context, use func(string, types.Object)) error {
	pages := s3.NewListObjectsV2Paginator(p.server.Client(), &s3.ListObjectsV2Input{Bucket: &p.bucket, Prefix: &p.prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list bucket: %w", err)
		}
		for _, object := range page.Contents {
			use(strings.TrimPrefix(aws.ToString(object.Key), p.prefix), object)
		}
	}
	return nil
}

// uploads returns how many multipart uploads are open.
func (p place) uploads(ctx context.Context) (int, error) {
	answer, err := p.server.Client().ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: &p.bucket})
	if err != nil {
		return 0, fmt.Errorf("list uploads: %w", err)
	}
	return len(answer.Uploads), nil
}

// get returns an object's bytes.
func (p place) get(ctx context.Context, key string) ([]byte, error) {
	answer, err := p.server.Client().GetObject(ctx, &s3.GetObjectInput{Bucket: &p.bucket, Key: aws.String(p.prefix + key)})
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	defer answer.Body.Close()
	return io.ReadAll(answer.Body)
}

// upload copies a folder here as any tool would: plain requests without conditions.
func (p place) upload(ctx context.Context, folder string) error {
	found, err := files(folder)
	if err != nil {
		return err
	}
	for key := range found {
		if err := p.put(ctx, folder, key); err != nil {
			return err
		}
	}
	return nil
}

func (p place) put(ctx context.Context, folder, key string) error {
	file, err := os.Open(filepath.Join(folder, filepath.FromSlash(key)))
	if err != nil {
		return fmt.Errorf("copy %s: %w", key, err)
	}
	defer file.Close() //nolint:errcheck // only read from
	if _, err := p.server.Client().PutObject(ctx, &s3.PutObjectInput{Bucket: &p.bucket, Key: aws.String(p.prefix + key), Body: file}); err != nil {
		return fmt.Errorf("copy %s: %w", key, err)
	}
	return nil
}

// download copies everything here into a folder.
func (p place) download(ctx context.Context, folder string) error {
	found, err := p.list(ctx)
	if err != nil {
		return err
	}
	for key := range found {
		data, err := p.get(ctx, key)
		if err != nil {
			return err
		}
		target := filepath.Join(folder, filepath.FromSlash(key))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return fmt.Errorf("copy %s: %w", key, err)
		}
		if err := os.WriteFile(target, data, 0o644); err != nil {
			return fmt.Errorf("copy %s: %w", key, err)
		}
	}
	return nil
}

// withVersity runs use with a versitygw of its own.
func withVersity(use func(testservers.S3) error) error {
	return withServers(func(servers *testservers.Servers) error {
		return use(servers.VersityGW(tb{}))
	})
}

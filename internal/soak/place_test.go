package soak_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// errAbsent says that a key holds nothing.
var errAbsent = errors.New("nothing is there")

// place is a bucket.
type place struct {
	url string
	env []string
	// read returns an object as a reader gets it, behind the accidents; errAbsent when there is none.
	read func(ctx context.Context, key string) ([]byte, error)
	// files returns a folder with all that the bucket holds now.
	files func(t *testing.T) string
	noise *bucketNoise // nil where requests cannot fail on the way
}

// prefix is where the mirror stands inside of the bucket.
const prefix = "feeds/main"

func folderPlace(t *testing.T, _ *weather) place {
	dir := filepath.Join(t.TempDir(), "bucket")
	return place{
		url: "file://" + dir,
		read: func(_ context.Context, key string) ([]byte, error) {
			data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(key)))
			if errors.Is(err, fs.ErrNotExist) {
				return nil, errAbsent
			}
			return data, err
		},
		files: func(*testing.T) string { return dir },
	}
}

func versityPlace(t *testing.T, sky *weather) place {
	server := servers.VersityGW(t)
	bucket := server.NewBucket(t)
	noise := newBucketNoise(t, server.Endpoint, sky)
	return place{
		url: "s3://" + bucket + "/" + prefix + "?region=" + server.Region + "&path_style=true&endpoint=" + noise.url,
		env: []string{"AWS_ACCESS_KEY_ID=" + server.AccessKey, "AWS_SECRET_ACCESS_KEY=" + server.SecretKey, "AWS_EC2_METADATA_DISABLED=true"},
		read: func(ctx context.Context, key string) ([]byte, error) {
			data, found, err := server.Read(ctx, bucket, prefix+"/"+key)
			if err == nil && !found {
				return nil, errAbsent
			}
			return data, err
		},
		files: func(t *testing.T) string {
			dir := t.TempDir()
			server.Download(t, bucket, dir)
			return filepath.Join(dir, filepath.FromSlash(prefix))
		},
		noise: noise,
	}
}

//go:build readers

package readers_test

import (
	"os"
	"path/filepath"
	"testing"

	"feedmirror/internal/testservers"
)

// The places where a bucket stands.
const (
	inFolder = "folder"
	onS3     = "versitygw"
)

// place is an empty bucket.
type place struct {
	kind   string
	bucket string   // its URL, as the program takes it
	env    []string // credentials for the program and for engines
	root   string   // as engines name it: an absolute path, or s3://bucket/prefix; no slash at the end
	server *testservers.S3
	// files returns a folder with what the bucket holds.
	files func(t *testing.T) string
}

// prefix is where the mirror stands inside of a bucket on S3.
const prefix = "feeds/main"

func newPlace(t *testing.T, kind string) place {
	t.Helper()
	if kind == inFolder {
		dir, err := os.MkdirTemp(workshop, "bucket-")
		if err != nil {
			t.Fatal(err)
		}
		return place{kind: kind, bucket: "file://" + dir, root: dir, files: func(*testing.T) string { return dir }}
	}
	server := servers.VersityGW(t)
	bucket := server.NewBucket(t)
	return place{
		kind: kind, bucket: "s3://" + bucket + "/" + prefix + "?path_style=true&region=" + server.Region + "&endpoint=" + server.Endpoint,
		env:    []string{"AWS_ACCESS_KEY_ID=" + server.AccessKey, "AWS_SECRET_ACCESS_KEY=" + server.SecretKey, "AWS_EC2_METADATA_DISABLED=true"},
		root:   "s3://" + bucket + "/" + prefix,
		server: &server,
		files: func(t *testing.T) string {
			t.Helper()
			dir := t.TempDir()
			server.Download(t, bucket, dir)
			return filepath.Join(dir, filepath.FromSlash(prefix))
		},
	}
}

package s3store_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/bucket/s3store"
	"feedmirror/internal/testservers"
)

var servers = testservers.New()

func TestMain(m *testing.M) { os.Exit(servers.Run(m)) }

// real returns the real servers by name.
func real() map[string]func(testing.TB) testservers.S3 {
	return map[string]func(testing.TB) testservers.S3{
		"versitygw": servers.VersityGW, "seaweedfs": servers.SeaweedFS,
	}
}

// Small enough for tests; 5 MiB is the least that services take for a part.
const (
	testThreshold = 6 << 20
	testPart      = 5 << 20
)

func optionsFor(server testservers.S3, name, prefix string) s3store.Options {
	return s3store.Options{
		Bucket: name, Prefix: prefix, Endpoint: server.Endpoint, Region: server.Region,
		Credentials:  credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, ""),
		MaxSinglePut: testThreshold, PartSize: testPart,
	}
}

func open(t *testing.T, options s3store.Options) *s3store.Store {
	t.Helper()
	store, err := s3store.New(t.Context(), options)
	if err != nil {
		t.Fatalf("open bucket: %v", err)
	}
	return store
}

// openUploads returns the keys of uploads that were neither completed nor aborted.
func openUploads(t *testing.T, client *s3.Client, name string) []string {
	t.Helper()
	out, err := client.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &name})
	if err != nil {
		t.Fatalf("list uploads: %v", err)
	}
	var keys []string
	for _, u := range out.Uploads {
		keys = append(keys, aws.ToString(u.Key))
	}
	return keys
}

func TestConformance(t *testing.T) {
	for name, start := range real() {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			used := server.NewBucket(t)
			var prefixes atomic.Int64
			buckettest.Run(t, func(t *testing.T) bucket.Store {
				return open(t, optionsFor(server, used, fmt.Sprintf("a prefix/%d", prefixes.Add(1))))
			})
			if left := openUploads(t, server.Client(), used); len(left) > 0 {
				t.Errorf("open uploads are left: %q", left)
			}
		})
	}
}

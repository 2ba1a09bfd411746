package testservers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// S3 is an S3-compatible server that runs.
type S3 struct {
	Name      string // "versitygw" or "seaweedfs"
	Endpoint  string // http://127.0.0.1:port; buckets are addressed in the path
	Region    string
	AccessKey string // may do everything
	SecretKey string

	buckets *atomic.Int64 // made so far, for their names
}

// newS3 describes a server on a port of the loopback address.
func newS3(name string, port int) S3 {
	return S3{
		Name:      name,
		Endpoint:  "http://127.0.0.1:" + strconv.Itoa(port),
		Region:    "eu-central-1",
		AccessKey: "feedmirror-test",
		SecretKey: "not-a-secret-of-anyone",
		buckets:   &atomic.Int64{},
	}
}

// Credentials hands out the keys of the server.
func (s S3) Credentials() aws.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, "")
}

// Client returns a client of the vendor's SDK that sends each request once.
func (s S3) Client() *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(s.Endpoint),
		Region:       s.Region,
		UsePathStyle: true,
		Credentials:  s.Credentials(),
		Retryer:      aws.NopRetryer{},
	})
}

// NewBucket makes an empty bucket and returns its name. It goes with the server.
func (s S3) NewBucket(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("bucket-%04d", s.buckets.Add(1))
	if _, err := s.Client().CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatalf("make bucket on %s: %v", s.Name, err)
	}
	return name
}

// KeepVersions makes a bucket keep older versions of its objects.
func (s S3) KeepVersions(t testing.TB, bucket string) {
	t.Helper()
	_, err := s.Client().PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{Bucket: &bucket,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
	if err != nil {
		t.Fatalf("keep versions in %s on %s: %v", bucket, s.Name, err)
	}
}

// Overwrite puts other bytes under a key, or removes it where data is nil, as somebody else would.
func (s S3) Overwrite(t testing.TB, bucket, key string, data []byte) {
	t.Helper()
	var err error
	if data == nil {
		_, err = s.Client().DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &bucket, Key: &key})
	} else {
		_, err = s.Client().PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(data)})
	}
	if err != nil {
		t.Fatalf("overwrite %s in %s on %s: %v", key, bucket, s.Name, err)
	}
}

// ready proves that the server stores and returns an object. Some servers answer long before
// they can store; asking again is harmless.
func (s S3) ready(ctx context.Context) error {
	const bucket, key = "ready", "object"
	client := s.Client()
	if _, err := client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: aws.String(bucket)}); err != nil {
		if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(bucket)}); err != nil {
			return fmt.Errorf("make bucket: %w", err)
		}
	}
	body := bytes.NewReader([]byte("ready"))
	if _, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(bucket), Key: aws.String(key), Body: body}); err != nil {
		return fmt.Errorf("put object: %w", err)
	}
	answer, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(bucket), Key: aws.String(key)})
	if err != nil {
		return fmt.Errorf("get object: %w", err)
	}
	return answer.Body.Close()
}

// VersityGW returns a versitygw that stores in a folder. The first call in a test binary starts it.
func (s *Servers) VersityGW(t testing.TB) S3 {
	t.Helper()
	return s.versity.get(t, s.startVersityGW)
}

func (s *Servers) startVersityGW() (S3, error) {
	const name = "versitygw"
	root := newS3(name, 0)
	ports, err := s.start(plan{
		name:  name,
		tool:  "versitygw",
		ports: 1,
		env: []string{
			"ROOT_ACCESS_KEY=" + root.AccessKey,
			"ROOT_SECRET_KEY=" + root.SecretKey,
		},
		arguments: func(dir string, ports []int) ([]string, error) {
			data, err := makeDir(dir, "data")
			return []string{
				"--port", address(ports[0]),
				"--region", root.Region,
				"--keep-alive",
				// Metadata stands in extended attributes of the files, as the program does by
				// default: there is no moment at which an object and its metadata disagree.
				"posix", data,
			}, err
		},
		ready: func(ctx context.Context, ports []int) error { return newS3(name, ports[0]).ready(ctx) },
	})
	if err != nil {
		return S3{}, err
	}
	return newS3(name, ports[0]), nil
}

// address is a port of the loopback address as servers take it on the command line.
func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// makeDir makes a folder in dir and returns its path.
func makeDir(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	if err := os.Mkdir(path, 0o700); err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	return path, nil
}

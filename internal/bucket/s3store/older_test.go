package s3store_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/testservers"
)

func older(t *testing.T, versions bucket.Versioned, key string) []bucket.OlderVersion {
	t.Helper()
	var list []bucket.OlderVersion
	for version, err := range versions.Older(t.Context(), key) {
		if err != nil {
			t.Fatalf("older versions of %s: %v", key, err)
		}
		list = append(list, version)
	}
	return list
}

func readOlder(t *testing.T, versions bucket.Versioned, key, id string) []byte {
	t.Helper()
	body, _, err := versions.OpenOlder(t.Context(), key, id)
	if err != nil {
		t.Fatalf("open version %s of %s: %v", id, key, err)
	}
	data, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		t.Fatalf("read version %s of %s: %v", id, key, err)
	}
	return data
}

// versionedBucket makes a bucket that keeps older versions.
func versionedBucket(t *testing.T, server testservers.S3) (string, *s3.Client) {
	t.Helper()
	name, client := server.NewBucket(t), server.Client()
	_, err := client.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{Bucket: &name,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
	if err != nil {
		t.Fatal(err)
	}
	return name, client
}

func overwrite(t *testing.T, client *s3.Client, name, key string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &name, Key: &key, Body: bytes.NewReader([]byte(text))}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOlderVersionsOfARealServer overwrites and removes behind the store's back, in a bucket that
// keeps versions, and finds the bytes again through all layers.
func TestOlderVersionsOfARealServer(t *testing.T) {
	server := servers.SeaweedFS(t)
	name, client := versionedBucket(t, server)
	counts := &bucket.Counts{}
	store := bucket.WithRetry(bucket.WithCounts(open(t, optionsFor(server, name, "p")), counts), quick())
	versions := bucket.VersionsOf(store)
	if versions == nil {
		t.Fatal("the layers hide the versions")
	}
	for _, key := range []string{"data/a", "data/ab"} {
		if _, err := store.Create(t.Context(), key, content([]byte("first of "+key))); err != nil {
			t.Fatal(err)
		}
	}
	if list := older(t, versions, "data/a"); len(list) != 0 {
		t.Errorf("before any overwriting: %+v", list)
	}
	overwrite(t, client, name, "p/data/a", "second", "third")
	list := older(t, versions, "data/a")
	if len(list) != 2 || string(readOlder(t, versions, "data/a", list[0].ID)) != "second" || string(readOlder(t, versions, "data/a", list[1].ID)) != "first of data/a" {
		t.Fatalf("after two overwritings: %+v", list)
	}
	if _, err := client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &name, Key: aws.String("p/data/a")}); err != nil {
		t.Fatal(err)
	}
	if list = older(t, versions, "data/a"); len(list) != 3 || string(readOlder(t, versions, "data/a", list[0].ID)) != "third" {
		t.Errorf("after removal: %+v", list)
	}
	if counts.List.Load() != 3 || counts.Read.Load() != 3 {
		t.Errorf("counted %d lists and %d reads, want 3 and 3", counts.List.Load(), counts.Read.Load())
	}
}

func TestOlderVersionsOfABucketThatKeepsNone(t *testing.T) {
	for name, start := range real() {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			store := open(t, optionsFor(server, server.NewBucket(t), "p"))
			if _, err := store.Create(t.Context(), "data/a", content([]byte("only"))); err != nil {
				t.Fatal(err)
			}
			for version, err := range store.Older(t.Context(), "data/a") {
				if err == nil || !fault.Is(err, fault.Unsupported) {
					t.Errorf("got %+v, %v", version, err)
				}
			}
		})
	}
}

// TestOlderVersionsPageByPage follows the markers of one key, tries a listing again, and stops at
// the next key.
func TestOlderVersionsPageByPage(t *testing.T) {
	const head = `<?xml version="1.0"?><ListVersionsResult>`
	row := func(key, id string, latest bool) string {
		text := "false"
		if latest {
			text = "true"
		}
		return `<Version><Key>` + key + `</Key><VersionId>` + id + `</VersionId><IsLatest>` + text + `</IsLatest><Size>1</Size></Version>`
	}
	asked := 0
	service := serve(t, func(w http.ResponseWriter, r seen) {
		asked++
		switch {
		case asked == 1:
			fail(w, http.StatusServiceUnavailable, "SlowDown")
		case r.URL.Query().Get("version-id-marker") == "":
			_, _ = io.WriteString(w, head+`<IsTruncated>true</IsTruncated><NextKeyMarker>p/k</NextKeyMarker><NextVersionIdMarker>2</NextVersionIdMarker>`+row("p/k", "3", true)+row("p/k", "2", false)+`</ListVersionsResult>`)
		default:
			_, _ = io.WriteString(w, head+`<IsTruncated>true</IsTruncated><NextKeyMarker>p/kk</NextKeyMarker><NextVersionIdMarker>9</NextVersionIdMarker>`+row("p/k", "1", false)+row("p/kk", "9", false)+`</ListVersionsResult>`)
		}
	})
	versions := bucket.VersionsOf(bucket.WithRetry(service.store(t, nil), quick()))
	list := older(t, versions, "k")
	if len(list) != 2 || list[0].ID != "2" || list[1].ID != "1" || asked != 3 {
		t.Errorf("asked %d times, got %+v", asked, list)
	}
}

func TestOlderVersionsThatAreRefusedNameTheRight(t *testing.T) {
	service := serve(t, func(w http.ResponseWriter, _ seen) { fail(w, http.StatusForbidden, "AccessDenied") })
	for _, err := range service.store(t, nil).Older(t.Context(), "k") {
		if !fault.Is(err, fault.Denied) || !bytes.Contains([]byte(fault.HintOf(err)), []byte("s3:ListBucketVersions")) {
			t.Errorf("got %v with hint %q", err, fault.HintOf(err))
		}
	}
}

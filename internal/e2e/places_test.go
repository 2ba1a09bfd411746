package e2e_test

import (
	"os"
	"path/filepath"
	"testing"

	"feedmirror/internal/testservers"
)

// place is a bucket for one test, as its user knows it: a URL and credentials in the environment.
type place struct {
	name string
	url  string
	env  []string
	// missing and wrong are settings of the environment that name a bucket which is not there, and
	// credentials that are not right.
	missing, wrong []string
	// files returns a folder with what the bucket holds now under the place's prefix.
	files func(t *testing.T) string
}

// prefix is where the mirror stands inside of a test's bucket.
const prefix = "feeds/main"

// places are all kinds of stores.
func places() map[string]func(*testing.T) place {
	return map[string]func(*testing.T) place{
		"folder":    folderPlace,
		"versitygw": func(t *testing.T) place { return s3Place(t, servers.VersityGW(t)) },
		"seaweedfs": func(t *testing.T) place { return s3Place(t, servers.SeaweedFS(t)) },
		"gcs":       gcsPlace,
		"azure":     azurePlace,
	}
}

func folderPlace(t *testing.T) place {
	dir := filepath.Join(t.TempDir(), "bucket")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return place{name: "folder", url: "file://" + dir, missing: []string{"MIRROR_BUCKET=file://" + file + "/below"}, files: func(*testing.T) string { return dir }}
}

func s3Place(t *testing.T, server testservers.S3) place {
	t.Helper()
	bucket := server.NewBucket(t)
	settings := "?region=" + server.Region + "&endpoint=" + server.Endpoint
	p := place{
		name: server.Name, url: "s3://" + bucket + "/" + prefix + settings,
		env:   s3Keys(server.AccessKey, server.SecretKey),
		wrong: s3Keys(server.AccessKey, "another-secret"),
		files: below(func(t *testing.T, dir string) { server.Download(t, bucket, dir) }),
	}
	if server.Name != "seaweedfs" { // it makes a bucket when an administrator puts the first object
		p.missing = []string{"MIRROR_BUCKET=s3://no-such-bucket/" + prefix + settings}
	}
	return p
}

func s3Keys(access, secret string) []string {
	return []string{"AWS_ACCESS_KEY_ID=" + access, "AWS_SECRET_ACCESS_KEY=" + secret, "AWS_EC2_METADATA_DISABLED=true"}
}

func gcsPlace(t *testing.T) place {
	server := servers.FakeGCS(t)
	bucket := server.NewBucket(t)
	settings := "?endpoint=http://" + server.Host
	return place{
		name: "gcs", url: "gs://" + bucket + "/" + prefix + settings,
		missing: []string{"MIRROR_BUCKET=gs://no-such-bucket/" + prefix + settings}, // and it asks for no credentials
		files:   below(func(t *testing.T, dir string) { server.Download(t, bucket, dir) }),
	}
}

func azurePlace(t *testing.T) place {
	server := servers.Azurite(t)
	container := server.NewContainer(t)
	settings := "?endpoint=" + server.Endpoint
	return place{
		name: "azure", url: "azblob://" + container + "/" + prefix + settings,
		env:     []string{"AZURE_STORAGE_KEY=" + server.Key},
		wrong:   []string{"AZURE_STORAGE_KEY=" + "bm90LXRoZS1rZXk="},
		missing: []string{"MIRROR_BUCKET=azblob://no-such-container/" + prefix + settings},
		files:   below(func(t *testing.T, dir string) { server.Download(t, container, dir) }),
	}
}

// below downloads a bucket and wants everything in it below the prefix.
func below(download func(t *testing.T, dir string)) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		dir := t.TempDir()
		download(t, dir)
		root := filepath.Join(dir, filepath.FromSlash(prefix))
		err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && !isBelow(root, path) {
				t.Errorf("%s was written outside of the prefix", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(root, 0o700); err != nil { // nothing stands in the bucket
			t.Fatal(err)
		}
		return root
	}
}

func isBelow(root, path string) bool {
	relative, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(relative)
}

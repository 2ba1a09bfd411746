package e2e_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/s3store"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/testservers"
)

type repaired struct {
	Status string
	Repair struct {
		Restored         []struct{ Key, From string }
		Lost, Unresolved []struct{ Key, Reason string }
	}
}

// TestRealServersAreRepaired damages objects behind the mirror's back. Where the bucket keeps older
// versions they are taken, without the feed; where it does not, the feed is asked.
func TestRealServersAreRepaired(t *testing.T) {
	for name, c := range map[string]struct {
		server    func(testing.TB) testservers.S3
		versioned bool
	}{
		"versitygw":           {servers.VersityGW, false},
		"seaweedfs":           {servers.SeaweedFS, false},
		"seaweedfs versioned": {servers.SeaweedFS, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := c.server(t)
			at := s3Place(t, server)
			name := strings.Split(strings.TrimPrefix(at.url, "s3://"), "/")[0]
			if c.versioned {
				keepVersions(t, server, name)
			}
			w := newWorld(t, at, feedsim.Options{})
			w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Points, Rows: 12}, feedsim.ReleaseSpec{}, feedsim.ReleaseSpec{Add: 1})
			w.sync(0)
			store := behind(t, server, name)
			part := "snapshot/ploti_dataset_id=" + permits + "/ploti_version=" + padded(1) + "/part-0000.parquet"
			schema := "versions/" + permits + "/" + padded(2) + "/schema.json"
			spoil(t, store, part, []byte("spoilt"))
			spoil(t, store, schema, nil)
			w.run(3, "verify")
			from := "feed"
			if c.versioned {
				from = "older-version"
				w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Times: feedsim.Always}, feedsim.Refuse(500, "down", "down"))
			}
			r := decode[repaired](t, w.run(0, "verify", "--repair", "--output", "json"))
			if r.Status != "clean" || len(r.Repair.Restored) != 2 || r.Repair.Restored[0].From != from || r.Repair.Restored[1].From != from {
				t.Errorf("report %+v", r)
			}
			w.run(0, "verify", "--level", "checksum")
		})
	}
}

func keepVersions(t *testing.T, server testservers.S3, name string) {
	t.Helper()
	_, err := server.Client().PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{Bucket: &name,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
	if err != nil {
		t.Fatal(err)
	}
}

// behind opens the bucket of a place as somebody else than the mirror would.
func behind(t *testing.T, server testservers.S3, name string) *s3store.Store {
	t.Helper()
	store, err := s3store.New(t.Context(), s3store.Options{Bucket: name, Prefix: prefix, Endpoint: server.Endpoint, Region: server.Region,
		PathStyle: aws.Bool(true), Credentials: credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, "")})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// spoil puts other bytes under a key, or removes it.
func spoil(t *testing.T, store bucket.Store, key string, data []byte) {
	t.Helper()
	info, err := store.Stat(t.Context(), key)
	if err == nil && data == nil {
		err = store.Delete(t.Context(), key, info.Tag)
	} else if err == nil {
		_, err = store.Swap(t.Context(), key, info.Tag, data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

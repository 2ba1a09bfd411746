package e2e_test

import (
	"strings"
	"testing"

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
				server.KeepVersions(t, name)
			}
			w := newWorld(t, at, feedsim.Options{})
			w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Points, Rows: 12}, feedsim.ReleaseSpec{}, feedsim.ReleaseSpec{Add: 1})
			w.sync(0)
			part := "snapshot/ploti_dataset_id=" + permits + "/ploti_version=" + padded(1) + "/part-0000.parquet"
			schema := "versions/" + permits + "/" + padded(2) + "/schema.json"
			server.Overwrite(t, name, prefix+"/"+part, []byte("spoilt"))
			server.Overwrite(t, name, prefix+"/"+schema, nil)
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

//go:build readers

package readers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// The datasets of the cookbook's bucket, by what happens to each after the Tuesday that it asks about.
const (
	permits   = "ds_orange_fl_building_permits" // ids replaced; the recipes name its versions
	parcels   = "ds_orange_fl_parcels"          // a MAJOR, passed over by the approval of what followed it
	areas     = "ds_orange_fl_zoning"           // a version that nobody could copy
	shops     = "ds_orange_fl_licences"         // changes, and a version that changed nothing
	routes    = "ds_orange_fl_routes"           // its first publication
	addresses = "ds_orange_fl_addresses"        // changes, some of which were pruned
	trails    = "ds_orange_fl_trails"           // led back and forth
)

// kitchen is the bucket that the recipes of docs/queries.md are tried on.
type kitchen struct {
	world   *world
	tuesday time.Time
	heldAt  map[string]int64  // what readers saw then
	copies  map[string]string // a copy of it, which no prune takes: a pattern of files
}

// cook lets the feed release and the program mirror what the recipes speak of, and then stops the feed.
func cook(t *testing.T) *kitchen {
	t.Helper()
	w, stop := newWorld(t, newPlace(t, inFolder))
	defer stop(t) // whoever asks needs no feed
	k := &kitchen{world: w, copies: map[string]string{}}
	feeds := map[string]*feedsim.Dataset{}
	for id, character := range map[string]feedsim.Character{permits: feedsim.Points, parcels: feedsim.Polygons, areas: feedsim.Polygons,
		shops: feedsim.Plain, addresses: feedsim.Plain, trails: feedsim.Plain} {
		feeds[id] = w.dataset(t, feedsim.DatasetSpec{ID: id, Character: character, Rows: 24})
	}
	release := func(id string, spec feedsim.ReleaseSpec) { w.release(t, feeds[id], spec) }
	release(permits, feedsim.ReleaseSpec{SkipNumbers: 40})
	for _, id := range []string{parcels, areas, shops, addresses, trails} {
		release(id, feedsim.ReleaseSpec{})
	}
	w.mirror(t, "sync")
	release(permits, feedsim.ReleaseSpec{})
	release(trails, feedsim.ReleaseSpec{})
	w.mirror(t, "sync")
	k.heldAt = map[string]int64{permits: 42, parcels: 1, areas: 1, shops: 1, addresses: 1, trails: 2}
	k.tuesday = time.Now()
	k.copy(t)

	release(areas, feedsim.ReleaseSpec{})
	w.clock.Advance(20 * 24 * time.Hour)
	release(areas, feedsim.ReleaseSpec{})
	release(permits, feedsim.ReleaseSpec{})
	release(parcels, feedsim.ReleaseSpec{Retype: true, Add: 2})
	release(parcels, feedsim.ReleaseSpec{})
	release(shops, feedsim.ReleaseSpec{})
	release(shops, feedsim.ReleaseSpec{Empty: true})
	release(shops, feedsim.ReleaseSpec{})
	for range 3 {
		release(addresses, feedsim.ReleaseSpec{})
	}
	w.clock.Advance(15 * 24 * time.Hour) // the first of the two areas is past retention, and nobody copied it
	w.mirror(t, "sync", "--full")
	w.at(t, permits, 43)
	w.at(t, parcels, 1)
	w.mirror(t, "approve", parcels, "--reason", "the loaders take the new type")
	w.at(t, parcels, 3)
	w.at(t, areas, 3)
	w.mirror(t, "rollback", trails, "1", "--reason", "a loader failed")
	w.mirror(t, "approve", trails, "--reason", "it was not the data")
	release(permits, feedsim.ReleaseSpec{SkipNumbers: 1, ReplaceIDs: true, Remove: 2, Add: 1})
	feeds[routes] = w.dataset(t, feedsim.DatasetSpec{ID: routes, Character: feedsim.Archive, Rows: 9})
	release(routes, feedsim.ReleaseSpec{})
	w.mirror(t, "sync")
	w.at(t, permits, 45)
	w.mirror(t, "prune", "--datasets", addresses, "--keep-versions", "1", "--grace", "0s", "--apply")
	check(t, w.place.files(t))
	return k
}

// copy keeps what readers saw as a consumer of their own would.
func (k *kitchen) copy(t *testing.T) {
	t.Helper()
	f := folder(k.world.place.files(t))
	for id, n := range k.heldAt {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(f.path(fmt.Sprintf("snapshot/ploti_dataset_id=%s/ploti_version=%010d", id, n)))); err != nil {
			t.Fatal(err)
		}
		k.copies[id] = filepath.Join(dir, "*.parquet")
	}
}

//go:build readers

package readers_test

import (
	"sync"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// The datasets of the story. The two of permits have columns of one name and other types; the id of
// zoning is nothing that SQL takes for a name.
const (
	orange   = "ds_orange_permits"
	lake     = "ds_lake_permits"
	zoning   = "ds-Lake.zoning"
	licences = "ds_licences"
)

// since is a Wednesday in the middle of the story.
const since = "2026-03-04"

// story is a bucket with a past, and what engines must read from it.
type story struct {
	world  *world
	want   expectations
	script func(t *testing.T, engine string) string // what ddl prints
}

// shelf keeps the story of each place: all engines read the same.
type shelf struct {
	mu   sync.Mutex
	told map[string]*story
}

func newShelf() *shelf { return &shelf{told: map[string]*story{}} }

// get tells the story of a place when nobody did yet.
func (s *shelf) get(t *testing.T, kind string) *story {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told[kind] == nil {
		s.told[kind] = tell(t, kind)
	}
	return s.told[kind]
}

// tell mirrors the story into a new bucket.
func tell(t *testing.T, kind string) *story {
	t.Helper()
	began := time.Now()
	w, stop := newWorld(t, newPlace(t, kind))
	defer stop(t) // readers need no feed
	play(t, w)
	root := w.place.files(t)
	check(t, root)
	s := &story{world: w, want: expect(t, root), script: func(t *testing.T, engine string) string {
		t.Helper()
		return w.mirror(t, "ddl", "--engine", engine)
	}}
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("the story stands in a %s after %.1f s: %s", kind, time.Since(began).Seconds(), s.want)
	return s
}

// play lets the feed release and the program mirror: first versions, a MINOR, a MAJOR that is held and
// approved, a rollback and another approve, replaced ids, and a version that expired before anybody
// mirrored it. Days pass in between, so that changes have dates.
func play(t *testing.T, w *world) {
	t.Helper()
	nextDay := func() { w.clock.Advance(18 * time.Hour) }
	orangeFeed := w.dataset(t, feedsim.DatasetSpec{ID: orange, Character: feedsim.Points, Rows: 26, Parts: 2})
	lakeFeed := w.dataset(t, feedsim.DatasetSpec{ID: lake, Character: feedsim.Points, Rows: 22})
	zoningFeed := w.dataset(t, feedsim.DatasetSpec{ID: zoning, Character: feedsim.Polygons, Rows: 18, Parts: 3})
	awkwardFeed := w.dataset(t, feedsim.DatasetSpec{ID: awkward, Character: feedsim.Plain})
	licencesFeed := w.dataset(t, feedsim.DatasetSpec{ID: licences, Character: feedsim.Plain, Rows: 16})

	w.release(t, orangeFeed, feedsim.ReleaseSpec{})
	w.release(t, lakeFeed, feedsim.ReleaseSpec{})
	w.release(t, lakeFeed, feedsim.ReleaseSpec{}) // two versions before the first pass
	w.release(t, zoningFeed, feedsim.ReleaseSpec{})
	w.release(t, licencesFeed, feedsim.ReleaseSpec{})
	w.releaseAwkward(t, awkwardFeed, 1, 9)
	w.mirror(t, "sync")

	nextDay()
	w.releaseAwkward(t, awkwardFeed, 2, 12)
	beforeMajor := w.release(t, orangeFeed, feedsim.ReleaseSpec{Minor: true, Add: 2, Change: 3, Remove: 1})
	w.release(t, zoningFeed, feedsim.ReleaseSpec{SkipNumbers: 2, ChangeParts: 2})
	w.mirror(t, "sync")

	nextDay()
	major := w.release(t, orangeFeed, feedsim.ReleaseSpec{Retype: true, Add: 1})
	w.release(t, lakeFeed, feedsim.ReleaseSpec{ReplaceIDs: true})
	w.release(t, licencesFeed, feedsim.ReleaseSpec{})
	w.mirror(t, "sync")
	w.at(t, orange, beforeMajor)
	w.mirror(t, "approve", orange, "--reason", "the loaders take the new type")
	w.at(t, orange, major)

	nextDay()
	w.mirror(t, "rollback", orange, number(beforeMajor), "--reason", "a loader does not take it after all")
	w.at(t, orange, beforeMajor)
	afterMajor := w.release(t, orangeFeed, feedsim.ReleaseSpec{Change: 2, Add: 2})
	w.release(t, licencesFeed, feedsim.ReleaseSpec{Empty: true})
	w.mirror(t, "sync")
	w.at(t, orange, beforeMajor)
	w.mirror(t, "approve", orange, "--reason", "now it does")
	w.at(t, orange, afterMajor)

	nextDay()
	w.release(t, zoningFeed, feedsim.ReleaseSpec{Major: true})
	w.mirror(t, "sync")
	w.mirror(t, "approve", zoning, "--reason", "the column is not used")
	w.release(t, zoningFeed, feedsim.ReleaseSpec{Minor: true, Remove: 2})
	w.release(t, lakeFeed, feedsim.ReleaseSpec{})
	w.clock.Advance(40 * 24 * time.Hour) // nobody mirrored it, and it is past retention now
	w.release(t, lakeFeed, feedsim.ReleaseSpec{})
	w.mirror(t, "sync", "--full")
	w.release(t, lakeFeed, feedsim.ReleaseSpec{Minor: true, Add: 1, Remove: 2})
	w.mirror(t, "sync")
}

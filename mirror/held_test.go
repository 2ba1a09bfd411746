package mirror_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

func isLinks(n manifest.Number) func(feedsim.Request) bool {
	return func(r feedsim.Request) bool {
		return r.Version == int64(n) && strings.HasSuffix(r.Path, "/links")
	}
}

// TestAnOldVersionThatCannotBeAskedAboutKeepsNoNewOneWaiting lets the feed answer rubbish, and not
// at all, about a held version.
func TestAnOldVersionThatCannotBeAskedAboutKeepsNoNewOneWaiting(t *testing.T) {
	answers := map[string]feedsim.Fault{"rubbish": feedsim.Refuse(400, "bad_request", "no"), "nothing": feedsim.Refuse(503, "busy", "later")}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			w, d := permitsWorld(t)
			w.sync(0)
			if err := d.ReleaseAgain(1); err != nil {
				t.Fatal(err)
			}
			newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
			w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Times: feedsim.Always, Match: isLinks(1)}, answer)
			report := w.sync(1, full)
			if len(report.Failures) != 1 || report.Failures[0].Version != 1 || report.Datasets.Owed != 1 {
				t.Errorf("failures %+v, owed %d", report.Failures, report.Datasets.Owed)
			}
			w.published(permits, newest)
			w.feed.ClearScript()
			w.sync(0)
			if !w.has(manifest.WithdrawnKey(permits, 1)) {
				t.Error("the next pass did not ask again")
			}
		})
	}
}

// TestNoAnswerIsNoSignThatAChainIsThere refuses one version and does not answer for the others.
func TestNoAnswerIsNoSignThatAChainIsThere(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	for range 5 {
		w.release(d, feedsim.ReleaseSpec{Add: 1})
	}
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Version: 3, Times: feedsim.Always}, feedsim.Refuse(410, "expired", "past retention"))
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Times: feedsim.Always, Match: func(r feedsim.Request) bool { return r.Version > 3 }}, feedsim.Refuse(503, "busy", "later"))
	if report := w.sync(1); report.Versions.Gone != 0 || w.has(manifest.GoneKey(permits, 3)) {
		t.Errorf("noted %d versions as gone", report.Versions.Gone)
	}
}

func TestAGoneVersionIsCountedOnce(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	gone := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Version: int64(gone), Times: feedsim.Always}, feedsim.Refuse(410, "expired", "past retention"))
	if report := w.sync(0); report.Versions.Gone != 1 {
		t.Errorf("noted %d versions as gone", report.Versions.Gone)
	}
	if report := w.sync(0, full); report.Versions.Gone != 0 || len(report.Notes) != 0 {
		t.Errorf("noted %d versions as gone again, notes %+v", report.Versions.Gone, report.Notes)
	}
	w.feed.ClearScript()
	if report := w.sync(0, full); report.Versions.Committed != 1 {
		t.Errorf("committed %d versions, want the one that answers again", report.Versions.Committed)
	}
}

// TestAClosedWithdrawalStaysClosed lets the feed step back behind a version whose withdrawal is over.
func TestAClosedWithdrawalStaysClosed(t *testing.T) {
	w, d := permitsWorld(t)
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Match: isLinks(2)}, feedsim.Refuse(410, "expired", "It was released again as another number."))
	stepBack := func() {
		w.clock.Advance(time.Hour)
		w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Match: isDatasetList}, feedsim.Status(200, http.Header{"Content-Type": {"application/json"}},
			`{"datasets": [{"id": "`+permits+`", "current": {"version": 1}}], "nextCursor": null}`))
	}
	stepBack()
	w.sync(0)
	if !w.has(manifest.WithdrawnKey(permits, 2)) {
		t.Fatal("nothing was withdrawn")
	}
	w.clock.Advance(time.Hour)
	w.sync(0, full) // it answers again
	before := w.pointer(permits)
	stepBack()
	if report := w.sync(0); report.Datasets.Changed != 0 || w.pointer(permits).Revision != before.Revision {
		t.Errorf("the withdrawal that is over was closed again: %+v, revision %d after %d", report.Datasets, w.pointer(permits).Revision, before.Revision)
	}
}

// TestAVersionThatFailedBeforeAPassDiedIsNotForgotten fails a version, commits a later one, and
// kills the pass before it can say what it owes.
func TestAVersionThatFailedBeforeAPassDiedIsNotForgotten(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	broken := w.release(d, feedsim.ReleaseSpec{Add: 1})
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Version: int64(broken), File: "schema.json", Times: feedsim.Always}, feedsim.Refuse(404, "NoSuchKey", "no such key"))
	sound := w.store
	w.store = &refusedSwap{Store: sound, key: state.ShardID{Of: 1, History: manifest.HistoryAll}.Key()}
	mirror.Run(context.Background(), w.options())
	w.store = sound
	w.published(permits, newest)
	w.feed.ClearScript()
	w.clock.Advance(time.Minute)
	if report := w.sync(0); report.Pass != "incremental" || report.Versions.Committed != 1 {
		t.Errorf("a %s pass committed %d versions, want the one that failed", report.Pass, report.Versions.Committed)
	}
}

// refusedSwap is a store whose user dies before it writes one key.
type refusedSwap struct {
	bucket.Store
	key string
}

func (r *refusedSwap) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	if key == r.key {
		return "", buckettest.ErrCrashed
	}
	return r.Store.Swap(ctx, key, old, data)
}

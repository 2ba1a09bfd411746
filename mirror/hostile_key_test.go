package mirror_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"feedmirror/internal/evidence"
	"feedmirror/internal/feed"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/mirror"
)

// manyDatasets is a world with enough datasets to tell a pass that stops from one that tries each.
func manyDatasets(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, feedsim.Options{})
	for n := range 12 {
		w.release(w.dataset(fmt.Sprintf("ds_%02d", n), feedsim.Plain), feedsim.ReleaseSpec{})
	}
	return w
}

// TestAKeyThatStopsWorkingEndsThePassAtOnce refuses the key from the n-th call on, over a first
// pass and over a full one that asks for datasets by name.
func TestAKeyThatStopsWorkingEndsThePassAtOnce(t *testing.T) {
	tally := evidence.Count(t, "feed-faults")
	t.Run("all", func(t *testing.T) {
		for n := 1; n <= 33; n += evidence.Size(8, 2) {
			t.Run(fmt.Sprintf("call %d", n), func(t *testing.T) {
				w := manyDatasets(t)
				var reads atomic.Int64
				w.key = func() (string, error) {
					reads.Add(1)
					return w.feed.Key(), nil
				}
				w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Nth: n, Times: feedsim.Always}, feedsim.Refuse(401, "unauthorized", "the key was revoked"))
				report := w.sync(4)
				// Four datasets are worked on at once: each may be met once, and asks again with the key read anew.
				if asked := report.Requests.Feed + report.Requests.Links; asked > int64(n-1)+8 || reads.Load() > 5 {
					t.Errorf("asked %d times and read the key %d times, where the call %d was the first refused", asked, reads.Load(), n)
				}
				w.feed.ClearScript()
				w.sync(0)
				for n := range 12 {
					w.published(fmt.Sprintf("ds_%02d", n), 1)
				}
				tally.Add(1)
			})
		}
	})
}

// TestARefusedKeyIsNotTriedOnEveryDatasetThatAListLacks: an empty list, and a key that is refused by
// name, are not asked about once for each dataset of the bucket.
func TestARefusedKeyIsNotTriedOnEveryDatasetThatAListLacks(t *testing.T) {
	w := manyDatasets(t)
	w.sync(0)
	w.feed.OverrideList(func([]byte) []byte { return []byte(`{"datasets": [], "nextCursor": null}`) })
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Nth: 3, Times: feedsim.Always}, feedsim.Refuse(403, "forbidden", "no"))
	before := w.shards()[0].Revision
	report := w.sync(4, full)
	if report.Requests.Feed > 3 {
		t.Errorf("asked %d times", report.Requests.Feed)
	}
	if after := w.shards()[0].Revision; after != before {
		t.Error("the shard document was written")
	}
	w.feed.OverrideList(nil)
	w.feed.ClearScript()
	w.sync(0, full)
	evidence.Count(t, "feed-faults").Add(1)
}

// TestAKeyThatIsRotatedInMidRunGoesOn refuses one call; the key is then read anew, once.
func TestAKeyThatIsRotatedInMidRunGoesOn(t *testing.T) {
	tally := evidence.Count(t, "feed-faults")
	t.Run("all", func(t *testing.T) {
		for n := 2; n <= 32; n += evidence.Size(15, 3) {
			t.Run(fmt.Sprintf("call %d", n), func(t *testing.T) {
				w := manyDatasets(t)
				var reads atomic.Int64
				w.key = func() (string, error) {
					reads.Add(1)
					return w.feed.Key(), nil
				}
				w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Nth: n}, feedsim.Refuse(401, "unauthorized", "the key was rotated"))
				w.sync(0)
				if reads.Load() != 2 {
					t.Errorf("the key was read %d times, want twice", reads.Load())
				}
				tally.Add(1)
			})
		}
	})
}

// TestAKeyFileThatIsWrongAtFirstOrGoneLater reads a stale key first, and none when it is refused.
func TestAKeyFileThatIsWrongAtFirstOrGoneLater(t *testing.T) {
	tally := evidence.Count(t, "feed-faults")
	t.Run("stale at first", func(t *testing.T) {
		w := manyDatasets(t)
		var reads atomic.Int64
		w.key = func() (string, error) {
			if reads.Add(1) == 1 {
				return "an-old-key", nil
			}
			return w.feed.Key(), nil
		}
		w.sync(0)
		if reads.Load() != 2 {
			t.Errorf("the key was read %d times, want twice", reads.Load())
		}
		tally.Add(1)
	})
	t.Run("gone when it is needed", func(t *testing.T) {
		w := manyDatasets(t)
		var reads atomic.Int64
		w.key = func() (string, error) {
			if reads.Add(1) > 1 {
				return "", errors.New("no such file")
			}
			return w.feed.Key(), nil
		}
		w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Nth: 9, Times: feedsim.Always}, feedsim.Refuse(401, "unauthorized", "bad key"))
		report := w.sync(4)
		if asked := report.Requests.Feed + report.Requests.Links; asked > 8+4 {
			t.Errorf("asked %d times", asked)
		}
		w.feed.ClearScript()
		w.key = nil
		w.sync(0)
		tally.Add(1)
	})
}

// TestACurrentThatFlapsMovesNothing names another current version at each call, over incremental
// and full passes.
func TestACurrentThatFlapsMovesNothing(t *testing.T) {
	tally := evidence.Count(t, "feed-faults")
	w, d := permitsWorld(t)
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	before := w.published(permits, 3)
	calls := 0
	flap := answering(otherAnswers{everything: true, dataset: func(d *feed.Dataset) {
		calls++
		if calls%2 == 1 {
			d.Current = 2
		}
	}})
	for pass := range evidence.Size(8, 40) {
		var change []func(*mirror.Options)
		if pass%3 == 2 {
			change = append(change, full)
		}
		report := w.sync(0, append(change, flap)...)
		if report.Requests.Feed > 4 || report.Requests.Links > 1 || report.Versions.Committed+report.Versions.Published > 0 {
			t.Errorf("pass %d asked %+v and did %+v", pass, report.Requests, report.Versions)
		}
		shard := w.shards()[0]
		if len(shard.Owed) != 0 || len(shard.Recent) > 1 || len(shard.Datasets) != 1 {
			t.Errorf("pass %d left %d debts, %d recent versions, %d lines", pass, len(shard.Owed), len(shard.Recent), len(shard.Datasets))
		}
		tally.Add(1)
	}
	if after := w.published(permits, 3); after.Revision != before.Revision {
		t.Errorf("the pointer was written %d times", after.Revision-before.Revision)
	}
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	w.published(permits, newest)
}

package mirror_test

import (
	"context"
	"sync/atomic"
	"testing"

	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// TestARollbackDecidedTwiceStillSaysWhereReadersCameFrom: who types an interrupted rollback again
// must not lose what the first one wrote.
func TestARollbackDecidedTwiceStillSaysWhereReadersCameFrom(t *testing.T) {
	w, d := permitsWorld(t)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	var moved [2]mirror.DecideOptions
	for at := range moved {
		moved[at] = w.deciding(w.store)
		if _, err := mirror.Rollback(t.Context(), moved[at], permits, 1); err != nil {
			t.Fatal(err)
		}
	}
	pointer := w.published(permits, 1)
	if pointer.PreviousVersion != newest || len(pointer.Left) != 1 || len(pointer.Decisions) != 2 || !pointer.Pinned {
		t.Errorf("the pointer says %+v", pointer)
	}
	if !pointer.MovedAt.Before(moved[1].Now()) {
		t.Errorf("it moved at %s, by the second decision", pointer.MovedAt)
	}
}

// TestWhatWasCommittedIsPublishedBeforeMoreIsCopied: a pass died between a record and the pointer,
// and the next version takes long to copy.
func TestWhatWasCommittedIsPublishedBeforeMoreIsCopied(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	committed := w.release(d, feedsim.ReleaseSpec{Add: 1})
	sound := w.store
	for nth := int64(1); !w.has(manifest.RecordKey(permits, committed)); nth++ {
		w.store = &buckettest.CrashAfterNthWrite{Store: sound, Nth: nth, When: buckettest.AfterWrite}
		mirror.Run(context.Background(), w.options(oneAtATime))
	}
	w.store = sound
	w.published(permits, committed-1)
	next := w.release(d, feedsim.ReleaseSpec{Add: 1})
	var published atomic.Int64
	w.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Version: int64(next), Times: feedsim.Always, Match: func(feedsim.Request) bool {
		published.Store(int64(w.pointer(permits).Version))
		return false
	}}, feedsim.HTML())
	w.sync(0)
	w.published(permits, next)
	if got := manifest.Number(published.Load()); got != committed {
		t.Errorf("while version %d was fetched readers were at %d, want %d", next, got, committed)
	}
}

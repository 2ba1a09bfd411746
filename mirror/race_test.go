package mirror_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

// pointerLog keeps every state that a pointer was in, in order.
type pointerLog struct {
	bucket.Store
	mu    sync.Mutex
	moves []state.Pointer
}

func (p *pointerLog) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	if !strings.HasPrefix(key, "current/") {
		return p.Store.Swap(ctx, key, old, data)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	tag, err := p.Store.Swap(ctx, key, old, data)
	if err == nil {
		var pointer state.Pointer
		if err := json.Unmarshal(data, &pointer); err != nil {
			return "", err
		}
		p.moves = append(p.moves, pointer)
	}
	return tag, err
}

// check wants every move to be one revision higher, and down only by a decision that is new.
func (p *pointerLog) check(t *testing.T) {
	t.Helper()
	for at := 1; at < len(p.moves); at++ {
		before, after := p.moves[at-1], p.moves[at]
		if after.Revision != before.Revision+1 {
			t.Errorf("revision %d follows %d", after.Revision, before.Revision)
		}
		decided := len(after.Decisions) > 0 && (len(before.Decisions) == 0 || after.Decisions[len(after.Decisions)-1] != before.Decisions[len(before.Decisions)-1])
		if after.Version < before.Version && (!decided || !after.Pinned) {
			t.Errorf("version %d became %d without a rollback", before.Version, after.Version)
		}
		if before.Pinned && !after.Pinned && !decided {
			t.Errorf("a pin was lifted without a decision at revision %d", after.Revision)
		}
	}
}

// TestPassesAndDecisionsRace lets passes, approvals and rollbacks of one dataset run at once, round
// after round, while the feed goes on.
func TestPassesAndDecisionsRace(t *testing.T) {
	w, d := permitsWorld(t)
	log := &pointerLog{Store: w.store}
	w.store = log
	w.sync(0)
	for round := range 12 {
		newest := w.release(d, feedsim.ReleaseSpec{Add: 1, Major: round%4 == 3})
		var group sync.WaitGroup
		for range 4 {
			options := w.options(func(o *mirror.Options) { o.Full = round%2 == 0 })
			group.Go(func() {
				if report := mirror.Run(context.Background(), options); report.Exit != 0 {
					t.Errorf("a pass ended with %d: %+v", report.Exit, report.Failures)
				}
			})
		}
		back, on := w.decide(), w.decide()
		group.Go(func() {
			if _, err := mirror.Rollback(context.Background(), back, permits, 1+manifest.Number(round%2)); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() {
			if _, err := mirror.Approve(context.Background(), on, permits); err != nil && !fault.Is(err, fault.Usage) {
				t.Error(err)
			}
		})
		group.Wait()
		w.sync(0)
		for w.pointer(permits).Pinned || w.pointer(permits).Held != nil { // each MAJOR is a hold of its own
			w.approve()
		}
		w.sync(0)
		w.published(permits, newest)
	}
	log.check(t)
}

// TestALostAnswerToAnyWriteCostsNothing loses the answer of each write in turn.
func TestALostAnswerToAnyWriteCostsNothing(t *testing.T) {
	for nth := int64(1); nth <= 31; nth += 2 {
		t.Run(manifest.Number(nth).Padded(), func(t *testing.T) {
			w, d := permitsWorld(t)
			w.sync(0)
			newest := w.release(d, feedsim.ReleaseSpec{Add: 1, Parts: 2})
			sound := w.store
			w.store = &buckettest.LostAnswer{Store: sound, Nth: nth}
			w.sync(0)
			w.store = sound
			w.published(permits, newest)
			for name, times := range w.feed.Completed() {
				if times != 1 {
					t.Errorf("%s was fetched %d times", name, times)
				}
			}
		})
	}
}

package mirror_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"feedmirror/internal/bucket/localstore"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// lockOf holds the folder's lock of a key, as a process does that was frozen while it swapped it.
func (w *world) lockOf(key string) *flock.Flock {
	w.t.Helper()
	sum := sha256.Sum256([]byte(key))
	name := filepath.Join(w.dir, "_mirror", "locks", hex.EncodeToString(sum[:1]))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		w.t.Fatal(err)
	}
	lock := flock.New(name, flock.SetFlag(os.O_CREATE|os.O_RDWR))
	if held, err := lock.TryLock(); !held || err != nil {
		w.t.Fatalf("lock %s: %t, %v", name, held, err)
	}
	return lock
}

// A process that sleeps with a file lock in hand makes others end soon, say why, and be worth another
// run; it was waited for 24 times a minute once.
func TestALockThatNobodyGivesBackIsWaitedForOnce(t *testing.T) {
	for name, c := range map[string]struct {
		key  func(w *world) string
		full bool
	}{
		"pointer":              {key: func(*world) string { return manifest.PointerKey(permits) }},
		"lease":                {key: func(*world) string { return manifest.LeaseKey(permits) }},
		"shard, before a pass": {key: (*world).shardKey, full: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, feedsim.Options{})
			store, err := localstore.New(localstore.Options{Root: w.dir, LockWait: 100 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			w.store = store
			d := w.dataset(permits, feedsim.Points)
			w.release(d, feedsim.ReleaseSpec{})
			w.sync(0)
			newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
			lock := w.lockOf(c.key(w))
			began := time.Now()
			r := w.sync(mirror.ExitStopped, func(o *mirror.Options) { o.Full = c.full })
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			if !tellsOfTheLock(r) {
				t.Errorf("it does not say why: %+v, %+v", r.Failures, r.Notes)
			}
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
			w.sync(0)
			w.published(permits, newest)
		})
	}
}

func tellsOfTheLock(r mirror.Report) bool {
	for _, note := range r.Notes {
		if strings.Contains(note.Message, "lock not free") {
			return true
		}
	}
	for _, failure := range r.Failures {
		if strings.Contains(failure.Hint, "_mirror/locks") {
			return true
		}
	}
	return false
}

// shardKey returns the key of the only shard document.
func (w *world) shardKey() string {
	w.t.Helper()
	for key := range w.take().Objects {
		if strings.HasPrefix(key, "_mirror/shards/") {
			return key
		}
	}
	w.t.Fatal("there is no shard document")
	return ""
}

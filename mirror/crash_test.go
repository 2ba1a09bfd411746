package mirror_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// crashWorld has a chain with parts, attachments, an id map and a held MAJOR, half of it mirrored.
func crashWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, feedsim.Options{})
	d := w.dataset(permits, feedsim.Points)
	w.release(d, feedsim.ReleaseSpec{})
	w.sync(0)
	w.release(d, feedsim.ReleaseSpec{Add: 2, Parts: 2})
	w.release(d, feedsim.ReleaseSpec{ReplaceIDs: true})
	w.release(d, feedsim.ReleaseSpec{Major: true})
	return w
}

// finishedData returns the keys and hashes that an undisturbed pass ends with, without what names
// the run or the time.
func finishedData(t *testing.T, w *world) map[string]string {
	t.Helper()
	kept := map[string]string{}
	for key, object := range w.take().Objects {
		switch {
		case strings.HasPrefix(key, "_mirror/"), strings.HasPrefix(key, "current/"):
		case strings.HasSuffix(key, "/record.json"), strings.HasSuffix(key, "/stored.json"):
			kept[key] = "there"
		default:
			kept[key] = object.SHA256
		}
	}
	return kept
}

// TestAPassThatDiesAtAnyWriteIsFinishedByTheNext kills the store before, after, or in the answer of
// each write in turn.
func TestAPassThatDiesAtAnyWriteIsFinishedByTheNext(t *testing.T) {
	undisturbed := crashWorld(t)
	counter := &buckettest.CrashAfterNthWrite{Store: undisturbed.store, Nth: 1 << 30}
	undisturbed.store = counter
	undisturbed.sync(0)
	writes := counter.Writes()
	want := finishedData(t, undisturbed)
	pointer := undisturbed.pointer(permits).Version
	if writes < 30 {
		t.Fatalf("an undisturbed pass makes only %d writes", writes)
	}
	for nth := int64(1); nth <= writes; nth++ {
		when := []buckettest.CrashWhen{buckettest.BeforeWrite, buckettest.AfterWrite, buckettest.AnswerLost}[nth%3]
		t.Run(fmt.Sprintf("write %d", nth), func(t *testing.T) {
			w := crashWorld(t)
			sound := w.store
			w.store = &buckettest.CrashAfterNthWrite{Store: sound, Nth: nth, When: when}
			mirror.Run(context.Background(), w.options())
			w.store = sound
			for _, violation := range invariant.Check(invariant.Folder(w.dir)) {
				t.Errorf("after the crash: %+v", violation)
			}
			stood := finishedData(t, w)
			w.feed.ResetLog()
			w.sync(0)
			w.sync(0) // whatever the one before left owed
			checkNotFetchedAgain(t, w, stood)
			got := finishedData(t, w)
			for key, sum := range want {
				if got[key] != sum {
					t.Errorf("%s is %q, an undisturbed pass ends with %q", key, got[key], sum)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d keys, an undisturbed pass ends with %d", len(got), len(want))
			}
			w.published(permits, pointer)
		})
	}
}

// checkNotFetchedAgain wants every file that stood to be left alone, manifests excepted.
func checkNotFetchedAgain(t *testing.T, w *world, stood map[string]string) {
	t.Helper()
	attachments := 0
	for name, times := range w.feed.Completed() {
		if times != 1 {
			t.Errorf("%s was fetched %d times by the passes after the crash", name, times)
		}
		parts := strings.SplitN(name, "/", 3)
		file := manifest.File{Kind: manifest.KindOf(parts[2]), Path: parts[2]}
		switch {
		case parts[2] == "manifest.json":
		case strings.Contains(parts[2], ":"):
			attachments++
		default:
			n, err := strconv.Atoi(parts[1])
			if err != nil {
				t.Fatal(err)
			}
			if key := manifest.FileKey(parts[0], manifest.Number(n), file); stood[key] != "" {
				t.Errorf("%s stood and was fetched again", key)
			}
		}
	}
	lacking := 0
	for key := range finishedData(t, w) {
		if strings.HasPrefix(key, manifest.AttachmentPrefix) && stood[key] == "" {
			lacking++
		}
	}
	if attachments != lacking {
		t.Errorf("%d attachments were fetched, %d were lacking", attachments, lacking)
	}
}

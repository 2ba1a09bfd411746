package mirror_test

import (
	"bytes"
	"context"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

func TestWrongBytesOfOneVersionKeepNoLaterOneWaiting(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	bad := w.release(d, feedsim.ReleaseSpec{Add: 1})
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Version: int64(bad), File: "snapshot/part-0000.parquet", Times: feedsim.Always}, feedsim.FlipByte(100))
	w.sync(1)
	w.published(permits, newest)
	if gap := w.record(permits, newest).Gap; gap == nil || gap.Reason != manifest.GapIncomplete || gap.Expected != bad {
		t.Errorf("gap %+v", gap)
	}
	w.feed.ClearScript()
	if report := w.sync(0); report.Versions.Committed != 1 {
		t.Errorf("the next pass committed %d", report.Versions.Committed)
	}
}

// TestAFirstVersionThatFailsIsNotTakenForOneThatIsNotWanted fails the oldest version of a history.
func TestAFirstVersionThatFailsIsNotTakenForOneThatIsNotWanted(t *testing.T) {
	w, _ := permitsWorld(t)
	w.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Version: 1, File: "schema.json", Times: feedsim.Always}, feedsim.Refuse(404, "NoSuchKey", "no such key"))
	w.sync(1)
	if gap := w.record(permits, 2).Gap; gap == nil || gap.Reason != manifest.GapIncomplete {
		t.Errorf("gap %+v, want incomplete", gap)
	}
	w.feed.ClearScript()
	if report := w.sync(0); report.Versions.Committed != 1 {
		t.Errorf("the next pass committed %d versions, want the first", report.Versions.Committed)
	}
}

func TestARebuildMakesAnIncrementalPassAskAboutWhatItReplaces(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	if err := d.ReleaseAgain(2); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Hour)
	rebuilt, err := d.ReleaseRebuild()
	if err != nil {
		t.Fatal(err)
	}
	if report := w.sync(0); report.Pass != "incremental" || !w.has(manifest.WithdrawnKey(permits, 2)) {
		t.Errorf("a %s pass did not note that version 2 was withdrawn", report.Pass)
	}
	w.published(permits, manifest.Number(rebuilt))
}

// TestAWithdrawnVersionIsAskedAboutAlsoWhereItIsListed lets a withdrawn version be listed and
// answer again, behind the current one.
func TestAWithdrawnVersionIsAskedAboutAlsoWhereItIsListed(t *testing.T) {
	w, _ := permitsWorld(t)
	w.sync(0)
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Match: isLinks(1)}, feedsim.Refuse(410, "expired", "It was released again as another number."))
	w.sync(0, full, answering(otherAnswers{versions: func(list []manifest.Version) []manifest.Version { return list[1:] }}))
	withdrawn := func() bool {
		doc, _, err := state.Read[state.Withdrawn](t.Context(), w.store, manifest.WithdrawnKey(permits, 1))
		if err != nil || doc == nil {
			t.Fatalf("withdrawn.json: %+v, %v", doc, err)
		}
		return doc.Until == nil
	}
	if !withdrawn() {
		t.Fatal("the withdrawal is closed")
	}
	w.clock.Advance(time.Hour)
	if w.sync(0, full); withdrawn() {
		t.Error("the withdrawal of a version that answers again is open")
	}
}

func TestAVersionThatRetentionTookIsAskedAboutOnce(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	w.clock.Advance(95 * 24 * time.Hour)
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	dropped := func(list []manifest.Version) []manifest.Version { return list[len(list)-1:] }
	for pass := range 2 {
		asked := 0
		w.feed.ClearScript()
		w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Times: feedsim.Always, Match: func(r feedsim.Request) bool {
			if isLinks(1)(r) || isLinks(2)(r) {
				asked++
			}
			return false
		}}, feedsim.HTML())
		w.sync(0, full, answering(otherAnswers{versions: dropped}))
		if want := 2 - 2*pass; asked != want {
			t.Errorf("pass %d asked %d times, want %d", pass, asked, want)
		}
		if expired := w.shards()[0].Datasets[0].Expired; !slices.Equal(expired, state.Ranges{{From: 1, To: 2}}) {
			t.Errorf("pass %d calls %v expired", pass, expired)
		}
	}
	if w.has(manifest.WithdrawnKey(permits, 1)) || w.has(manifest.WithdrawnKey(permits, 2)) {
		t.Error("retention was taken for a withdrawal")
	}
}

func prunedNote(n manifest.Number) map[string]any {
	return map[string]any{"dataset": permits, "version": n}
}

func TestAPrunedVersionHoldsNothingAndIsNoPlaceToGo(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	major := w.release(d, feedsim.ReleaseSpec{Major: true})
	w.sync(0)
	if w.published(permits, 2).Held == nil {
		t.Fatal("nothing is held")
	}
	w.put(manifest.PrunedKey(permits, major), prunedNote(major))
	w.sync(0, full)
	if pointer := w.published(permits, 2); pointer.Held != nil {
		t.Errorf("a pruned version holds the pointer: %+v", pointer.Held)
	}
	w.put(manifest.PrunedKey(permits, 1), prunedNote(1))
	_, err := mirror.Rollback(t.Context(), w.decide(), permits, 1)
	if !fault.Is(err, fault.Usage) || !strings.HasSuffix(fault.HintOf(err), ": 2") {
		t.Errorf("rolling back to a pruned version: %v (%s)", err, fault.HintOf(err))
	}
	w.remove(manifest.PointerKey(permits)) // lost, and found again
	w.sync(0, full)
	w.published(permits, 2)
}

func TestLostChangesOfTheCurrentVersionAreAFailure(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	if err := d.DropChanges(int64(newest)); err != nil {
		t.Fatal(err)
	}
	report := w.sync(1)
	if len(report.Failures) != 1 || !strings.Contains(report.Failures[0].Object, "changes/") || w.has(manifest.RecordKey(permits, newest)) {
		t.Errorf("failures %+v, record %v", report.Failures, w.has(manifest.RecordKey(permits, newest)))
	}
}

// blindTo is a store whose listings lag behind: they lack one key.
type blindTo struct {
	bucket.Store
	key string
}

func (b *blindTo) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		for info, err := range b.Store.List(ctx, prefix, after) {
			if info.Key != b.key && !yield(info, err) {
				return
			}
		}
	}
}

// TestARewrittenHistoryIsKeptBesideTheFirst meets a committed version again, under another manifest.
func TestARewrittenHistoryIsKeptBesideTheFirst(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	if err := d.RewriteHistory(2); err != nil {
		t.Fatal(err)
	}
	before := w.record(permits, 2)
	options := w.options(full, func(o *mirror.Options) { o.Store = &blindTo{Store: o.Store, key: manifest.RecordKey(permits, 2)} })
	report := mirror.Run(t.Context(), options)
	if report.Exit != 1 || len(report.Failures) != 1 || !strings.Contains(report.Failures[0].Message, "history-changed") {
		t.Errorf("ended with %d: %+v", report.Exit, report.Failures)
	}
	if kept := w.countKeys(manifest.VersionPrefix(permits, 2) + "manifest."); kept != 2 {
		t.Errorf("%d manifests are kept, want both", kept)
	}
	if after := w.record(permits, 2); after.Manifest != before.Manifest {
		t.Error("the first record was replaced")
	}
	w.published(permits, 2)
}

// diesAt is a store whose user dies before it creates one key.
type diesAt struct {
	bucket.Store
	key string
}

func (d *diesAt) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	if key == d.key {
		return bucket.Info{}, buckettest.ErrCrashed
	}
	return d.Store.Create(ctx, key, content)
}

// diedBeforeItsRecord is a world in which a pass died right before it committed version 3.
func diedBeforeItsRecord(t *testing.T) *world {
	t.Helper()
	w, d := permitsWorld(t)
	w.sync(0)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	sound := w.store
	w.store = &diesAt{Store: sound, key: manifest.RecordKey(permits, newest)}
	w.sync(1)
	w.store = sound
	return w
}

func TestWhatAnEarlierTryLeftIsReadBack(t *testing.T) {
	w := diedBeforeItsRecord(t)
	w.sync(0)
	stored, _, err := state.Read[state.StoredDocument](t.Context(), w.store, manifest.StoredKey(permits, 3))
	if err != nil {
		t.Fatal(err)
	}
	if len(stored.Objects) < 5 {
		t.Errorf("only %d objects are noted", len(stored.Objects))
	}
	for _, object := range stored.Objects {
		if object.Attested != "read" {
			t.Errorf("%s is attested as %s, although this pass did not write it", object.Key, object.Attested)
		}
	}
}

// TestAnIndexThatSaysTheSameIsKept finds the index of an earlier try, as another release of the
// mirror might have written it.
func TestAnIndexThatSaysTheSameIsKept(t *testing.T) {
	w := diedBeforeItsRecord(t)
	key := manifest.IndexKey(permits, 3)
	if err := w.store.Delete(t.Context(), manifest.SumsKey(permits, 3), w.tag(manifest.SumsKey(permits, 3))); err != nil {
		t.Fatal(err) // it names the index's hash
	}
	w.damage(key, func(data []byte) []byte {
		at := bytes.LastIndex(data, []byte("attachment-index"))
		if at < 0 {
			t.Fatal("the footer does not say who wrote it")
		}
		data[at] = 'A'
		return data
	})
	w.damaged = false // it is as sound as before
	raw, _, err := bucket.ReadAll(t.Context(), w.store, key, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	w.sync(0)
	if got := w.record(permits, 3).Attachments.Index.SHA256; got != manifest.SumBytes(raw) {
		t.Errorf("the record names an index of %s, %s stands", got, manifest.SumBytes(raw))
	}
}

func TestAnIndexThatSaysSomethingElseIsAConflict(t *testing.T) {
	w := diedBeforeItsRecord(t)
	w.damage(manifest.IndexKey(permits, 3), func(data []byte) []byte { return data[:len(data)-9] })
	report := w.sync(1)
	if len(report.Failures) != 1 || report.Failures[0].Kind != "conflict" || !strings.Contains(report.Failures[0].Hint, "prune --uncommitted") {
		t.Errorf("failures %+v, want a conflict with the way out", report.Failures)
	}
	if w.has(manifest.RecordKey(permits, 3)) {
		t.Error("a record was written")
	}
}

func (w *world) tag(key string) bucket.Tag {
	w.t.Helper()
	info, err := w.store.Stat(context.Background(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	return info.Tag
}

func TestCountsThatTheChangesContradictHoldThePointer(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0, answering(otherAnswers{answer: func(a *feed.Answer) {
		counts := *a.Version.Counts
		counts.Added += 3
		a.Version.Counts = &counts
	}}))
	if doubts := w.record(permits, newest).Doubts; len(doubts) != 1 {
		t.Errorf("doubts %q, want one", doubts)
	}
	if pointer := w.published(permits, 2); pointer.Held == nil || pointer.Held.Reason != manifest.HoldContent {
		t.Errorf("holds %+v", pointer.Held)
	}
}

// blindFooters is a store that lets nobody read a part of an object.
type blindFooters struct{ bucket.Store }

func (b blindFooters) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	if strings.HasPrefix(key, "snapshot/") && length >= 0 {
		return nil, bucket.Info{}, denied()
	}
	return b.Store.Open(ctx, key, offset, length)
}

func TestAStoreThatCannotBeReadIsNoDoubtAboutContent(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	sound := w.store
	w.store = blindFooters{sound}
	report := mirror.Run(t.Context(), w.options())
	if report.Exit == 0 || w.has(manifest.RecordKey(permits, newest)) {
		t.Errorf("ended with %d, record %v", report.Exit, w.has(manifest.RecordKey(permits, newest)))
	}
	w.store = sound
	w.sync(0)
	if doubts := w.record(permits, newest).Doubts; len(doubts) != 0 {
		t.Errorf("doubts %q", doubts)
	}
	w.published(permits, newest)
}

// TestACurrentVersionThatWasReleasedAgainIsNotWaitedFor refuses the current version as released
// again: waiting for it helps nobody.
func TestACurrentVersionThatWasReleasedAgainIsNotWaitedFor(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Version: int64(newest), Times: feedsim.Always}, feedsim.Refuse(410, "expired", "It was released again and is being rebuilt."))
	began := w.clock.Now()
	w.sync(0)
	if waited := w.clock.Now().Sub(began); waited != 0 {
		t.Errorf("waited %s", waited)
	}
	gone, _, err := state.Read[state.Gone](t.Context(), w.store, manifest.GoneKey(permits, newest))
	if err != nil || gone == nil || gone.Reason != manifest.GapWithdrawn {
		t.Errorf("gone.json says %+v, %v", gone, err)
	}
	next := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	if gap := w.record(permits, next).Gap; gap == nil || gap.Reason != manifest.GapWithdrawn || gap.Expected != newest {
		t.Errorf("gap %+v", gap)
	}
}

// TestRetentionIsNoMassRefusal mixes many versions that retention took with a young one that
// answers 410 too.
func TestRetentionIsNoMassRefusal(t *testing.T) {
	w, d := permitsWorld(t)
	for range 3 {
		w.release(d, feedsim.ReleaseSpec{Add: 1})
	}
	w.clock.Advance(95 * 24 * time.Hour)
	young := w.release(d, feedsim.ReleaseSpec{Add: 1})
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Version: int64(young), Times: feedsim.Always}, feedsim.Refuse(410, "expired", "past retention"))
	if report := w.sync(0); report.Versions.Gone != 6 || report.Versions.Committed != 1 {
		t.Errorf("versions %+v, want six gone and one committed", report.Versions)
	}
	w.published(permits, newest)
}

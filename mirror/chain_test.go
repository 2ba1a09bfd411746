package mirror_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

const permits = "ds_permits"

// permitsWorld is a world with one dataset of a first version and one with changes.
func permitsWorld(t *testing.T) (*world, *feedsim.Dataset) {
	t.Helper()
	w := newWorld(t, feedsim.Options{})
	d := w.dataset(permits, feedsim.Points)
	w.release(d, feedsim.ReleaseSpec{})
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	return w, d
}

func TestAMajorIsCopiedAtOnceAndHeldUntilApproved(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	before := w.pointer(permits)
	major := w.release(d, feedsim.ReleaseSpec{Major: true})
	after := w.release(d, feedsim.ReleaseSpec{Add: 1})
	report := w.sync(0)
	if report.Versions.Committed != 2 || report.Datasets.Held != 1 || len(report.Held) != 1 {
		t.Errorf("report %+v, want two committed versions and one held dataset", report)
	}
	pointer := w.published(permits, before.Version)
	if pointer.Held == nil || pointer.Held.Version != major || pointer.Held.Reason != manifest.HoldMajor {
		t.Fatalf("pointer holds %+v, want version %d for its MAJOR", pointer.Held, major)
	}
	if _, err := mirror.Approve(context.Background(), w.decide(), permits); err != nil {
		t.Fatal(err)
	}
	if pointer = w.published(permits, after); pointer.Held != nil || pointer.PreviousVersion != before.Version {
		t.Errorf("pointer after the approval: %+v", pointer)
	}
	if _, err := mirror.Approve(context.Background(), w.decide(), permits); err == nil {
		t.Error("a second approval found something to approve")
	}
	w.sync(0)
	w.published(permits, after)
}

func TestARollbackPinsUntilApproved(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	second := w.pointer(permits)
	if _, err := mirror.Rollback(context.Background(), w.decide(), permits, 1); err != nil {
		t.Fatal(err)
	}
	if pointer := w.published(permits, 1); !pointer.Pinned || pointer.Revision != second.Revision+1 {
		t.Errorf("pointer after the rollback: %+v", pointer)
	}
	third := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	w.published(permits, 1)
	if _, err := mirror.Approve(context.Background(), w.decide(), permits); err != nil {
		t.Fatal(err)
	}
	if pointer := w.published(permits, third); pointer.Pinned {
		t.Error("still pinned after the approval")
	}
	if _, err := mirror.Rollback(context.Background(), w.decide(), permits, 99); err == nil {
		t.Error("rolled back to a version that is not mirrored")
	}
}

func TestAWithdrawnVersionIsFlaggedAndItsRebuildPublished(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	withdrawn := w.pointer(permits).Version
	if err := d.ReleaseAgain(int64(withdrawn)); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(25 * time.Hour)
	report := w.sync(0)
	if report.Pass != "full" || report.Datasets.Withdrawn != 1 {
		t.Errorf("%s pass with %d withdrawn, want a full one with 1", report.Pass, report.Datasets.Withdrawn)
	}
	if pointer := w.published(permits, withdrawn); !pointer.Withdrawn {
		t.Error("the pointer is not flagged")
	}
	if !w.has(manifest.WithdrawnKey(permits, withdrawn)) {
		t.Error("no withdrawn.json beside the record")
	}
	w.clock.Advance(time.Hour)
	rebuilt, err := d.ReleaseRebuild()
	if err != nil {
		t.Fatal(err)
	}
	w.sync(0)
	if pointer := w.published(permits, manifest.Number(rebuilt)); pointer.Withdrawn {
		t.Error("the pointer is still flagged")
	}
	record := w.record(permits, manifest.Number(rebuilt))
	if record.Gap != nil || record.PreviousRecord.Version != withdrawn || record.Changes != manifest.ChangesNotApplicable {
		t.Errorf("the rebuild follows %+v with gap %+v, changes %s", record.PreviousRecord, record.Gap, record.Changes)
	}
}

func TestVersionsPastRetentionLeaveAGap(t *testing.T) {
	w := newWorld(t, feedsim.Options{})
	d := w.dataset(permits, feedsim.Polygons)
	w.release(d, feedsim.ReleaseSpec{})
	old := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.clock.Advance(95 * 24 * time.Hour)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	report := w.sync(0)
	if report.Versions.Gone != 2 || report.Versions.Committed != 1 {
		t.Errorf("%+v, want two gone and one committed", report.Versions)
	}
	record := w.record(permits, newest)
	if record.Gap == nil || record.Gap.Reason != manifest.GapExpired || record.Gap.Expected != old || record.PreviousRecord != nil {
		t.Errorf("gap %+v after %+v", record.Gap, record.PreviousRecord)
	}
	w.published(permits, newest)
}

func TestAVersionBeingRebuiltIsWaitedForAndThenOwed(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	d.Rebuilding(true)
	began := w.clock.Now()
	report := w.sync(6)
	if waited := w.clock.Now().Sub(began); waited < 8*time.Minute || waited > 10*time.Minute {
		t.Errorf("waited %s, want about the ten minutes of feed.rebuild_wait", waited)
	}
	if report.Datasets.Owed != 1 || w.pointer(permits).Version == newest {
		t.Errorf("owed %d, published %d", report.Datasets.Owed, w.pointer(permits).Version)
	}
	d.Rebuilding(false)
	w.sync(0)
	w.published(permits, newest)
}

func TestAMissingFileIsReportedAndLaterVersionsGoOn(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	broken := w.release(d, feedsim.ReleaseSpec{Add: 1})
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Version: int64(broken), File: "schema.json", Times: feedsim.Always}, feedsim.Refuse(404, "NoSuchKey", "no such key"))
	report := w.sync(1)
	if len(report.Failures) != 1 || report.Failures[0].Version != int64(broken) || !strings.Contains(report.Failures[0].Object, "schema.json") {
		t.Errorf("failures %+v, want one that names schema.json of version %d", report.Failures, broken)
	}
	if gap := w.record(permits, newest).Gap; gap == nil || gap.Reason != manifest.GapIncomplete || gap.Expected != broken {
		t.Errorf("version %d carries gap %+v", newest, gap)
	}
	w.published(permits, newest)
	w.feed.ClearScript()
	w.feed.ResetLog()
	if report = w.sync(0); report.Versions.Committed != 1 || report.Files.Present == 0 {
		t.Errorf("the next pass committed %d versions with %d files present, want the one that was owed, with its finished files kept", report.Versions.Committed, report.Files.Present)
	}
	if fetched := w.feed.CompletedFile(permits, int64(broken), "snapshot/part-0000.parquet"); fetched != 0 {
		t.Errorf("a finished part was fetched again %d times", fetched)
	}
	w.published(permits, newest)
}

func TestAForkIsCopiedAndHeld(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	first := int64(1)
	fork := w.release(d, feedsim.ReleaseSpec{Add: 1, Previous: &first})
	w.sync(0)
	pointer := w.pointer(permits)
	if pointer.Version == fork || pointer.Held == nil || pointer.Held.Reason != manifest.HoldFork {
		t.Errorf("pointer %+v, want the fork held", pointer)
	}
	if gap := w.record(permits, fork).Gap; gap == nil || gap.Reason != manifest.GapFork {
		t.Errorf("gap %+v", gap)
	}
	reload := w.release(d, feedsim.ReleaseSpec{Resync: true})
	w.sync(0)
	w.published(permits, reload)
}

func TestLostChangesAreSaidInTheRecord(t *testing.T) {
	w, d := permitsWorld(t)
	lost := w.release(d, feedsim.ReleaseSpec{Add: 1})
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	if err := d.DropChanges(int64(lost)); err != nil {
		t.Fatal(err)
	}
	w.sync(0)
	if got := w.record(permits, lost).Changes; got != manifest.ChangesExpired {
		t.Errorf("changes of version %d are %s, want expired", lost, got)
	}
	if got := w.record(permits, newest).Changes; got != manifest.ChangesPresent {
		t.Errorf("changes of version %d are %s, want present", newest, got)
	}
}

func TestDoubtsHoldAndALaterVersionLifts(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	doubtful := w.release(d, feedsim.ReleaseSpec{Add: 1, RowCountOff: 5})
	w.sync(0)
	pointer := w.pointer(permits)
	if pointer.Version == doubtful || pointer.Held == nil || pointer.Held.Reason != manifest.HoldContent {
		t.Fatalf("pointer %+v, want version %d held for its content", pointer, doubtful)
	}
	if doubts := w.record(permits, doubtful).Doubts; len(doubts) == 0 {
		t.Error("the record tells no doubt")
	}
	clean := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	if pointer = w.published(permits, clean); pointer.Held != nil {
		t.Errorf("still holds %+v", pointer.Held)
	}
}

func TestAnUnknownListedVersionIsAnAlarmAndWritesNothing(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	unknown := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Version: int64(unknown), Times: feedsim.Always}, feedsim.Refuse(404, "not_found", "no such version"))
	report := w.sync(1)
	if len(report.Failures) != 1 || !strings.Contains(report.Failures[0].Hint, "unknown-version") {
		t.Errorf("failures %+v", report.Failures)
	}
	if w.has(manifest.VersionPrefix(permits, unknown)) {
		t.Error("something was written for it")
	}
	w.feed.ClearScript()
	w.sync(0)
	w.published(permits, unknown)
}

func TestMassRefusalIsAnAlarmAndNoRetention(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	for range 5 {
		w.release(d, feedsim.ReleaseSpec{Add: 1})
	}
	newest := w.pointer(permits).Version + 5
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Times: feedsim.Always, Match: func(r feedsim.Request) bool {
		return r.Version > 2 && r.Version < int64(newest)
	}}, feedsim.Refuse(410, "expired", "past retention"))
	report := w.sync(1)
	if len(report.Failures) != 1 || !strings.Contains(report.Failures[0].Message, "mass-410") || report.Versions.Gone != 0 {
		t.Errorf("gone %d, failures %+v", report.Versions.Gone, report.Failures)
	}
	w.feed.ClearScript()
	if report = w.sync(0); report.Versions.Committed != 5 {
		t.Errorf("committed %d versions afterwards, want 5", report.Versions.Committed)
	}
}

func TestHistoryAllAfterCurrentFillsInBelow(t *testing.T) {
	w, d := permitsWorld(t)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	if report := w.sync(0, current); report.Versions.Committed != 1 {
		t.Fatalf("committed %d versions, want the current one", report.Versions.Committed)
	}
	if gap := w.record(permits, newest).Gap; gap == nil || gap.Reason != manifest.GapHistoryCurrent {
		t.Errorf("gap %+v", gap)
	}
	before := w.published(permits, newest)
	if report := w.sync(0); report.Versions.Committed != 2 {
		t.Errorf("committed %d older versions, want 2", report.Versions.Committed)
	}
	if after := w.published(permits, newest); after.Revision != before.Revision {
		t.Error("the pointer was written again")
	}
}

func TestADatasetThatLeavesTheSubscriptionKeepsEverything(t *testing.T) {
	w, d := permitsWorld(t)
	other := w.dataset("ds_never_held", feedsim.Plain)
	w.release(other, feedsim.ReleaseSpec{})
	other.Unsubscribe()
	report := w.sync(0)
	if report.Datasets.NotSubscribed != 1 || report.Datasets.Failed != 0 {
		t.Errorf("datasets %+v, want one not subscribed and none failed", report.Datasets)
	}
	if report = w.sync(0); report.Datasets.Seen != 0 {
		t.Errorf("an incremental pass looked at %d datasets again, want none", report.Datasets.Seen)
	}
	before := w.pointer(permits)
	d.Unsubscribe()
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	report = w.sync(0)
	if report.Datasets.NotSubscribed == 0 || len(report.Notes) == 0 {
		t.Errorf("datasets %+v, notes %+v: want it said", report.Datasets, report.Notes)
	}
	if after := w.pointer(permits); after.Revision != before.Revision {
		t.Error("the pointer was written")
	}
}

func TestAnEmptyFullListChangesNothing(t *testing.T) {
	w, _ := permitsWorld(t)
	w.sync(0)
	w.feed.OverrideList(func([]byte) []byte { return []byte(`{"datasets": [], "nextCursor": null}`) })
	before := w.pointer(permits)
	report := w.sync(1, full)
	if len(report.Failures) != 1 || !strings.Contains(report.Failures[0].Message, "empty") {
		t.Errorf("failures %+v", report.Failures)
	}
	if after := w.pointer(permits); after.Revision != before.Revision {
		t.Error("the pointer was written")
	}
}

func TestADatasetThatAFullListLacksIsAskedForByName(t *testing.T) {
	w, d := permitsWorld(t)
	other := w.dataset("ds_other", feedsim.Plain)
	w.release(other, feedsim.ReleaseSpec{})
	w.sync(0)
	d.Remove()
	report := w.sync(0, full)
	found := false
	for _, note := range report.Notes {
		found = found || note.Dataset == permits && note.Kind == "unknown"
	}
	if !found {
		t.Errorf("notes %+v, want one that says the feed no longer knows it", report.Notes)
	}
	w.published(permits, 2)
}

func TestAVersionRebuiltBetweenTwoTriesIsAConflict(t *testing.T) {
	w, d := permitsWorld(t)
	w.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Version: 2, File: "schema.json", Times: feedsim.Always}, feedsim.Refuse(404, "NoSuchKey", "no such key"))
	w.sync(1)
	w.feed.ClearScript()
	if err := d.RewriteHistory(2); err != nil {
		t.Fatal(err)
	}
	report := w.sync(1)
	if len(report.Failures) != 1 || report.Failures[0].Kind != "conflict" || !strings.Contains(report.Failures[0].Hint, "prune --uncommitted") {
		t.Errorf("failures %+v, want a conflict with the way out", report.Failures)
	}
	if w.has(manifest.RecordKey(permits, 2)) {
		t.Error("a record was written")
	}
}

func TestFilterAndShardsDivideTheFeed(t *testing.T) {
	w := newWorld(t, feedsim.Options{})
	for _, id := range []string{"ds_a", "ds_b", "ds_c", "zoning"} {
		w.release(w.dataset(id, feedsim.Plain), feedsim.ReleaseSpec{})
	}
	seen := 0
	for index := range 2 {
		report := w.sync(0, func(o *mirror.Options) { o.Filter, o.ShardIndex, o.ShardOf = []string{"ds_*"}, index, 2 })
		seen += report.Datasets.Seen
	}
	if seen != 3 {
		t.Errorf("two shards saw %d datasets, want the 3 of the filter", seen)
	}
	for _, id := range []string{"ds_a", "ds_b", "ds_c"} {
		w.published(id, 1)
	}
	if w.pointer("zoning") != nil {
		t.Error("a dataset outside of the filter was mirrored")
	}
}

func TestAListThatCannotBeReadKeepsNothingCommittedFromReaders(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	sound := w.store
	w.store = noPointer{sound}
	mirror.Run(context.Background(), w.options()) // dies between the record and the pointer
	w.store = sound
	if !w.has(manifest.RecordKey(permits, newest)) || w.pointer(permits).Version == newest {
		t.Fatal("the pass did not stop between record and pointer")
	}
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Dataset: permits, Resource: "versions", Times: feedsim.Always}, feedsim.HTML())
	w.sync(1)
	w.published(permits, newest)
}

// noPointer is a store that takes everything but pointers.
type noPointer struct{ bucket.Store }

func (s noPointer) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	if strings.HasPrefix(key, "current/") {
		return bucket.Absent, &fault.Error{Op: "put object", Object: key, Side: fault.SideBucket, Kind: fault.Internal}
	}
	return s.Store.Swap(ctx, key, old, data)
}

package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/audit"
	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

func TestAPruneTakesWhatNoRuleKeeps(t *testing.T) {
	w, _ := pruneWorld(t)
	w.published(permits, 4)
	before := w.attachmentsStored()
	planned := w.prune(0, manifest.KeepRules{Versions: 2}, func(o *mirror.PruneOptions) { o.Apply = false })
	if planned.Status != "planned" || !slices.Equal(numbersOf(planned.Versions), []manifest.Number{1, 2}) || planned.Attachments.Objects == 0 {
		t.Fatalf("planned %+v", planned)
	}
	if w.has(manifest.PruneKey) || w.attachmentsStored() != before || w.filesOf(1) == 0 {
		t.Fatal("a plan changed the bucket")
	}
	report := w.prune(0, manifest.KeepRules{Versions: 2})
	if report.Status != "done" || report.Deleted != planned.Total() {
		t.Errorf("deleted %+v, planned %+v", report.Deleted, planned.Total())
	}
	if got := before - w.attachmentsStored(); got != int(planned.Attachments.Objects) {
		t.Errorf("%d attachments went, %d were planned", got, planned.Attachments.Objects)
	}
	w.wantPruned(2)
	if doc := w.pruneDocument(); doc.Running() || len(doc.Versions)+len(doc.Attachments) != 0 || doc.Revision != 3 {
		t.Errorf("prune.json ends as %+v", doc)
	}
	if found := w.audit(audit.LevelBytes); found.Exit != 0 || found.NotChecked.Pruned != 2 {
		t.Errorf("audit: %d pruned, findings %+v", found.NotChecked.Pruned, found.Findings)
	}
}

func TestAPruneSwapsThePointerInPlace(t *testing.T) {
	w, _ := pruneWorld(t)
	pointer := w.published(permits, 4)
	w.prune(0, keepOne)
	if fenced := w.published(permits, 4); fenced.Revision != pointer.Revision+1 || !fenced.MovedAt.Equal(pointer.MovedAt) || fenced.Held == nil {
		t.Errorf("the pointer was not swapped in place: %+v became %+v", pointer, fenced)
	}
}

func TestAPassAfterAPruneCopiesWhatIsNewAndNothingPruned(t *testing.T) {
	w, d := pruneWorld(t)
	w.prune(0, keepOne)
	if again := w.prune(0, keepOne); again.Deleted.Objects != 0 || len(again.Versions) != 0 {
		t.Errorf("a second prune deleted %+v of %+v", again.Deleted, again.Versions)
	}
	newest := w.release(d, feedsim.ReleaseSpec{Add: 2})
	w.sync(0, full)
	if !w.has(manifest.RecordKey(permits, newest)) || w.filesOf(1) != 0 {
		t.Error("the new version was not copied, or a pruned one was")
	}
}

// wantPruned wants the first so many of six versions pruned, and what says so of each.
func (w *world) wantPruned(last manifest.Number) {
	w.t.Helper()
	for n := manifest.Number(1); n <= 6; n++ {
		gone := n <= last
		if (w.filesOf(n) == 0) != gone || w.has(manifest.PrunedKey(permits, n)) != gone || w.has(manifest.SumsKey(permits, n)) == gone {
			w.t.Errorf("version %d: %d files, pruned.json %v, sums %v", n, w.filesOf(n), w.has(manifest.PrunedKey(permits, n)), w.has(manifest.SumsKey(permits, n)))
		}
		if !w.has(manifest.RecordKey(permits, n)) || !w.has(manifest.ManifestKey(permits, n)) {
			w.t.Errorf("version %d lost its record or its manifest", n)
		}
	}
}

func TestAFilterPrunesOneDatasetAndLeavesTheOthers(t *testing.T) {
	w, _ := pruneWorld(t)
	other := w.dataset("ds_zoning", feedsim.Archive)
	w.release(other, feedsim.ReleaseSpec{})
	w.release(other, feedsim.ReleaseSpec{ChangeSource: true})
	w.sync(0)
	report := w.prune(0, manifest.KeepRules{Versions: 1}, func(o *mirror.PruneOptions) { o.Filter = []string{"ds_zoning"} })
	if len(report.Versions) != 1 || report.Attachments.Objects != 1 || w.filesOf(1) == 0 {
		t.Errorf("took %+v and %d attachments, want version 1 of ds_zoning and the source that was replaced", report.Versions, report.Attachments.Objects)
	}
	if rest := w.prune(0, manifest.KeepRules{Versions: 1}); len(rest.Versions) != 3 || rest.Attachments.Objects == 0 {
		t.Errorf("the rest: %+v and %d attachments", rest.Versions, rest.Attachments.Objects)
	}
}

func TestPruneRefusesWhatIsNoOrder(t *testing.T) {
	w, _ := permitsWorld(t)
	if _, err := mirror.Prune(t.Context(), w.pruneOptions(manifest.KeepRules{Versions: 1})); !fault.Is(err, fault.Usage) {
		t.Errorf("an empty bucket: %v", err)
	}
	w.sync(0)
	if _, err := mirror.Prune(t.Context(), w.pruneOptions(manifest.KeepRules{})); !fault.Is(err, fault.Usage) {
		t.Errorf("no rules: %v", err)
	}
}

// TestGraceCountsFromWhenReadersLeft: versions that are weeks old, whose MAJOR waited, and that
// readers left an hour ago.
func TestGraceCountsFromWhenReadersLeft(t *testing.T) {
	w, d := pruneWorld(t)
	w.clock.Advance(30 * 24 * time.Hour)
	if _, err := mirror.Approve(t.Context(), w.decide(), permits); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Hour)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	w.published(permits, newest)
	day := func(o *mirror.PruneOptions) { o.Now = w.clock.Now }
	report := w.prune(0, manifest.KeepRules{Versions: 1, Grace: 24 * time.Hour}, day)
	if got := numbersOf(report.Versions); !slices.Equal(got, []manifest.Number{1, 2, 3, 5}) {
		t.Errorf("took %v, want all but 4 and 6, which readers left a while ago", got)
	}
	w.clock.Advance(25 * time.Hour)
	if report = w.prune(0, manifest.KeepRules{Versions: 1, Grace: 24 * time.Hour}, day); !slices.Equal(numbersOf(report.Versions), []manifest.Number{4, 6}) {
		t.Errorf("a day later took %v, want 4 and 6", numbersOf(report.Versions))
	}
}

// stubborn refuses to delete some keys.
type stubborn struct {
	bucket.Store
	refuses func(key string) bool
}

func (s stubborn) Delete(ctx context.Context, key string, tag bucket.Tag) error {
	if s.refuses(key) {
		return &fault.Error{Op: "delete object", Object: key, Side: fault.SideBucket, Kind: fault.Denied, Status: 403, Err: errors.New("retention")}
	}
	return s.Store.Delete(ctx, key, tag)
}

func TestRefusedDeletesAreNamedAndTriedAgain(t *testing.T) {
	w, _ := pruneWorld(t)
	sound := w.store
	w.store = stubborn{sound, func(key string) bool {
		return strings.Contains(key, "ploti_version=0000000002/part-0001") || strings.HasPrefix(key, "id_map/") || strings.HasPrefix(key, manifest.AttachmentPrefix)
	}}
	report := w.prune(1, manifest.KeepRules{Versions: 1})
	if report.Status != "refused" || report.RefusedCount != int64(len(report.Refused)) || report.RefusedCount != 2+report.Attachments.Objects {
		t.Errorf("%s: %d refused, %d attachments; %+v", report.Status, report.RefusedCount, report.Attachments.Objects, report.Refused)
	}
	if want := report.Total().Objects - report.RefusedCount; report.Deleted.Objects != want {
		t.Errorf("%d went, want %d", report.Deleted.Objects, want)
	}
	if !slices.ContainsFunc(report.Refused, func(f mirror.Failure) bool {
		return f.Version == 2 && f.Dataset == permits && strings.Contains(f.Object, "part-0001")
	}) {
		t.Errorf("version 2's part is not named: %+v", report.Refused)
	}
	if w.pruneDocument().Running() {
		t.Error("refused deletes keep the prune from its end, and passes waiting")
	}
	w.sync(0, full)
	w.store = sound
	if again := w.prune(0, manifest.KeepRules{Versions: 1}); again.Deleted.Objects != report.RefusedCount {
		t.Errorf("the next prune took %d objects, %d were left", again.Deleted.Objects, report.RefusedCount)
	}
}

func TestABucketThatRefusesEveryDeleteStaysUsable(t *testing.T) {
	w, d := pruneWorld(t)
	w.store = buckettest.NoDelete{Store: w.store}
	for range 2 {
		if report := w.prune(5, manifest.KeepRules{Versions: 1}); report.Deleted.Objects != 0 || report.RefusedCount == 0 {
			t.Errorf("deleted %+v, refused %d", report.Deleted, report.RefusedCount)
		}
	}
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0, full)
	w.sync(0, full)
	if !w.has(manifest.RecordKey(permits, newest)) {
		t.Error("the next version was not copied")
	}
}

func TestNothingIsPrunedWhileNamesAreUnknown(t *testing.T) {
	w, _ := pruneWorld(t)
	w.damaged = true
	before := len(w.take().Objects)
	w.damage(manifest.ManifestKey(permits, 4), func(data []byte) []byte {
		at := strings.LastIndex(string(data), `"sha256"`) + len(`"sha256": "`)
		data[at+2] ^= 1
		return data
	})
	o := w.pruneOptions(manifest.KeepRules{Versions: 1})
	if _, err := mirror.Prune(t.Context(), o); err == nil || fault.HintOf(err) == "" {
		t.Errorf("got %v, want an error with a way out", err)
	}
	if after := len(w.take().Objects); after != before || w.has(manifest.PruneKey) {
		t.Errorf("%d objects became %d", before, after)
	}
}

func TestOldReportsAreTrimmed(t *testing.T) {
	w, _ := permitsWorld(t)
	w.sync(0)
	put := func(prefix string, count int, age time.Duration) {
		for i := range count {
			key := fmt.Sprintf("%s2025%04d-x.json", prefix, i)
			if _, err := bucket.CreateDocument(t.Context(), w.store, key, []byte("{}\n")); err != nil {
				t.Fatal(err)
			}
			at := time.Now().Add(-age)
			if err := os.Chtimes(filepath.Join(w.dir, filepath.FromSlash(key)), at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(manifest.RunsPrefix, 120, 100*24*time.Hour)
	put(manifest.AuditsPrefix, 120, 10*24*time.Hour)
	put(manifest.AuditsPrefix+"ledger/", 120, 100*24*time.Hour)
	report := w.prune(0, manifest.KeepRules{Versions: 5}, func(o *mirror.PruneOptions) { o.Now = time.Now })
	if report.Reports.Objects != 21 || report.Deleted.Objects != 21 { // one young report of the pass is among the newest 100
		t.Errorf("planned %+v, deleted %+v, want 21 of the old run reports", report.Reports, report.Deleted)
	}
}

func TestClearingAnUncommittedVersionIsTheWayOutOfAConflict(t *testing.T) {
	w, d := permitsWorld(t)
	w.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Version: 2, File: "schema.json", Times: feedsim.Always}, feedsim.Refuse(404, "NoSuchKey", "no such key"))
	w.sync(1)
	w.feed.ClearScript()
	if err := d.RewriteHistory(2); err != nil {
		t.Fatal(err)
	}
	w.sync(1)
	report, err := mirror.ClearUncommitted(t.Context(), w.pruneOptions(manifest.KeepRules{}), permits, 2)
	if err != nil || report.Status != "done" || report.Deleted.Objects != report.Total().Objects {
		t.Fatalf("%v: %+v", err, report)
	}
	w.whole("after the clearing")
	if w.filesOf(2) != 0 || w.has(manifest.ManifestKey(permits, 2)) || !w.has(manifest.RecordKey(permits, 1)) {
		t.Error("something of version 2 is left, or version 1 is not")
	}
	w.sync(0)
	w.published(permits, 2)
	for _, n := range []manifest.Number{2, 99, 0} {
		if _, err := mirror.ClearUncommitted(t.Context(), w.pruneOptions(manifest.KeepRules{}), permits, n); !fault.Is(err, fault.Usage) {
			t.Errorf("clearing version %d: %v, want it refused", n, err)
		}
	}
}

func TestClearingWaitsForARunThatIsAtTheDataset(t *testing.T) {
	w, _ := permitsWorld(t)
	w.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Version: 2, File: "schema.json", Times: feedsim.Always}, feedsim.Refuse(404, "NoSuchKey", "no such key"))
	w.sync(1)
	o := w.pruneOptions(manifest.KeepRules{})
	leases := &state.Leases{Docs: w.store, Owner: "other", Host: "elsewhere", TTL: time.Minute, Now: o.Now, Pause: w.pause}
	holder, err := leases.Acquire(t.Context(), permits)
	if err != nil {
		t.Fatal(err)
	}
	before := w.filesOf(2)
	if _, err := mirror.ClearUncommitted(t.Context(), o, permits, 2); !fault.Is(err, fault.Budget) || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("got %v, want it to say who is at it", err)
	}
	if w.filesOf(2) != before || w.pruneDocument().Running() {
		t.Error("it deleted something, or left a prune unfinished")
	}
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestAPruneOfManyObjectsDeletesAllButTheRefused: more than a listing's page, some of it refused.
func TestAPruneOfManyObjectsDeletesAllButTheRefused(t *testing.T) {
	w, _ := permitsWorld(t)
	w.sync(0)
	w.damaged = true // attachments that no version names
	stood := w.attachmentsStored()
	var refused []string
	for n := range 2500 {
		body := fmt.Sprintf("orphan %d", n)
		key := manifest.AttachmentKey(manifest.SumBytes([]byte(body)))
		if _, err := bucket.CreateDocument(t.Context(), w.store, key, []byte(body)); err != nil {
			t.Fatal(err)
		}
		if n%1000 == 0 {
			refused = append(refused, key)
		}
	}
	o := w.pruneOptions(manifest.KeepRules{Versions: 9})
	o.Store = stubborn{w.store, func(key string) bool { return slices.Contains(refused, key) }}
	report, err := mirror.Prune(t.Context(), o)
	if err != nil || report.Exit != 1 || report.Deleted.Objects != 2497 || report.RefusedCount != 3 {
		t.Errorf("%v: exit %d, %d deleted, %d refused", err, report.Exit, report.Deleted.Objects, report.RefusedCount)
	}
	for _, key := range refused {
		if !slices.ContainsFunc(report.Refused, func(f mirror.Failure) bool { return f.Object == key }) {
			t.Errorf("%s is not named", key)
		}
	}
	if left := w.attachmentsStored() - stood; left != 3 {
		t.Errorf("%d are left, want 3", left)
	}
}

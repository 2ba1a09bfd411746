package mirror_test

import (
	"testing"

	"feedmirror/internal/audit"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

func TestAChainLandsWithAttachmentsOnceAndThePointerLast(t *testing.T) {
	w := newWorld(t, feedsim.Options{})
	permits := w.dataset("ds_permits", feedsim.Points)
	w.release(permits, feedsim.ReleaseSpec{})
	w.release(permits, feedsim.ReleaseSpec{Add: 3, Change: 2, Remove: 1, SkipNumbers: 2})
	last := w.release(permits, feedsim.ReleaseSpec{Minor: true, Add: 1})
	report := w.sync(0)
	if report.Versions.Committed != 3 || report.Versions.Published != 1 {
		t.Errorf("committed %d and published %d versions, want 3 and 1", report.Versions.Committed, report.Versions.Published)
	}
	pointer := w.published("ds_permits", last)
	record := w.record("ds_permits", last)
	if pointer.Manifest != record.Manifest || len(pointer.Snapshot) == 0 {
		t.Errorf("pointer %+v does not lead to its record", pointer)
	}
	if record.Attachments.Carried == 0 || record.Attachments.Index == nil {
		t.Errorf("attachments %+v: want some carried over from the version before", record.Attachments)
	}
	if record.Changes != manifest.ChangesPresent || len(record.Doubts) != 0 {
		t.Errorf("changes %s, doubts %v", record.Changes, record.Doubts)
	}
	for name, times := range w.feed.Completed() {
		if times != 1 {
			t.Errorf("%s was fetched %d times", name, times)
		}
	}
	if violations := w.feed.ViolationsSeen(); len(violations) != 0 {
		t.Errorf("links host saw violations: %v", violations)
	}
}

func TestAnIdlePassCostsAlmostNothing(t *testing.T) {
	w := newWorld(t, feedsim.Options{})
	permits := w.dataset("ds_permits", feedsim.Points)
	w.release(permits, feedsim.ReleaseSpec{})
	w.sync(0)
	report := w.sync(0)
	got := report.Requests
	if got.Feed != 1 || got.Links != 0 || got.Source != 0 || got.BucketRead != 2 || got.BucketWrite > 1 || got.BucketList != 0 {
		t.Errorf("an idle pass asked for %+v", got)
	}
}

func TestAManifestTooLargeForMemoryIsStreamed(t *testing.T) {
	w, d := permitsWorld(t)
	little := func(o *mirror.Options) { o.ManifestMemory = 2 }
	w.sync(0, little)
	w.release(d, feedsim.ReleaseSpec{Add: 2, ChangeSource: true})
	newest := w.release(d, feedsim.ReleaseSpec{ReplaceIDs: true})
	plan, err := mirror.MakePlan(t.Context(), w.options(little))
	if err != nil || len(plan.Datasets) != 1 || len(plan.Failures) != 0 {
		t.Errorf("plan %+v, %v", plan, err)
	}
	w.sync(0, little)
	w.published(permits, newest)
	if report := w.audit(audit.LevelBytes); report.Exit != 0 {
		t.Errorf("findings %+v", report.Findings)
	}
	if again := w.feed.CompletedFile(permits, int64(newest), "manifest.json"); again != 3 {
		t.Errorf("the manifest was fetched %d times, want one by the plan and two by the pass", again)
	}
}

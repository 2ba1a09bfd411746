package mirror_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"feedmirror/internal/audit"
	"feedmirror/internal/audit/ledger"
	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

func (w *world) acknowledge(id string) error {
	o := w.decide()
	o.Reason = "known since March"
	_, err := mirror.Acknowledge(context.Background(), o, id, nil)
	return err
}

// TestAnAcknowledgedFindingStaysVisibleUntilItsFactsChange.
func TestAnAcknowledgedFindingStaysVisibleUntilItsFactsChange(t *testing.T) {
	w := auditedWorld(t)
	part, attachment := w.anyKey("snapshot/"), w.anyKey(manifest.AttachmentPrefix)
	w.damage(part, flip)
	w.remove(attachment)
	report := w.verify()
	if report.Exit != audit.ExitFindings || len(report.Findings) != 2 {
		t.Fatalf("exit %d, findings %+v", report.Exit, report.Findings)
	}
	for at, f := range report.Findings {
		w.clock.Advance(time.Minute)
		if err := w.acknowledge(f.ID); err != nil {
			t.Fatal(err)
		}
		again := w.verify()
		if want := []int{audit.ExitFindings, 0}[at]; again.Exit != want || len(again.Findings) != 2 || again.Open() != 1-at {
			t.Errorf("after %d words: exit %d, findings %+v", at+1, again.Exit, again.Findings)
		}
	}
	if known := w.verify().Findings[0].Acknowledged; known == nil || known.Reason != "known since March" || known.Who != "tester" {
		t.Errorf("the word is %+v", known)
	}
	w.wantNews(part, report)
	if err := w.acknowledge("0123456789ab"); !fault.Is(err, fault.Usage) {
		t.Errorf("a finding that nobody found: %v", err)
	}
	w.sync(0, full) // decisions of this kind move nothing
}

// wantNews damages a part once more, and wants a finding that nobody acknowledged.
func (w *world) wantNews(part string, before mirror.VerifyReport) {
	w.t.Helper()
	w.damage(part, func(data []byte) []byte { data[0] ^= 1; return data })
	changed := w.verify()
	if changed.Exit != audit.ExitFindings || changed.Open() != 1 {
		w.t.Errorf("other bytes: exit %d, findings %+v", changed.Exit, changed.Findings)
	}
	for at, f := range changed.Findings {
		if same := f.ID == before.Findings[at].ID; same == (f.Key == part) {
			w.t.Errorf("%s has the id %s, before %s", f.Key, f.ID, before.Findings[at].ID)
		}
	}
}

// TestAnAuditorWithoutTheRightToWriteStillFinds.
func TestAnAuditorWithoutTheRightToWriteStillFinds(t *testing.T) {
	w := auditedWorld(t)
	w.remove(w.anyKey("snapshot/"))
	w.store = &buckettest.FailNth{Store: w.store, Op: buckettest.OpCreate, From: 1, To: 9, Err: denied()}
	if report := w.verify(); report.Exit != audit.ExitFindings {
		t.Errorf("exit %d", report.Exit)
	}
}

// TestARetiredDatasetIsLeftAlone: the feed is not asked about it and may drop it; approve takes it up.
func TestARetiredDatasetIsLeftAlone(t *testing.T) {
	w, d := permitsWorld(t)
	w.release(w.dataset("ds_zoning", feedsim.Archive), feedsim.ReleaseSpec{}) // so that a list without the other is not empty
	w.sync(0)
	if _, err := mirror.Retire(t.Context(), w.decide(), permits); err != nil {
		t.Fatal(err)
	}
	if _, err := mirror.Retire(t.Context(), w.decide(), permits); !fault.Is(err, fault.Usage) {
		t.Errorf("retired twice: %v", err)
	}
	if _, err := mirror.Retire(t.Context(), w.decide(), "ds_other"); !fault.Is(err, fault.Usage) {
		t.Errorf("a dataset that is not there: %v", err)
	}
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	for _, pass := range []func(*mirror.Options){func(*mirror.Options) {}, full} {
		if report := w.sync(0, pass); report.Versions.Committed != 0 || report.Versions.Published != 0 {
			t.Errorf("report %+v", report)
		}
	}
	if pointer := w.published(permits, 2); !pointer.Retired {
		t.Error("the pointer does not say so")
	}
	if report := w.verify(); report.Exit != 0 {
		t.Errorf("findings %+v", report.Findings)
	}
	d.Remove()
	for range 2 {
		if report := w.sync(0, full); report.Datasets.NotSubscribed != 0 {
			t.Errorf("the feed was asked about it: %+v", report)
		}
	}
	d.Restore()
	if _, err := mirror.Approve(t.Context(), w.decide(), permits); err != nil {
		t.Fatal(err)
	}
	w.sync(0)
	if pointer := w.published(permits, 3); pointer.Retired {
		t.Error("it is still retired")
	}
}

// TestARetirementIsFinishedByTheNextPass: a decision that stands is carried out whoever runs next.
func TestARetirementIsFinishedByTheNextPass(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	o := w.decide()
	crashing := &buckettest.CrashAfterNthWrite{Store: w.store, Nth: 3, When: buckettest.BeforeWrite}
	o.Docs = crashing
	if _, err := mirror.Retire(t.Context(), o, permits); err == nil || !crashing.Crashed() {
		t.Fatalf("it did not die before the pointer was written: %v", err)
	}
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	if pointer := w.published(permits, 2); !pointer.Retired {
		t.Errorf("pointer %+v", pointer)
	}
}

func TestKeptAuditsAndLedgersLieWhereTheLayoutSays(t *testing.T) {
	w := auditedWorld(t)
	part := w.anyKey("snapshot/")
	whole := w.bytesOf(part)
	w.damage(part, flip)
	w.verify(budget(1 << 40))
	kept, ledgers := 0, 0
	for info := range w.listed(manifest.AuditsPrefix) {
		switch {
		case strings.HasPrefix(info.Key, manifest.LedgerPrefix):
			ledgers++
			if _, err := ledger.Decode(w.bytesOf(info.Key)); err != nil {
				t.Errorf("%s: %v", info.Key, err)
			}
		default:
			kept++
			if err := strictly[mirror.VerifyReport](w.bytesOf(info.Key)); err != nil {
				t.Errorf("%s: %v", info.Key, err)
			}
		}
	}
	if kept != 1 || ledgers < 2 {
		t.Errorf("%d kept audits, %d documents of the ledger", kept, ledgers)
	}
	w.damage(part, func([]byte) []byte { return whole })
	w.restored()
}

// TestARetirementDuringAPassIsObeyed: the pass that was about to publish reads the pointer again.
func TestARetirementDuringAPassIsObeyed(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	beneath := w.store
	w.store = &rivalAt{Store: beneath, key: manifest.PointerKey(permits), before: func() {
		o := w.decide()
		o.Docs = beneath
		if _, err := mirror.Retire(context.Background(), o, permits); err != nil {
			t.Error(err)
		}
	}}
	w.sync(0)
	w.store = beneath
	if pointer := w.published(permits, 2); !pointer.Retired {
		t.Errorf("pointer %+v", pointer)
	}
}

// rivalAt lets another process write before the first swap of a key.
type rivalAt struct {
	bucket.Store
	key    string
	once   sync.Once
	before func()
}

func (r *rivalAt) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	if key == r.key {
		r.once.Do(r.before)
	}
	return r.Store.Swap(ctx, key, old, data)
}

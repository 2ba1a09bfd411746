package mirror_test

import (
	"context"
	"strings"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/report"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

func (w *world) retire(dataset string) {
	w.t.Helper()
	if _, err := mirror.Retire(w.t.Context(), w.decide(), dataset); err != nil {
		w.t.Fatal(err)
	}
	if _, err := mirror.Retire(w.t.Context(), w.decide(), dataset); !fault.Is(err, fault.Usage) {
		w.t.Errorf("retired twice: %v", err)
	}
}

// statusOf returns the line of a dataset in the status.
func (w *world) statusOf(dataset string) report.DatasetStatus {
	w.t.Helper()
	status, err := report.BuildStatus(w.t.Context(), w.store, nil, w.clock.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range status.Datasets {
		if d.Dataset == dataset {
			return d
		}
	}
	w.t.Fatalf("%s is not in the status: %+v", dataset, status.Datasets)
	return report.DatasetStatus{}
}

// TestADatasetThatNeverWasPublishedCanBeRetired: one whose first version is held, and one of which
// nothing was committed. There is no pointer that could say so.
func TestADatasetThatNeverWasPublishedCanBeRetired(t *testing.T) {
	for name, test := range map[string]struct {
		spec feedsim.ReleaseSpec
		exit int
	}{
		"held at its first version": {feedsim.ReleaseSpec{RowCountOff: 3}, 0},
		"nothing committed":         {feedsim.ReleaseSpec{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, feedsim.Options{})
			w.release(w.dataset("ds_zoning", feedsim.Archive), feedsim.ReleaseSpec{})
			d := w.dataset(permits, feedsim.Points)
			w.release(d, test.spec)
			if test.exit != 0 {
				w.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Dataset: permits, Version: 1, File: "schema.json", Times: feedsim.Always}, feedsim.Refuse(404, "NoSuchKey", "no such key"))
			}
			w.sync(test.exit)
			w.retire(permits)
			if d := w.statusOf(permits); d.State != "retired" || !d.Retired || !strings.HasPrefix(d.Next, "mirror approve") {
				t.Errorf("before a pass the status says %+v", d)
			}
			w.release(d, feedsim.ReleaseSpec{Add: 1})
			for _, pass := range []func(*mirror.Options){func(*mirror.Options) {}, full} {
				if report := w.sync(0, pass); report.Versions.Committed != 0 || report.Versions.Published != 0 || report.Datasets.Failed != 0 {
					t.Errorf("report %+v", report)
				}
			}
			if d := w.statusOf(permits); d.State != "retired" || w.pointer(permits) != nil {
				t.Errorf("the status says %+v, pointer %+v", d, w.pointer(permits))
			}
			d.Remove()
			w.sync(0, full)
			d.Restore()
			if _, err := mirror.Approve(t.Context(), w.decide(), permits); err != nil {
				t.Fatal(err)
			}
			if d := w.statusOf(permits); d.State == "retired" {
				t.Errorf("after the approval the status says %+v", d)
			}
			if test.exit != 0 {
				return // the feed still does not have it
			}
			w.sync(0)
			if pointer := w.published(permits, 2); pointer.Retired {
				t.Error("it is still retired")
			}
		})
	}
}

// swapsOnce runs meanwhile before the first swap of a key.
type swapsOnce struct {
	bucket.Store
	key       string
	meanwhile func()
}

func (s *swapsOnce) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	if key == s.key && s.meanwhile != nil {
		do := s.meanwhile
		s.meanwhile = nil
		do()
	}
	return s.Store.Swap(ctx, key, old, data)
}

// TestARetirementDuringAFirstPublicationIsObeyed: the decision finds no pointer to swap, and the pass
// that writes the first one looks for it afterwards.
func TestARetirementDuringAFirstPublicationIsObeyed(t *testing.T) {
	w, _ := permitsWorld(t)
	beneath := w.store
	store := &swapsOnce{Store: beneath, key: manifest.PointerKey(permits)}
	store.meanwhile = func() {
		o := w.decide()
		o.Docs = beneath
		if _, err := mirror.Retire(context.Background(), o, permits); err != nil {
			t.Error(err)
		}
	}
	w.store = store
	w.sync(0)
	w.store = beneath
	pending, err := state.PendingDecisions(t.Context(), w.store, permits, w.pointer(permits))
	if pointer := w.published(permits, 2); !pointer.Retired || err != nil || len(pending) != 0 {
		t.Errorf("retired: %t, pending %+v, %v", pointer.Retired, pending, err)
	}
}

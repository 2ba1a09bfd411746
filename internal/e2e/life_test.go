package e2e_test

import (
	"strings"
	"testing"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
)

const permits, zoning = "ds_permits", "ds_zoning"

// TestEveryStoreCarriesAWholeLife takes a dataset through everything that can happen to it, on each
// kind of store.
func TestEveryStoreCarriesAWholeLife(t *testing.T) {
	for name, open := range places() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, open(t), feedsim.Options{})
			d := w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Points, Rows: 12, Parts: 2},
				feedsim.ReleaseSpec{}, feedsim.ReleaseSpec{Add: 2, Change: 1, SkipNumbers: 3}, feedsim.ReleaseSpec{ReplaceIDs: true}, feedsim.ReleaseSpec{Minor: true, Add: 1})
			w.dataset(feedsim.DatasetSpec{ID: zoning, Character: feedsim.Archive, Rows: 5}, feedsim.ReleaseSpec{})
			w.doctorFits()
			w.firstPass()
			w.idlePass()
			w.verifyAll()
			w.majorIsHeldAndApproved(d)
			w.wrongBytesLeaveNothing(d)
			w.rebuiltVersionIsPublished(d)
			w.rollbackPins(d)
			w.verifyAll()
			w.idlePass()
		})
	}
}

func (w *world) doctorFits() {
	w.t.Helper()
	diagnosis := decode[struct {
		Fit   bool
		Exit  int
		Probe struct {
			Findings []struct {
				Name, Verdict string
				Needed        bool
			}
			Leftovers []string
		}
		LeastPolicy string
	}](w.t, w.run(0, "doctor", "--output", "json"))
	if !diagnosis.Fit || len(diagnosis.Probe.Leftovers) > 0 || diagnosis.LeastPolicy == "" {
		w.t.Errorf("doctor says %+v", diagnosis)
	}
	needed := 0
	for _, finding := range diagnosis.Probe.Findings {
		if finding.Needed && finding.Verdict == "ok" {
			needed++
		}
	}
	if needed < 2 {
		w.t.Errorf("doctor proved %d of what is needed: %+v", needed, diagnosis.Probe.Findings)
	}
}

func (w *world) firstPass() {
	w.t.Helper()
	r := w.sync(0)
	if r.Pass != "full" || r.Versions.Committed != 5 || r.Datasets.Seen != 2 || r.Files.Failed != 0 || r.Files.Copied == 0 || r.Bytes.Deduplicated == 0 {
		w.t.Errorf("first pass: %+v", r)
	}
	w.published(permits, 7)
	w.published(zoning, 1)
	w.fetchedOnce()
	for file, times := range w.feed.SignedNames() {
		if times != 1 {
			w.t.Errorf("%s was signed %d times", file, times)
		}
	}
}

// idlePass wants the cost of a pass in which nothing happened.
func (w *world) idlePass() {
	w.t.Helper()
	before := w.snapshot()
	w.feed.ResetLog()
	r := w.sync(0)
	q := r.Requests
	if r.Pass != "incremental" || r.Datasets.Changed != 0 || q.Feed != 1 || q.Links != 0 || q.Source != 0 || q.BucketRead != 2 || q.BucketWrite > 1 || q.BucketList != 0 {
		w.t.Errorf("idle pass: %+v", r)
	}
	if calls := len(w.feed.Log()); calls != 1 {
		w.t.Errorf("the feed saw %d requests, want 1", calls)
	}
	after := w.snapshot()
	for _, violation := range invariant.Compare(before, after) {
		w.t.Errorf("idle pass: %s", violation)
	}
	for key := range after.Objects {
		if before.Objects[key] != after.Objects[key] && !strings.HasPrefix(key, "_mirror/shards/") {
			w.t.Errorf("an idle pass wrote %s", key)
		}
	}
}

func (w *world) verifyAll() {
	w.t.Helper()
	for _, level := range []string{"chain", "inventory", "checksum", "bytes", "rows"} {
		audit := decode[struct {
			Status, Level string
			Exit          int
			Checked       struct{ Datasets, Records, Objects, Bytes int64 }
			Findings      []struct{ Kind, Key, Detail string }
		}](w.t, w.run(0, "verify", "--level", level, "--output", "json"))
		if audit.Level != level || len(audit.Findings) > 0 || audit.Checked.Datasets != 2 || audit.Checked.Records < 5 {
			w.t.Errorf("verify --level %s: %+v", level, audit)
		}
		if level == "bytes" && audit.Checked.Bytes == 0 {
			w.t.Errorf("verify --level bytes read nothing: %+v", audit)
		}
	}
}

// datasetStatus is what status --output json says of a dataset.
type datasetStatus struct {
	Dataset, State, Next string
	Published, Newest    int64
	Pinned, Withdrawn    bool
	Held                 *struct{ Version int64 }
}

func (w *world) status(dataset string) datasetStatus {
	w.t.Helper()
	status := decode[struct{ Datasets []datasetStatus }](w.t, w.run(0, "status", "--output", "json"))
	for _, one := range status.Datasets {
		if one.Dataset == dataset {
			return one
		}
	}
	w.t.Fatalf("status does not name %s: %+v", dataset, status)
	return datasetStatus{}
}

func (w *world) majorIsHeldAndApproved(d *feedsim.Dataset) {
	w.t.Helper()
	before := d.Current()
	major := w.release(d, feedsim.ReleaseSpec{Major: true})
	if r := w.sync(0); r.Datasets.Held != 1 || r.Versions.Committed != 1 || r.Versions.Published != 0 {
		w.t.Errorf("pass with a MAJOR: %+v", r)
	}
	if p := w.published(permits, before); p.Held == nil || p.Held.Version != major || p.Held.Reason != "major" {
		w.t.Errorf("the pointer holds %+v, want version %d", p.Held, major)
	}
	held := w.status(permits)
	if held.State != "held" || held.Published != before || held.Newest != major || !strings.Contains(held.Next, "mirror approve "+permits) {
		w.t.Errorf("status of a held dataset: %+v", held)
	}
	w.run(0, "approve", permits, "--reason", "the loader takes it")
	w.published(permits, major)
	if approved := w.status(permits); approved.State == "held" || approved.Published != major {
		w.t.Errorf("status after the approval: %+v", approved)
	}
}

// wrongBytesLeaveNothing lets the source send a part with a flipped byte, at each try.
func (w *world) wrongBytesLeaveNothing(d *feedsim.Dataset) {
	w.t.Helper()
	before := d.Current()
	broken := w.release(d, feedsim.ReleaseSpec{Add: 1})
	const part = "snapshot/part-0001.parquet"
	hits := w.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, File: part, Times: feedsim.Always}, feedsim.FlipByte(100))
	r := w.sync(1, "--transfer-attempts", "2")
	if hits() != 2 || len(r.Failures) != 1 || r.Failures[0].Side != "source" || r.Failures[0].Version != broken || r.Files.Failed != 1 || r.Datasets.Failed != 1 {
		w.t.Errorf("pass with wrong bytes, met %d times: %+v", hits(), r)
	}
	w.lacks("snapshot/ploti_dataset_id="+permits+"/ploti_version="+padded(broken)+"/part-0001.parquet", "versions/"+permits+"/"+padded(broken)+"/record.json")
	w.published(permits, before)
	w.feed.ClearScript()
	w.feed.ResetLog()
	if r = w.sync(0); r.Versions.Committed != 1 || r.Files.Present == 0 {
		w.t.Errorf("the pass after wrong bytes: %+v", r)
	}
	w.published(permits, broken)
	w.has("snapshot/ploti_dataset_id=" + permits + "/ploti_version=" + padded(broken) + "/part-0001.parquet")
	for file := range w.feed.Completed() {
		if !strings.HasSuffix(file, "/"+part) && !strings.HasSuffix(file, "/manifest.json") {
			w.t.Errorf("%s was fetched again", file)
		}
	}
}

// has wants a key to hold something.
func (w *world) has(key string) {
	w.t.Helper()
	if _, stands := w.snapshot().Objects[key]; !stands {
		w.t.Errorf("%s is missing", key)
	}
}

// lacks wants keys to hold nothing.
func (w *world) lacks(keys ...string) {
	w.t.Helper()
	now := w.snapshot()
	for _, key := range keys {
		if _, stands := now.Objects[key]; stands {
			w.t.Errorf("%s stands", key)
		}
	}
}

func (w *world) rebuiltVersionIsPublished(d *feedsim.Dataset) {
	w.t.Helper()
	withdrawn := d.Current()
	if err := d.ReleaseAgain(withdrawn); err != nil {
		w.t.Fatal(err)
	}
	if r := w.sync(0, "--full"); r.Datasets.Withdrawn != 1 {
		w.t.Errorf("full pass over a withdrawn version: %+v", r)
	}
	if p := w.published(permits, withdrawn); !p.Withdrawn {
		w.t.Errorf("the pointer is not flagged: %+v", p)
	}
	rebuilt, err := d.ReleaseRebuild()
	if err != nil {
		w.t.Fatal(err)
	}
	if r := w.sync(0); r.Versions.Committed != 1 || r.Versions.Published != 1 {
		w.t.Errorf("pass with the rebuild: %+v", r)
	}
	if p := w.published(permits, rebuilt); p.Withdrawn {
		w.t.Errorf("the pointer is still flagged: %+v", p)
	}
}

func (w *world) rollbackPins(d *feedsim.Dataset) {
	w.t.Helper()
	newest := d.Current()
	w.run(0, "rollback", permits, "5", "--reason", "a test")
	if p := w.published(permits, 5); !p.Pinned {
		w.t.Errorf("not pinned: %+v", p)
	}
	if pinned := w.status(permits); !pinned.Pinned || !strings.Contains(pinned.Next, "approve") {
		w.t.Errorf("status after the rollback: %+v", pinned)
	}
	if r := w.sync(0); r.Versions.Published != 0 {
		w.t.Errorf("pass over a pinned dataset: %+v", r)
	}
	w.published(permits, 5)
	w.run(0, "approve", permits)
	w.published(permits, newest)
	w.sync(0) // finishes the decision: the dataset was owed
}

package mirror_test

import (
	"feedmirror/internal/invariant"
)

// checkInvariants reads the bucket from its files alone and wants it to keep every promise.
func (w *world) checkInvariants() {
	if w.damaged || w.t.Failed() {
		return
	}
	for _, violation := range invariant.Check(invariant.Folder(w.dir)) {
		w.t.Errorf("violated: %+v", violation)
	}
}

// tablesUpToDate wants every table to show what is published.
func (w *world) tablesUpToDate(unmapped ...string) {
	w.t.Helper()
	for _, late := range invariant.Lagging(invariant.Folder(w.dir), unmapped...) {
		w.t.Errorf("table is late: %s", late)
	}
}

// take hashes the bucket, to be compared with a later state of it.
func (w *world) take() invariant.Snapshot {
	w.t.Helper()
	snapshot, err := invariant.Take(invariant.Folder(w.dir))
	if err != nil {
		w.t.Fatal(err)
	}
	return snapshot
}

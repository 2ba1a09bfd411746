package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/feed/feedsim/records"
)

// rowsReport is what verify --level rows prints of what these tests look at.
type rowsReport struct {
	Status     string
	Checked    struct{ Versions, Rows, Replays, Objects int64 }
	NotChecked struct{ Objects, Fresh, Budget, Replays, Versions int64 }
	Findings   []rowsFinding
	Rows       struct {
		MemoryBytes, DiskBytes int64
		Versions               []struct {
			Dataset    string
			Version    int64
			Replayed   bool
			ReplayedOn int64
			Rows       int64
			NotChecked []string
		}
	}
}

type rowsFinding struct {
	ID, Kind, Key, Dataset, Detail string
	Version                        int64
	RecordIDs, Columns             []string
	Acknowledged                   *struct{ Who string }
}

// lie is a version whose files contradict each other, under a manifest that holds.
type lie struct {
	name   string
	spec   feedsim.ReleaseSpec
	kind   string
	detail string
	column string
}

// unchanged returns a row of the snapshot that no change names.
func unchanged(c *feedsim.Contents) int {
	return slices.IndexFunc(c.Snapshot, func(row records.Row) bool {
		return !slices.ContainsFunc(c.Changes, func(change records.Change) bool { return change.Row.ID == row.ID })
	})
}

func changeOf(c *feedsim.Contents, kind string) int {
	return slices.IndexFunc(c.Changes, func(change records.Change) bool { return change.Kind == kind })
}

// lies returns one version for each way in which its contents can be wrong. id is set to the record that a
// finding must name.
func lies(id *string) []lie {
	without := func(kind string) func(c *feedsim.Contents) {
		return func(c *feedsim.Contents) {
			at := changeOf(c, kind)
			*id = c.Changes[at].Row.ID
			c.Changes = slices.Delete(c.Changes, at, at+1)
		}
	}
	bent := func(name, kind, detail, column string, bend func(c *feedsim.Contents)) lie {
		return lie{name, feedsim.ReleaseSpec{Add: 3, Change: 3, Remove: 3, Bend: bend}, kind, detail, column}
	}
	return []lie{
		bent("a value was changed", "rows-replay", "other values", "status", func(c *feedsim.Contents) {
			row := &c.Snapshot[unchanged(c)]
			*id, row.Values["status"] = row.ID, "forged"
		}),
		bent("a delete is lost", "rows-replay", "that no change removes", "", without(records.Removed)),
		bent("an upsert is missing", "rows-replay", "that no change adds", "", without(records.Added)),
		bent("a change is missing", "rows-replay", "other values", "", without(records.Changed)),
		bent("an id stands twice", "rows-record-id", "more than one row", "_ploti_record_id", func(c *feedsim.Contents) {
			row := c.Snapshot[unchanged(c)]
			*id, c.Snapshot = row.ID, append(c.Snapshot, row)
		}),
		bent("another version", "rows-envelope", "_ploti_version", "_ploti_version", func(c *feedsim.Contents) { c.Envelope.Version += 5 }),
		bent("another dataset", "rows-envelope", "_ploti_dataset_id", "_ploti_dataset_id", func(c *feedsim.Contents) { c.Envelope.Dataset = "ds_stranger" }),
		bent("another source", "rows-envelope", "_ploti_source_url", "_ploti_source_url", func(c *feedsim.Contents) {
			other := "https://elsewhere.example.gov"
			c.Envelope.SourceURL = &other
		}),
		{"wrong counts", feedsim.ReleaseSpec{Add: 2, CountsOff: 1}, "rows-counts", "the feed counts", ""},
		{"wrong row count", feedsim.ReleaseSpec{Add: 2, RowCountOff: 1}, "rows-count", "the feed says", ""},
		{"parts of two types", feedsim.ReleaseSpec{Add: 2, Parts: 2, MixedParts: true}, "rows-schema", "schema.json says", ""},
		{"a footer of rubbish", feedsim.ReleaseSpec{Add: 2, BrokenFooter: true}, "rows-unreadable", "snapshot/part-0000.parquet", ""},
		{"the id map names a stranger", feedsim.ReleaseSpec{ReplaceIDs: true, Bend: func(c *feedsim.Contents) {
			*id, c.Pairs[0].Current = "rec_stranger", "rec_stranger"
		}}, "rows-id-map", "not in this snapshot", "_ploti_record_id"},
		{"the id map comes from a stranger", feedsim.ReleaseSpec{ReplaceIDs: true, Bend: func(c *feedsim.Contents) {
			*id, c.Pairs[0].Previous = "rec_stranger", "rec_stranger"
		}}, "rows-id-map", "not in the previous snapshot", "_ploti_previous_record_id"},
	}
}

// TestContentsThatContradictEachOtherAreFound: each lie in a dataset of its own, all named by one audit, and
// none of the datasets whose contents agree.
func TestContentsThatContradictEachOtherAreFound(t *testing.T) {
	t.Parallel()
	tally := evidence.Count(t, "rows-lies")
	w := newWorld(t, folderPlace(t), feedsim.Options{})
	honest := w.dataset(feedsim.DatasetSpec{ID: "ds_honest", Character: feedsim.Points, Rows: 12}, feedsim.ReleaseSpec{}, feedsim.ReleaseSpec{Add: 2}, feedsim.ReleaseSpec{Minor: true, Add: 1}, feedsim.ReleaseSpec{Empty: true}, feedsim.ReleaseSpec{ReplaceIDs: true})
	w.release(honest, feedsim.ReleaseSpec{Change: 2})
	id := ""
	var told []lie
	var named []string
	for at, one := range lies(&id) {
		id = ""
		w.dataset(feedsim.DatasetSpec{ID: fmt.Sprintf("ds_lie_%02d", at), Character: feedsim.Points, Rows: 12}, feedsim.ReleaseSpec{}, one.spec)
		told, named = append(told, one), append(named, id)
	}
	w.sync(0)
	report := decode[rowsReport](t, w.run(3, "verify", "--level", "rows", "--output", "json"))
	text := w.run(3, "verify", "--level", "rows").out
	for at, one := range told {
		dataset := fmt.Sprintf("ds_lie_%02d", at)
		found := slices.IndexFunc(report.Findings, func(f rowsFinding) bool {
			return f.Dataset == dataset && f.Version == 2 && f.Kind == one.kind && strings.Contains(f.Detail, one.detail)
		})
		if found < 0 {
			t.Errorf("%s: not found as %s in %+v", one.name, one.kind, report.of(dataset))
			continue
		}
		tally.Add(1)
		f := report.Findings[found]
		if named[at] != "" && !slices.Contains(f.RecordIDs, named[at]) {
			t.Errorf("%s: it names records %v, not %s", one.name, f.RecordIDs, named[at])
		}
		if one.column != "" && !slices.Contains(f.Columns, one.column) {
			t.Errorf("%s: it names columns %v, not %s", one.name, f.Columns, one.column)
		}
		for _, word := range []string{f.ID, f.Kind, dataset, named[at], one.column} {
			if !strings.Contains(text, word) {
				t.Errorf("%s: the text does not say %s", one.name, word)
			}
		}
	}
	if honest := report.of("ds_honest"); len(honest) > 0 {
		t.Errorf("contents that agree are accused: %+v", honest)
	}
	report.honest(t)
	w.acknowledged(report)
}

func (r rowsReport) of(dataset string) []rowsFinding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f rowsFinding) bool { return f.Dataset != dataset })
}

// honest wants the changes of a dataset to be replayed wherever there are some, and a reason elsewhere.
func (r rowsReport) honest(t *testing.T) {
	t.Helper()
	want := map[int64]string{1: "no version comes before it", 2: "", 3: "", 4: "", 5: "it is a reload", 6: ""}
	for _, v := range r.Rows.Versions {
		if v.Dataset != "ds_honest" {
			continue
		}
		reason := want[v.Version]
		if v.Replayed != (reason == "") || v.Rows < 10 || v.Replayed && v.ReplayedOn != v.Version-1 || reason != "" && !strings.Contains(fmt.Sprint(v.NotChecked), reason) {
			t.Errorf("version %d: %+v", v.Version, v)
		}
		delete(want, v.Version)
	}
	if len(want) > 0 || r.Rows.MemoryBytes != 128<<20 || r.Rows.DiskBytes == 0 {
		t.Errorf("versions %v are not in the report; %d bytes of memory, %d of disk", want, r.Rows.MemoryBytes, r.Rows.DiskBytes)
	}
}

// acknowledged takes note of findings. They keep their ids from run to run, with another seed of the hashes
// in each; once all are acknowledged they decide no exit code any more.
func (w *world) acknowledged(report rowsReport) {
	w.t.Helper()
	some, exit, status := report.Findings[:evidence.Size(1, len(report.Findings))], 3, "findings"
	if len(some) == len(report.Findings) {
		exit, status = 0, "acknowledged"
	}
	for _, f := range some {
		w.run(0, "acknowledge", f.ID, "--reason", "the feed was told")
	}
	again := decode[rowsReport](w.t, w.run(exit, "verify", "--level", "rows", "--output", "json"))
	known := 0
	for _, f := range again.Findings {
		if f.Acknowledged != nil {
			known++
		}
	}
	if again.Status != status || known != len(some) || len(again.Findings) != len(report.Findings) {
		w.t.Errorf("status %s, %d of %d findings acknowledged, want %d", again.Status, known, len(again.Findings), len(some))
	}
}

package feedsim_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/feed/feedsim"
)

// sheet is a Parquet file read back: column names in file order and each row as text by column, "∅" for null.
type sheet struct {
	columns []string
	rows    []map[string]string
	geo     string
}

const null = "∅"

func readSheet(t *testing.T, data []byte) sheet {
	t.Helper()
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var s sheet
	for _, field := range file.Schema().Fields() {
		s.columns = append(s.columns, field.Name())
	}
	s.geo, _ = file.Lookup("geo")
	paths := file.Schema().Columns()
	reader := parquet.NewReader(file)
	defer func() {
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	}()
	buffer := make([]parquet.Row, 64)
	for {
		n, err := reader.ReadRows(buffer)
		for _, row := range buffer[:n] {
			values := map[string]string{}
			for _, value := range row {
				name := paths[value.Column()][0]
				text := null
				switch {
				case !value.IsNull():
					text = value.String()
				case value.DefinitionLevel() > 0:
					text = "[]"
				}
				if before, ok := values[name]; ok {
					text = before + "|" + text
				}
				values[name] = text
			}
			s.rows = append(s.rows, values)
		}
		if errors.Is(err, io.EOF) {
			return s
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// readParts reads all parts as one sheet; their columns must agree.
func readParts(t *testing.T, parts []entry) sheet {
	t.Helper()
	var all sheet
	for i, part := range parts {
		s := readSheet(t, download(t, part))
		if i > 0 && !slices.Equal(s.columns, all.columns) {
			t.Errorf("parts disagree on columns: %v and %v", all.columns, s.columns)
		}
		all.columns, all.geo = s.columns, s.geo
		all.rows = append(all.rows, s.rows...)
	}
	return all
}

func (s sheet) byID(t *testing.T) map[string]map[string]string {
	t.Helper()
	rows := map[string]map[string]string{}
	for _, row := range s.rows {
		rows[row["_ploti_record_id"]] = row
	}
	if len(rows) != len(s.rows) {
		t.Errorf("%d rows, %d record ids", len(s.rows), len(rows))
	}
	return rows
}

var envelope = []string{
	"_ploti_record_id", "_ploti_dataset_id", "_ploti_place_id", "_ploti_version", "_ploti_source_url", "_ploti_fetched_at",
}

var changeEnvelope = []string{
	"_ploti_op", "_ploti_change", "_ploti_delete_reason", "_ploti_changed_columns", "_ploti_match", "_ploti_match_score",
}

// own returns a row's own columns, without the envelope.
func own(row map[string]string) map[string]string {
	values := maps.Clone(row)
	maps.DeleteFunc(values, func(name, _ string) bool { return strings.HasPrefix(name, "_ploti_") })
	return values
}

// follower replays changes on the first snapshot it saw, as a consumer does.
type follower struct {
	state    map[string]map[string]string // own columns by record id, replayed
	snapshot map[string]map[string]string // the version before, as published
	columns  []string                     // own columns at the last reload
}

func (f *follower) follow(t *testing.T, feed *feedsim.Feed, dataset string, number int64) {
	t.Helper()
	answer := fetchVersion(t, feed, dataset, number)
	sheet := readParts(t, answer.Files.Snapshot)
	if !slices.Equal(sheet.columns[:len(envelope)], envelope) {
		t.Fatalf("a snapshot begins with %v", sheet.columns)
	}
	if int64(len(sheet.rows)) != answer.RowCount {
		t.Errorf("version %d: %d rows, rowCount %d", number, len(sheet.rows), answer.RowCount)
	}
	snapshot := sheet.byID(t)
	if answer.ResyncRequired {
		if len(answer.Files.Changes) > 0 || answer.Counts != nil {
			t.Errorf("version %d is a reload and has changes or counts", number)
		}
		f.state, f.columns = map[string]map[string]string{}, sheet.columns[len(envelope):]
		for id, row := range snapshot {
			f.state[id] = own(row)
		}
	} else {
		f.apply(t, answer, snapshot)
		f.compare(t, number, snapshot)
	}
	f.snapshot = snapshot
}

func (f *follower) apply(t *testing.T, answer versionAnswer, snapshot map[string]map[string]string) {
	t.Helper()
	changes := readParts(t, answer.Files.Changes)
	want := append(slices.Clone(envelope), changeEnvelope...)
	if len(answer.Files.Changes) > 0 && !slices.Equal(changes.columns[:len(want)], want) {
		t.Fatalf("a changes file begins with %v", changes.columns)
	}
	counts := map[string]int{}
	for _, row := range changes.rows {
		id, kind := row["_ploti_record_id"], row["_ploti_change"]
		counts[kind]++
		if row["_ploti_op"] == "delete" {
			f.delete(t, row)
			continue
		}
		if !maps.Equal(own(row), own(snapshot[id])) {
			t.Errorf("upsert of %s differs from the snapshot's row", id)
		}
		if changed := f.changedColumns(t, row, snapshot); row["_ploti_changed_columns"] != changed {
			t.Errorf("changed columns %s, want %s", row["_ploti_changed_columns"], changed)
		}
		if matched := row["_ploti_match"] != null; matched != (kind == "changed") {
			t.Errorf("match %s on %s row", row["_ploti_match"], kind)
		}
		f.state[id] = own(row)
	}
	if c := answer.Counts; c == nil || c.Added != counts["added"] || c.Changed != counts["changed"] || c.Removed != counts["removed"] {
		t.Errorf("counts %+v, the changes file has %v", c, counts)
	}
}

// delete applies a delete row, which carries nothing but its envelope.
func (f *follower) delete(t *testing.T, row map[string]string) {
	t.Helper()
	for name, value := range own(row) {
		if value != null {
			t.Errorf("a delete row carries %s = %s", name, value)
		}
	}
	id := row["_ploti_record_id"]
	if row["_ploti_delete_reason"] != "removed_at_source" || f.state[id] == nil || row["_ploti_change"] != "removed" {
		t.Errorf("delete row %v", row)
	}
	delete(f.state, id)
}

// changedColumns finds what differs from the version before, over the columns that both have and that move.
func (f *follower) changedColumns(t *testing.T, row map[string]string, snapshot map[string]map[string]string) string {
	t.Helper()
	before, held := f.snapshot[row["_ploti_record_id"]]
	if held != (row["_ploti_change"] == "changed") {
		t.Errorf("row %s is %s, held before: %v", row["_ploti_record_id"], row["_ploti_change"], held)
	}
	if !held {
		return null
	}
	var names []string
	for name, value := range own(before) {
		after, kept := row[name]
		if kept && after != value && (!constant(f.snapshot, name) || !constant(snapshot, name)) {
			names = append(names, name)
		}
	}
	order := strings.Split(row["_ploti_changed_columns"], "|")
	slices.SortFunc(names, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	return strings.Join(names, "|")
}

func constant(rows map[string]map[string]string, column string) bool {
	seen := map[string]bool{}
	for _, row := range rows {
		seen[row[column]] = true
	}
	return len(seen) <= 1
}

// compare holds the replayed state against the snapshot, without columns that a replay cannot know.
func (f *follower) compare(t *testing.T, number int64, snapshot map[string]map[string]string) {
	t.Helper()
	if len(f.state) != len(snapshot) {
		t.Fatalf("version %d: %d rows replayed, %d in the snapshot", number, len(f.state), len(snapshot))
	}
	for id, row := range snapshot {
		for _, name := range f.columns {
			if f.state[id][name] != row[name] && !constant(snapshot, name) {
				t.Errorf("version %d, %s: %s is %s replayed, %s in the snapshot", number, id, name, f.state[id][name], row[name])
			}
		}
	}
}

func TestChangesReplayedGiveTheSnapshot(t *testing.T) {
	releases := []feedsim.ReleaseSpec{
		{}, {}, {Add: 5, Change: 9, Remove: 4, ChangeParts: 2}, {Minor: true, Change: 3}, {Change: 6, Parts: 3},
		{Empty: true}, {Remove: 10}, {Major: true, Add: 2}, {Change: 4}, {ReplaceIDs: true, Remove: 3}, {Add: 1},
		{Retype: true}, {Minor: true}, {Change: 5},
	}
	for _, character := range []feedsim.Character{feedsim.Points, feedsim.Polygons, feedsim.Plain, feedsim.Archive} {
		for seed := range int64(4) {
			t.Run(fmt.Sprintf("%s-%d", character, seed), func(t *testing.T) {
				feed := newFeed(t, feedsim.Options{Seed: seed})
				dataset := addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_a", Place: "us", Character: character, Parts: 2})
				var consumer follower
				for _, spec := range releases {
					feed.Clock().Advance(24 * time.Hour)
					consumer.follow(t, feed, "ds_a", release(t, dataset, spec))
				}
			})
		}
	}
}

func TestEmptyReleaseMovesTheConstantColumn(t *testing.T) {
	feed := newFeed(t, feedsim.Options{})
	dataset := addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_a", Character: feedsim.Plain})
	release(t, dataset, feedsim.ReleaseSpec{})
	feed.Clock().Advance(time.Hour)
	number := release(t, dataset, feedsim.ReleaseSpec{Empty: true})
	first := readParts(t, fetchVersion(t, feed, "ds_a", 1).Files.Snapshot)
	answer := fetchVersion(t, feed, "ds_a", number)
	second := readParts(t, answer.Files.Snapshot)
	if first.rows[0]["source_read_at"] == second.rows[0]["source_read_at"] {
		t.Error("the constant column did not move")
	}
	if len(answer.Files.Changes) != 0 || answer.Counts == nil || answer.ResyncRequired {
		t.Errorf("an empty version: %+v", answer)
	}
}

func TestIDMapNamesEveryCarriedRecord(t *testing.T) {
	feed := newFeed(t, feedsim.Options{})
	dataset := addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_a", Character: feedsim.Archive})
	release(t, dataset, feedsim.ReleaseSpec{})
	number := release(t, dataset, feedsim.ReleaseSpec{ReplaceIDs: true, Add: 2, Remove: 3})
	before := readParts(t, fetchVersion(t, feed, "ds_a", 1).Files.Snapshot).byID(t)
	answer := fetchVersion(t, feed, "ds_a", number)
	after := readParts(t, answer.Files.Snapshot).byID(t)
	if !answer.RecordIDsChanged || !answer.ResyncRequired || answer.Files.IDMap[0].File != "id_map/part-0000.parquet" {
		t.Errorf("the answer: %+v", answer)
	}
	moved := 0
	pairs := readParts(t, answer.Files.IDMap)
	for _, pair := range pairs.rows {
		old, current := pair["_ploti_previous_record_id"], pair["_ploti_record_id"]
		if before[old] == nil || after[current] == nil || before[old]["route"] != after[current]["route"] {
			t.Errorf("pair %v joins no record to itself", pair)
		}
		if old != current {
			moved++
		}
	}
	if len(pairs.rows) != 37 || moved == 0 || moved == len(pairs.rows) {
		t.Errorf("%d pairs, %d moved", len(pairs.rows), moved)
	}
}

func TestSnapshotVersionCanBeTheLastChange(t *testing.T) {
	feed := newFeed(t, feedsim.Options{Assume: feedsim.Assume{RowVersionIsLastChange: true}})
	dataset := addDataset(t, feed, feedsim.DatasetSpec{ID: "ds_a", Character: feedsim.Points})
	release(t, dataset, feedsim.ReleaseSpec{})
	number := release(t, dataset, feedsim.ReleaseSpec{Add: 2, Change: 3})
	seen := map[string]int{}
	for _, row := range readParts(t, fetchVersion(t, feed, "ds_a", number).Files.Snapshot).rows {
		seen[row["_ploti_version"]]++
	}
	if seen["2"] != 5 || seen["1"] != 37 {
		t.Errorf("rows by version: %v", seen)
	}
}

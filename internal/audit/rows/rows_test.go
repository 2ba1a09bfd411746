package rows

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim/records"
)

// pair is two consecutive versions of a dataset as tables, which a test may bend before they are
// written.
type pair struct {
	before, after records.Table
	changes       []records.Change
	counts        Counts
}

const dataset = "ds_permits"

func newPair(t *testing.T, character records.Character, rows int) *pair {
	t.Helper()
	schema, err := records.NewSchema(character)
	if err != nil {
		t.Fatal(err)
	}
	maker := &records.Maker{Random: records.NewRandom(7, t.Name()), Version: 41, ReadAt: time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC)}
	p := &pair{before: records.Table{Schema: schema}}
	maker.AddRows(&p.before, rows)
	p.after = p.before.Clone()
	maker.Version, maker.ReadAt = 42, maker.ReadAt.Add(time.Hour)
	maker.ReadAgain(&p.after)
	maker.EditRows(&p.after, rows/10+1, rows/10+1, rows/10+1)
	p.diff()
	return p
}

func (p *pair) diff() {
	p.changes = records.Diff(p.before, p.after)
	p.counts = Counts{}
	for _, change := range p.changes {
		switch change.Kind {
		case records.Added:
			p.counts.Added++
		case records.Changed:
			p.counts.Changed++
		case records.Removed:
			p.counts.Removed++
		}
	}
}

func writePart(t *testing.T, name string, write func(w io.Writer) error) Part {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "part"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	if err := write(file); err != nil {
		t.Fatal(err)
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	return Part{Name: name, File: file, Size: size}
}

func envelopeOf(version int64) records.Envelope {
	return records.Envelope{Dataset: dataset, Version: version}
}

// input writes the pair's files, each snapshot in two parts.
func (p *pair) input(t *testing.T) Input {
	t.Helper()
	snapshot := func(table records.Table, version int64) Snapshot {
		s := Snapshot{Envelope: Envelope{Dataset: dataset, Version: version}, Rows: int64(len(table.Rows))}
		half := len(table.Rows) / 2
		for i, rows := range [][]records.Row{table.Rows[:half], table.Rows[half:]} {
			s.Parts = append(s.Parts, writePart(t, fmt.Sprintf("snapshot/part-%04d.parquet", i), func(w io.Writer) error {
				return records.WriteSnapshot(w, table.Schema, envelopeOf(version), rows, true)
			}))
		}
		return s
	}
	before := snapshot(p.before, 41)
	changes := writePart(t, "changes/part-0000.parquet", func(w io.Writer) error {
		return records.WriteChanges(w, p.after.Schema, envelopeOf(42), p.changes)
	})
	counts := p.counts
	return Input{Snapshot: snapshot(p.after, 42), Previous: &before, Changes: []Part{changes}, Counts: &counts}
}

// check audits in one piece and again in pieces of a few rows, as row groups are read that are too large to
// be held at once, and wants the same outcome.
func check(t *testing.T, in Input, memory int64) Result {
	t.Helper()
	folder := t.TempDir()
	result, err := Check(t.Context(), in, Options{Memory: memory, Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	pieces, err := Check(t.Context(), in, Options{Memory: memory, Folder: folder, window: 7})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%+v", pieces), fmt.Sprintf("%+v", result); got != want && (result.Read || pieces.Read) {
		t.Errorf("in pieces: %s\n in one piece: %s", got, want)
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) > 0 {
		t.Errorf("%d temporary files are left, %v", len(left), err)
	}
	return result
}

// Memory for everything, and so little that rows go through files.
func memories() map[string]int64 { return map[string]int64{"in memory": 1 << 30, "in files": 1 << 10} }

func TestChangesThatLeadToTheSnapshotAreFoundToDoSo(t *testing.T) {
	for _, character := range []records.Character{records.Points, records.Polygons, records.Plain, records.Archive} {
		for name, memory := range memories() {
			t.Run(fmt.Sprintf("%s %s", character, name), func(t *testing.T) {
				result := check(t, newPair(t, character, 300).input(t), memory)
				if len(result.Findings) > 0 || !result.Replayed || result.Rows != 300 || len(result.Compared) == 0 {
					t.Errorf("%+v", result)
				}
				if (result.Partitions > 1) != (name == "in files") {
					t.Errorf("%d partitions", result.Partitions)
				}
			})
		}
	}
}

func TestAColumnThatAMinorVersionAddsIsNotCompared(t *testing.T) {
	p := newPair(t, records.Points, 100)
	maker := &records.Maker{Random: records.NewRandom(9), Version: 42}
	added := maker.AddColumn(&p.after)
	p.diff()
	result := check(t, p.input(t), 1<<30)
	if len(result.Findings) > 0 || slices.Contains(result.Compared, added) {
		t.Errorf("column %s: %+v", added, result)
	}
}

// misleading is a way to bend a pair of versions, and what is to be found then.
type misleading struct {
	name    string
	bend    func(p *pair) (id string)
	kind    Kind
	detail  string
	columns []string
}

func waysToMislead() []misleading {
	unchanged := func(p *pair) int {
		for i, row := range p.after.Rows {
			if !slices.ContainsFunc(p.changes, func(c records.Change) bool { return c.Row.ID == row.ID }) {
				return i
			}
		}
		panic("no row is unchanged")
	}
	of := func(p *pair, kind string) int {
		return slices.IndexFunc(p.changes, func(c records.Change) bool { return c.Kind == kind })
	}
	drop := func(p *pair, kind string) string {
		at := of(p, kind)
		id := p.changes[at].Row.ID
		p.changes = slices.Delete(p.changes, at, at+1)
		return id
	}
	return []misleading{
		{"a removal is missing", func(p *pair) string { return drop(p, records.Removed) }, KindReplay, reasonLost, nil},
		{"an addition is missing", func(p *pair) string { return drop(p, records.Added) }, KindReplay, reasonNew, nil},
		{"a change is missing", func(p *pair) string {
			at := of(p, records.Changed)
			id := p.changes[at].Row.ID
			p.changes = slices.Delete(p.changes, at, at+1)
			return id
		}, KindReplay, reasonValue, nil},
		{"a value of an unchanged row", func(p *pair) string {
			row := &p.after.Rows[unchanged(p)]
			row.Values["status"] = "other"
			return row.ID
		}, KindReplay, reasonValue, []string{"status"}},
		{"a value of a change", func(p *pair) string {
			change := &p.changes[of(p, records.Changed)]
			change.Row.Values = map[string]any{"status": "other"}
			return change.Row.ID
		}, KindReplay, reasonValue, nil},
		{"an unchanged row is lost", func(p *pair) string {
			at := unchanged(p)
			id := p.after.Rows[at].ID
			p.after.Rows = slices.Delete(p.after.Rows, at, at+1)
			return id
		}, KindReplay, reasonLost, nil},
		{"a removal of a row that stays", func(p *pair) string {
			row := p.after.Rows[unchanged(p)]
			p.changes = append(p.changes, records.Change{Row: row, Kind: records.Removed})
			return row.ID
		}, KindReplay, reasonKept, nil},
		{"a removal of a row that never was", func(p *pair) string {
			p.changes = append(p.changes, records.Change{Row: records.Row{ID: "rec_never"}, Kind: records.Removed})
			return "rec_never"
		}, KindReplay, reasonNotThere, nil},
		{"an addition of a row that was there", func(p *pair) string {
			change := &p.changes[of(p, records.Changed)]
			change.Kind = records.Added
			return change.Row.ID
		}, KindReplay, reasonThere, nil},
		{"an addition that is not in the snapshot", func(p *pair) string {
			row := p.after.Rows[0]
			row.ID = "rec_extra"
			p.changes = append(p.changes, records.Change{Row: row, Kind: records.Added})
			return "rec_extra"
		}, KindReplay, reasonDropped, nil},
		{"a change twice", func(p *pair) string {
			change := p.changes[of(p, records.Changed)]
			p.changes = append(p.changes, change)
			return change.Row.ID
		}, KindReplay, reasonTwice, nil},
		{"a row twice", func(p *pair) string {
			row := p.after.Rows[unchanged(p)]
			p.after.Rows = append(p.after.Rows, row)
			return row.ID
		}, KindRecordID, "more than one row", nil},
		{"other counts", func(p *pair) string { p.counts.Added++; return "" }, KindCounts, "the feed counts", nil},
	}
}

func TestEachWayInWhichChangesMislead(t *testing.T) {
	for _, c := range waysToMislead() {
		for name, memory := range memories() {
			t.Run(c.name+" "+name, func(t *testing.T) {
				p := newPair(t, records.Points, 60) // nothing is found before it is bent: see the test above
				id := c.bend(p)
				result := check(t, p.input(t), memory)
				at := slices.IndexFunc(result.Findings, func(f Finding) bool { return f.Kind == c.kind && strings.Contains(f.Detail, c.detail) })
				if at < 0 {
					t.Fatalf("findings %+v, want %s: %s", result.Findings, c.kind, c.detail)
				}
				f := result.Findings[at]
				if id != "" && !slices.Contains(f.IDs, id) {
					t.Errorf("it names %v, not %s", f.IDs, id)
				}
				if c.columns != nil && !slices.Equal(f.Columns, c.columns) {
					t.Errorf("it names columns %v, want %v", f.Columns, c.columns)
				}
			})
		}
	}
}

func TestTheEnvelopeOfASnapshotIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		bend func(in *Input)
		kind Kind
	}{
		"another dataset":                {func(in *Input) { in.Snapshot.Dataset = "ds_other" }, KindEnvelope},
		"a version from the future":      {func(in *Input) { in.Snapshot.Version = 40 }, KindEnvelope},
		"more rows than the feed says":   {func(in *Input) { in.Snapshot.Rows-- }, KindRowCount},
		"a part of the snapshot is left": {func(in *Input) { in.Snapshot.Parts = in.Snapshot.Parts[:1] }, KindRowCount},
	} {
		in := newPair(t, records.Points, 40).input(t)
		in.Previous, in.NoReplay, in.Changes, in.Counts = nil, "a test", nil, nil
		c.bend(&in)
		result := check(t, in, 1<<30)
		if len(result.Findings) != 1 || result.Findings[0].Kind != c.kind || result.Replayed || result.NoReplay != "a test" {
			t.Errorf("%s: %+v", name, result)
		}
	}
}

func TestAnIDMapNamesRecordsOfBothSnapshots(t *testing.T) {
	p := newPair(t, records.Points, 40)
	maker := &records.Maker{Random: records.NewRandom(3), Version: 42}
	p.after = p.before.Clone()
	pairs := maker.ReplaceIDs(&p.after, 0.5)
	for name, c := range map[string]struct {
		bend   func(pairs []records.IDPair) []records.IDPair
		detail string
	}{
		"right":                  {func(pairs []records.IDPair) []records.IDPair { return pairs }, ""},
		"an id that is nowhere":  {func(pairs []records.IDPair) []records.IDPair { pairs[3].Current = "rec_x"; return pairs }, "are not in this snapshot"},
		"a previous id nowhere":  {func(pairs []records.IDPair) []records.IDPair { pairs[3].Previous = "rec_x"; return pairs }, "are not in the previous snapshot"},
		"a previous id twice":    {func(pairs []records.IDPair) []records.IDPair { pairs[3].Previous = pairs[4].Previous; return pairs }, "more than once"},
		"an id twice in the map": {func(pairs []records.IDPair) []records.IDPair { return append(pairs, pairs[2]) }, "more than once"},
	} {
		t.Run(name, func(t *testing.T) {
			in := p.input(t)
			in.IDMapFrom, in.Previous, in.Changes, in.Counts = in.Previous, nil, nil, nil
			bent := c.bend(slices.Clone(pairs))
			in.IDMap = []Part{writePart(t, "id_map/part-0000.parquet", func(w io.Writer) error { return records.WriteIDMap(w, dataset, bent) })}
			result := check(t, in, 1<<30)
			if c.detail == "" {
				if len(result.Findings) > 0 {
					t.Errorf("%+v", result.Findings)
				}
				return
			}
			if len(result.Findings) == 0 || !strings.Contains(fmt.Sprint(result.Findings), c.detail) || result.Findings[0].Kind != KindIDMap {
				t.Errorf("findings %+v, want %s", result.Findings, c.detail)
			}
		})
	}
}

func TestFilesThatCannotBeReadAreFindings(t *testing.T) {
	good := newPair(t, records.Points, 40).input(t)
	whole, err := io.ReadAll(io.NewSectionReader(good.Snapshot.Parts[0].File, 0, good.Snapshot.Parts[0].Size))
	if err != nil {
		t.Fatal(err)
	}
	bent := map[string][]byte{"truncated": whole[:len(whole)/2], "empty": {}, "no Parquet": bytes.Repeat([]byte("x"), 500)}
	for at := 4; at < len(whole)-8; at += max(1, len(whole)/evidence.Size(40, 200)) {
		other := bytes.Clone(whole)
		other[at] ^= 0xff
		bent[fmt.Sprintf("byte %d flipped", at)] = other
	}
	found := 0
	for name, text := range bent {
		in := good
		part := writePart(t, "snapshot/part-0000.parquet", func(w io.Writer) error { _, err := w.Write(text); return err })
		in.Snapshot.Parts = []Part{part, good.Snapshot.Parts[1]}
		result := check(t, in, 1<<30)
		if len(result.Findings) > 0 {
			found++
		} else if !strings.HasPrefix(name, "byte") { // a flipped byte of a statistic changes no row
			t.Errorf("%s: no finding", name)
		}
	}
	if found < len(bent)/2 {
		t.Errorf("%d of %d bent files are findings", found, len(bent))
	}
}

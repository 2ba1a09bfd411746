//go:build readers

package readers_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// expectations are what engines must read, computed from pointers, records and the Parquet files that
// they name.
type expectations struct {
	Datasets     []expectedDataset
	Changes      table // since the date of the story
	AllChanges   int   // rows without a date
	Publications table
}

// expectedDataset is what engines must read of one dataset.
type expectedDataset struct {
	Dataset     string
	Versions    []int64 // what its table showed, oldest first: commit after commit
	Shown       []table // its rows, commit after commit
	Attachments table   // of the current version; no columns when it never had any
	Documents   string  // column whose cells name attachments; empty: none
	Joined      table   // record id, key, size and type of each row's document
	Geometry    string  // column; empty: none
	Binary      []string
}

func (e expectations) String() string {
	var parts []string
	for _, d := range e.Datasets {
		parts = append(parts, fmt.Sprintf("%s showed %v", d.Dataset, d.Versions))
	}
	return fmt.Sprintf("%s; %d of %d rows of changes since %s; %d publications",
		strings.Join(parts, ", "), len(e.Changes.Rows), e.AllChanges, since, len(e.Publications.Rows))
}

// envelope are the columns of every changes file; the table of all changes has them and its partitions.
func envelope() []string {
	return []string{"_ploti_record_id", "_ploti_dataset_id", "_ploti_place_id", "_ploti_version", "_ploti_source_url", "_ploti_fetched_at",
		"_ploti_op", "_ploti_change", "_ploti_delete_reason", "_ploti_changed_columns", "_ploti_match", "_ploti_match_score"}
}

// moveColumns are those of the publications that pointers and records tell.
func moveColumns() []string {
	return []string{"ploti_dataset_id", "ploti_version", "previous_version", "move", "published_at", "moved_at", "schema_version",
		"resync_required", "record_ids_changed", "changes", "gap", "action"}
}

// expect reads a bucket without its logs.
func expect(t *testing.T, root string) expectations {
	t.Helper()
	f := folder(root)
	pointers, err := filepath.Glob(filepath.Join(root, "current", "*.json"))
	if err != nil || len(pointers) == 0 {
		t.Fatalf("%d pointers, %v", len(pointers), err)
	}
	var e expectations
	moves := table{Columns: moveColumns()}
	e.Changes.Columns = append(envelope(), "ploti_dataset_id", "ploti_version", "released_date")
	for _, path := range pointers {
		var p pointer
		f.document(t, "current/"+filepath.Base(path), &p)
		e.Datasets = append(e.Datasets, f.expectDataset(t, p))
		e.changesOf(t, f, p)
		moves.join(t, f.movesOf(t, p))
	}
	e.Publications = f.publications(t)
	if difference := compare(e.Publications.only(moveColumns()...), moves); difference != "" {
		t.Fatalf("the files of publications say otherwise than pointers and records: %s", difference)
	}
	if len(e.Changes.Rows) == 0 || len(e.Changes.Rows) == e.AllChanges {
		t.Fatalf("%d of %d rows of changes are younger than %s: the date chooses nothing", len(e.Changes.Rows), e.AllChanges, since)
	}
	return e
}

func (f folder) expectDataset(t *testing.T, p pointer) expectedDataset {
	t.Helper()
	d := expectedDataset{Dataset: p.Dataset}
	for _, m := range p.moves() {
		d.Versions = append(d.Versions, m.version)
		d.Shown = append(d.Shown, f.rows(t, f.record(t, p.Dataset, m.version), "snapshot"))
	}
	current := d.Shown[len(d.Shown)-1]
	if slices.Contains(current.Columns, "geometry") {
		d.Geometry, d.Binary = "geometry", []string{"geometry"}
	}
	if index := f.record(t, p.Dataset, p.Version).Attachments.Index; index != nil {
		d.Attachments = f.parquet(t, index.Key)
		f.checkAttachments(t, d.Attachments)
	}
	if slices.Contains(current.Columns, "permit_pdf") {
		d.Documents = "permit_pdf"
		d.Joined = joinDocuments(t, current, d.Attachments, d.Documents)
	}
	return d
}

// checkAttachments wants the object behind each row of an index to have the row's size and hash.
func (f folder) checkAttachments(t *testing.T, index table) {
	t.Helper()
	for _, row := range index.Rows {
		data, err := os.ReadFile(f.path(index.cell(row, "key").(string)))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		if index.cell(row, "sha256") != hex.EncodeToString(sum[:]) || index.cell(row, "size_bytes") != integer(int64(len(data))) {
			t.Errorf("the index says of %v what is not so", row)
		}
	}
}

// joinDocuments finds the object of each row's document.
func joinDocuments(t *testing.T, rows, index table, column string) table {
	t.Helper()
	joined := table{Columns: []string{"_ploti_record_id", "key", "size_bytes", "content_type"}}
	for _, row := range rows.Rows {
		name := rows.cell(row, column)
		if name == nil {
			continue
		}
		at := slices.IndexFunc(index.Rows, func(one []any) bool { return index.cell(one, "file") == name })
		if at < 0 {
			t.Fatalf("no attachment is called %v", name)
		}
		joined.Rows = append(joined.Rows, []any{rows.cell(row, "_ploti_record_id"), index.cell(index.Rows[at], "key"),
			index.cell(index.Rows[at], "size_bytes"), index.cell(index.Rows[at], "content_type")})
	}
	if len(joined.Rows) == 0 {
		t.Fatal("no row has a document")
	}
	return joined
}

// changesOf adds the changes of every record up to the highest version that readers saw.
func (e *expectations) changesOf(t *testing.T, f folder, p pointer) {
	t.Helper()
	highest := int64(0)
	for _, m := range p.moves() {
		highest = max(highest, m.version)
	}
	records, err := filepath.Glob(f.path("versions/" + p.Dataset + "/*/record.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range records {
		var n int64
		if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(path)), "%d", &n); err != nil {
			t.Fatal(err)
		}
		if n > highest {
			continue
		}
		r := f.record(t, p.Dataset, n)
		rows := f.rows(t, r, "changes")
		date := r.PublishedAt.UTC().Format(time.DateOnly)
		e.AllChanges += len(rows.Rows)
		if date < since || len(rows.Rows) == 0 {
			continue
		}
		rows = rows.only(envelope()...)
		rows = rows.with("ploti_dataset_id", p.Dataset)
		rows = rows.with("ploti_version", integer(n))
		e.Changes.join(t, rows.with("released_date", date))
	}
}

// movesOf tells every move of a pointer.
func (f folder) movesOf(t *testing.T, p pointer) table {
	t.Helper()
	told := table{Columns: moveColumns()}
	var before any
	for i, m := range p.moves() {
		r := f.record(t, p.Dataset, m.version)
		var gap any
		if r.Gap != nil {
			gap = r.Gap.Reason
		}
		told.Rows = append(told.Rows, []any{p.Dataset, integer(m.version), before, integer(int64(i) + 1),
			timestamp(r.PublishedAt, true), timestamp(m.at, true), r.SchemaVersion, r.ResyncRequired, r.RecordIDsChanged, r.Changes, gap, m.by})
		before = integer(m.version)
	}
	return told
}

// publications reads the files of the table of publications.
func (f folder) publications(t *testing.T) table {
	t.Helper()
	files, err := filepath.Glob(f.path("publications/*/*.parquet"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of publications, %v", len(files), err)
	}
	var all table
	for _, path := range files {
		key, err := filepath.Rel(string(f), path)
		if err != nil {
			t.Fatal(err)
		}
		all.join(t, f.parquet(t, filepath.ToSlash(key)))
	}
	return all
}

//go:build readers

package readers_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// recipe is a block of SQL of a document.
type recipe struct {
	heading string
	number  int // of the block below its heading, from 1
	text    string
}

func (r recipe) name() string { return fmt.Sprintf("%s, block %d", r.heading, r.number) }

// recipes returns the blocks of a document that are marked as SQL and nothing else: those are DuckDB's.
func recipes(t *testing.T, document string) []recipe {
	t.Helper()
	text, err := os.ReadFile("../../" + document)
	if err != nil {
		t.Fatal(err)
	}
	var list []recipe
	heading, block, number, inside := "", "", 0, false
	for line := range strings.Lines(string(text)) {
		switch {
		case inside && strings.HasPrefix(line, "```"):
			list = append(list, recipe{heading, number, block})
			inside = false
		case inside:
			block += line
		case strings.TrimSpace(line) == "```sql":
			number++
			block, inside = "", true
		case strings.HasPrefix(line, "##"):
			heading, number = strings.TrimSpace(strings.TrimLeft(line, "#")), 0
		}
	}
	return list
}

// The words of the document that stand for what a reader has.
const (
	bookBucket = "s3://my-bucket/feeds"
	bookTime   = "TIMESTAMP WITH TIME ZONE '2026-03-03 00:00:00+00:00'"
)

// dish judges what became of the recipes.
type dish struct {
	kitchen *kitchen
	files   folder
}

// judges returns who holds the answer to each block against what it should be.
func (d *dish) judges() map[string]func(*testing.T, table) {
	return map[string]func(*testing.T, table){
		"Query it, block 1":                    d.judgeReloads,
		"The current version, block 1":         d.judgeStatus,
		"The current version, block 2":         d.judgeVersions,
		"What changed since Tuesday, block 1":  d.judgeSince,
		"What changed since Tuesday, block 2":  d.judgeChanges,
		"As of a version, block 1":             d.judgeCommits,
		"As of a version, block 2":             d.judgeOlder,
		"Apply changes to a copy, block 1":     d.judgeCopy,
		"Ids that you keep elsewhere, block 1": d.judgeNotes,
		"Ids that you keep elsewhere, block 2": d.judgeOrphans,
		"Rows with their PDFs, block 1":        d.judgeDocuments,
		"What lies in a rectangle, block 1":    d.judgeRectangle,
		"After a rollback, block 1":            d.judgeRollback,
	}
}

// TestCookbook executes every block of README.md and docs/queries.md, one after the other in one session
// of DuckDB, and holds what each returns against the Parquet files that the records name. It executes
// those that Spark and Trino understand there too, with the changes that the document names.
func TestCookbook(t *testing.T) {
	d := &dish{kitchen: cook(t)}
	d.files = folder(d.kitchen.world.place.files(t))
	book := append(recipes(t, "README.md"), recipes(t, "docs/queries.md")...)
	named := map[string]bool{}
	for _, r := range book {
		named[r.name()] = true
	}
	for name := range d.judges() {
		if !named[name] {
			t.Errorf("no document has %q", name)
		}
	}
	t.Run("duckdb", func(t *testing.T) {
		d.serve(t, "duckdb", book, bookTime, "TIMESTAMP WITH TIME ZONE '"+d.kitchen.tuesday.UTC().Format("2006-01-02 15:04:05.000000-07:00")+"'")
		same := converse(t, d.kitchen.world.place, "duckdb", d.script(t, "duckdb"), []string{d.kitchen.naive()})
		d.judgeNaive(t, same[0])
	})
	understood := slices.DeleteFunc(book, func(r recipe) bool { return !slices.Contains(elsewhere(), r.heading) })
	theirTime := "TIMESTAMP '" + d.kitchen.tuesday.UTC().Format("2006-01-02 15:04:05.000000") + " UTC'"
	t.Run("spark", func(t *testing.T) {
		d.serve(t, "spark", understood, bookTime, theirTime, "CROSS JOIN UNNEST(apply_versions) AS t (step)", "LATERAL VIEW explode(apply_versions) t AS step")
	})
	t.Run("trino", func(t *testing.T) {
		// Trino cuts times to milliseconds, so that this one is not what the pointer says.
		exact := slices.DeleteFunc(understood, func(r recipe) bool { return r.name() == "The current version, block 2" })
		d.serve(t, "trino", exact, bookTime, theirTime, " ploti.", " delta.cookbook.")
	})
}

// elsewhere are the headings of the recipes that other engines understand.
func elsewhere() []string {
	return []string{"The current version", "What changed since Tuesday", "Rows with their PDFs", "After a rollback", "Query it"}
}

// script returns what ddl prints for an engine. Where tables take long to make, it makes only those that
// recipes name.
func (d *dish) script(t *testing.T, engine string) string {
	t.Helper()
	args := []string{"ddl", "--engine", engine}
	switch engine {
	case "spark":
		args = append(args, "--datasets", permits)
	case "trino": // the server is shared with other tests, which have tables of these names
		args = append(args, "--datasets", permits, "--database", "cookbook")
	}
	return d.kitchen.world.mirror(t, args...)
}

// serve lets an engine execute recipes, with the words of the book replaced as given, pair by pair.
func (d *dish) serve(t *testing.T, engine string, book []recipe, words ...string) {
	t.Helper()
	replacer := strings.NewReplacer(append(words, bookBucket, "file://"+d.kitchen.world.place.root)...)
	judges := d.judges()
	var texts []string
	for _, r := range book {
		if judges[r.name()] == nil {
			t.Fatalf("nobody judges %q", r.name())
		}
		texts = append(texts, replacer.Replace(r.text)+afterwards()[r.name()])
	}
	talk := converse
	if engine == "trino" {
		talk = converseTrino
	}
	answers := talk(t, d.kitchen.world.place, engine, d.script(t, engine), texts)
	for i, r := range book {
		t.Run(r.name(), func(t *testing.T) { judges[r.name()](t, answers[i]) })
	}
	seen.note("%d blocks of README.md and docs/queries.md were executed by %s", len(book), engine)
}

// afterwards returns what is asked behind blocks that change a table and return nothing.
func afterwards() map[string]string {
	return map[string]string{
		"Apply changes to a copy, block 1":     "SELECT * FROM permits;",
		"Ids that you keep elsewhere, block 1": "SELECT record_id, note FROM notes;",
	}
}

// same compares an answer with rows in no order.
func same(t *testing.T, got, want table) {
	t.Helper()
	if difference := compare(got, want); difference != "" {
		t.Error(difference)
	}
}

// version returns the rows of a version of permits.
func (d *dish) version(t *testing.T, n int64) table {
	t.Helper()
	return d.files.rows(t, d.files.record(t, permits, n), "snapshot")
}

func (d *dish) judgeReloads(t *testing.T, got table) {
	want := table{Columns: []string{"ploti_dataset_id", "ploti_version"}, Rows: [][]any{
		{permits, integer(45)}, {parcels, integer(3)}, {areas, integer(3)}, {routes, integer(1)}, {trails, integer(1)},
	}}
	same(t, got.only(want.Columns...), want)
}

func (d *dish) judgeStatus(t *testing.T, got table) {
	count := map[any]int64{}
	now := d.version(t, 45)
	for _, row := range now.Rows {
		count[now.cell(row, "status")]++
	}
	want := table{Columns: []string{"status", "permits"}}
	for status, n := range count {
		want.Rows = append(want.Rows, []any{status, integer(n)})
	}
	same(t, got, want)
}

func (d *dish) judgeVersions(t *testing.T, got table) {
	want := table{Columns: []string{"ploti_dataset_id", "ploti_version", "since"}}
	for id, n := range map[string]int64{permits: 45, parcels: 3, areas: 3, shops: 4, routes: 1, addresses: 4, trails: 2} {
		var p pointer
		d.files.document(t, "current/"+id+".json", &p)
		want.Rows = append(want.Rows, []any{id, integer(n), timestamp(p.MovedAt, true)})
	}
	same(t, got, want)
}

// judgeSince wants exactly the datasets to reload that the kitchen made so.
func (d *dish) judgeSince(t *testing.T, got table) {
	want := table{Columns: []string{"ploti_dataset_id", "from_version", "to_version", "must_reload", "id_maps"}, Rows: [][]any{
		{permits, integer(42), integer(45), true, []any{integer(45)}},
		{parcels, integer(1), integer(3), true, []any{}},
		{areas, integer(1), integer(3), true, []any{}},
		{shops, integer(1), integer(4), false, []any{}},
		{routes, nil, integer(1), true, []any{}},
		{addresses, integer(1), integer(4), true, []any{}},
		{trails, integer(2), integer(2), true, []any{}},
	}}
	same(t, got.only(want.Columns...), want)
	for _, row := range got.Rows {
		if row[0] != shops {
			continue
		}
		if text := fmt.Sprint(row[5:]); text != "[6 4 2]" { // twice what a release brings by itself
			t.Errorf("%s added, changed, removed %s", shops, text)
		}
	}
}

// judgeChanges wants the rows of the datasets that need no reload, version for version.
func (d *dish) judgeChanges(t *testing.T, got table) {
	columns := []string{"_ploti_record_id", "_ploti_change", "_ploti_changed_columns"}
	want := table{Columns: append([]string{"ploti_dataset_id", "ploti_version"}, columns...)}
	add := func(id string, n int64) {
		rows := d.files.rows(t, d.files.record(t, id, n), "changes")
		for _, row := range rows.only(columns...).Rows {
			want.Rows = append(want.Rows, append([]any{id, integer(n)}, row...))
		}
	}
	add(shops, 2)
	add(shops, 4)
	// What was pruned of it is not there to be seen, and the book's first block says so.
	add(addresses, 4)
	same(t, got, want)
}

func (d *dish) judgeCommits(t *testing.T, got table) {
	want := table{Columns: []string{"table_version", "ploti_version"}}
	for commit, n := range []int64{41, 42, 43, 45} {
		want.Rows = append(want.Rows, []any{integer(int64(commit)), integer(n)})
	}
	same(t, got, want)
}

func (d *dish) judgeOlder(t *testing.T, got table) {
	same(t, got, table{Columns: []string{"permits"}, Rows: [][]any{{integer(int64(len(d.version(t, 42).Rows)))}}})
}

// judgeCopy wants the copy of 42 to be version 43, but for what rows that did not change keep.
func (d *dish) judgeCopy(t *testing.T, got table) {
	want := d.version(t, 43)
	own := slices.DeleteFunc(slices.Clone(want.Columns), func(name string) bool { return strings.HasPrefix(name, "_ploti_") && name != "_ploti_record_id" })
	same(t, got.only(own...), want.only(own...))
	before := d.version(t, 42)
	if compare(before.only(own...), want.only(own...)) == "" {
		t.Error("version 43 changed nothing")
	}
}

// judgeNotes wants each note at the id that its permit has now. The number of a permit never changes.
func (d *dish) judgeNotes(t *testing.T, got table) {
	ids, replaced := map[any]any{}, 0
	for _, n := range []int64{43, 45} {
		rows := d.version(t, n)
		for _, row := range rows.Rows {
			note, id := rows.cell(row, "permit_number"), rows.cell(row, "_ploti_record_id")
			if n == 45 && ids[note] == nil {
				continue // a permit that came later
			}
			if ids[note] != nil && ids[note] != id {
				replaced++
			}
			ids[note] = id
		}
	}
	want := table{Columns: []string{"record_id", "note"}}
	for note, id := range ids {
		want.Rows = append(want.Rows, []any{id, note})
	}
	same(t, got, want)
	if replaced < 5 {
		t.Errorf("only %d ids were replaced", replaced)
	}
}

func (d *dish) judgeOrphans(t *testing.T, got table) {
	now, before := d.version(t, 45), d.version(t, 43)
	want := table{Columns: []string{"record_id", "note"}}
	for _, row := range before.Rows {
		note := before.cell(row, "permit_number")
		if !slices.ContainsFunc(now.Rows, func(one []any) bool { return now.cell(one, "permit_number") == note }) {
			want.Rows = append(want.Rows, []any{before.cell(row, "_ploti_record_id"), note})
		}
	}
	if len(want.Rows) != 2 {
		t.Fatalf("%d permits are gone", len(want.Rows))
	}
	same(t, got, want)
}

// judgeDocuments wants each row's file where the answer says.
func (d *dish) judgeDocuments(t *testing.T, got table) {
	rows := d.version(t, 45)
	joined := joinDocuments(t, rows, d.files.parquet(t, d.files.record(t, permits, 45).Attachments.Index.Key), "permit_pdf")
	if len(got.Rows) != len(joined.Rows) {
		t.Fatalf("%d rows, want %d", len(got.Rows), len(joined.Rows))
	}
	for _, row := range got.Rows {
		data, err := os.ReadFile(strings.TrimPrefix(got.cell(row, "object").(string), "file://"))
		if err != nil {
			t.Fatal(err)
		}
		if got.cell(row, "size_bytes") != integer(int64(len(data))) || !strings.HasPrefix(string(data), "%PDF") {
			t.Errorf("%v leads to %d bytes, which begin with %.4q", row, len(data), data)
		}
	}
}

func (d *dish) judgeRectangle(t *testing.T, got table) {
	rows := d.version(t, 45)
	want := table{Columns: []string{"permit_number"}}
	for _, row := range rows.Rows {
		if x, y, ok := point(t, rows.cell(row, "geometry")); ok && x >= -81.5 && x <= -81.2 && y >= 28.4 && y <= 28.6 {
			want.Rows = append(want.Rows, []any{rows.cell(row, "permit_number")})
		}
	}
	if len(want.Rows) == 0 || len(want.Rows) == len(rows.Rows) {
		t.Fatalf("%d of %d permits lie there: the rectangle chooses nothing", len(want.Rows), len(rows.Rows))
	}
	same(t, got.only("permit_number"), want)
	for _, row := range got.Rows {
		if text, ok := got.cell(row, "place").(string); !ok || !regexp.MustCompile(`^POINT \(-81\.\d+ 28\.\d+\)$`).MatchString(text) {
			t.Errorf("a place is spelled %v", row)
		}
	}
}

// point decodes the WKB of a point.
func point(t *testing.T, cell any) (x, y float64, ok bool) {
	t.Helper()
	if cell == nil {
		return 0, 0, false
	}
	wkb, err := hex.DecodeString(strings.TrimPrefix(cell.(string), "0x"))
	if err != nil || len(wkb) != 21 {
		t.Fatalf("%v is no point", cell)
	}
	at := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(wkb[i:])) }
	return at(5), at(13), true
}

func (d *dish) judgeRollback(t *testing.T, got table) {
	same(t, got.only("ploti_dataset_id", "previous_version", "ploti_version"), table{
		Columns: []string{"ploti_dataset_id", "previous_version", "ploti_version"},
		Rows:    [][]any{{trails, integer(2), integer(1)}},
	})
}

// naive applies all changes since Tuesday to what readers had then, by record id, and counts what is
// then there and should not be, and what is not there and should.
func (k *kitchen) naive() string {
	var parts []string
	for id, held := range k.heldAt {
		parts = append(parts, fmt.Sprintf(`(WITH held AS (
  SELECT _ploti_record_id AS id FROM read_parquet('%[2]s')
), changes AS (
  SELECT _ploti_record_id AS id, max_by(_ploti_op, ploti_version) AS op FROM ploti.changes WHERE ploti_dataset_id = '%[1]s' AND ploti_version > %[3]d GROUP BY 1
), naive AS (
  (SELECT id FROM held EXCEPT SELECT id FROM changes WHERE op = 'delete') UNION SELECT id FROM changes WHERE op = 'upsert'
), now AS (
  SELECT _ploti_record_id AS id FROM ploti.%[1]s
)
SELECT '%[1]s' AS dataset, (SELECT count(*) FROM (FROM naive EXCEPT FROM now)) + (SELECT count(*) FROM (FROM now EXCEPT FROM naive)) AS wrong)`,
			id, k.copies[id], held))
	}
	return strings.Join(parts, "\nUNION ALL\n") + ";"
}

// judgeNaive shows why the book asks publications: whoever takes the changes alone is wrong wherever a
// reload was passed over, and does not notice.
func (d *dish) judgeNaive(t *testing.T, got table) {
	for _, row := range got.Rows {
		wrong, err := row[1].(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		switch row[0] {
		case shops, trails: // trails went there and back
			if wrong != 0 {
				t.Errorf("%d records of %s are wrong, although the changes lead all the way", wrong, row[0])
			}
		default:
			if wrong == 0 {
				t.Errorf("no record of %s is wrong, although changes alone do not lead there", row[0])
			}
		}
	}
	if len(got.Rows) != len(d.kitchen.heldAt) {
		t.Errorf("%d datasets were asked for", len(got.Rows))
	}
}

//go:build readers

package readers_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// way is what route prints.
type way struct {
	From, To int64
	Steps    []struct {
		Do      string
		Version int64
		Files   []struct{ Key, SHA256 string }
	}
	Notes []string
}

// short spells the steps of a way.
func (w way) short() string {
	var parts []string
	for _, step := range w.Steps {
		parts = append(parts, fmt.Sprint(step.Do, " ", step.Version))
	}
	return strings.Join(parts, ", ")
}

// unmapped tells that the way says it may lead ids nowhere.
func (w way) unmapped() bool {
	return slices.ContainsFunc(w.Notes, func(note string) bool { return strings.Contains(note, "id map") })
}

// travels are a bucket, and a folder that has every version that the feed ever released: what consumers
// can hold.
type travels struct {
	world    *world
	all      folder
	versions []int64
}

// depart makes a chain of everything that can happen to one, and mirrors it. A second mirror keeps up with
// each release, so that it has also what the bucket misses. The feed is down when it returns.
func depart(t *testing.T) *travels {
	t.Helper()
	w, stop := newWorld(t, newPlace(t, inFolder))
	defer stop(t)
	second := &world{feed: w.feed, clock: w.clock, place: newPlace(t, inFolder)}
	j := &travels{world: w, all: folder(second.place.files(t))}
	d := w.dataset(t, feedsim.DatasetSpec{ID: permits, Character: feedsim.Points, Rows: 30, Parts: 2})
	known := func(n int64) {
		second.mirror(t, "sync")
		j.versions = append(j.versions, n)
	}
	release := func(spec feedsim.ReleaseSpec) int64 {
		n := w.release(t, d, spec)
		known(n)
		return n
	}
	sync := func(args ...string) { w.mirror(t, append([]string{"sync"}, args...)...) }

	release(feedsim.ReleaseSpec{})
	sync()
	release(feedsim.ReleaseSpec{})
	release(feedsim.ReleaseSpec{SkipNumbers: 1, Minor: true, Add: 2, Change: 2, Remove: 1})
	release(feedsim.ReleaseSpec{Empty: true})
	sync()
	release(feedsim.ReleaseSpec{Retype: true, Add: 2, Remove: 1}) // 6
	release(feedsim.ReleaseSpec{ChangeParts: 2})
	sync()
	w.mirror(t, "approve", permits, "--reason", "the loaders take the new type")
	release(feedsim.ReleaseSpec{ReplaceIDs: true, Add: 1, Remove: 2}) // 8
	release(feedsim.ReleaseSpec{})
	taken := release(feedsim.ReleaseSpec{})
	sync()
	if err := d.ReleaseAgain(taken); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Hour)
	sync("--full") // the pointer is flagged
	rebuilt, err := d.ReleaseRebuild()
	if err != nil {
		t.Fatal(err)
	}
	known(rebuilt) // 11
	release(feedsim.ReleaseSpec{})
	sync()
	release(feedsim.ReleaseSpec{}) // 13: the bucket never gets it
	w.clock.Advance(20 * 24 * time.Hour)
	release(feedsim.ReleaseSpec{})
	w.clock.Advance(15 * 24 * time.Hour)
	sync("--full")
	lost := release(feedsim.ReleaseSpec{}) // 15: its changes are gone before the bucket gets them
	if err := d.DropChanges(lost); err != nil {
		t.Fatal(err)
	}
	release(feedsim.ReleaseSpec{})
	sync()
	release(feedsim.ReleaseSpec{Add: 1, RowCountOff: 1}) // 17: in doubt
	sync()
	release(feedsim.ReleaseSpec{})
	sync()
	release(feedsim.ReleaseSpec{ReplaceIDs: true, Remove: 1}) // 19
	release(feedsim.ReleaseSpec{})
	release(feedsim.ReleaseSpec{ReplaceIDs: true, Add: 1}) // 21
	for range 3 {
		release(feedsim.ReleaseSpec{})
	}
	sync()
	w.at(t, permits, 24)
	check(t, w.place.files(t))
	return j
}

// ask lets the program find a way; to zero is the published version.
func (j *travels) ask(t *testing.T, from, to int64) way {
	t.Helper()
	args := []string{"route", permits, "--from", number(from), "--output", "json"}
	if to != 0 {
		args = append(args, "--to", number(to))
	}
	var w way
	if err := json.Unmarshal([]byte(j.world.mirror(t, args...)), &w); err != nil {
		t.Fatal(err)
	}
	return w
}

// sql spells a way as a consumer walks it: a table of rows, and notes that it keeps under record ids.
func (j *travels) sql(t *testing.T, w way) string {
	t.Helper()
	text := fmt.Sprintf(`CREATE OR REPLACE TABLE mine AS SELECT * FROM read_parquet('%s');
CREATE OR REPLACE TABLE notes AS SELECT _ploti_record_id AS record_id, permit_number AS note FROM mine;
`, j.all.path(fmt.Sprintf("snapshot/ploti_dataset_id=%s/ploti_version=%010d/*.parquet", permits, w.From)))
	for _, step := range w.Steps {
		var files []string
		for _, file := range step.Files {
			path := filepath.Join(j.world.place.root, filepath.FromSlash(file.Key))
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("%s: %v", w.short(), err)
			}
			if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != file.SHA256 {
				t.Errorf("%s has another hash than the way says", file.Key)
			}
			files = append(files, "'"+path+"'")
		}
		text += fmt.Sprintf("CREATE OR REPLACE TEMP VIEW step AS SELECT * FROM read_parquet([%s]);\n", strings.Join(files, ", "))
		switch step.Do {
		case "reload":
			text += "CREATE OR REPLACE TABLE mine AS SELECT * FROM step;\n"
		case "apply": // by name: a version can bring columns
			text += `CREATE OR REPLACE TABLE mine AS
SELECT * FROM mine WHERE _ploti_record_id NOT IN (SELECT _ploti_record_id FROM step)
UNION ALL BY NAME
SELECT * EXCLUDE (_ploti_op, _ploti_change, _ploti_delete_reason, _ploti_changed_columns, _ploti_match, _ploti_match_score) FROM step WHERE _ploti_op = 'upsert';
`
		case "rewrite-ids":
			text += "UPDATE notes SET record_id = step._ploti_record_id FROM step WHERE record_id = step._ploti_previous_record_id;\n"
		case "rewrite-ids-back":
			text += "UPDATE notes SET record_id = step._ploti_previous_record_id FROM step WHERE record_id = step._ploti_record_id;\n"
		default:
			t.Fatalf("a way says %q", step.Do)
		}
	}
	return text + "SELECT * FROM mine;"
}

// TestRoute lets a consumer at every version that the feed ever released walk the way that the program
// prints, with the feed down, and wants it where the snapshot is: in values, and with the ids that it
// keeps. It does so to the published version, to older ones, and again after a prune.
func TestRoute(t *testing.T) {
	j := depart(t)
	j.walk(t, []int64{0, 12, 7, 2})
	for _, known := range []struct {
		from, to int64
		want     string
	}{
		{1, 5, "apply 2, apply 4"},
		{2, 2, ""},
		{4, 7, "reload 7"},
		{6, 7, "apply 7"},
		{7, 12, "reload 12, rewrite-ids 8"},
		{9, 10, "apply 10"},
		{10, 12, "reload 12"},
		{11, 12, "apply 12"},
		{12, 14, "reload 14"},
		{13, 14, "apply 14"},
		{14, 16, "reload 16"},
		{16, 18, "reload 18"},
		{16, 24, "reload 24, rewrite-ids 19, rewrite-ids 21"},
		{20, 24, "reload 24, rewrite-ids 21"},
		{21, 24, "apply 22, apply 23, apply 24"},
		{12, 7, "reload 7, rewrite-ids-back 8"},
		{24, 18, "reload 18, rewrite-ids-back 21, rewrite-ids-back 19"},
	} {
		if got := j.ask(t, known.from, known.to).short(); got != known.want {
			t.Errorf("from %d to %d: %s, want %s", known.from, known.to, got, known.want)
		}
	}
	j.world.mirror(t, "prune", "--keep-versions", "2", "--grace", "0s", "--apply")
	if got := j.ask(t, 21, 0).short(); got != "reload 24" {
		t.Errorf("over changes that were pruned: %s", got)
	}
	if got := j.ask(t, 22, 0).short(); got != "apply 23, apply 24" {
		t.Errorf("behind what was pruned: %s", got)
	}
	j.walk(t, []int64{0})
}

// walk walks to the given versions from every version that ever was.
func (j *travels) walk(t *testing.T, targets []int64) {
	t.Helper()
	reloads := 0
	var ways []way
	var statements []string
	for _, to := range targets {
		for _, from := range j.versions {
			w := j.ask(t, from, to)
			ways = append(ways, w)
			statements = append(statements, j.sql(t, w), "SELECT record_id, note FROM notes;")
		}
	}
	answers := converse(t, j.world.place, "duckdb", "", statements)
	for i, w := range ways {
		if strings.Contains(w.short(), "reload") {
			reloads++
		}
		j.arrived(t, w, answers[2*i], answers[2*i+1])
	}
	seen.note("%d ways were walked by DuckDB with the feed down, %d of them with a reload", len(ways), reloads)
}

// arrived holds a consumer's rows and notes against the snapshot of the version that it went to.
func (j *travels) arrived(t *testing.T, w way, mine, notes table) {
	t.Helper()
	want := j.all.rows(t, j.all.record(t, permits, w.To), "snapshot")
	before := j.all.rows(t, j.all.record(t, permits, w.From), "snapshot")
	if !strings.Contains(w.short(), "reload") {
		mine = filled(mine, want, before.Columns)
	}
	own := slices.DeleteFunc(slices.Clone(want.Columns), func(name string) bool { return strings.HasPrefix(name, "_ploti_") && name != "_ploti_record_id" })
	if difference := compare(mine.only(own...), want.only(own...)); difference != "" {
		t.Errorf("from %d to %d, %s: %s", w.From, w.To, w.short(), difference)
	}
	ids := map[any]any{}
	for _, row := range want.Rows {
		ids[want.cell(row, "permit_number")] = want.cell(row, "_ploti_record_id")
	}
	if len(notes.Rows) != len(before.Rows) {
		t.Errorf("from %d to %d: %d notes of %d are left", w.From, w.To, len(notes.Rows), len(before.Rows))
	}
	for _, note := range notes.Rows {
		if id, stays := ids[note[1]]; stays && id != note[0] && !w.unmapped() {
			t.Errorf("from %d to %d, %s: the note of permit %v is kept under %v, the record is %v", w.From, w.To, w.short(), note[1], note[0], id)
		}
	}
}

// filled puts what changes do not carry into the rows of a consumer: a column that a version added on the
// way is null in records that did not change (feed documentation, "Applying changes").
func filled(mine, want table, before []string) table {
	for _, column := range want.Columns {
		if slices.Contains(before, column) || !slices.Contains(mine.Columns, column) {
			continue
		}
		for _, row := range mine.Rows {
			at := slices.Index(mine.Columns, column)
			same := slices.IndexFunc(want.Rows, func(one []any) bool {
				return want.cell(one, "_ploti_record_id") == mine.cell(row, "_ploti_record_id")
			})
			if row[at] == nil && same >= 0 {
				row[at] = want.cell(want.Rows[same], column)
			}
		}
	}
	return mine
}

//go:build readers

package readers_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/testservers"
)

// statementLimit bounds one statement on a busy machine.
const statementLimit = 2 * time.Minute

// trino is asked in SQL over its own protocol.
type trino struct {
	server   testservers.Trino
	database string
}

func newTrino(t *testing.T) trino {
	t.Helper()
	return trino{server: servers.Trino(t, servers.VersityGW(t)), database: "ploti"}
}

// statements splits a script of SQL at semicolons that end a line.
func statements(script string) []string {
	var lines, list []string
	for line := range strings.Lines(script) {
		if !strings.HasPrefix(line, "--") {
			lines = append(lines, line)
		}
	}
	for part := range strings.SplitSeq(strings.Join(lines, ""), ";\n") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// execute executes each statement of a script and returns how many there are.
func (e trino) execute(t *testing.T, script string) int {
	t.Helper()
	list := statements(script)
	for _, statement := range list {
		if _, err := e.query(t, statement); err != nil {
			t.Fatalf("%v\n%s", err, statement)
		}
	}
	return len(list)
}

func (e trino) query(t *testing.T, statement string) (table, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), statementLimit)
	defer cancel()
	result, err := e.server.Query(ctx, statement)
	if err != nil {
		return table{}, err
	}
	var read table
	for _, column := range result.Columns {
		read.Columns = append(read.Columns, column.Name)
	}
	for _, row := range result.Rows {
		cells := make([]any, len(row))
		for i, value := range row {
			if cells[i], err = trinoCell(result.Columns[i].Type, value); err != nil {
				return table{}, err
			}
		}
		read.Rows = append(read.Rows, cells)
	}
	return read, nil
}

// rows executes a statement that must work.
func (e trino) rows(t *testing.T, format string, args ...any) table {
	t.Helper()
	statement := fmt.Sprintf(format, args...)
	read, err := e.query(t, statement)
	if err != nil {
		t.Fatalf("%v\n%s", err, statement)
	}
	return read
}

// trinoCell makes a cell of a value as Trino's protocol has it.
func trinoCell(kind string, value any) (any, error) {
	text, isText := value.(string)
	element, isArray := strings.CutPrefix(kind, "array(")
	switch {
	case value == nil:
		return nil, nil
	case isArray:
		list := []any{}
		for _, one := range value.([]any) {
			cell, err := trinoCell(strings.TrimSuffix(element, ")"), one)
			if err != nil {
				return nil, err
			}
			list = append(list, cell)
		}
		return list, nil
	case isText && kind == "varbinary":
		data, err := base64.StdEncoding.DecodeString(text)
		return "0x" + hex.EncodeToString(data), err
	case isText && strings.HasPrefix(kind, "timestamp"):
		at, err := time.Parse("2006-01-02 15:04:05", strings.TrimSuffix(text, " UTC"))
		return timestamp(at, strings.HasSuffix(kind, "with time zone")), err
	}
	return value, nil
}

// answers asks everything, as engines/asking.py does.
func (e trino) answers(t *testing.T, asked task) (answers []answer) {
	t.Helper()
	note := func(question, dataset string, commit int, format string, args ...any) {
		began := time.Now()
		read := e.rows(t, format, args...)
		answers = append(answers, answer{Question: question, Dataset: dataset, Commit: commit, Columns: read.Columns, Rows: read.Rows,
			Seconds: time.Since(began).Seconds()})
	}
	for _, d := range asked.Datasets {
		rows := "delta." + e.database + "." + d.Table
		note(askCurrent, d.Dataset, 0, "SELECT * FROM %s", rows)
		for n := range d.Commits {
			note(askVersion, d.Dataset, n, "SELECT * FROM %s FOR VERSION AS OF %d", rows, n)
		}
		if d.Attachments {
			note(askAttachments, d.Dataset, 0, "SELECT * FROM %s_attachments", rows)
		}
		if d.Documents != "" {
			note(askJoin, d.Dataset, 0, "SELECT r._ploti_record_id, a.key, a.size_bytes, a.content_type FROM %s r JOIN %s_attachments a ON a.file = r.%s",
				rows, rows, d.Documents)
		}
		if d.Geometry != "" {
			note(askGeometry, d.Dataset, 0, "SELECT _ploti_record_id, %s FROM %s WHERE %s IS NOT NULL ORDER BY _ploti_record_id LIMIT 1", d.Geometry, rows, d.Geometry)
		}
	}
	note(askChanges, "", 0, "SELECT * FROM delta.%s.changes WHERE released_date >= DATE '%s'", e.database, asked.Since)
	note(askPublications, "", 0, "SELECT * FROM delta.%s.publications", e.database)
	return answers
}

// asTrino says what Trino does not keep: capitals of names, and, in its Delta connector, microseconds of a
// time with a zone.
func asTrino(rows table) table {
	rows = inSmallLetters(rows)
	return rows.mapped(func(_ string, cell any) any {
		if text, ok := cell.(string); ok && microTime.MatchString(text) {
			at, err := time.Parse(time.RFC3339Nano, text)
			if err == nil {
				return timestamp(at.Round(time.Millisecond), true)
			}
		}
		return cell
	})
}

func inSmallLetters(rows table) table {
	small := table{Rows: rows.Rows}
	for _, column := range rows.Columns {
		small.Columns = append(small.Columns, strings.ToLower(column))
	}
	return small
}

// mapped returns the rows with every cell changed.
func (a *table) mapped(change func(column string, cell any) any) table {
	changed := table{Columns: a.Columns}
	for _, row := range a.Rows {
		cells := make([]any, len(row))
		for i, column := range a.Columns {
			cells[i] = change(column, row[i])
		}
		changed.Rows = append(changed.Rows, cells)
	}
	return changed
}

func TestTrino(t *testing.T) {
	s := stories.get(t, onS3)
	engine := newTrino(t)
	asked := taskFor(t, s, "trino")
	heard := report{Statements: engine.execute(t, asked.Script), Answers: engine.answers(t, asked)}
	heard.Engine = fmt.Sprint("Trino ", engine.rows(t, "SELECT node_version FROM system.runtime.nodes").Rows[0][0])
	judge(t, s, "trino", heard, asTrino)
	t.Run("versions", func(t *testing.T) { engine.versions(t, s) })
	t.Run("again", func(t *testing.T) { engine.again(t, s, asked) })
}

// versions reads every version that was published by the feed's own number.
func (e trino) versions(t *testing.T, s *story) {
	f := folder(s.world.place.files(t))
	versions, rows := 0, 0
	for i := range s.want.Datasets {
		d := &s.want.Datasets[i]
		history := e.rows(t, `SELECT version FROM delta.%s."%s$history"`, e.database, tableName(d.Dataset))
		if len(history.Rows) != len(d.Versions) {
			t.Errorf("the history of %s has %d commits, want %d", d.Dataset, len(history.Rows), len(d.Versions))
		}
		asked := map[int64]bool{}
		for n, version := range d.Versions {
			if !asked[version] {
				asked[version] = true
				versions++
				rows += e.version(t, f.record(t, d.Dataset, version), d.Shown[n])
			}
		}
	}
	if versions < 3 {
		t.Errorf("only %d versions were read by their number", versions)
	}
	seen.note("Trino read %d versions, %d rows, by the feed's number with an injected projection", versions, rows)
}

// version reads a version by the feed's own number and wants its rows. It returns how many there are.
func (e trino) version(t *testing.T, r record, rows table) int {
	t.Helper()
	view, key, rows := e.view(r), "ploti_version", inSmallLetters(rows)
	if slices.Contains(rows.Columns, key) {
		key += "_key" // as the script tells of a dataset that has such a column itself
	}
	got := e.rows(t, "SELECT * FROM %s WHERE %s = '%010d'", view, key, r.Version)
	want := asHive(rows.only(got.Columns...), key, r.Version)
	if difference := compare(got, want); difference != "" {
		t.Errorf("version %d of %s: %s", r.Version, r.Dataset, difference)
	}
	for _, column := range rows.Columns {
		if !slices.Contains(got.Columns, column) && !strings.Contains(column, ",") {
			t.Errorf("version %d of %s: %s lacks column %q", r.Version, r.Dataset, view, column)
		}
	}
	if others := e.rows(t, "SELECT 1 FROM %s WHERE %s = '%010d'", view, key, r.Version+1000); len(others.Rows) > 0 {
		t.Errorf("%s has %d rows of a version that nobody released", view, len(others.Rows))
	}
	return len(got.Rows)
}

// view is the name that ddl gives the versions of a record's MAJOR.
func (e trino) view(r record) string {
	major, _, _ := strings.Cut(r.SchemaVersion, ".")
	return fmt.Sprintf("hive.%s.%s_versions_m%s", e.database, tableName(r.Dataset), major)
}

// asHive says what a Hive table has of a version: its partition, and no times with a zone.
func asHive(rows table, key string, version int64) table {
	return rows.mapped(func(column string, cell any) any {
		text, isText := cell.(string)
		switch {
		case column == key:
			return fmt.Sprintf("%010d", version)
		case isText:
			return microTime.ReplaceAllString(text, "$1")
		}
		return cell
	})
}

// microTime is a time with a zone, as cells have it.
var microTime = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6})Z$`)

// again runs the script a second time, as its notes say that one may: what is dropped is names alone.
func (e trino) again(t *testing.T, s *story, asked task) {
	for _, statement := range statements(asked.Script) {
		_, err := e.query(t, statement)
		registers := strings.HasPrefix(statement, "CALL delta.system.register_table")
		if registers != (err != nil && strings.Contains(err.Error(), "ALREADY_EXISTS")) || !registers && err != nil {
			t.Fatalf("%v\n%s", err, statement)
		}
	}
	check(t, s.world.place.files(t))
	d := &s.want.Datasets[0]
	f := folder(s.world.place.files(t))
	e.version(t, f.record(t, d.Dataset, d.Versions[0]), d.Shown[0])
}

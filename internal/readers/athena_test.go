//go:build readers

package readers_test

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// hiveTable is what Hive's parser understood of a statement.
type hiveTable struct {
	kind       string // TOK_CREATETABLE, ...
	name       string // database.table, without backticks
	columns    [][]any
	partitions [][]any
	properties map[string]string
	location   string
}

// parseHive lets Hive's own parser read statements; it must take all.
func parseHive(t *testing.T, list []string) []hiveTable {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), engineLimit)
	defer cancel()
	jars, err := filepath.Abs("../../.tools/readers/jvm/spark/pyspark/jars")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(ctx, "java", "-cp", filepath.Join(jars, "*"), filepath.Join("engines", "HiveTables.java"))
	var out, text bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(strings.Join(list, "\x00")), &out, &text
	if err := command.Run(); err != nil {
		t.Fatalf("Hive's parser: %v\n%s", err, text.String())
	}
	var tables []hiveTable
	for line := range strings.Lines(out.String()) {
		words := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if words[0] == "statement" {
			tables = append(tables, hiveTable{kind: words[1], properties: map[string]string{}})
			continue
		}
		tables[len(tables)-1].add(t, words)
	}
	if len(tables) != len(list) {
		t.Fatalf("Hive's parser took %d of %d statements", len(tables), len(list))
	}
	return tables
}

func (h *hiveTable) add(t *testing.T, words []string) {
	t.Helper()
	switch words[0] {
	case "table":
		h.name = words[1]
	case "column":
		h.columns = append(h.columns, []any{words[1], words[2]})
	case "partition":
		h.partitions = append(h.partitions, []any{words[1], words[2]})
	case "location":
		h.location = words[1]
	case "property":
		h.properties[words[1]] = words[2]
	case "stored as":
		if words[1] != "PARQUET" {
			t.Errorf("%s is stored as %s", h.name, words[1])
		}
	default:
		t.Errorf("%s: Hive's parser says %q", h.name, words)
	}
}

// athenaScript is Athena's script in two: what Hive's parser reads there, and what Trino executes.
func athenaScript(t *testing.T, script string) (hive, views []string) {
	t.Helper()
	if !strings.Contains(script, "-- not executed: ") {
		t.Error("the script does not say that it was not executed")
	}
	for _, statement := range statements(script) {
		if strings.HasPrefix(statement, "CREATE OR REPLACE VIEW") {
			views = append(views, statement)
		} else {
			hive = append(hive, statement)
		}
	}
	return hive, views
}

// TestAthena reads Athena's script by the parsers that Athena has: Hive's for tables and Trino's for views.
// Each table of versions must be the one that Trino made from its own script, and read every version: the
// views are executed as they stand, in a catalog that has tables of both kinds as Athena's has.
func TestAthena(t *testing.T) {
	s := stories.get(t, onS3)
	engine := newTrino(t)
	engine.execute(t, engine.ownScript(t, s.world, "for_athena"))
	engine.database = "for_athena"
	script := s.world.mirror(t, "ddl", "--engine", "athena", "--database", engine.database)
	hive, views := athenaScript(t, script)
	tables := parseHive(t, hive)
	versions, delta := 0, 0
	for _, one := range tables {
		switch {
		case one.kind != "TOK_CREATETABLE":
		case one.properties["table_type"] == "DELTA":
			delta++
			if !strings.HasPrefix(one.location, s.world.place.root+"/") || !strings.HasSuffix(one.location, "/") || len(one.columns) > 0 {
				t.Errorf("%s is no table over a Delta log of the bucket: %+v", one.name, one)
			}
		default:
			versions++
			engine.sameTable(t, one)
		}
	}
	if versions != len(views) || versions < len(s.want.Datasets) || delta < 2+len(s.want.Datasets) {
		t.Errorf("%d tables of versions with %d views, and %d Delta tables, for %d datasets", versions, len(views), delta, len(s.want.Datasets))
	}
	leftOut := "-- left out, since Athena takes only letters, digits and underscores in names: Größe (m²), Straße, a=b;c, width, height\n"
	if !strings.Contains(script, leftOut) {
		t.Errorf("the script for Athena does not say %q", leftOut)
	}
	engine.server.Catalog = "hive"
	for _, view := range views {
		engine.rows(t, "%s", view)
	}
	engine.versions(t, s)
	seen.note("Athena's script for a %s: Hive's parser took %d statements, %d tables are those of Trino; Trino executed its %d views as they stand",
		s.world.place.kind, len(hive), versions, len(views))
}

// ownScript is ddl's for Trino, over a database of a test's own.
func (e trino) ownScript(t *testing.T, w *world, database string) string {
	t.Helper()
	return w.mirror(t, "ddl", "--engine", "trino", "--database", database)
}

// plainName is all that Athena takes for a name.
var plainName = regexp.MustCompile(`^[a-z0-9_]+$`)

// sameTable wants Trino's table to be what Hive's parser understood of Athena's, which cannot have all
// columns.
func (e trino) sameTable(t *testing.T, one hiveTable) {
	t.Helper()
	described := e.rows(t, "DESCRIBE hive.%s", one.name)
	var columns [][]any
	for _, row := range described.Rows {
		if plainName.MatchString(row[0].(string)) {
			columns = append(columns, row[:2])
		}
	}
	want := table{Columns: []string{"name", "type"}, Rows: append(slices.Clone(one.columns), one.partitions...)}
	if len(one.partitions) != 1 || len(columns) != len(want.Rows) {
		t.Errorf("%s has columns %v and partitions %v; Trino's has %v", one.name, one.columns, one.partitions, columns)
	}
	if difference := compare(table{Columns: want.Columns, Rows: columns}, want); difference != "" {
		t.Errorf("%s: %s", one.name, difference)
	}
	database, name, _ := strings.Cut(one.name, ".")
	properties := e.rows(t, `SELECT * FROM hive.%s."%s$properties"`, database, name)
	for property, value := range one.properties {
		at := slices.Index(properties.Columns, property)
		if at < 0 || properties.Rows[0][at] != value {
			t.Errorf("%s: property %s is %q, which Trino's table lacks: %v", one.name, property, value, properties)
		}
	}
}

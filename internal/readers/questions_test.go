//go:build readers

package readers_test

import (
	"slices"
	"testing"
)

func askEverything(t *testing.T, engine, program, kind string) {
	t.Helper()
	s := stories.get(t, kind)
	judge(t, s, engine, ask(t, s.world.place, program, taskFor(t, s, engine)), nil)
}

func TestDuckDB(t *testing.T) {
	for _, kind := range []string{inFolder, onS3} {
		t.Run(kind, func(t *testing.T) { askEverything(t, "duckdb", "duckdb_reader", kind) })
	}
}

func TestPolars(t *testing.T) {
	for _, kind := range []string{inFolder, onS3} {
		t.Run(kind, func(t *testing.T) { askEverything(t, "polars", "polars_reader", kind) })
	}
}

// Its functions for folders do not leave the folder of the library's own server, so that S3 is where
// ClickHouse reads.
func TestClickHouse(t *testing.T) {
	s := stories.get(t, onS3)
	judge(t, s, "clickhouse", ask(t, s.world.place, "clickhouse_reader", taskFor(t, s, "clickhouse")), asClickHouse)
}

// asClickHouse says what ClickHouse has no types for, as its script tells: a list is never null, and a
// timestamp without a zone is one in UTC.
func asClickHouse(rows table) table {
	said := table{Columns: rows.Columns}
	for _, row := range rows.Rows {
		row = slices.Clone(row)
		for i, column := range rows.Columns {
			text, isText := row[i].(string)
			switch {
			case row[i] == nil && (column == "overlays" || column == "_ploti_changed_columns"):
				row[i] = []any{}
			case isText && column == "updated_at":
				row[i] = text + "Z"
			}
		}
		said.Rows = append(said.Rows, row)
	}
	return said
}

// Its readers of S3 are hundreds of megabytes of libraries for a service that it reads like any folder.
func TestSpark(t *testing.T) { askEverything(t, "spark", "spark_reader", inFolder) }

// There is no script for deltalake alone: Polars' is the one that its users paste, and it opens the same
// locations.
func TestDeltalake(t *testing.T) {
	for _, kind := range []string{inFolder, onS3} {
		t.Run(kind, func(t *testing.T) {
			s := stories.get(t, kind)
			asked := taskFor(t, s, "polars")
			judge(t, s, "deltalake", ask(t, s.world.place, "deltalake_reader", asked), nil)
		})
	}
}

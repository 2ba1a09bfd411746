//go:build readers

package readers_test

import (
	"slices"
	"testing"
)

// askEverything asks an engine after it executed what ddl prints for it.
func askEverything(t *testing.T, engine, kind string, can func(table) table) {
	t.Helper()
	s := stories.get(t, kind)
	heard := ask[report](t, s.world.place, engine+"_reader", taskFor(t, s, engine))
	if heard.Statements == 0 {
		t.Errorf("%s executed no statement of its script", engine)
	}
	judge(t, s, engine, heard, can)
}

func TestDuckDB(t *testing.T) {
	for _, kind := range []string{inFolder, onS3} {
		t.Run(kind, func(t *testing.T) { askEverything(t, "duckdb", kind, nil) })
	}
}

func TestPolars(t *testing.T) {
	for _, kind := range []string{inFolder, onS3} {
		t.Run(kind, func(t *testing.T) { askEverything(t, "polars", kind, nil) })
	}
}

// Its functions for folders do not leave the folder of the library's own server, so that S3 is where
// ClickHouse reads.
func TestClickHouse(t *testing.T) {
	askEverything(t, "clickhouse", onS3, asClickHouse)
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
func TestSpark(t *testing.T) { askEverything(t, "spark", inFolder, nil) }

// There is no script for deltalake alone: its users name a location in Python.
func TestDeltalake(t *testing.T) {
	for _, kind := range []string{inFolder, onS3} {
		t.Run(kind, func(t *testing.T) {
			s := stories.get(t, kind)
			judge(t, s, "deltalake", ask[report](t, s.world.place, "deltalake_reader", taskFor(t, s, "polars")), nil)
		})
	}
}

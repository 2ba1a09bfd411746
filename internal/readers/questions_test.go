//go:build readers

package readers_test

import "testing"

func askEverything(t *testing.T, engine, program, kind string) {
	t.Helper()
	s := stories.get(t, kind)
	judge(t, s, engine, ask(t, s.world.place, program, taskFor(t, s, engine)))
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
func TestClickHouse(t *testing.T) { askEverything(t, "clickhouse", "clickhouse_reader", onS3) }

// There is no script for deltalake alone: Polars' is the one that its users paste, and it opens the same
// locations.
func TestDeltalake(t *testing.T) {
	for _, kind := range []string{inFolder, onS3} {
		t.Run(kind, func(t *testing.T) {
			s := stories.get(t, kind)
			asked := taskFor(t, s, "polars")
			judge(t, s, "deltalake", ask(t, s.world.place, "deltalake_reader", asked))
		})
	}
}

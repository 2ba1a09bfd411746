package tables_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"feedmirror/internal/tables"
)

func script(t *testing.T, engine tables.Engine, datasets ...tables.Described) string {
	t.Helper()
	var text strings.Builder
	place := tables.Place{Scheme: "s3", Bucket: "b", Prefix: "it's/", Region: "eu-north-1"}
	if err := (tables.DDL{Engine: engine, Place: place, Datasets: datasets}).Write(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func described(dataset string, columns ...tables.Column) tables.Described {
	return tables.Described{Dataset: dataset, Attachments: true, Majors: []tables.Major{{Number: 3, Columns: columns}}}
}

func column(name string) tables.Column {
	return tables.Column{Name: name, Type: tables.Type{Name: "string"}}
}

func record(name string, fields ...string) tables.Column {
	c := tables.Column{Name: name, Type: tables.Type{Name: "struct"}}
	for _, field := range fields {
		c.Type.Columns = append(c.Type.Columns, column(field))
	}
	return c
}

func TestAwkwardColumns(t *testing.T) {
	d := described("ds_x", column("_ploti_record_id"), column("Größe (m²)"), column("a, b"), column("Straße"), column("SELECT"),
		column("ploti_Version"), column("released_date"), record("inner", "Order", "x"), record("odd", "a,b"), record("spaced", "a b"))
	tests := map[tables.Engine]struct{ kept, left []string }{
		tables.Athena: {
			kept: []string{"`_ploti_record_id` string", "`select` string", "`ploti_version` string", "`released_date` string",
				"`inner` struct<`Order`:string,`x`:string>", "PARTITIONED BY (`ploti_version_key` string)", "projection.ploti_version_key.type"},
			left: []string{"Größe (m²)", "a, b", "Straße", "odd", "spaced"},
		},
		tables.Trino: {
			kept: []string{`"größe (m²)" varchar`, `"straße" varchar`, `"select" varchar`, `"ploti_version" varchar`, `"released_date" varchar`,
				`"inner" row("Order" varchar,"x" varchar)`, `"spaced" row("a b" varchar)`, "ploti_version_key varchar WITH"},
			left: []string{"a, b", "odd"},
		},
	}
	for engine, want := range tests {
		text := script(t, engine, d)
		for _, part := range append(want.kept, "ploti_version=${ploti_version_key}/", "WHERE f.ploti_version_key IN", "-- name versions by ploti_version_key: ") {
			if !strings.Contains(text, part) {
				t.Errorf("%s: no %q in\n%s", engine, part, text)
			}
		}
		left := regexp.MustCompile(`(?m)^-- left out, since .*?: (.*)$`).FindStringSubmatch(text)
		if left == nil || left[1] != strings.Join(want.left, ", ") {
			t.Errorf("%s left out %q, want %q", engine, left, want.left)
		}
	}
}

// A table that no column fits is not made.
func TestNoColumnFits(t *testing.T) {
	for _, engine := range []tables.Engine{tables.Athena, tables.Trino} {
		text := script(t, engine, described("ds_x", column("a,b")))
		if strings.Contains(text, "versions_m3_files") || !strings.Contains(text, "-- left out, since ") {
			t.Errorf("%s:\n%s", engine, text)
		}
	}
}

// Names of tables differ, whatever datasets are called.
func TestTableNamesDiffer(t *testing.T) {
	ids := []string{"A", "a.attachments", "a_versions_m3", "a_versions_m3_files", "a-attachments", "a", "changes", "7", "publications"}
	var datasets []tables.Described
	for _, id := range ids {
		datasets = append(datasets, described(id, column("x")))
	}
	for _, engine := range []tables.Engine{tables.Athena, tables.Trino, tables.Spark, tables.DuckDB} {
		made := regexp.MustCompile("(?m)^CREATE (?:OR REPLACE |EXTERNAL )?(?:TABLE|VIEW)(?: IF NOT EXISTS)? ([^ \n]*)|table_name => '([^']*)'").
			FindAllStringSubmatch(script(t, engine, datasets...), -1)
		names := map[string]bool{}
		for _, match := range made {
			name := match[1] + match[2]
			if name = strings.NewReplacer("`", "", `"`, "").Replace(name); names[name] {
				t.Errorf("%s makes %s twice", engine, name)
			}
			names[name] = true
		}
		if least := 2 * len(ids); len(names) < least {
			t.Errorf("%s makes %d tables, want %d and more", engine, len(names), least)
		}
	}
}

// A script for an engine that our tests cannot run says so; one that they run does not.
func TestNotExecuted(t *testing.T) {
	never := []tables.Engine{tables.Athena, tables.Snowflake, tables.BigQuery}
	for _, engine := range tables.Engines() {
		text := script(t, engine, described("ds_x", column("x")))
		if got, want := strings.Contains(text, "not executed: "), slices.Contains(never, engine); got != want {
			t.Errorf("%s says that it was not executed: %t, want %t\n%s", engine, got, want, text)
		}
	}
}

// Addresses stand between quotes that nothing inside ends.
func TestQuotesInAddresses(t *testing.T) {
	for engine, want := range map[tables.Engine]string{
		tables.Athena: `LOCATION 's3://b/it\'s/changes/'`, tables.Spark: `LOCATION 's3a://b/it\'s/changes/'`, tables.Trino: `table_location => 's3://b/it''s/changes'`,
	} {
		if text := script(t, engine); !strings.Contains(text, want) {
			t.Errorf("%s: no %s in\n%s", engine, want, text)
		}
	}
}

//go:build readers

package readers_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/feed/feedsim/records"
)

// awkward is a dataset with columns that engines have trouble with: other letters, spaces, marks, capitals, a
// word of SQL, and names that partitions in the bucket and in the table of all changes have.
const awkward = "ds_awkward"

// awkwardColumns returns the types of the columns, by name.
func awkwardColumns() parquet.Group {
	return parquet.Group{
		"_ploti_record_id": parquet.String(),
		"_ploti_version":   parquet.Leaf(parquet.Int64Type),
		"Größe (m²)":       parquet.Optional(parquet.Leaf(parquet.DoubleType)),
		"Straße":           parquet.Optional(parquet.String()),
		"width, height":    parquet.Optional(parquet.String()),
		"SELECT":           parquet.Optional(parquet.Leaf(parquet.Int64Type)),
		"ploti_Version":    parquet.Optional(parquet.String()),
		"released_date":    parquet.Optional(parquet.Date()),
		"a=b;c":            parquet.Optional(parquet.String()),
	}
}

// releaseAwkward releases a version of the dataset: rows of which every third has no values but its id.
func (w *world) releaseAwkward(t *testing.T, d *feedsim.Dataset, version int64, rows int) {
	t.Helper()
	path := filepath.Join(workshop, fmt.Sprintf("awkward-%d-%p.parquet", version, w))
	if err := writeAwkward(path, version, rows); err != nil {
		t.Fatal(err)
	}
	ready := feedsim.ReadySpec{RowCount: int64(rows), Snapshot: []string{path}}
	for name := range awkwardColumns() {
		if name[0] != '_' {
			ready.Schema.Columns = append(ready.Schema.Columns, records.Column{Name: name, Type: records.String})
		}
	}
	if got, err := d.ReleaseReady(ready); err != nil || got != version {
		t.Fatalf("released %d, want %d: %v", got, version, err)
	}
}

func writeAwkward(path string, version int64, rows int) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	schema := parquet.NewSchema("rows", awkwardColumns())
	writer := parquet.NewWriter(file, schema)
	for n := range rows {
		value := map[string]any{
			"_ploti_record_id": fmt.Sprintf("rec_%04d", n), "_ploti_version": version, "Größe (m²)": float64(n) + 0.5, "Straße": fmt.Sprintf("Öl %d", n),
			"width, height": fmt.Sprintf("%d, %d", n, n+1), "SELECT": int64(n), "ploti_Version": fmt.Sprintf("own %d", n), "released_date": int32(20000 + n),
			"a=b;c": "x=y;z",
		}
		var row parquet.Row
		for i, column := range schema.Columns() {
			leaf, _ := schema.Lookup(column...)
			switch {
			case leaf.MaxDefinitionLevel == 0:
				row = append(row, parquet.ValueOf(value[column[0]]).Level(0, 0, i))
			case n%3 == 0:
				row = append(row, parquet.NullValue().Level(0, 0, i))
			default:
				row = append(row, parquet.ValueOf(value[column[0]]).Level(0, 1, i))
			}
		}
		if _, err := writer.WriteRows([]parquet.Row{row}); err != nil {
			return err
		}
	}
	return writer.Close()
}

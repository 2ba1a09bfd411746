package parquetinfo

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// Column is a leaf of a file's schema, in the words of the Parquet format.
type Column struct {
	Path string // names from the root down, joined by dots
	// Type is the physical type with its annotation, and what repeats: "INT64 TIMESTAMP(...)",
	// "BYTE_ARRAY STRING repeated". Whether a column may be null is left out: two parts of
	// which one has no nulls can differ in it, and readers merge them.
	Type string
}

// PartInfo is what the footer of one part of a version says, or why it says nothing.
type PartInfo struct {
	Path      string // the part's manifest path, for messages
	Rows      int64
	CreatedBy string // the writer's name for itself; empty when it gives none
	Columns   []Column
	Fields    []Field // the same schema as a tree, with the bounds of its columns
	Geo       string  // value of the footer's "geo" key, JSON by GeoParquet; empty when there is none
	Err       error   // why the footer could not be read; then only Path is set
}

// Inspect reads the footer of a Parquet file of size bytes. A file that is no Parquet file, or
// whose footer cannot be trusted, is an error; it never panics, and allocates at most about
// 200 MiB for the most hostile footer.
func Inspect(r io.ReaderAt, size int64) (info PartInfo, err error) {
	defer recoverTo(&err)
	meta, err := readFooter(r, size)
	if err != nil {
		return PartInfo{}, fmt.Errorf("inspect Parquet file: %w", err)
	}
	return PartInfo{Rows: meta.NumRows, CreatedBy: meta.CreatedBy, Columns: columnsOf(meta.Schema), Fields: fieldsOf(meta), Geo: geoOf(meta)}, nil
}

// columnsOf lists the leaves of a schema that checkSchema accepted.
func columnsOf(nodes []format.SchemaElement) []Column {
	var columns []Column
	next := 1
	var walk func(path []string, repeats string, children int32)
	walk = func(path []string, repeats string, children int32) {
		for range children {
			node := &nodes[next]
			next++
			here := slices.Concat(path, []string{node.Name})
			repeats := repeats
			if node.RepetitionType.V == format.Repeated {
				repeats += " repeated"
			}
			if node.NumChildren.V > 0 {
				walk(here, repeats, node.NumChildren.V)
				continue
			}
			columns = append(columns, Column{Path: strings.Join(here, "."), Type: typeOf(node) + repeats})
		}
	}
	walk(nil, "", nodes[0].NumChildren.V)
	return columns
}

// typeOf spells a leaf's type. The older annotation counts only where the newer is absent, since
// writers differ in whether they write both.
func typeOf(node *format.SchemaElement) string {
	text := node.Type.V.String()
	if node.Type.V == format.FixedLenByteArray {
		text += fmt.Sprintf("(%d)", node.TypeLength.V)
	}
	switch {
	case node.LogicalType.Value != nil:
		text += " " + node.LogicalType.String()
	case node.ConvertedType.Valid && node.ConvertedType.V == deprecated.Decimal:
		text += fmt.Sprintf(" DECIMAL(%d,%d)", node.Precision.V, node.Scale.V)
	case node.ConvertedType.Valid:
		text += " " + convertedName(node.ConvertedType.V)
	}
	return text
}

// convertedName returns the older annotation's name, or that of the newer one where both mean the
// same.
func convertedName(kind deprecated.ConvertedType) string {
	names := [...]string{
		"STRING", "MAP", "MAP_KEY_VALUE", "LIST", "ENUM", "DECIMAL", "DATE", "TIME_MILLIS", "TIME_MICROS",
		"TIMESTAMP_MILLIS", "TIMESTAMP_MICROS", "UINT_8", "UINT_16", "UINT_32", "UINT_64",
		"INT_8", "INT_16", "INT_32", "INT_64", "JSON", "BSON", "INTERVAL",
	}
	if kind < 0 || int(kind) >= len(names) {
		return fmt.Sprintf("converted type %d", kind)
	}
	return names[kind]
}

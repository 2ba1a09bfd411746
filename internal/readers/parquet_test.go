//go:build readers

package readers_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// table is what a reader sees: columns, and rows of one cell each. A cell is what JSON has for it: nil,
// a bool, a string, a number as json.Number, or a list. Decimals, dates and times are text; bytes are
// hexadecimal digits behind 0x.
type table struct {
	Columns []string
	Rows    [][]any
}

// join adds the rows of another table of the same columns.
func (a *table) join(t *testing.T, b table) {
	t.Helper()
	if a.Columns != nil && !slices.Equal(a.Columns, b.Columns) {
		t.Fatalf("columns %v and %v of one version", a.Columns, b.Columns)
	}
	a.Columns = b.Columns
	a.Rows = append(a.Rows, b.Rows...)
}

// only returns the columns of these names, in their order; nulls where the table lacks one.
func (a *table) only(names ...string) table {
	cut := table{Columns: names}
	for _, row := range a.Rows {
		cells := make([]any, len(names))
		for i, name := range names {
			if at := slices.Index(a.Columns, name); at >= 0 {
				cells[i] = row[at]
			}
		}
		cut.Rows = append(cut.Rows, cells)
	}
	return cut
}

// with adds a column that has one value.
func (a *table) with(name string, value any) table {
	more := table{Columns: append(slices.Clone(a.Columns), name)}
	for _, row := range a.Rows {
		more.Rows = append(more.Rows, append(slices.Clone(row), value))
	}
	return more
}

// cell returns the value of a row's column.
func (a *table) cell(row []any, column string) any {
	return row[slices.Index(a.Columns, column)]
}

// parquet reads a file of the bucket by parquet-go.
func (f folder) parquet(t *testing.T, key string) table {
	t.Helper()
	data := f.read(t, key)
	opened, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatalf("open %s: %v", key, err)
	}
	var read table
	for _, field := range opened.Schema().Fields() {
		read.Columns = append(read.Columns, field.Name())
	}
	for _, group := range opened.RowGroups() {
		rows, err := cellsOf(group)
		if err != nil {
			t.Fatalf("read %s: %v", key, err)
		}
		read.Rows = append(read.Rows, rows...)
	}
	return read
}

func cellsOf(group parquet.RowGroup) (cells [][]any, err error) {
	var leaves []parquet.LeafColumn
	for _, path := range group.Schema().Columns() {
		leaf, _ := group.Schema().Lookup(path...)
		leaves = append(leaves, leaf)
	}
	rows := group.Rows()
	defer func() { err = errors.Join(err, rows.Close()) }()
	buffer := make([]parquet.Row, 64)
	for {
		n, err := rows.ReadRows(buffer)
		for _, row := range buffer[:n] {
			one := make([]any, len(leaves))
			row.Range(func(i int, values []parquet.Value) bool {
				one[i], err = cellOf(leaves[i], values)
				return err == nil
			})
			cells = append(cells, one)
		}
		if errors.Is(err, io.EOF) {
			return cells, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// cellOf returns a cell. Lists are of values that are never null, the only ones that there are here.
func cellOf(leaf parquet.LeafColumn, values []parquet.Value) (any, error) {
	if leaf.MaxRepetitionLevel == 0 {
		return plainCell(leaf, values[0])
	}
	if missing := leaf.MaxDefinitionLevel - values[0].DefinitionLevel(); missing == 1 {
		return []any{}, nil
	} else if missing > 1 {
		return nil, nil
	}
	list := make([]any, len(values))
	for i, value := range values {
		item, err := plainCell(leaf, value)
		if err != nil {
			return nil, err
		}
		list[i] = item
	}
	return list, nil
}

func plainCell(leaf parquet.LeafColumn, value parquet.Value) (any, error) {
	if value.IsNull() {
		return nil, nil
	}
	kind := leaf.Node.Type()
	var logical format.LogicalTypeValue
	if annotation := kind.LogicalType(); annotation != nil {
		logical = annotation.Value
	}
	switch meaning := logical.(type) {
	case nil, *format.IntType:
		switch kind.Kind() {
		case parquet.Boolean:
			return value.Boolean(), nil
		case parquet.Int32, parquet.Int64:
			return integer(value.Int64()), nil
		case parquet.Double:
			return float(value.Double()), nil
		case parquet.ByteArray:
			return "0x" + hex.EncodeToString(value.ByteArray()), nil
		}
	case *format.StringType, *format.JsonType:
		return string(value.ByteArray()), nil
	case *format.DateType:
		return time.Unix(int64(value.Int32())*24*60*60, 0).UTC().Format(time.DateOnly), nil
	case *format.TimestampType:
		return timestamp(time.UnixMicro(value.Int64()), meaning.IsAdjustedToUTC), nil
	case *format.DecimalType:
		return decimal(value.Int64(), int(meaning.Scale)), nil
	}
	return nil, fmt.Errorf("column %v has a type that no cell is made of: %v", leaf.Path, kind)
}

// timestamp spells a time to the microsecond; one with a zone ends in Z.
func timestamp(at time.Time, zone bool) string {
	text := at.UTC().Format("2006-01-02T15:04:05.000000")
	if zone {
		text += "Z"
	}
	return text
}

func decimal(unscaled int64, scale int) string {
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	return new(big.Rat).SetFrac(big.NewInt(unscaled), ten).FloatString(scale)
}

func integer(n int64) any { return jsonNumber(strconv.FormatInt(n, 10)) }

func float(f float64) any { return jsonNumber(strconv.FormatFloat(f, 'g', -1, 64)) }

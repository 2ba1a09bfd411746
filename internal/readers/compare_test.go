//go:build readers

package readers_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

func jsonNumber(text string) any { return json.Number(text) }

// compare says how what an engine read differs from what it should have; empty when it does not.
// Rows have no order.
func compare(got, want table) string {
	if !slices.Equal(got.Columns, want.Columns) {
		return fmt.Sprintf("columns %v, want %v", got.Columns, want.Columns)
	}
	if len(got.Rows) != len(want.Rows) {
		return fmt.Sprintf("%d rows, want %d", len(got.Rows), len(want.Rows))
	}
	gotRows, wantRows := sorted(got.Rows), sorted(want.Rows)
	for i := range gotRows {
		for c, column := range want.Columns {
			if !sameCell(gotRows[i][c], wantRows[i][c]) {
				return fmt.Sprintf("row %d, column %s: %#v, want %#v\n got: %v\nwant: %v", i, column, gotRows[i][c], wantRows[i][c], gotRows[i], wantRows[i])
			}
		}
	}
	return ""
}

// sorted orders rows by what they say.
func sorted(rows [][]any) [][]any {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b []any) int {
		return cmp.Compare(fmt.Sprintf("%q", a), fmt.Sprintf("%q", b))
	})
	return rows
}

func sameCell(a, b any) bool {
	switch want := b.(type) {
	case []any:
		got, ok := a.([]any)
		return ok && slices.EqualFunc(got, want, sameCell)
	case json.Number:
		got, ok := a.(json.Number)
		return ok && (got == want || sameFloat(got, want))
	}
	return a == b
}

// sameFloat compares fractions, which programs spell in several ways. Integers must be spelled alike: as
// floats many of them would be equal.
func sameFloat(a, b json.Number) bool {
	if !strings.ContainsAny(string(a)+string(b), ".e") {
		return false
	}
	x, errX := a.Float64()
	y, errY := b.Float64()
	return errX == nil && errY == nil && x == y
}

package parquetinfo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	// maxDoubts bounds what one version can put into its record.
	maxDoubts = 20
	// RowsUnknown stands for a row count that the feed did not give.
	RowsUnknown int64 = -1
)

// Doubts compares the parts of one table of a version (its snapshot, its changes or its id map)
// with each other and with the rows that the feed says they have in all (RowsUnknown: not
// compared). It returns one sentence for each contradiction, at most twenty and a line that
// counts the rest; nil when there is none. The order of columns does not count, since readers
// match them by name. Rows are compared only when every footer could be read.
func Doubts(parts []PartInfo, rowCount int64) []string {
	var doubts []string
	var first *PartInfo
	rows, readable := int64(0), true
	for i := range parts {
		part := &parts[i]
		if part.Err != nil {
			doubts = append(doubts, fmt.Sprintf("%s: footer cannot be read: %v", part.Path, part.Err))
			readable = false
			continue
		}
		rows += part.Rows
		if first == nil {
			first = part
			continue
		}
		if difference := differ(first, part); difference != "" {
			doubts = append(doubts, fmt.Sprintf("%s: schema differs from %s: %s", part.Path, first.Path, difference))
		}
	}
	if readable && rowCount != RowsUnknown && rows != rowCount {
		doubts = append(doubts, fmt.Sprintf("parts hold %d rows, the feed says %d", rows, rowCount))
	}
	if len(doubts) > maxDoubts {
		rest := len(doubts) - maxDoubts
		doubts = append(doubts[:maxDoubts], fmt.Sprintf("%d more doubts are not listed", rest))
	}
	return doubts
}

// differ names the first column in which two parts differ, or returns "".
func differ(a, b *PartInfo) string {
	left, right := byPath(a.Columns), byPath(b.Columns)
	for len(left) > 0 || len(right) > 0 {
		switch {
		case len(right) == 0 || len(left) > 0 && left[0].Path < right[0].Path:
			return fmt.Sprintf("lacks column %q", left[0].Path)
		case len(left) == 0 || right[0].Path < left[0].Path:
			return fmt.Sprintf("has column %q in addition", right[0].Path)
		case left[0].Type != right[0].Type:
			return fmt.Sprintf("column %q is %s, not %s", right[0].Path, right[0].Type, left[0].Type)
		}
		left, right = left[1:], right[1:]
	}
	return ""
}

func byPath(columns []Column) []Column {
	return slices.SortedFunc(slices.Values(columns), func(a, b Column) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Type, b.Type))
	})
}

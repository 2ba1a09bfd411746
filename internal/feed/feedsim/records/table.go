package records

import (
	"maps"
	"reflect"
	"slices"
	"time"
)

// Row is one record. Values are keyed by column name; an absent or nil value is null.
// Go types by column type: string, json: string; integer: int64; float: float64; boolean: bool; date: int32 days since
// 1970; decimal: int64 unscaled; timestamp and timestamptz: int64 microseconds since 1970; geometry: WKB bytes;
// array: []string.
type Row struct {
	ID         string
	LastChange int64 // the version in which the row was last added or changed
	Values     map[string]any
}

func (r Row) clone() Row {
	return Row{ID: r.ID, LastChange: r.LastChange, Values: maps.Clone(r.Values)}
}

// Table is the state of a dataset in one version: its columns and its rows, in the order of the snapshot.
type Table struct {
	Schema Schema
	Rows   []Row
}

// Clone returns a table that can be edited without touching t. Values themselves are shared: they are never edited.
func (t Table) Clone() Table {
	rows := make([]Row, len(t.Rows))
	for i, row := range t.Rows {
		rows[i] = row.clone()
	}
	return Table{Schema: t.Schema.Clone(), Rows: rows}
}

// Documents returns the names of attachments that the rows' cells hold, each once, in row order.
func (t Table) Documents() []string {
	var names []string
	seen := map[string]bool{}
	for _, column := range t.Schema.Columns {
		if !column.Document {
			continue
		}
		for _, row := range t.Rows {
			name, ok := row.Values[column.Name].(string)
			if ok && !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// Envelope holds the values that every row of a version's files shares.
type Envelope struct {
	Dataset   string
	Place     *string // nil for a dataset with no place
	Version   int64
	SourceURL *string
	FetchedAt *time.Time
}

// Change is one row of a changes file.
type Change struct {
	Row     Row    // for a delete only ID counts
	Kind    string // added, changed or removed
	Columns []string
	Match   string   // key, content or agent, on changed rows
	Score   *float64 // on an agent match
}

// The kinds of Change.
const (
	Added   = "added"
	Changed = "changed"
	Removed = "removed"
)

// Diff returns what must be applied to before to get after, as the feed computes it: compared over the columns both
// have, without columns that hold one single value in every row of both.
func Diff(before, after Table) []Change {
	compared := comparedColumns(before, after)
	old := make(map[string]Row, len(before.Rows))
	for _, row := range before.Rows {
		old[row.ID] = row
	}
	var changes []Change
	for _, row := range after.Rows {
		previous, held := old[row.ID]
		delete(old, row.ID)
		if !held {
			changes = append(changes, Change{Row: row, Kind: Added})
			continue
		}
		if columns := differingColumns(previous, row, compared); len(columns) > 0 {
			change := Change{Row: row, Kind: Changed, Columns: columns}
			change.Match, change.Score = matchOf(after.Schema.Key, columns, row.ID)
			changes = append(changes, change)
		}
	}
	for _, row := range before.Rows {
		if _, gone := old[row.ID]; gone {
			changes = append(changes, Change{Row: Row{ID: row.ID}, Kind: Removed})
		}
	}
	return changes
}

// matchOf says how the record was matched: by its key, or by the agent where there is no key or the key itself changed.
func matchOf(key, changed []string, id string) (string, *float64) {
	keyHeld := len(key) > 0 && !slices.ContainsFunc(key, func(name string) bool { return slices.Contains(changed, name) })
	if keyHeld {
		return "key", nil
	}
	score := 0.85 + float64(id[len(id)-1]%16)/100
	return "agent", &score
}

func comparedColumns(before, after Table) []string {
	var names []string
	for _, column := range after.Schema.Columns {
		old, ok := before.Schema.Column(column.Name)
		if !ok || !old.sameShape(column) {
			continue
		}
		if !singleValued(before.Rows, column.Name) || !singleValued(after.Rows, column.Name) {
			names = append(names, column.Name)
		}
	}
	return names
}

func singleValued(rows []Row, column string) bool {
	for _, row := range rows {
		if !reflect.DeepEqual(row.Values[column], rows[0].Values[column]) {
			return false
		}
	}
	return true
}

func differingColumns(a, b Row, columns []string) []string {
	var names []string
	for _, name := range columns {
		if !reflect.DeepEqual(a.Values[name], b.Values[name]) {
			names = append(names, name)
		}
	}
	return names
}

package records

import (
	"fmt"
	"reflect"
	"slices"
)

// EditRows removes, changes and adds rows. The counts are exact as long as the table has rows enough; a changed row is
// never also a removed one.
func (m *Maker) EditRows(t *Table, add, change, remove int) {
	order := m.Random.Perm(len(t.Rows))
	remove = min(remove, len(order))
	change = min(change, len(order)-remove)
	for _, i := range order[remove : remove+change] {
		m.changeRow(t, i)
	}
	gone := make(map[int]bool, remove)
	for _, i := range order[:remove] {
		gone[i] = true
	}
	kept := make([]Row, 0, len(t.Rows)-remove)
	for i, row := range t.Rows {
		if !gone[i] {
			kept = append(kept, row)
		}
	}
	t.Rows = kept
	m.AddRows(t, add)
}

// changeRow gives one or two of the row's columns another value.
func (m *Maker) changeRow(t *Table, index int) {
	columns := editable(t.Schema)
	row := t.Rows[index]
	chosen := m.Random.Perm(len(columns))
	for _, i := range chosen[:min(len(chosen), 1+m.Random.IntN(2))] {
		column := columns[i]
		before := row.Values[column.Name]
		for reflect.DeepEqual(before, row.Values[column.Name]) {
			row.Values[column.Name] = m.value(column)
		}
	}
	t.Rows[index].LastChange = m.Version
}

// editable returns the columns that an edit or a schema change may touch: not keys, documents or constant ones.
func editable(schema Schema) []Column {
	var columns []Column
	for _, column := range schema.Columns {
		if !column.Constant && !column.Document && !column.Unique && !slices.Contains(schema.Key, column.Name) {
			columns = append(columns, column)
		}
	}
	return columns
}

// AddColumn adds a text column with a value in every row: a MINOR change. It returns the column's name.
func (m *Maker) AddColumn(t *Table) string {
	column := Column{Name: fmt.Sprintf("added_in_%d", m.Version), Type: String}
	t.Schema.Columns = append(t.Schema.Columns, column)
	for _, row := range t.Rows {
		row.Values[column.Name] = m.value(column)
	}
	return column.Name
}

// PinKey makes the unique column the key of a table that has none: a MINOR change.
func (m *Maker) PinKey(t *Table) error {
	if len(t.Schema.Key) > 0 {
		return fmt.Errorf("pin key: the dataset has one, %v", t.Schema.Key)
	}
	i := slices.IndexFunc(t.Schema.Columns, func(c Column) bool { return c.Unique })
	if i < 0 {
		return fmt.Errorf("pin key: no unique column")
	}
	t.Schema.Key = []string{t.Schema.Columns[i].Name}
	return nil
}

// RemoveColumn removes the last column that is neither key, document, constant nor geometry: a MAJOR change.
func (m *Maker) RemoveColumn(t *Table) error {
	for _, column := range slices.Backward(editable(t.Schema)) {
		if column.Type == Geometry {
			continue
		}
		t.Schema.Columns = slices.DeleteFunc(t.Schema.Columns, func(c Column) bool { return c.Name == column.Name })
		for _, row := range t.Rows {
			delete(row.Values, column.Name)
		}
		return nil
	}
	return fmt.Errorf("remove column: none left to remove")
}

// RetypeColumn turns the first number or date column into text: a MAJOR change.
func (m *Maker) RetypeColumn(t *Table) error {
	numeric := []string{Integer, Float, Decimal, Date, Boolean, Timestamp, Timestamptz}
	for i, column := range t.Schema.Columns {
		if !slices.Contains(numeric, column.Type) || column.Constant || slices.Contains(t.Schema.Key, column.Name) {
			continue
		}
		t.Schema.Columns[i] = Column{Name: column.Name, Type: String}
		for _, row := range t.Rows {
			if value := row.Values[column.Name]; value != nil {
				row.Values[column.Name] = fmt.Sprint(value)
			}
		}
		return nil
	}
	return fmt.Errorf("retype column: no number or date column left")
}

// ReplaceIDs gives about the share of rows (0 to 1, at least one row) a new id and returns the id map of all rows.
func (m *Maker) ReplaceIDs(t *Table, share float64) []IDPair {
	pairs := make([]IDPair, len(t.Rows))
	for i := range t.Rows {
		previous := t.Rows[i].ID
		if i == 0 || m.Random.Float64() < share {
			t.Rows[i].ID = recordID(m.Random)
			t.Rows[i].LastChange = m.Version
		}
		pairs[i] = IDPair{Previous: previous, Current: t.Rows[i].ID}
	}
	return pairs
}

package rows

import (
	"fmt"
	"maps"
	"slices"
)

// explain looks up by name what does not fit, and makes findings of it.
func (a *auditor) explain(in Input, found *differences, columns map[string]bool) error {
	for _, reason := range slices.Sorted(maps.Keys(found.byReason)) {
		suspects := found.byReason[reason]
		finding := Finding{Kind: KindReplay, Code: reason, Table: TableSnapshot, Rows: found.totals[reason], Detail: fmt.Sprintf("%s: %d", reason, found.totals[reason])}
		sources := [][]Part{in.Previous.Parts, in.Snapshot.Parts, in.Changes}
		names, err := a.names(sources, recordIDColumn, suspects)
		if err != nil {
			return a.unreadable(err, TableSnapshot)
		}
		finding.IDs = first(slices.Collect(maps.Values(names)))
		if reason == reasonValue {
			if finding.Columns, err = a.differing(in, suspects, columns); err != nil {
				return a.unreadable(err, TableSnapshot)
			}
		}
		a.find(finding)
	}
	return nil
}

// names returns the record ids behind hashes, long ones cut.
func (a *auditor) names(sources [][]Part, column string, hashes map[uint64]bool) (map[uint64]string, error) {
	names := map[uint64]string{}
	for _, parts := range sources {
		err := a.texts(parts, column, func(text []byte) {
			if h := a.hash.text(text); hashes[h] && names[h] == "" {
				names[h] = string(text[:min(len(text), maxIDBytes+1)])
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// repeated returns the texts of a column that stand in more than one row, of those whose hashes do. Of a
// long one it keeps the beginning and a hash of another seed.
func (a *auditor) repeated(parts []Part, column string, hashes map[uint64]bool) ([]string, error) {
	type key struct {
		text string
		hash uint64
	}
	seen, other := map[key]int{}, newHasher()
	err := a.texts(parts, column, func(text []byte) {
		if hashes[a.hash.text(text)] {
			seen[key{string(text[:min(len(text), maxIDBytes+1)]), other.text(text)}]++
		}
	})
	var twice []string
	for key, n := range seen {
		if n > 1 {
			twice = append(twice, key.text)
		}
	}
	return twice, err
}

// texts calls visit with each value of a text column that is not null.
func (a *auditor) texts(parts []Part, column string, visit func(text []byte)) error {
	sc := a.scan(column)
	sc.looks = []look{{column, texts, func(r run) {
		r.each(func(_, value int) {
			if value >= 0 {
				visit(r.text(value))
			}
		})
	}}}
	for _, part := range parts {
		if err := sc.part(part, func(*batch) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// differing names the columns in which records differ from what the changes lead to: from the changes
// where they name the record, else from the previous snapshot.
func (a *auditor) differing(in Input, suspects map[uint64]bool, columns map[string]bool) ([]string, error) {
	now, err := a.cells(in.Snapshot.Parts, suspects, columns)
	if err != nil {
		return nil, err
	}
	expected, err := a.cells(in.Previous.Parts, suspects, columns)
	if err != nil {
		return nil, err
	}
	moved, err := a.cells(in.Changes, suspects, columns)
	if err != nil {
		return nil, err
	}
	maps.Copy(expected, moved)
	differ := map[string]bool{}
	for id, row := range now {
		for column, h := range row {
			if expected[id] != nil && expected[id][column] != h {
				differ[column] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(differ)), nil
}

// cells returns what each compared column adds to the sum of the wanted rows.
func (a *auditor) cells(parts []Part, wanted map[uint64]bool, columns map[string]bool) (map[uint64]map[string]uint64, error) {
	rows := map[uint64]map[string]uint64{}
	sc := a.scan(recordIDColumn)
	sc.compared = func(column string) bool { return columns[column] }
	sc.fold = func(column, _ string, weights []uint64) {
		for row, weight := range weights {
			id := sc.batch.ids[row]
			if sc.batch.nulls[row] || !wanted[id] {
				continue
			}
			if rows[id] == nil {
				rows[id] = map[string]uint64{}
			}
			rows[id][column] += weight // leaves of one column are added
		}
	}
	for _, part := range parts {
		if err := sc.part(part, func(*batch) error { return nil }); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

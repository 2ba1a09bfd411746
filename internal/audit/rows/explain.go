package rows

import (
	"fmt"
	"maps"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// explain looks up by name what does not fit, and makes findings of it.
func (a *auditor) explain(in Input, found *differences, columns map[string]bool) error {
	for _, reason := range slices.Sorted(maps.Keys(found.byReason)) {
		suspects := found.byReason[reason]
		finding := Finding{Kind: KindReplay, Rows: found.totals[reason], Detail: fmt.Sprintf("%s: %d", reason, found.totals[reason])}
		sources := [][]Part{in.Previous.Parts, in.Snapshot.Parts, in.Changes}
		names, err := a.names(sources, recordIDColumn, suspects)
		if err != nil {
			return a.unreadable(err)
		}
		finding.IDs = first(slices.Collect(maps.Values(names)))
		if reason == reasonValue {
			if finding.Columns, err = a.differing(in, suspects, columns); err != nil {
				return a.unreadable(err)
			}
		}
		a.find(finding)
	}
	return nil
}

// names returns the record ids behind hashes.
func (a *auditor) names(sources [][]Part, column string, hashes map[uint64]bool) (map[uint64]string, error) {
	names := map[uint64]string{}
	for _, parts := range sources {
		err := a.texts(parts, column, func(text []byte) {
			if h := a.hash.text(text); hashes[h] {
				names[h] = string(text)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// repeated returns the texts of a column that stand in more than one row, of those whose hashes do.
func (a *auditor) repeated(parts []Part, column string, hashes map[uint64]bool) ([]string, error) {
	seen := map[string]int{}
	err := a.texts(parts, column, func(text []byte) {
		if hashes[a.hash.text(text)] {
			seen[string(text)]++
		}
	})
	var twice []string
	for text, n := range seen {
		if n > 1 {
			twice = append(twice, text)
		}
	}
	return twice, err
}

// texts calls visit with each value of a text column that is not null.
func (a *auditor) texts(parts []Part, column string, visit func(text []byte)) error {
	sc := &scan{hash: a.hash, id: column, compared: func(string) bool { return false }}
	sc.value = func(of string, _ int, v parquet.Value) {
		if of == column && !v.IsNull() {
			visit(v.ByteArray())
		}
	}
	for _, part := range parts {
		if err := sc.part(part, func(*batch) error { return a.alive() }); err != nil {
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

// cells returns the hash of each compared column of the wanted rows.
func (a *auditor) cells(parts []Part, wanted map[uint64]bool, columns map[string]bool) (map[uint64]map[string]uint64, error) {
	rows := map[uint64]map[string]uint64{}
	sc := &scan{hash: a.hash, id: recordIDColumn, compared: func(column string) bool { return columns[column] }}
	sc.fold = func(column string, _ int, hashes []uint64) {
		for row, h := range hashes {
			id := sc.batch.ids[row]
			if sc.batch.nulls[row] || !wanted[id] {
				continue
			}
			if rows[id] == nil {
				rows[id] = map[string]uint64{}
			}
			rows[id][column] += h // leaves of one column are added
		}
	}
	for _, part := range parts {
		if err := sc.part(part, func(*batch) error { return a.alive() }); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// idMap holds an id map against both snapshots: every new id is in this one, every previous id in the
// previous one, each at most once.
func (a *auditor) idMap(in Input) error {
	if len(in.IDMap) == 0 {
		return nil
	}
	if err := a.idMapSide(in.IDMap, recordIDColumn, in.Snapshot, "this snapshot"); err != nil {
		return err
	}
	if in.IDMapFrom == nil {
		return nil
	}
	return a.idMapSide(in.IDMap, previousIDColumn, *in.IDMapFrom, "the previous snapshot")
}

func (a *auditor) idMapSide(parts []Part, column string, s Snapshot, where string) error {
	counts := map[uint64]int{}
	collect := func(text []byte) { counts[a.hash.text(text)]++ }
	if err := a.texts(parts, column, collect); err != nil {
		return a.unreadable(err)
	}
	twice, missing := map[uint64]bool{}, map[uint64]bool{}
	for h, n := range counts {
		missing[h] = true
		if n > 1 && len(twice) < maxSuspects {
			twice[h] = true
		}
	}
	if err := a.texts(s.Parts, recordIDColumn, func(text []byte) { delete(missing, a.hash.text(text)) }); err != nil {
		return a.unreadable(err)
	}
	for _, problem := range []struct {
		hashes map[uint64]bool
		text   string
	}{
		{twice, fmt.Sprintf("ids stand more than once in %s of the id map", column)},
		{missing, fmt.Sprintf("ids of %s of the id map are not in %s", column, where)},
	} {
		if len(problem.hashes) == 0 {
			continue
		}
		names, err := a.names([][]Part{parts}, column, problem.hashes)
		if err != nil {
			return a.unreadable(err)
		}
		a.find(Finding{Kind: KindIDMap, Rows: int64(len(problem.hashes)), IDs: first(slices.Collect(maps.Values(names))), Columns: []string{column},
			Detail: fmt.Sprintf("%d %s", len(problem.hashes), problem.text)})
	}
	return nil
}

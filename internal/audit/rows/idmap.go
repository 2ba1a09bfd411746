package rows

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// idMap holds an id map against both snapshots: every new id is in this one, every previous id in the
// previous one, each at most once.
func (a *auditor) idMap(in Input, this *snapshotFacts) error {
	if len(in.IDMap) == 0 {
		return nil
	}
	if err := a.idMapEnvelope(in); err != nil {
		return a.unreadable(err, TableIDMap)
	}
	if err := a.idMapSide(in.IDMap, recordIDColumn, this.heap, "this snapshot"); err != nil {
		return a.unreadable(err, TableIDMap)
	}
	if in.IDMapFrom == nil {
		a.skip("%s of the id map: the previous snapshot is not held, or cannot be read", previousIDColumn)
		return nil
	}
	before, err := a.readSnapshot(*in.IDMapFrom, nil, false)
	if err == nil {
		err = a.idMapSide(in.IDMap, previousIDColumn, before.heap, "the previous snapshot")
		if err != nil {
			err = a.unreadable(err, TableIDMap)
		}
	} else if err = a.machine(err); err == nil {
		a.skip("%s of the id map: the previous snapshot cannot be read; its own version tells more", previousIDColumn)
	}
	return errors.Join(err, a.closed(before))
}

// idMapEnvelope wants the dataset's id in each row.
func (a *auditor) idMapEnvelope(in Input) error {
	check := newEnvelopeCheck(a.hash, in.Snapshot.Envelope, true)
	sc := a.scan(recordIDColumn)
	sc.looks = []look{{datasetColumn, texts, check.lookDataset}}
	for _, part := range in.IDMap {
		if err := sc.part(part, func(*batch) error { return nil }); err != nil {
			return err
		}
	}
	a.result.Findings = append(a.result.Findings, check.findings(TableIDMap)...)
	return nil
}

// idMapSide holds one column of an id map against the record ids of a snapshot.
func (a *auditor) idMapSide(parts []Part, column string, snapshot *heap, where string) (err error) {
	ids, nulls, err := a.idsOf(parts, column)
	if ids != nil {
		defer func() {
			a.result.Spilled += ids.spilled()
			err = errors.Join(err, ids.close())
		}()
	}
	if err != nil {
		return err
	}
	if nulls > 0 {
		a.find(Finding{Kind: KindIDMap, Code: "null " + column, Table: TableIDMap, Rows: nulls, Columns: []string{column},
			Detail: fmt.Sprintf("%d rows of the id map have no %s", nulls, column)})
	}
	twice, missing, sorter := suspects{}, suspects{}, &sorter{crowded: crowdedFor(a.Memory)}
	for i := range a.partitions {
		mapped, err := sorter.partition(0, ids, i)
		if err != nil {
			return err
		}
		there, err := sorter.partition(1, snapshot, i)
		if err != nil {
			return err
		}
		at := 0
		for n, f := range mapped {
			if n > 0 && mapped[n-1].id == f.id {
				twice.add(f.id)
				continue
			}
			for at < len(there) && there[at].id < f.id {
				at++
			}
			if at == len(there) || there[at].id != f.id {
				missing.add(f.id)
			}
		}
	}
	if err := a.idMapFinding(parts, column, twice, "twice", fmt.Sprintf("ids stand more than once in %s of the id map", column)); err != nil {
		return err
	}
	return a.idMapFinding(parts, column, missing, "missing", fmt.Sprintf("ids of %s of the id map are not in %s", column, where))
}

// suspects are hashes of ids, a bounded number, and how many there are in all.
type suspects struct {
	hashes map[uint64]bool
	total  int64
}

func (s *suspects) add(id uint64) {
	if s.total++; s.hashes == nil {
		s.hashes = map[uint64]bool{}
	}
	if len(s.hashes) < maxSuspects {
		s.hashes[id] = true
	}
}

func (a *auditor) idMapFinding(parts []Part, column string, found suspects, code, text string) error {
	if found.total == 0 {
		return nil
	}
	names, err := a.names([][]Part{parts}, column, found.hashes)
	if err != nil {
		return err
	}
	a.find(Finding{Kind: KindIDMap, Code: code + " " + column, Table: TableIDMap, Rows: found.total, IDs: first(slices.Collect(maps.Values(names))),
		Columns: []string{column}, Detail: fmt.Sprintf("%d %s", found.total, text)})
	return nil
}

// idsOf reduces one column of ids.
func (a *auditor) idsOf(parts []Part, column string) (h *heap, nulls int64, err error) {
	h = newHeap(a.partitions, a.Folder)
	sc := a.scan(column)
	for _, part := range parts {
		err := sc.part(part, func(b *batch) error {
			for row := range b.rows {
				if b.nulls[row] {
					nulls++
				} else if err := h.add(fact{id: b.ids[row]}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return h, nulls, err
		}
	}
	return h, nulls, nil
}

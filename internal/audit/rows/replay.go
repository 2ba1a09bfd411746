package rows

import (
	"fmt"
	"maps"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// maxSuspects bounds how many rows are looked up again by name.
const maxSuspects = 10_000

// replay applies the changes to the previous snapshot and holds the outcome against this one, by record
// id and by value.
func (a *auditor) replay(in Input, this *snapshotFacts, columns map[string]bool) error {
	before, err := a.readSnapshot(*in.Previous, func(column string) bool { return columns[column] })
	if before != nil {
		defer before.heap.close() //nolint:errcheck // temporary files, removed a second time by nobody
	}
	if err != nil {
		return a.unreadable(err)
	}
	single := singleValued(before, this)
	for column := range single {
		delete(columns, column)
	}
	a.result.Compared = slices.Sorted(maps.Keys(columns))
	changes, err := a.readChanges(in.Changes, func(column string) bool { return columns[column] })
	if changes != nil {
		defer changes.heap.close() //nolint:errcheck // temporary files, removed a second time by nobody
	}
	if err != nil {
		return a.unreadable(err)
	}
	a.counts(in, changes)
	found := &differences{lessBefore: before.less(single), lessThis: this.less(single), byReason: map[string]map[uint64]bool{}, totals: map[string]int64{}}
	for i := range a.partitions {
		if err := a.comparePartition(i, before, this, changes, found); err != nil {
			return err
		}
	}
	a.result.Replayed = true
	return a.explain(in, found, columns)
}

// changesAlone holds the changes against the feed's counts where there is nothing to replay them on.
func (a *auditor) changesAlone(in Input) error {
	if len(in.Changes) == 0 {
		return nil
	}
	changes, err := a.readChanges(in.Changes, func(string) bool { return false })
	if changes != nil {
		defer changes.heap.close() //nolint:errcheck // temporary files, removed a second time by nobody
	}
	if err != nil {
		return a.unreadable(err)
	}
	a.counts(in, changes)
	return nil
}

// changesFacts is what one reading of the changes gives.
type changesFacts struct {
	heap     *heap
	rows     int64
	ops      map[op]int64
	nullIDs  int64
	envelope envelope
}

// readChanges reduces the rows of the changes.
func (a *auditor) readChanges(parts []Part, compared func(string) bool) (*changesFacts, error) {
	h, err := newHeap(a.partitions, a.Folder)
	if err != nil {
		return nil, err
	}
	facts := &changesFacts{heap: h, ops: map[op]int64{}}
	var upsert, remove, added, changed, removed []bool
	look := func(column string, row int, v parquet.Value) {
		grow := func(list *[]bool) {
			for len(*list) <= row {
				*list = append(*list, false)
			}
		}
		if column != opColumn && column != changeColumn {
			return
		}
		for _, list := range []*[]bool{&upsert, &remove, &added, &changed, &removed} {
			grow(list)
		}
		switch word := string(v.ByteArray()); {
		case column == opColumn:
			upsert[row], remove[row] = word == "upsert", word == "delete"
		default:
			added[row], changed[row], removed[row] = word == "added", word == "changed", word == "removed"
		}
	}
	opOf := func(row int) op {
		switch {
		case row >= len(upsert):
		case upsert[row] && added[row]:
			return opAdded
		case upsert[row] && changed[row]:
			return opChanged
		case remove[row] && removed[row]:
			return opRemoved
		}
		return opUnknown
	}
	sc := &scan{hash: a.hash, id: recordIDColumn, compared: compared, value: look}
	for _, part := range parts {
		err := sc.part(part, func(b *batch) error {
			for row := range b.rows {
				facts.rows++
				kind := opOf(row)
				facts.ops[kind]++
				if b.nulls[row] {
					facts.nullIDs++
					continue
				}
				if err := h.add(fact{id: b.ids[row], sum: b.sums[row], op: kind}); err != nil {
					return err
				}
			}
			clear(upsert)
			clear(remove)
			clear(added)
			clear(changed)
			clear(removed)
			return a.alive()
		})
		if err != nil {
			return facts, err
		}
	}
	return facts, nil
}

// counts holds the changes against the feed's counts.
func (a *auditor) counts(in Input, changes *changesFacts) {
	if n := changes.ops[opUnknown]; n > 0 {
		a.find(Finding{Kind: KindEnvelope, Rows: n, Columns: []string{opColumn, changeColumn},
			Detail: fmt.Sprintf("%d rows of the changes are none of upsert added, upsert changed, delete removed", n)})
	}
	if changes.nullIDs > 0 {
		a.find(Finding{Kind: KindRecordID, Rows: changes.nullIDs, Detail: fmt.Sprintf("%d rows of the changes have no record id", changes.nullIDs)})
	}
	if in.Counts == nil {
		return
	}
	got := Counts{Added: changes.ops[opAdded], Changed: changes.ops[opChanged], Removed: changes.ops[opRemoved]}
	if got != *in.Counts {
		a.find(Finding{Kind: KindCounts, Detail: fmt.Sprintf("the changes add %d, change %d and remove %d records; the feed counts %d, %d and %d",
			got.Added, got.Changed, got.Removed, in.Counts.Added, in.Counts.Changed, in.Counts.Removed)})
	}
}

// The ways in which a replay can fail for one record.
const (
	reasonLost      = "the snapshot lacks records that no change removes"
	reasonNew       = "the snapshot has records that no change adds"
	reasonValue     = "records have other values than the changes lead to"
	reasonKept      = "the snapshot has records that the changes remove"
	reasonNotThere  = "the changes remove or change records that the previous snapshot lacks"
	reasonThere     = "the changes add records that the previous snapshot has"
	reasonDropped   = "the snapshot lacks records that the changes add or change"
	reasonTwice     = "the changes name records more than once"
	reasonPrevTwice = "the previous snapshot has records more than once"
)

// differences collects what does not fit.
type differences struct {
	lessBefore, lessThis uint64
	byReason             map[string]map[uint64]bool // hashes of ids, a bounded number
	totals               map[string]int64
}

func (d *differences) add(reason string, id uint64) {
	d.totals[reason]++
	if d.byReason[reason] == nil {
		d.byReason[reason] = map[uint64]bool{}
	}
	if len(d.byReason[reason]) < maxSuspects {
		d.byReason[reason][id] = true
	}
}

func (a *auditor) comparePartition(i int, before, this *snapshotFacts, changes *changesFacts, found *differences) error {
	old, err := before.heap.partition(i)
	if err != nil {
		return err
	}
	now, err := this.heap.partition(i)
	if err != nil {
		return err
	}
	moves, err := changes.heap.partition(i)
	if err != nil {
		return err
	}
	merge := merger{old: old, now: now, moves: moves, found: found}
	for merge.next() {
		merge.judge()
	}
	return a.alive()
}

// merger walks three sorted lists side by side, one record at a time.
type merger struct {
	old, now, moves []fact
	found           *differences

	id           uint64
	was, is, one *fact
}

// next goes to the next record id that any list has.
func (m *merger) next() bool {
	if len(m.old) == 0 && len(m.now) == 0 && len(m.moves) == 0 {
		return false
	}
	m.id = ^uint64(0)
	for _, list := range [][]fact{m.old, m.now, m.moves} {
		if len(list) > 0 {
			m.id = min(m.id, list[0].id)
		}
	}
	m.was = m.take(&m.old, reasonPrevTwice)
	m.is = m.take(&m.now, "") // told by unique
	m.one = m.take(&m.moves, reasonTwice)
	return true
}

func (m *merger) take(list *[]fact, twice string) *fact {
	var taken *fact
	for n := 0; len(*list) > 0 && (*list)[0].id == m.id; n++ {
		if n == 0 {
			taken = &(*list)[0]
		}
		if n == 1 && twice != "" {
			m.found.add(twice, m.id)
		}
		*list = (*list)[1:]
	}
	return taken
}

// judge holds one record against the rules of the feed ("How to apply changes").
func (m *merger) judge() {
	was, is, one := m.was, m.is, m.one
	if one == nil {
		switch {
		case is == nil:
			m.found.add(reasonLost, m.id)
		case was == nil:
			m.found.add(reasonNew, m.id)
		case was.sum-m.found.lessBefore != is.sum-m.found.lessThis:
			m.found.add(reasonValue, m.id)
		}
		return
	}
	switch one.op {
	case opRemoved, opChanged:
		if was == nil {
			m.found.add(reasonNotThere, m.id)
		}
	case opAdded:
		if was != nil {
			m.found.add(reasonThere, m.id)
		}
	default:
		return // told by counts
	}
	switch {
	case one.op == opRemoved && is != nil:
		m.found.add(reasonKept, m.id)
	case one.op == opRemoved:
	case is == nil:
		m.found.add(reasonDropped, m.id)
	case one.sum != is.sum-m.found.lessThis:
		m.found.add(reasonValue, m.id)
	}
}

package rows

// maxSuspects bounds how many rows are looked up again by name.
const maxSuspects = 10_000

// The ways in which the changes and the snapshots can contradict each other for one record.
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
	repeated             map[uint64]bool // ids that stand twice in the snapshot, a bounded number
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

func newDifferences() *differences {
	return &differences{byReason: map[string]map[uint64]bool{}, totals: map[string]int64{}, repeated: map[uint64]bool{}}
}

// compare walks the lists side by side, a partition at a time. before is nil where there is no replay.
func (a *auditor) compare(before, this *snapshotFacts, changes *changesFacts, found *differences) error {
	sorter := &sorter{crowded: crowdedFor(a.Memory)}
	for i := range a.partitions {
		if err := a.alive(); err != nil {
			return err
		}
		now, err := sorter.partition(0, this.heap, i)
		if err != nil {
			return err
		}
		for at := 1; at < len(now) && len(found.repeated) < maxSuspects; at++ {
			if now[at].id == now[at-1].id {
				found.repeated[now[at].id] = true
			}
		}
		if before == nil {
			continue
		}
		old, err := sorter.partition(1, before.heap, i)
		if err != nil {
			return err
		}
		moves, err := sorter.partition(2, changes.heap, i)
		if err != nil {
			return err
		}
		merge := merger{old: old, now: now, moves: moves, found: found}
		for merge.next() {
			merge.judge()
		}
	}
	return nil
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
	if len(m.old) > 0 {
		m.id = m.old[0].id
	}
	if len(m.now) > 0 {
		m.id = min(m.id, m.now[0].id)
	}
	if len(m.moves) > 0 {
		m.id = min(m.id, m.moves[0].id)
	}
	m.was = m.take(&m.old, reasonPrevTwice)
	m.is = m.take(&m.now, "") // told as not unique
	m.one = m.take(&m.moves, reasonTwice)
	return true
}

func (m *merger) take(list *[]fact, twice string) *fact {
	rest := *list
	if len(rest) == 0 || rest[0].id != m.id {
		return nil
	}
	taken := &rest[0]
	n := 1
	for n < len(rest) && rest[n].id == m.id {
		n++
	}
	if n > 1 && twice != "" {
		m.found.add(twice, m.id)
	}
	*list = rest[n:]
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
		return // told by the changes' own words
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

package rows

import (
	"fmt"
	"slices"
)

// move is what is known of one row of the changes while its piece is read.
type move struct {
	upsert, remove          bool
	added, changed, removed bool
	agent                   bool // matched by the agent
}

func (m move) op() op {
	switch {
	case m.upsert && m.added:
		return opAdded
	case m.upsert && m.changed:
		return opChanged
	case m.remove && m.removed:
		return opRemoved
	}
	return opUnknown
}

// changesFacts is what one reading of the changes gives.
type changesFacts struct {
	heap     *heap
	rows     int64
	ops      map[op]int64
	nullIDs  int64
	envelope *envelopeCheck
}

// changesReader looks at the envelope columns of changes, piece by piece.
type changesReader struct {
	*envelopeCheck
	moves []move
	names map[uint64]bool // hashes of the names of the dataset's own columns
}

func (c *changesReader) at(row int) *move {
	for len(c.moves) <= row {
		c.moves = append(c.moves, move{})
	}
	return &c.moves[row]
}

func (c *changesReader) begin() {
	c.envelopeCheck.begin()
	clear(c.moves)
}

func (c *changesReader) looks() []look {
	return append(c.envelopeCheck.looks(),
		look{opColumn, texts, c.words(func(m *move, word string) { m.upsert, m.remove = word == "upsert", word == "delete" })},
		look{changeColumn, texts, c.words(func(m *move, word string) {
			m.added, m.changed, m.removed = word == "added", word == "changed", word == "removed"
		})},
		look{reasonColumn, texts, c.lookReason}, look{matchColumn, texts, c.lookMatch}, look{scoreColumn, floats, c.lookScore}, look{changedColumn, texts, c.lookChanged})
}

// words reads a column of which only a few words are known.
func (c *changesReader) words(enter func(m *move, word string)) func(r run) {
	return func(r run) {
		r.each(func(row, value int) {
			if value >= 0 {
				enter(c.at(row), string(r.text(value)))
			}
		})
	}
}

func (c *changesReader) lookReason(r run) {
	right := c.hash.word("removed_at_source")
	hashes := r.hashesOfValues()
	r.each(func(row, value int) {
		removed := c.at(row).removed
		if removed != (value >= 0) || removed && hashes[value] != right {
			c.complain(reasonColumn, func() string { return r.quoted(value) })
		}
	})
}

func (c *changesReader) lookMatch(r run) {
	r.each(func(row, value int) {
		m, word := c.at(row), ""
		if value >= 0 {
			word = string(r.text(value))
		}
		m.agent = word == "agent"
		if m.changed != (value >= 0) || m.changed && !slices.Contains([]string{"key", "content", "agent"}, word) {
			c.complain(matchColumn, func() string { return r.quoted(value) })
		}
	})
}

func (c *changesReader) lookScore(r run) {
	r.each(func(row, value int) {
		m, score := c.at(row), 0.0
		if value >= 0 {
			score = r.float(value)
		}
		if m.agent != (value >= 0) || m.agent && !(score >= 0.85-1e-6 && score <= 1+1e-6) {
			c.complain(scoreColumn, func() string {
				if value < 0 {
					return "null"
				}
				return fmt.Sprint(score)
			})
		}
	})
}

// lookChanged wants names of the dataset's own columns on changed rows, and none on others.
func (c *changesReader) lookChanged(r run) {
	hashes := r.hashesOfValues()
	r.each(func(row, value int) {
		if value >= 0 && (!c.at(row).changed || !c.names[hashes[value]]) {
			c.complain(changedColumn, func() string { return r.quoted(value) })
		}
	})
}

// ruleOfMove says what the values of a column that only changes have are not.
func ruleOfMove(column string) string {
	switch column {
	case reasonColumn:
		return "is not removed_at_source on removals and null elsewhere"
	case matchColumn:
		return "is not key, content or agent on changed rows and null elsewhere"
	case scoreColumn:
		return "is not from 0.85 to 1 where the agent matched and null elsewhere"
	case changedColumn:
		return "names no column of the dataset, or stands on rows that are not changed"
	}
	return "is wrong"
}

// readChanges reduces the rows of the changes.
func (a *auditor) readChanges(in Input, compared func(string) bool) (*changesFacts, error) {
	h := newHeap(a.partitions, a.Folder)
	names := map[uint64]bool{}
	for column := range a.own {
		names[a.hash.word(column)] = true
	}
	look := &changesReader{envelopeCheck: newEnvelopeCheck(a.hash, in.Snapshot.Envelope, true), names: names}
	facts := &changesFacts{heap: h, ops: map[op]int64{}, envelope: look.envelopeCheck}
	sc := a.scan(recordIDColumn)
	sc.compared, sc.looks, sc.begin = compared, look.looks(), look.begin
	for _, part := range in.Changes {
		err := sc.part(part, func(b *batch) error {
			facts.rows += int64(b.rows)
			for row := range b.rows {
				kind := look.at(row).op()
				facts.ops[kind]++
				if b.nulls[row] {
					facts.nullIDs++
				} else if err := h.add(fact{id: b.ids[row], sum: b.sums[row], op: kind}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return facts, err
		}
	}
	return facts, nil
}

// counts holds the changes against the feed's counts, and names what is wrong with them by themselves.
func (a *auditor) counts(in Input, changes *changesFacts) {
	a.result.Changes = changes.rows
	if n := changes.ops[opUnknown]; n > 0 {
		a.find(Finding{Kind: KindEnvelope, Code: opColumn, Table: TableChanges, Rows: n, Columns: []string{opColumn, changeColumn},
			Detail: fmt.Sprintf("%d rows of the changes are none of upsert added, upsert changed, delete removed", n)})
	}
	if changes.nullIDs > 0 {
		a.find(Finding{Kind: KindRecordID, Code: "null", Table: TableChanges, Rows: changes.nullIDs, Detail: fmt.Sprintf("%d rows of the changes have no record id", changes.nullIDs)})
	}
	for _, f := range changes.envelope.findings(TableChanges) {
		a.find(f)
	}
	if in.Counts == nil {
		return
	}
	got := Counts{Added: changes.ops[opAdded], Changed: changes.ops[opChanged], Removed: changes.ops[opRemoved]}
	if got != *in.Counts {
		a.find(Finding{Kind: KindCounts, Code: fmt.Sprintf("%d %d %d", got.Added, got.Changed, got.Removed), Table: TableChanges,
			Detail: fmt.Sprintf("the changes add %d, change %d and remove %d records; the feed counts %d, %d and %d",
				got.Added, got.Changed, got.Removed, in.Counts.Added, in.Counts.Changed, in.Counts.Removed)})
	}
}

package rows

// Snapshot is a version's snapshot as it should be.
type Snapshot struct {
	Envelope
	Parts []Part
	Rows  int64 // as the feed says
}

// VersionForm says which of its two readings a snapshot's _ploti_version has: the feed's documentation
// leaves it open.
type VersionForm string

// The forms.
const (
	FormVersion    VersionForm = "version"     // the version itself, in every row
	FormLastChange VersionForm = "last-change" // the version of each row's last change
)

// snapshotFacts is what one reading of a snapshot gives.
type snapshotFacts struct {
	rows      int64
	heap      *heap
	constants map[string]constant // of the compared columns
	envelope  *envelopeCheck      // nil: nobody looked
	nullIDs   int64
}

// constant follows whether a column has one single value in every row.
type constant struct {
	leaves map[string]uint64 // weight of the first row, by path of the leaf
	varies bool
}

// readSnapshot reduces a snapshot to facts; with its envelope columns, unless another audit looks at them.
func (a *auditor) readSnapshot(s Snapshot, compared func(string) bool, envelope bool) (*snapshotFacts, error) {
	h := newHeap(a.partitions, a.Folder)
	facts := &snapshotFacts{heap: h, constants: map[string]constant{}}
	sc := a.scan(recordIDColumn)
	sc.compared, sc.fold = compared, facts.fold
	if envelope {
		facts.envelope = newEnvelopeCheck(a.hash, s.Envelope, false)
		sc.looks, sc.begin = facts.envelope.looks(), facts.envelope.begin
	}
	for _, part := range s.Parts {
		err := sc.part(part, func(b *batch) error {
			facts.rows += int64(b.rows)
			for row := range b.rows {
				if b.nulls[row] {
					facts.nullIDs++
				} else if err := h.add(fact{id: b.ids[row], sum: b.sums[row]}); err != nil {
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

// fold takes note of whether a column varies.
func (f *snapshotFacts) fold(column, path string, weights []uint64) {
	c := f.constants[column]
	if c.varies || len(weights) == 0 {
		return
	}
	if c.leaves == nil {
		c.leaves = map[string]uint64{}
	}
	first, known := c.leaves[path]
	if !known {
		first = weights[0]
		c.leaves[path] = first
	}
	for _, weight := range weights {
		if weight != first {
			c.varies = true
			break
		}
	}
	f.constants[column] = c
}

// weight is what a column with a single value adds to the sum of every row.
func (c constant) weight() uint64 {
	sum := uint64(0)
	for _, weight := range c.leaves {
		sum += weight
	}
	return sum
}

// singleValued returns the columns that have one single value in every row of both snapshots: the feed
// does not compare them.
func singleValued(a, b *snapshotFacts) map[string]bool {
	single := map[string]bool{}
	for column, c := range a.constants {
		if other, ok := b.constants[column]; ok && !c.varies && !other.varies {
			single[column] = true
		}
	}
	return single
}

// less is what the given columns add to every sum of a snapshot.
func (f *snapshotFacts) less(columns map[string]bool) uint64 {
	weight := uint64(0)
	for column := range columns {
		weight += f.constants[column].weight()
	}
	return weight
}

package rows

import (
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// Snapshot is a version's snapshot as it should be.
type Snapshot struct {
	Parts   []Part
	Dataset string
	Version int64
	Rows    int64 // as the feed says
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
	envelope  envelope
	nullIDs   int64
}

// constant follows whether a column has one single value in every row.
type constant struct {
	leaves map[int]uint64 // hash of the first row's value, by leaf
	varies bool
}

// readSnapshot reduces a snapshot to facts.
func (a *auditor) readSnapshot(s Snapshot, compared func(string) bool) (*snapshotFacts, error) {
	h, err := newHeap(a.partitions, a.Folder)
	if err != nil {
		return nil, err
	}
	facts := &snapshotFacts{heap: h, constants: map[string]constant{}, envelope: newEnvelope(s.Dataset, s.Version)}
	sc := &scan{hash: a.hash, id: recordIDColumn, compared: compared, fold: facts.fold, value: facts.envelope.look}
	for _, part := range s.Parts {
		err := sc.part(part, func(b *batch) error {
			facts.rows += int64(b.rows)
			for row := range b.rows {
				if b.nulls[row] {
					facts.nullIDs++
					continue
				}
				if err := h.add(fact{id: b.ids[row], sum: b.sums[row]}); err != nil {
					return err
				}
			}
			return a.alive()
		})
		if err != nil {
			return facts, err
		}
	}
	return facts, nil
}

// fold takes note of whether a column varies.
func (f *snapshotFacts) fold(column string, leaf int, hashes []uint64) {
	if len(hashes) == 0 {
		return
	}
	c := f.constants[column]
	if c.varies {
		return
	}
	if c.leaves == nil {
		c.leaves = map[int]uint64{}
	}
	first, known := c.leaves[leaf]
	if !known {
		first = hashes[0]
		c.leaves[leaf] = first
	}
	for _, h := range hashes {
		if h != first {
			c.varies = true
			break
		}
	}
	f.constants[column] = c
}

// weight is what a column with a single value adds to the sum of every row.
func (c constant) weight() uint64 {
	sum := uint64(0)
	for _, h := range c.leaves {
		sum += h
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

// less takes the given columns out of all sums of a snapshot.
func (f *snapshotFacts) less(columns map[string]bool) uint64 {
	weight := uint64(0)
	for column := range columns {
		weight += f.constants[column].weight()
	}
	return weight
}

// envelope looks at the envelope columns of a snapshot.
type envelope struct {
	dataset string
	version int64

	wrongDataset int64  // rows
	sawDataset   string // the first wrong one
	otherVersion int64  // rows with a lower version
	wrongVersion int64  // rows with a version that is higher, not positive, or null
	sawVersion   int64
}

func newEnvelope(dataset string, version int64) envelope {
	return envelope{dataset: dataset, version: version}
}

func (e *envelope) look(column string, _ int, v parquet.Value) {
	switch column {
	case datasetColumn:
		if v.IsNull() || string(v.ByteArray()) != e.dataset {
			if e.wrongDataset == 0 {
				e.sawDataset = strings.Clone(v.String())
			}
			e.wrongDataset++
		}
	case versionColumn:
		n := int64(0)
		if !v.IsNull() {
			if n = v.Int64(); v.Kind() == parquet.Int32 {
				n = int64(v.Int32())
			}
		}
		switch {
		case n < 1 || n > e.version:
			if e.wrongVersion == 0 {
				e.sawVersion = n
			}
			e.wrongVersion++
		case n < e.version:
			e.otherVersion++
		}
	}
}

func (e *envelope) form() VersionForm {
	if e.otherVersion > 0 {
		return FormLastChange
	}
	return FormVersion
}

// findings names what is wrong with the envelope.
func (e *envelope) findings() []Finding {
	var list []Finding
	if e.wrongDataset > 0 {
		list = append(list, Finding{Kind: KindEnvelope, Columns: []string{datasetColumn},
			Detail: fmt.Sprintf("%d rows do not name dataset %s, the first names %q", e.wrongDataset, e.dataset, e.sawDataset)})
	}
	if e.wrongVersion > 0 {
		list = append(list, Finding{Kind: KindEnvelope, Columns: []string{versionColumn},
			Detail: fmt.Sprintf("%d rows name a version that is none up to %d, the first names %d", e.wrongVersion, e.version, e.sawVersion)})
	}
	return list
}

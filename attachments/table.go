package attachments

import "sort"

// chunkEntries is the growth step of a table. Appending to one slice would hold the old and the
// doubled array at once, three times the bytes of the entries; a chunk wastes at most itself. It
// is a multiple of the 8 KiB page, so that large allocations of any entry size round up to nothing.
const chunkEntries = 8192

// table is an array of entries that grows by fixed chunks and never moves an entry.
type table[T any] struct {
	chunks []*[chunkEntries]T
	length int
}

func (t *table[T]) at(i int) *T { return &t.chunks[i/chunkEntries][i%chunkEntries] }

func (t *table[T]) add(entry T) {
	if t.length == len(t.chunks)*chunkEntries {
		t.chunks = append(t.chunks, new([chunkEntries]T))
	}
	t.length++
	*t.at(t.length - 1) = entry
}

// truncate drops the entries from length on and gives their chunks back.
func (t *table[T]) truncate(length int) {
	t.length = length
	used := (length + chunkEntries - 1) / chunkEntries
	clear(t.chunks[used:])
	t.chunks = t.chunks[:used]
}

// sort orders the entries in place.
func (t *table[T]) sort(compare func(a, b *T) int) {
	sort.Sort(&tableSorter[T]{table: t, compare: compare})
}

// search returns the first index whose entry is not before the wanted one; before tells.
func (t *table[T]) search(before func(entry *T) bool) int {
	return sort.Search(t.length, func(i int) bool { return !before(t.at(i)) })
}

type tableSorter[T any] struct {
	table   *table[T]
	compare func(a, b *T) int
}

func (s *tableSorter[T]) Len() int           { return s.table.length }
func (s *tableSorter[T]) Less(i, j int) bool { return s.compare(s.table.at(i), s.table.at(j)) < 0 }
func (s *tableSorter[T]) Swap(i, j int) {
	a, b := s.table.at(i), s.table.at(j)
	*a, *b = *b, *a
}

// bits is a set of table indexes.
type bits []uint64

func newBits(length int) bits { return make(bits, (length+63)/64) }

func (b bits) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

// set adds i and reports whether it was new.
func (b bits) set(i int) bool {
	if b.has(i) {
		return false
	}
	b[i/64] |= 1 << (i % 64)
	return true
}

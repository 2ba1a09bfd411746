package rows

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"slices"
)

// fact is a row, reduced: who it is, and what it says.
type fact struct {
	id  uint64
	sum uint64
	op  op
}

// op is what a row of a changes file does.
type op uint8

const (
	opNone    op = iota // a row of a snapshot
	opAdded             // an upsert of a record that the previous version lacks
	opChanged           // an upsert of one that it has
	opRemoved           // a delete
	opUnknown           // a pair of words that the feed does not document
)

const (
	factBytes     = 24 // in memory
	spilledBytes  = 17 // in a file
	spillBuffer   = 32 << 10
	maxPartitions = 256 // a file of each heap for each
)

// heap collects facts in partitions by id. With one partition they stay in memory; with more they go
// to temporary files, and come back one partition at a time.
type heap struct {
	memory []fact
	spills []spill
	used   int // bits of the id that choose its partition
}

type spill struct {
	folder string
	file   *os.File // nil before anything was written
	buffer []byte
	count  int64
}

// newHeap makes a heap of that many partitions, a power of two, below a folder.
func newHeap(partitions int, folder string) *heap {
	h := &heap{used: bits.TrailingZeros(uint(partitions))} //nolint:gosec // positive
	if partitions > 1 {
		h.spills = make([]spill, partitions)
		for i := range h.spills {
			h.spills[i].folder = folder
		}
	}
	return h
}

// machineError is an error of the machine that audits: nothing is known about the files.
type machineError struct{ err error }

func (e *machineError) Error() string { return fmt.Sprintf("keep reduced rows: %v", e.err) }
func (e *machineError) Unwrap() error { return e.err }

func (h *heap) add(f fact) error {
	if h.spills == nil {
		h.memory = append(h.memory, f)
		return nil
	}
	s := &h.spills[f.id>>(64-h.used)]
	if len(s.buffer)+spilledBytes > spillBuffer {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if s.buffer == nil {
		s.buffer = make([]byte, 0, spillBuffer)
	}
	s.buffer = binary.LittleEndian.AppendUint64(s.buffer, f.id)
	s.buffer = binary.LittleEndian.AppendUint64(s.buffer, f.sum)
	s.buffer = append(s.buffer, byte(f.op))
	s.count++
	return nil
}

// flush writes the buffer to the file. That has no name any more by the time it holds something: nothing is
// left of an audit that is killed.
func (s *spill) flush() error {
	if s.file == nil {
		file, err := os.CreateTemp(s.folder, "feedmirror-rows-*")
		if err == nil {
			s.file, err = file, os.Remove(file.Name())
		}
		if err != nil {
			return &machineError{err}
		}
	}
	if _, err := s.file.Write(s.buffer); err != nil {
		return &machineError{err}
	}
	s.buffer = s.buffer[:0]
	return nil
}

// spilled returns how many bytes went to files.
func (h *heap) spilled() int64 {
	total := int64(0)
	for i := range h.spills {
		total += h.spills[i].count * spilledBytes
	}
	return total
}

// sorter brings facts back in order. Its buffers are used again for each partition.
type sorter struct {
	// crowded is how many facts one partition may have before repeated ids are thinned out. Ids are
	// hashes and spread evenly, so that only repeated ones crowd a partition: a file of some KiB can hold
	// a hundred million rows of one id.
	crowded int64
	raw     []fact
	counts  []int32
	sorted  [3][]fact
}

// partition returns the facts of one partition, sorted by id. A list stays until the same place among
// the three is filled again.
func (s *sorter) partition(place int, h *heap, i int) ([]fact, error) {
	facts := h.memory
	if h.spills != nil {
		if err := s.read(&h.spills[i]); err != nil {
			return nil, err
		}
		facts = s.raw
	}
	s.sorted[place] = s.sort(facts, s.sorted[place], h.used)
	return s.sorted[place], nil
}

func (s *sorter) read(from *spill) error {
	source := io.Reader(bytes.NewReader(from.buffer))
	if from.file != nil {
		if err := from.flush(); err != nil {
			return err
		}
		if _, err := from.file.Seek(0, io.SeekStart); err != nil {
			return &machineError{err}
		}
		source = from.file
	}
	var seen map[uint64]uint8 // how often an id was kept
	if s.raw = s.raw[:0]; from.count > s.crowded {
		seen = map[uint64]uint8{}
	} else {
		s.raw = slices.Grow(s.raw, int(from.count))
	}
	buffer := make([]byte, 4096*spilledBytes)
	for left := from.count; left > 0; {
		piece := buffer[:min(int64(len(buffer)), left*spilledBytes)]
		if _, err := io.ReadFull(source, piece); err != nil {
			return &machineError{err}
		}
		left -= int64(len(piece)) / spilledBytes
		for ; len(piece) > 0; piece = piece[spilledBytes:] {
			f := fact{binary.LittleEndian.Uint64(piece), binary.LittleEndian.Uint64(piece[8:]), op(piece[16])}
			if seen != nil {
				if seen[f.id] >= keptOfOne {
					continue
				}
				seen[f.id]++
			}
			s.raw = append(s.raw, f)
		}
	}
	return nil
}

// keptOfOne is how many facts of one id a crowded partition keeps. Two tell that the id is not unique.
const keptOfOne = 4

// sort puts facts into the order of their ids. These are hashes, spread evenly: each is put near its
// place at once, so that only a few neighbours are left to be sorted. The first bits, which all ids of a
// partition share, do not count.
func (s *sorter) sort(facts, into []fact, used int) []fact {
	into = resize(into, len(facts))
	if len(facts) < 64 {
		copy(into, facts)
		slices.SortFunc(into, compareFacts)
		return into
	}
	width := bits.Len(uint(len(facts))) - 3 //nolint:gosec // positive; about eight facts in each bucket
	bucket := func(f *fact) uint64 { return f.id << used >> (64 - width) }
	s.counts = resize(s.counts, 1<<width+1)
	for i := range facts {
		s.counts[bucket(&facts[i])+1]++
	}
	for i := 1; i < len(s.counts); i++ {
		s.counts[i] += s.counts[i-1]
	}
	for i := range facts {
		to := &s.counts[bucket(&facts[i])]
		into[*to] = facts[i]
		*to++
	}
	from := int32(0)
	for _, to := range s.counts[:1<<width] { // each is now where the next bucket begins
		if to-from > 1 {
			sortFew(into[from:to])
		}
		from = to
	}
	return into
}

func compareFacts(a, b fact) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.op, b.op)) }

// sortFew sorts by insertion what is short, as nearly every bucket is.
func sortFew(list []fact) {
	if len(list) > 32 {
		slices.SortFunc(list, compareFacts)
		return
	}
	for i := 1; i < len(list); i++ {
		f := list[i]
		at := i
		for ; at > 0 && (list[at-1].id > f.id || list[at-1].id == f.id && list[at-1].op > f.op); at-- {
			list[at] = list[at-1]
		}
		list[at] = f
	}
}

// close gives back the temporary files.
func (h *heap) close() error {
	if h == nil {
		return nil
	}
	var errs []error
	for i := range h.spills {
		if file := h.spills[i].file; file != nil {
			errs = append(errs, file.Close())
		}
	}
	h.spills, h.memory = nil, nil
	return errors.Join(errs...)
}

// crowdedFor returns how many facts of one partition a budget of bytes has room for.
func crowdedFor(budget int64) int64 { return max(budget/(2*factBytes), 1<<12) }

// partitionsFor returns how many partitions keep the facts of all heaps together, sorted and not yet
// sorted, within a budget of bytes: a power of two.
func partitionsFor(rows, budget int64) int {
	partitions := 1
	for partitions < maxPartitions && rows > budget/(2*factBytes)*int64(partitions) {
		partitions *= 2
	}
	return partitions
}

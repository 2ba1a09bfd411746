package rows

import (
	"bufio"
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
	factBytes    = 24 // in memory
	spilledBytes = 17 // in a file
)

// heap collects facts in partitions by id. With one partition they stay in memory; with more they go
// to temporary files, and come back one partition at a time.
type heap struct {
	memory []fact
	spills []*spill
	shift  int // leaves the bits of an id that choose its partition
}

type spill struct {
	file  *os.File
	write *bufio.Writer
	count int64
}

// newHeap makes a heap of that many partitions, a power of two, below a folder.
func newHeap(partitions int, folder string) (*heap, error) {
	h := &heap{shift: 64 - bits.TrailingZeros(uint(partitions))} //nolint:gosec // positive
	if partitions == 1 {
		return h, nil
	}
	for range partitions {
		file, err := os.CreateTemp(folder, "rows-*")
		if err != nil {
			return nil, errors.Join(fmt.Errorf("spill rows: %w", err), h.close())
		}
		h.spills = append(h.spills, &spill{file: file, write: bufio.NewWriterSize(file, 16<<10)})
	}
	return h, nil
}

func (h *heap) add(f fact) error {
	if h.spills == nil {
		h.memory = append(h.memory, f)
		return nil
	}
	s := h.spills[f.id>>h.shift]
	var record [spilledBytes]byte
	binary.LittleEndian.PutUint64(record[:], f.id)
	binary.LittleEndian.PutUint64(record[8:], f.sum)
	record[16] = byte(f.op)
	s.count++
	_, err := s.write.Write(record[:])
	return err
}

// partition returns the facts of one partition, sorted by id.
func (h *heap) partition(i int) ([]fact, error) {
	facts := h.memory
	if h.spills != nil {
		var err error
		if facts, err = h.spills[i].read(); err != nil {
			return nil, fmt.Errorf("read spilled rows: %w", err)
		}
	}
	slices.SortFunc(facts, func(a, b fact) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.op, b.op)) })
	return facts, nil
}

func (s *spill) read() ([]fact, error) {
	if err := s.write.Flush(); err != nil {
		return nil, err
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	facts := make([]fact, 0, s.count)
	reader := bufio.NewReaderSize(s.file, 256<<10)
	var record [spilledBytes]byte
	for range s.count {
		if _, err := io.ReadFull(reader, record[:]); err != nil {
			return nil, err
		}
		facts = append(facts, fact{binary.LittleEndian.Uint64(record[:]), binary.LittleEndian.Uint64(record[8:]), op(record[16])})
	}
	return facts, nil
}

// close removes the temporary files.
func (h *heap) close() error {
	if h == nil {
		return nil
	}
	var errs []error
	for _, s := range h.spills {
		errs = append(errs, s.file.Close(), os.Remove(s.file.Name()))
	}
	h.spills, h.memory = nil, nil
	return errors.Join(errs...)
}

// partitionsFor returns how many partitions keep the facts of all heaps together within a budget of
// bytes: a power of two, at most 4,096.
func partitionsFor(rows, budget int64) int {
	partitions := 1
	for partitions < 4096 && rows*factBytes/int64(partitions) > budget {
		partitions *= 2
	}
	return partitions
}

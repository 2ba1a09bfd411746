package rows

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// EnvelopePrefix begins the names of the columns that the feed adds to a dataset's own.
const EnvelopePrefix = "_ploti_"

// The envelope columns that an audit reads (feed documentation, "Versions, snapshots and changes").
const (
	recordIDColumn   = "_ploti_record_id"
	previousIDColumn = "_ploti_previous_record_id"
	datasetColumn    = "_ploti_dataset_id"
	versionColumn    = "_ploti_version"
	opColumn         = "_ploti_op"
	changeColumn     = "_ploti_change"
)

// batch is one row group, reduced. Its slices are reused by the next.
type batch struct {
	rows  int
	ids   []uint64 // hash of the record id; meaningless where null is set
	nulls []bool   // the record id is null
	sums  []uint64 // sum of the hashes of the compared columns
}

// scan reads parts one row group at a time, column by column.
type scan struct {
	hash hasher
	// id is the column that ids are taken from.
	id string
	// compared tells which top-level columns go into the sums.
	compared func(column string) bool
	// fold is given the hash of each row of a compared column, row group by row group; nil: nobody
	// wants it.
	fold func(column string, leaf int, hashes []uint64)
	// text is given each value of an envelope column other than the id, for a look at it; nil as above.
	value func(column string, row int, v parquet.Value)

	batch batch
	work  []uint64
	buf   []parquet.Value
}

// part reads one part and hands over each of its row groups.
func (s *scan) part(p Part, each func(b *batch) error) (err error) {
	defer recoverTo(p.Name, &err)
	file, err := p.open()
	if err != nil {
		return err
	}
	for _, group := range file.RowGroups() {
		if err := s.group(file, group); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if err := each(&s.batch); err != nil {
			return err
		}
	}
	return nil
}

func (s *scan) group(file *parquet.File, group parquet.RowGroup) error {
	n := int(group.NumRows())
	s.batch = batch{rows: n, ids: resize(s.batch.ids, n), nulls: resize(s.batch.nulls, n), sums: resize(s.batch.sums, n)}
	s.work = resize(s.work, n)
	chunks, paths := group.ColumnChunks(), file.Schema().Columns()
	at := slices.IndexFunc(paths, func(path []string) bool { return len(path) == 1 && path[0] == s.id })
	if at < 0 {
		return fmt.Errorf("it has no column %s", s.id)
	}
	if err := s.ids(chunks[at]); err != nil { // first: fold and value may look at the ids
		return fmt.Errorf("column %s: %w", s.id, err)
	}
	for leaf, path := range paths {
		column := path[0]
		switch {
		case leaf == at:
		case s.value != nil && len(path) == 1 && strings.HasPrefix(column, EnvelopePrefix):
			if err := s.values(column, chunks[leaf]); err != nil {
				return fmt.Errorf("column %s: %w", column, err)
			}
		case s.compared(column):
			if err := s.sum(column, strings.Join(path, "."), leaf, chunks[leaf], levelOf(file.Schema(), path)); err != nil {
				return fmt.Errorf("column %s: %w", column, err)
			}
		}
	}
	return nil
}

func resize[T any](old []T, n int) []T {
	if cap(old) < n {
		return make([]T, n)
	}
	old = old[:n]
	clear(old)
	return old
}

func levelOf(schema *parquet.Schema, path []string) int {
	leaf, _ := schema.Lookup(path...)
	return leaf.MaxDefinitionLevel
}

// each calls visit for every value of a column chunk with the number of its row in the group.
func (s *scan) each(chunk parquet.ColumnChunk, visit func(row int, v parquet.Value)) error {
	if s.buf == nil {
		s.buf = make([]parquet.Value, 1024)
	}
	pages := chunk.Pages()
	row, err := s.pages(pages, visit)
	if err = errors.Join(err, pages.Close()); err != nil {
		return err
	}
	if row+1 != s.batch.rows {
		return fmt.Errorf("it has values for %d rows of %d", row+1, s.batch.rows)
	}
	return nil
}

func (s *scan) pages(pages parquet.Pages, visit func(row int, v parquet.Value)) (row int, err error) {
	row = -1
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return row, nil
		}
		if err != nil {
			return row, err
		}
		values := page.Values()
		for {
			n, err := values.ReadValues(s.buf)
			for i := range s.buf[:n] {
				v := s.buf[i]
				if v.RepetitionLevel() == 0 {
					row++
				}
				if row < 0 || row >= s.batch.rows {
					parquet.Release(page)
					return row, fmt.Errorf("it has values for more than %d rows", s.batch.rows)
				}
				visit(row, v)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				parquet.Release(page)
				return row, err
			}
		}
		parquet.Release(page)
	}
}

func (s *scan) ids(chunk parquet.ColumnChunk) error {
	return s.each(chunk, func(row int, v parquet.Value) {
		if v.IsNull() {
			s.batch.nulls[row] = true
			return
		}
		s.batch.ids[row] = s.hash.text(v.ByteArray())
		if s.value != nil {
			s.value(s.id, row, v)
		}
	})
}

func (s *scan) values(column string, chunk parquet.ColumnChunk) error {
	return s.each(chunk, func(row int, v parquet.Value) { s.value(column, row, v) })
}

// sum adds a leaf's hashes to those of its rows. Values of one row are folded in their order, columns
// are added: a column can be taken out of the sums afterwards.
func (s *scan) sum(column, path string, leaf int, chunk parquet.ColumnChunk, maxLevel int) error {
	salt := s.hash.text([]byte(path))
	clear(s.work)
	err := s.each(chunk, func(row int, v parquet.Value) {
		s.work[row] = mix(s.work[row]^salt) + s.hash.value(v, maxLevel)
	})
	if err != nil {
		return err
	}
	for row, h := range s.work {
		s.batch.sums[row] += mix(h)
		s.work[row] = mix(h)
	}
	if s.fold != nil {
		s.fold(column, leaf, s.work)
	}
	return nil
}

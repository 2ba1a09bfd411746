package rows

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// EnvelopePrefix begins the names of the columns that the feed adds to a dataset's own.
const EnvelopePrefix = "_ploti_"

const (
	// maxWindow is how many rows are held at once, in reduced form: some 30 bytes each.
	maxWindow = 1 << 20
	// maxOpenBytes bounds what the pages of one row group take that has more rows than a window: then a
	// page of every column is open at the same time. For each it is the page and what it is unpacked to.
	maxOpenBytes = 128 << 20
)

// look is somebody who is given the entries of a top-level column.
type look struct {
	column string
	kinds  []parquet.Kind // a column of another kind is left out: its type is told by the schema
	at     func(r run)
}

// The kinds of columns that are looked at.
var (
	texts    = []parquet.Kind{parquet.ByteArray, parquet.FixedLenByteArray}
	integers = []parquet.Kind{parquet.Int32, parquet.Int64}
	floats   = []parquet.Kind{parquet.Float, parquet.Double}
)

// batch is a piece of a row group, reduced. Its slices are reused by the next.
type batch struct {
	rows  int
	ids   []uint64 // hash of the record id; meaningless where null is set
	nulls []bool   // the record id is null
	sums  []uint64 // sum of the hashes of the compared columns
}

// scan reads parts piece by piece, and each piece column by column.
type scan struct {
	*auditor
	// id is the column that ids are taken from.
	id string
	// compared tells which top-level columns go into the sums; nil: none.
	compared func(column string) bool
	// fold is given what each row of a leaf of a compared column adds to the sums; nil: nobody wants it.
	fold func(column, path string, weights []uint64)
	// looks are given the entries of other columns, or of the one with the ids, in this order.
	looks []look
	// begin is called before each piece; nil: nobody is told.
	begin func()

	batch batch
	work  []uint64
}

// part reads one part and hands over each of its pieces.
func (s *scan) part(p Part, each func(b *batch) error) (err error) {
	defer recoverTo(p.Name, &err)
	file, err := s.open(p)
	if err != nil {
		return err
	}
	for _, group := range file.RowGroups() {
		if err := s.group(file, group, each); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// leaf is a column of a file that is read, and where in it the reading is.
type leaf struct {
	parquet.LeafColumn
	number int
	path   string
	column string // the top-level column
	look   func(r run)
	order  int // among those that are read
	cursor *cursor
}

// leaves returns the columns that are to be read: the one with the ids, those that are looked at, those
// that are compared.
func (s *scan) leaves(file *parquet.File) ([]*leaf, error) {
	var list []*leaf
	for number, path := range file.Schema().Columns() {
		found, ok := file.Schema().Lookup(path...)
		if !ok {
			return nil, fmt.Errorf("its schema has no column %s", strings.Join(path, "."))
		}
		l := &leaf{LeafColumn: found, number: number, path: strings.Join(path, "."), column: path[0], order: len(s.looks)}
		for at, look := range s.looks {
			if look.column == l.column && slices.Contains(look.kinds, found.Node.Type().Kind()) {
				l.look, l.order = look.at, at
			}
		}
		switch {
		case len(path) == 1 && l.column == s.id:
			if found.MaxRepetitionLevel > 0 || !slices.Contains(texts, found.Node.Type().Kind()) {
				return nil, fmt.Errorf("its column %s is no text", s.id)
			}
			l.order = -1
		case l.look == nil && (s.compared == nil || !s.compared(l.column)):
			continue
		}
		list = append(list, l)
	}
	slices.SortStableFunc(list, func(a, b *leaf) int { return a.order - b.order })
	if len(list) == 0 || list[0].order != -1 {
		return nil, fmt.Errorf("it has no column %s", s.id)
	}
	return list, nil
}

func (s *scan) group(file *parquet.File, group parquet.RowGroup, each func(b *batch) error) (err error) {
	leaves, err := s.leaves(file)
	if err != nil {
		return err
	}
	defer func() {
		for _, l := range leaves {
			if l.cursor != nil {
				_ = l.cursor.close() // after an error, or a file that is only read
			}
		}
	}()
	chunks, n := group.ColumnChunks(), int(group.NumRows())
	for from := 0; from < n; from += s.window {
		rows, last := min(s.window, n-from), n-from <= s.window
		s.batch = batch{rows: rows, ids: resize(s.batch.ids, rows), nulls: resize(s.batch.nulls, rows), sums: resize(s.batch.sums, rows)}
		if s.begin != nil {
			s.begin()
		}
		for _, l := range leaves {
			if l.cursor == nil {
				l.cursor = newCursor(s.hash, chunks[l.number], l.LeafColumn)
			}
			if err := s.column(l); err != nil {
				return fmt.Errorf("column %s: %w", l.path, err)
			}
			if !last {
				continue
			}
			if err := l.cursor.ended(); err != nil {
				return fmt.Errorf("column %s: %w", l.path, err)
			}
			err := l.cursor.close()
			if l.cursor = nil; err != nil {
				return fmt.Errorf("column %s: %w", l.path, err)
			}
		}
		if err := each(&s.batch); err != nil {
			return err
		}
	}
	return nil
}

// column reads as much of a column as the piece has rows.
func (s *scan) column(l *leaf) error {
	if err := s.alive(); err != nil {
		return err
	}
	switch {
	case l.order < 0:
		return l.cursor.read(s.batch.rows, func(r run) {
			s.ids(r)
			if l.look != nil {
				l.look(r)
			}
		})
	case l.look != nil:
		return l.cursor.read(s.batch.rows, l.look)
	}
	return s.sum(l)
}

func resize[T any](old []T, n int) []T {
	if cap(old) < n {
		return make([]T, n)
	}
	old = old[:n]
	clear(old)
	return old
}

func (s *scan) ids(r run) {
	hashes := r.hashesOfValues()
	r.each(func(row, value int) {
		if value < 0 {
			s.batch.nulls[row] = true
		} else {
			s.batch.ids[row] = hashes[value]
		}
	})
}

// sum adds what a leaf says to the sums of its rows. Values of one row are folded in their order, leaves
// are added: a column can be taken out of the sums afterwards.
func (s *scan) sum(l *leaf) error {
	salt := s.hash.word(l.path)
	s.work = resize(s.work, s.batch.rows)
	fold := s.foldRepeated(salt)
	if !l.cursor.repeated {
		fold = s.foldFlat(salt)
	}
	if err := l.cursor.read(s.batch.rows, fold); err != nil {
		return err
	}
	for row, weight := range s.work {
		s.batch.sums[row] += weight
	}
	if s.fold != nil {
		s.fold(l.column, l.path, s.work)
	}
	return nil
}

// foldFlat puts the weight of each row into work: of a column with one entry a row.
func (s *scan) foldFlat(salt uint64) func(r run) {
	return func(r run) {
		work := s.work[r.row : r.row+r.to-r.from]
		if r.allNull {
			fill(work, mix(salt+s.hash.null(r.maxDef)))
			return
		}
		hashes := r.hashesOfValues()
		if r.index == nil && len(r.def) == 0 {
			for i, h := range hashes[r.next : r.next+len(work)] {
				work[i] = mix(salt + h)
			}
			return
		}
		if r.index != nil { // each value of the dictionary once
			hashes = r.weightsOfValues(salt)
		}
		value := r.next
		for i := range work {
			switch {
			case len(r.def) > 0 && r.def[r.from+i] != r.maxDef:
				work[i] = mix(salt + s.hash.null(r.maxDef-r.def[r.from+i]))
				continue
			case r.index != nil:
				work[i] = hashes[r.index[value]]
			default:
				work[i] = mix(salt + hashes[value])
			}
			value++
		}
	}
}

func fill(list []uint64, value uint64) {
	for i := range list {
		list[i] = value
	}
}

// foldRepeated does the same for a column with any number of entries a row.
func (s *scan) foldRepeated(salt uint64) func(r run) {
	return func(r run) {
		hashes, row, value := r.hashesOfValues(), r.row-1, r.next
		for at := r.from; at < r.to; at++ {
			if r.rep[at] == 0 {
				row++
			}
			entry := s.hash.null(r.maxDef - r.def[at])
			if r.def[at] == r.maxDef {
				entry = hashes[r.place(value)]
				value++
			}
			s.work[row] = mix(s.work[row]*3 + mix(salt+entry+uint64(r.rep[at])))
		}
	}
}

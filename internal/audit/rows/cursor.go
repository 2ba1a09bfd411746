package rows

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// cursor reads a column chunk row by row, page after page.
type cursor struct {
	hash     hasher
	pages    parquet.Pages
	maxDef   byte
	maxRep   byte
	repeated bool
	unit     time.Duration // of a column of times; zero: it is none

	page     parquet.Page // nil: none is open
	levels   int          // entries of the page, nulls among them
	rep, def []byte       // empty where the column has none
	allNull  bool
	values   encoding.Values // those that are not null; of the dictionary where there is one
	index    []int32         // into the dictionary; nil where there is none
	at, next int             // the next entry, the next value that is not null

	hashes     []uint64 // of values; filled when asked for
	weights    []uint64 // the same, mixed with the column's salt; of a dictionary only
	hashed     bool
	weighted   bool
	dictionary parquet.Dictionary // the one that hashes belong to; nil: to a page
}

// run is a piece of one page: entries of the column whose rows begin at row, counted from the first that
// was asked for. The entry that goes on with a row of the piece before has row-1.
type run struct {
	*cursor
	from, to int
	row      int
}

func newCursor(hash hasher, chunk parquet.ColumnChunk, leaf parquet.LeafColumn) *cursor {
	return &cursor{hash: hash, pages: chunk.Pages(), maxDef: byte(leaf.MaxDefinitionLevel), maxRep: byte(leaf.MaxRepetitionLevel), repeated: leaf.MaxRepetitionLevel > 0, unit: unitOf(leaf.Node.Type())} //nolint:gosec // a schema is nested at most 32 deep
}

// unitOf returns what a type counts time in; zero: it counts no time.
func unitOf(t parquet.Type) time.Duration {
	if logical := t.LogicalType(); logical != nil {
		stamp, ok := logical.Value.(*format.TimestampType)
		if !ok {
			return 0
		}
		switch stamp.Unit.Value.(type) {
		case *format.MilliSeconds:
			return time.Millisecond
		case *format.MicroSeconds:
			return time.Microsecond
		case *format.NanoSeconds:
			return time.Nanosecond
		}
		return 0
	}
	if converted := t.ConvertedType(); converted != nil {
		switch *converted {
		case deprecated.TimestampMillis:
			return time.Millisecond
		case deprecated.TimestampMicros:
			return time.Microsecond
		}
	}
	return 0
}

// close gives back what the cursor holds.
func (c *cursor) close() error {
	c.release()
	return c.pages.Close()
}

func (c *cursor) release() {
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
}

// read hands over the next so many rows.
func (c *cursor) read(rows int, visit func(r run)) error {
	row := 0
	for {
		if c.at == c.levels {
			if err := c.turn(); errors.Is(err, io.EOF) {
				if row < rows {
					return fmt.Errorf("it has values for %d rows of %d", row, rows)
				}
				return nil
			} else if err != nil {
				return err
			}
			continue
		}
		if c.repeated && row == 0 && c.rep[c.at] != 0 {
			return errors.New("its first value goes on with a row that never began")
		}
		to, after := c.reach(row, rows)
		if to == c.at {
			return nil // the next row is beyond those asked for
		}
		r := run{cursor: c, from: c.at, to: to, row: row}
		visit(r)
		c.next += c.present(c.at, to)
		c.at, row = to, after
		if row == rows && !c.repeated {
			return nil
		}
	}
}

// ended makes sure that nothing is left.
func (c *cursor) ended() error {
	for c.at == c.levels {
		if err := c.turn(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return errors.New("it has values for more rows than its row group has")
}

// reach returns the entry behind the last that belongs to the rows asked for, and how many rows have
// begun by then.
func (c *cursor) reach(row, rows int) (to, after int) {
	if !c.repeated {
		n := min(rows-row, c.levels-c.at)
		return c.at + n, row + n
	}
	to = c.at
	for ; to < c.levels; to++ {
		if c.rep[to] == 0 {
			if row == rows {
				break
			}
			row++
		}
	}
	return to, row
}

// present counts the entries that are not null.
func (c *cursor) present(from, to int) int {
	switch {
	case c.allNull:
		return 0
	case len(c.def) == 0:
		return to - from
	}
	n := 0
	for _, d := range c.def[from:to] {
		if d == c.maxDef {
			n++
		}
	}
	return n
}

// turn opens the next page.
func (c *cursor) turn() error {
	c.release()
	c.at, c.levels, c.next = 0, 0, 0
	page, err := c.pages.ReadPage()
	if err != nil {
		return err
	}
	c.page = page
	c.levels, c.rep, c.def = int(page.NumValues()), page.RepetitionLevels(), page.DefinitionLevels()
	c.allNull = len(c.def) == 0 && c.levels > 0 && page.NumNulls() == page.NumValues()
	if c.repeated && len(c.rep) != c.levels || len(c.def) > 0 && len(c.def) != c.levels {
		return fmt.Errorf("a page has %d entries, %d repetition levels and %d definition levels", c.levels, len(c.rep), len(c.def))
	}
	if greatest(c.def) > c.maxDef || greatest(c.rep) > c.maxRep {
		return errors.New("a page has levels beyond the greatest of its column")
	}
	c.values, c.index = page.Data(), nil
	if dictionary := page.Dictionary(); dictionary != nil && !c.allNull {
		c.index = c.values.Int32()
		c.values = dictionary.Page().Data()
		if c.dictionary != dictionary {
			c.dictionary, c.hashed, c.weighted = dictionary, false, false
		}
	} else {
		c.dictionary, c.hashed, c.weighted = nil, false, false
	}
	return nil
}

func greatest(levels []byte) byte {
	most := byte(0)
	for _, level := range levels {
		most = max(most, level)
	}
	return most
}

// each calls visit for every entry: the row it belongs to, and which of the values it has, -1 for null.
func (r run) each(visit func(row, value int)) {
	row, value := r.row-1, r.next
	for at := r.from; at < r.to; at++ {
		if !r.repeated || r.rep[at] == 0 {
			row++
		}
		if r.allNull || len(r.def) > 0 && r.def[at] != r.maxDef {
			visit(row, -1)
			continue
		}
		visit(row, r.place(value))
		value++
	}
}

// place returns where among the values the value of that number stands.
func (c *cursor) place(value int) int {
	if c.index != nil {
		return int(c.index[value])
	}
	return value
}

// hashed values of the page, or of its dictionary.
func (c *cursor) hashesOfValues() []uint64 {
	if !c.hashed {
		c.hashes, c.hashed = c.hash.values(c.values, c.hashes), true
	}
	return c.hashes
}

// weightsOfValues returns what each value of the dictionary adds to the sum of a row.
func (c *cursor) weightsOfValues(salt uint64) []uint64 {
	if !c.weighted {
		c.weights = c.weights[:0]
		for _, h := range c.hashesOfValues() {
			c.weights = append(c.weights, mix(salt+h))
		}
		c.weighted = true
	}
	return c.weights
}

// text returns a value of a column of bytes.
func (c *cursor) text(place int) []byte {
	switch c.values.Kind() {
	case encoding.ByteArray:
		data, offsets := c.values.ByteArray()
		return data[offsets[place]:offsets[place+1]]
	case encoding.FixedLenByteArray:
		data, size := c.values.FixedLenByteArray()
		return data[place*size : (place+1)*size]
	}
	return nil
}

// number returns a value of a column of integers.
func (c *cursor) number(place int) int64 {
	if c.values.Kind() == encoding.Int32 {
		return int64(c.values.Int32()[place])
	}
	return c.values.Int64()[place]
}

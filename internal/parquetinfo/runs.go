package parquetinfo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/parquet-go/parquet-go/format"
)

// leafShape is what the schema says of a column: how many levels its values can have,
// and how long each is where the schema says so.
type leafShape struct {
	maxRepetition, maxDefinition int
	fixed                        bool // every value has length bytes
	length                       int64
}

// leavesOf returns the leaves of a schema that checkSchema accepted.
func leavesOf(nodes []format.SchemaElement) []leafShape {
	var leaves []leafShape
	next := 1
	var walk func(children int32, above leafShape)
	walk = func(children int32, above leafShape) {
		for range children {
			node, here := &nodes[next], above
			next++
			switch node.RepetitionType.V {
			case format.Optional:
				here.maxDefinition++
			case format.Repeated:
				here.maxDefinition++
				here.maxRepetition++
			}
			if node.NumChildren.V > 0 {
				walk(node.NumChildren.V, here)
				continue
			}
			if node.Type.V == format.FixedLenByteArray {
				here.length = int64(node.TypeLength.V)
				here.fixed = true
			}
			leaves = append(leaves, here)
		}
	}
	walk(nodes[0].NumChildren.V, leafShape{})
	return leaves
}

// fits makes sure that so many values of a fixed length are no more than a page may have.
func (l leafShape) fits(values int64) error {
	if l.fixed && (l.length < 1 || values > maxPageBytes/l.length) {
		return fmt.Errorf("it claims %d values of %d bytes each", values, l.length)
	}
	return nil
}

// needsLook tells whether a page must be unpacked to know how much it says: all but plain values can say a
// lot in a few bytes.
func (l leafShape) needsLook(header *format.PageHeader) bool {
	switch header.Type {
	case format.DataPage:
		return l.maxRepetition > 0 || l.maxDefinition > 0 || !isPlain(header.DataPageHeader.V.Encoding)
	case format.DataPageV2:
		return !isPlain(header.DataPageHeaderV2.V.Encoding)
	}
	return false
}

// plainDictionary is what older writers call the encoding of a dictionary and of places in it.
const plainDictionary format.Encoding = 2

func isPlain(encoding format.Encoding) bool {
	return encoding == format.Plain || encoding == format.ByteStreamSplit
}

// levels checks the levels of a page of the second version, which stand before its values.
func (p *pageChecker) levels(v2 *format.DataPageHeaderV2, body int64, column leafShape) error {
	if v2.NumNulls < 0 || v2.NumRows < 0 || v2.NumNulls > v2.NumValues || v2.NumRows > v2.NumValues {
		return fmt.Errorf("of its %d values %d are nulls, in %d rows", v2.NumValues, v2.NumNulls, v2.NumRows)
	}
	for _, level := range []struct {
		length int32
		most   int
	}{{v2.RepetitionLevelsByteLength, column.maxRepetition}, {v2.DefinitionLevelsByteLength, column.maxDefinition}} {
		if level.most == 0 { // some writers put levels there that no reader looks at
			body += int64(level.length)
			continue
		}
		p.plain = atLeast(p.plain, int64(level.length))
		if err := readFull(p.r, p.plain, body); err != nil {
			return err
		}
		if err := checkRuns(p.plain, bits.Len(uint(level.most)), int64(v2.NumValues)); err != nil { //nolint:gosec // not negative
			return fmt.Errorf("its levels: %w", err)
		}
		body += int64(level.length)
	}
	return nil
}

// look checks the unpacked bytes of a data page, of which so many are missing at the end. With errCutOff it
// asks for more.
func (l leafShape) look(header *format.PageHeader, text []byte, missing int64) error {
	if header.Type == format.DataPageV2 {
		return checkValues(header.DataPageHeaderV2.V.Encoding, text, missing, int64(header.DataPageHeaderV2.V.NumValues))
	}
	v1 := &header.DataPageHeader.V
	values := int64(v1.NumValues)
	for _, level := range []struct {
		encoding format.Encoding
		most     int
	}{{v1.RepetitionLevelEncoding, l.maxRepetition}, {v1.DefinitionLevelEncoding, l.maxDefinition}} {
		if level.most == 0 {
			continue
		}
		if level.encoding != format.RLE {
			return fmt.Errorf("its levels are encoded as %s", level.encoding)
		}
		runs, rest, err := prefixed(text)
		if err == nil {
			err = checkRuns(runs, bits.Len(uint(level.most)), values) //nolint:gosec // positive
		}
		if err != nil {
			return fmt.Errorf("its levels: %w", err)
		}
		text = rest
	}
	return checkValues(v1.Encoding, text, missing, values)
}

var errCutOff = errors.New("they are cut off")

// prefixed returns what a length in four bytes says, and what follows.
func prefixed(text []byte) (inner, rest []byte, err error) {
	if len(text) < 4 {
		return nil, nil, errCutOff
	}
	length := int64(binary.LittleEndian.Uint32(text))
	if length > int64(len(text)-4) {
		return nil, nil, errCutOff
	}
	return text[4 : 4+length], text[4+length:], nil
}

// checkValues makes sure that encoded values are no more than so many, and take no more than a page may
// have.
func checkValues(encoding format.Encoding, text []byte, missing, most int64) error {
	var err error
	switch {
	case isPlain(encoding):
	case encoding == plainDictionary, encoding == format.RLEDictionary:
		if missing > 0 {
			return errCutOff
		}
		if len(text) == 0 {
			return nil
		}
		err = checkRuns(text[1:], int(text[0]), most)
	case encoding == format.RLE:
		var runs []byte
		if runs, _, err = prefixed(text); err == nil {
			err = checkRuns(runs, 1, most)
		}
	case encoding == format.DeltaBinaryPacked, encoding == format.DeltaLengthByteArray:
		// The library holds lengths to the bytes that follow them.
		_, _, err = deltas(text, most, false)
	case encoding == format.DeltaByteArray:
		err = checkPrefixes(text, missing, most)
	default:
		return fmt.Errorf("its values are encoded as %s", encoding)
	}
	if err != nil {
		return fmt.Errorf("its values: %w", err)
	}
	return nil
}

// checkRuns adds up the runs of the hybrid encoding of values of so many bits. The last packed run is
// filled up to a multiple of eight.
func checkRuns(text []byte, width int, most int64) error {
	if width > 32 {
		return fmt.Errorf("they have %d bits each", width)
	}
	total := uint64(0)
	for len(text) > 0 {
		head, n := binary.Uvarint(text)
		if n <= 0 {
			return errCutOff
		}
		count, bytes := head>>1, uint64(width+7)/8 //nolint:gosec // not negative
		if count > uint64(most)+7 {                //nolint:gosec // checked not to be negative
			return fmt.Errorf("they have a run of %d in a page of %d", count, most)
		}
		if head&1 != 0 {
			count, bytes = count*8, count*uint64(width) //nolint:gosec // not negative
		}
		if text = text[n:]; bytes > uint64(len(text)) {
			return errCutOff
		}
		text = text[bytes:]
		if total += count; total > uint64(most)+7 { //nolint:gosec // checked not to be negative
			return fmt.Errorf("they are %d in a page of %d", total, most)
		}
	}
	return nil
}

// deltas walks whole numbers that are packed as differences, and returns what follows them; the numbers only
// when they are wanted.
func deltas(text []byte, most int64, wanted bool) (values []int64, rest []byte, err error) {
	var head [3]uint64 // size of a block, pieces of a block, number of values
	for i := range head {
		value, n := binary.Uvarint(text)
		if n <= 0 {
			return nil, nil, errCutOff
		}
		head[i], text = value, text[n:]
	}
	value, n := binary.Varint(text)
	if n <= 0 {
		return nil, nil, errCutOff
	}
	text = text[n:]
	switch block, pieces, count := head[0], head[1], head[2]; {
	case count > uint64(most): //nolint:gosec // checked not to be negative
		return nil, nil, fmt.Errorf("they are %d in a page of %d", count, most)
	case block == 0 || block%128 != 0 || block > 1<<20 || pieces == 0 || pieces > block || block/pieces%32 != 0:
		return nil, nil, fmt.Errorf("they come in blocks of %d in %d pieces", block, pieces)
	case count == 0:
		return nil, text, nil
	}
	d := deltaReader{text: text, size: int(head[0] / head[1]), pieces: int(head[1]), left: int(head[2]) - 1} //nolint:gosec // bounded above
	if wanted {
		d.values = append(make([]int64, 0, head[2]), value)
	}
	for d.left > 0 {
		if err := d.block(); err != nil {
			return nil, nil, err
		}
	}
	return d.values, d.text, nil
}

type deltaReader struct {
	text         []byte
	size, pieces int     // values of a piece, pieces of a block
	left         int     // values
	values       []int64 // nil: nobody wants them
}

func (d *deltaReader) block() error {
	least, n := binary.Varint(d.text)
	if n <= 0 || len(d.text) < n+d.pieces {
		return errCutOff
	}
	widths := d.text[n : n+d.pieces]
	d.text = d.text[n+d.pieces:]
	for _, width := range widths {
		if d.left == 0 {
			return nil
		}
		bytes := d.size * int(width) / 8
		switch {
		case width > 64:
			return fmt.Errorf("a piece has %d values of %d bits", d.size, width)
		case bytes > len(d.text):
			return errCutOff
		}
		packed := d.text[:bytes]
		d.text = d.text[bytes:]
		n := min(d.size, d.left)
		if d.left -= n; d.values == nil {
			continue
		}
		for i := range n {
			last := d.values[len(d.values)-1]
			d.values = append(d.values, last+least+int64(bitsAt(packed, i*int(width), int(width)))) //nolint:gosec // wraps as the encoding does
		}
	}
	return nil
}

// bitsAt returns the bits of a number from a place on, the lowest first.
func bitsAt(packed []byte, from, width int) uint64 {
	value := uint64(0)
	for got := 0; got < width; {
		at := from + got
		take := min(8-at%8, width-got)
		piece := uint64(packed[at/8]>>(at%8)) & (1<<take - 1)
		value |= piece << got
		got += take
	}
	return value
}

// checkPrefixes checks texts that begin as the ones before them do.
func checkPrefixes(text []byte, missing, most int64) error {
	prefixes, rest, err := deltas(text, most, true)
	if err != nil {
		return err
	}
	suffixes, rest, err := deltas(rest, most, true)
	if err != nil {
		return err
	}
	if len(prefixes) != len(suffixes) {
		return fmt.Errorf("%d beginnings have %d ends", len(prefixes), len(suffixes))
	}
	last, total, read, left := int64(0), int64(0), int64(0), int64(len(rest))+missing
	for i, prefix := range prefixes {
		suffix := suffixes[i]
		if prefix < 0 || prefix > last || suffix < 0 || suffix > left-read {
			return fmt.Errorf("a text goes on with %d bytes after %d of one that has %d", suffix, prefix, last)
		}
		read += suffix
		last = prefix + suffix
		if total += last; total > maxPageBytes {
			return fmt.Errorf("they are more than %d bytes", maxPageBytes)
		}
	}
	return nil
}

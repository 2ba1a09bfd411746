package parquetinfo

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The limits of a footer, far above what 256 MiB of data with a thousand columns has. They bound
// what the library allocates for a hostile one to about 200 MiB.
const (
	maxFooterBytes = 16 << 20
	maxStructs     = 1 << 18 // structs in lists: columns, row groups, column chunks, statistics
	maxElements    = 1 << 21 // elements of all lists
	maxNesting     = 32
)

// Types of Thrift's compact protocol, as they stand in field and list headers.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftInt16  = 4
	thriftInt32  = 5
	thriftInt64  = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftStruct = 12
)

var errFooterEnds = errors.New("it ends in the middle of a value")

// checkThrift walks a compact-protocol struct and refuses what would make a decoder allocate more
// than the bytes can hold: the decoder makes room for as many elements as a list claims before it
// reads one, and a claim of 2^31 ends the process.
func checkThrift(data []byte) error {
	walker := thriftWalker{rest: data}
	if err := walker.fields(0); err != nil {
		return err
	}
	if len(walker.rest) != 0 {
		return fmt.Errorf("%d bytes follow its end", len(walker.rest))
	}
	return nil
}

type thriftWalker struct {
	rest     []byte
	structs  int
	elements int
}

// fields walks a struct up to its stop byte.
func (w *thriftWalker) fields(depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("it is nested more than %d deep", maxNesting)
	}
	for {
		header, err := w.byte()
		if err != nil || header == 0 {
			return err
		}
		if header>>4 == 0 { // the field's id follows, instead of its distance to the last one
			if _, err := w.varint(); err != nil {
				return err
			}
		}
		kind := header & 0xF
		if kind == thriftTrue || kind == thriftFalse {
			continue // the value is the type
		}
		if err := w.value(kind, depth); err != nil {
			return err
		}
	}
}

func (w *thriftWalker) value(kind byte, depth int) error {
	switch kind {
	case thriftTrue, thriftFalse, thriftByte:
		return w.skip(1)
	case thriftInt16, thriftInt32, thriftInt64:
		_, err := w.varint()
		return err
	case thriftDouble:
		return w.skip(8)
	case thriftBinary:
		length, err := w.varint()
		if err != nil {
			return err
		}
		return w.skip(length)
	case thriftList, thriftSet:
		return w.list(depth)
	case thriftStruct:
		return w.fields(depth + 1)
	default:
		return fmt.Errorf("it has a value of the unknown type %d", kind)
	}
}

func (w *thriftWalker) list(depth int) error {
	header, err := w.byte()
	if err != nil {
		return err
	}
	size, kind := uint64(header>>4), header&0xF
	if size == 15 {
		if size, err = w.varint(); err != nil {
			return err
		}
	}
	if size > uint64(len(w.rest)) { // an element takes at least a byte
		return fmt.Errorf("it claims a list of %d elements in %d bytes", size, len(w.rest))
	}
	w.elements += int(size)
	if kind == thriftStruct {
		w.structs += int(size)
	}
	if w.elements > maxElements || w.structs > maxStructs {
		return fmt.Errorf("it has more than %d structs or %d values in lists", maxStructs, maxElements)
	}
	if depth >= maxNesting {
		return fmt.Errorf("it is nested more than %d deep", maxNesting)
	}
	for range size {
		if err := w.value(kind, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *thriftWalker) byte() (byte, error) {
	if len(w.rest) == 0 {
		return 0, errFooterEnds
	}
	first := w.rest[0]
	w.rest = w.rest[1:]
	return first, nil
}

func (w *thriftWalker) varint() (uint64, error) {
	value, n := binary.Uvarint(w.rest)
	if n <= 0 {
		return 0, errFooterEnds
	}
	w.rest = w.rest[n:]
	return value, nil
}

func (w *thriftWalker) skip(length uint64) error {
	if length > uint64(len(w.rest)) {
		return errFooterEnds
	}
	w.rest = w.rest[length:]
	return nil
}

package parquetinfo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

const (
	magic           = "PAR1"
	encryptedMagic  = "PARE"
	trailerBytes    = 8 // footer length and magic
	maxSchemaNodes  = 1 << 14
	maxSchemaDepth  = 32
	firstReadBytes  = 64 << 10 // most footers fit, so that one read gets all
	smallestParquet = int64(len(magic) + trailerBytes)
)

// readFooter returns the decoded footer of a file of size bytes after it was bounded and checked:
// schema, row groups and columns agree with each other, and column chunks lie within the file.
func readFooter(r io.ReaderAt, size int64) (meta *format.FileMetaData, err error) {
	data, err := footerBytes(r, size)
	if err != nil {
		return nil, err
	}
	if err := checkThrift(data); err != nil {
		return nil, fmt.Errorf("the footer is garbled: %w", err)
	}
	defer recoverTo(&err)
	meta = new(format.FileMetaData)
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), data, meta); err != nil {
		return nil, fmt.Errorf("the footer is garbled: %w", err)
	}
	if err := checkFooter(meta, size); err != nil {
		return nil, fmt.Errorf("the footer contradicts itself: %w", err)
	}
	return meta, nil
}

// recoverTo turns a panic of the Parquet library into an error: it indexes by what a file says.
func recoverTo(err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("the footer makes the decoder panic: %v", cause)
	}
}

// footerBytes returns the encoded footer without length and magic. Mostly it takes one read.
func footerBytes(r io.ReaderAt, size int64) ([]byte, error) {
	if size < smallestParquet {
		return nil, fmt.Errorf("%d bytes are too few for a Parquet file", size)
	}
	tail := make([]byte, min(size, firstReadBytes))
	if err := readFull(r, tail, size-int64(len(tail))); err != nil {
		return nil, err
	}
	trailer := tail[len(tail)-trailerBytes:]
	switch string(trailer[4:]) {
	case magic:
	case encryptedMagic:
		return nil, errors.New("the footer is encrypted")
	default:
		return nil, errors.New("it does not end as a Parquet file does")
	}
	length := int64(binary.LittleEndian.Uint32(trailer))
	switch {
	case length > size-smallestParquet:
		return nil, fmt.Errorf("the footer claims %d bytes of a file that has %d", length, size)
	case length > maxFooterBytes:
		return nil, fmt.Errorf("the footer has %d bytes, more than the %d that are read", length, int64(maxFooterBytes))
	}
	if end := len(tail) - trailerBytes; length <= int64(end) {
		return tail[end-int(length) : end], nil
	}
	footer := make([]byte, length)
	return footer, readFull(r, footer, size-trailerBytes-length)
}

func readFull(r io.ReaderAt, p []byte, offset int64) error {
	n, err := r.ReadAt(p, offset)
	switch {
	case n == len(p):
		return nil
	case err == nil, errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read footer: %w", err)
}

// checkFooter holds a footer to what the library takes for granted.
func checkFooter(meta *format.FileMetaData, size int64) error {
	leaves, err := checkSchema(meta.Schema)
	if err != nil {
		return err
	}
	if meta.NumRows < 0 {
		return fmt.Errorf("it has %d rows", meta.NumRows)
	}
	rows := int64(0)
	for i := range meta.RowGroups {
		group := &meta.RowGroups[i]
		if group.NumRows < 0 || group.NumRows > meta.NumRows-rows {
			return fmt.Errorf("row group %d has %d rows of %d in all", i, group.NumRows, meta.NumRows)
		}
		rows += group.NumRows
		if len(group.Columns) != leaves {
			return fmt.Errorf("row group %d has %d columns of %d", i, len(group.Columns), leaves)
		}
		for j := range group.Columns {
			if err := checkChunk(&group.Columns[j].MetaData, size); err != nil {
				return fmt.Errorf("row group %d, column %d: %w", i, j, err)
			}
		}
	}
	if rows != meta.NumRows {
		return fmt.Errorf("its row groups have %d rows, the file %d", rows, meta.NumRows)
	}
	return nil
}

func checkChunk(chunk *format.ColumnMetaData, size int64) error {
	start := chunk.DataPageOffset
	if chunk.DictionaryPageOffset > 0 {
		start = min(start, chunk.DictionaryPageOffset)
	}
	if start < 0 || chunk.DictionaryPageOffset < 0 || chunk.TotalCompressedSize < 0 || chunk.NumValues < 0 ||
		start > size || chunk.DataPageOffset > size || chunk.TotalCompressedSize > size-start {
		return fmt.Errorf("%d bytes from offset %d on do not lie in a file of %d bytes", chunk.TotalCompressedSize, start, size)
	}
	return nil
}

// checkSchema holds the flattened tree to a sane shape and returns its number of leaves.
func checkSchema(nodes []format.SchemaElement) (leaves int, err error) {
	if len(nodes) < 2 || len(nodes) > maxSchemaNodes {
		return 0, fmt.Errorf("its schema has %d nodes; 2 to %d are read", len(nodes), maxSchemaNodes)
	}
	open := make([]int32, 0, maxSchemaDepth) // children still to come, for each level
	for i := range nodes {
		if i > 0 {
			if len(open) == 0 {
				return 0, errors.New("its schema has nodes without a parent")
			}
			open[len(open)-1]--
		}
		children := nodes[i].NumChildren.V
		switch {
		case children < 0 || children == 0 && i == 0:
			return 0, fmt.Errorf("node %d of its schema has %d children", i, children)
		case children > 0:
			open = append(open, children)
		case !nodes[i].Type.Valid:
			return 0, fmt.Errorf("node %d of its schema has neither type nor children", i)
		default:
			leaves++
		}
		if len(open) > maxSchemaDepth {
			return 0, fmt.Errorf("its schema is nested more than %d deep", maxSchemaDepth)
		}
		for len(open) > 0 && open[len(open)-1] == 0 {
			open = open[:len(open)-1]
		}
	}
	if len(open) != 0 {
		return 0, errors.New("its schema lacks nodes that it announces")
	}
	return leaves, nil
}

// Open returns the file for reading its pages, after its footer was checked as Inspect does. The
// page index and Bloom filters are not read. bufferBytes is how much each column reads at once.
//
// Pages are not checked beforehand: reading them can still panic in the library, and a compressed
// page can swell to gigabytes. Read only files whose bytes are those that were verified, and
// recover around it.
func Open(r io.ReaderAt, size int64, bufferBytes int) (file *parquet.File, err error) {
	if _, err := readFooter(r, size); err != nil {
		return nil, fmt.Errorf("open Parquet file: %w", err)
	}
	defer recoverTo(&err)
	file, err = parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(bufferBytes))
	if err != nil {
		return nil, fmt.Errorf("open Parquet file: %w", err)
	}
	return file, nil
}

package parquetinfo

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// The limits of a page. Writers make pages of about 1 MiB, some of up to 100 MiB.
const (
	maxPageBytes       = 128 << 20 // before and after compression
	maxPageHeaderBytes = 64 << 10
	maxPageValues      = 8 << 20
	// maxValuesPerByte bounds the values of a file by its size: a few bytes can say that millions of
	// values are the same, and reading these takes its time. Wide tables of nulls have some 50.
	maxValuesPerByte = 256
)

// GroupPages is what the page headers of a row group say.
type GroupPages struct {
	Rows    int64
	Columns int
	// LargestPages are bytes: of each column the largest page, with what it is unpacked to.
	LargestPages int64
}

// CheckPages walks all page headers of a Parquet file and refuses what would make a decoder hang,
// allocate more than a page may have, or read beyond its column: lengths that do not add up, counts of
// values that contradict the footer, and compressed bytes that would swell beyond what their header says.
// A compression that cannot be held to that is an error too. It reads headers and the first bytes of
// pages; r should be a local file. It returns the row groups.
func CheckPages(r io.ReaderAt, size int64) (groups []GroupPages, err error) {
	meta, err := readFooter(r, size)
	if err != nil {
		return nil, fmt.Errorf("check pages: %w", err)
	}
	defer recoverTo(&err)
	left := size * maxValuesPerByte
	for g := range meta.RowGroups {
		group := GroupPages{Rows: meta.RowGroups[g].NumRows, Columns: len(meta.RowGroups[g].Columns)}
		for c := range meta.RowGroups[g].Columns {
			chunk := &meta.RowGroups[g].Columns[c]
			if chunk.CryptoMetadata.Value != nil || len(chunk.EncryptedColumnMetadata) > 0 {
				return nil, fmt.Errorf("check pages: row group %d, column %d is encrypted", g, c)
			}
			if left -= chunk.MetaData.NumValues; left < 0 {
				return nil, fmt.Errorf("check pages: it claims more than %d values for each of its %d bytes", maxValuesPerByte, size)
			}
			largest, err := checkChunkPages(r, &chunk.MetaData)
			if err != nil {
				return nil, fmt.Errorf("check pages: row group %d, column %d: %w", g, c, err)
			}
			group.LargestPages += largest
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// checkChunkPages returns the bytes of the largest page, packed and unpacked together.
func checkChunkPages(r io.ReaderAt, chunk *format.ColumnMetaData) (largest int64, err error) {
	start := chunk.DataPageOffset
	if chunk.DictionaryPageOffset > 0 {
		start = min(start, chunk.DictionaryPageOffset)
	}
	end := start + chunk.TotalCompressedSize
	values, dictionaries := int64(0), 0
	for at := start; at < end; {
		header, length, err := pageHeader(r, at, end)
		if err != nil {
			return 0, fmt.Errorf("page at %d: %w", at, err)
		}
		body := at + length
		switch packed := int64(header.CompressedPageSize); {
		case packed < 0 || packed > maxPageBytes || packed > end-body:
			return 0, fmt.Errorf("page at %d claims %d bytes of the %d that its column has left", at, packed, end-body)
		case header.UncompressedPageSize < 0 || header.UncompressedPageSize > maxPageBytes:
			return 0, fmt.Errorf("page at %d claims %d bytes without compression", at, header.UncompressedPageSize)
		}
		if header.Type == format.DictionaryPage {
			if dictionaries++; dictionaries > 1 {
				return 0, fmt.Errorf("page at %d is another dictionary", at)
			}
		}
		count, err := pageValues(header)
		if err != nil {
			return 0, fmt.Errorf("page at %d: %w", at, err)
		}
		values += count
		if err := checkSwelling(r, chunk.Codec, header, body); err != nil {
			return 0, fmt.Errorf("page at %d: %w", at, err)
		}
		largest = max(largest, int64(header.CompressedPageSize)+int64(header.UncompressedPageSize))
		at = body + int64(header.CompressedPageSize)
	}
	if values != chunk.NumValues {
		return 0, fmt.Errorf("its pages hold %d values, the footer says %d", values, chunk.NumValues)
	}
	return largest, nil
}

// pageHeader decodes the header at an offset and returns how long it is.
func pageHeader(r io.ReaderAt, at, end int64) (*format.PageHeader, int64, error) {
	text := make([]byte, min(end-at, maxPageHeaderBytes))
	if err := readFull(r, text, at); err != nil {
		return nil, 0, err
	}
	walker := thriftWalker{rest: text}
	if err := walker.fields(0); err != nil {
		return nil, 0, fmt.Errorf("its header is garbled: %w", err)
	}
	length := len(text) - len(walker.rest)
	header := new(format.PageHeader)
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), text[:length], header); err != nil {
		return nil, 0, fmt.Errorf("its header is garbled: %w", err)
	}
	return header, int64(length), nil
}

// pageValues returns how many values a data page claims; a dictionary's do not count.
func pageValues(header *format.PageHeader) (int64, error) {
	count := int32(-1)
	switch {
	case header.Type == format.DataPage && header.DataPageHeader.Valid:
		count = header.DataPageHeader.V.NumValues
	case header.Type == format.DataPageV2 && header.DataPageHeaderV2.Valid:
		count = header.DataPageHeaderV2.V.NumValues
	case header.Type == format.DictionaryPage && header.DictionaryPageHeader.Valid:
		if n := header.DictionaryPageHeader.V.NumValues; n < 0 || n > maxPageValues {
			return 0, fmt.Errorf("its dictionary claims %d values", n)
		}
		return 0, nil
	}
	switch {
	case count < 0:
		return 0, fmt.Errorf("its header is of type %s without a count of values", header.Type)
	case count > maxPageValues:
		return 0, fmt.Errorf("it claims %d values", count)
	}
	return int64(count), nil
}

// checkSwelling makes sure that a page's bytes unpack to what its header says, no more.
func checkSwelling(r io.ReaderAt, codec format.CompressionCodec, header *format.PageHeader, body int64) error {
	packed, plain := int64(header.CompressedPageSize), int64(header.UncompressedPageSize)
	if header.Type == format.DataPageV2 { // its levels are never packed
		v2 := header.DataPageHeaderV2.V
		levels := int64(v2.RepetitionLevelsByteLength) + int64(v2.DefinitionLevelsByteLength)
		if v2.RepetitionLevelsByteLength < 0 || v2.DefinitionLevelsByteLength < 0 || levels > packed || levels > plain {
			return fmt.Errorf("its levels claim %d bytes of %d", levels, packed)
		}
		body, packed, plain = body+levels, packed-levels, plain-levels
		if v2.IsCompressed.Valid && !v2.IsCompressed.V {
			codec = format.Uncompressed
		}
	}
	if packed == 0 {
		return nil
	}
	switch codec {
	case format.Uncompressed:
		if packed != plain {
			return fmt.Errorf("it is not compressed, and has %d bytes instead of %d", packed, plain)
		}
		return nil
	case format.Snappy:
		return snappySize(r, body, packed, plain)
	case format.Zstd:
		return zstdSize(r, body, packed, plain)
	case format.Lz4Raw:
		return lz4Size(r, body, packed, plain)
	case format.Brotli:
		return streamSize(brotli.NewReader(io.NewSectionReader(r, body, packed)), plain)
	case format.Gzip:
		reader, err := gzip.NewReader(io.NewSectionReader(r, body, packed))
		if err != nil {
			return err
		}
		return streamSize(reader, plain)
	}
	return fmt.Errorf("compression %s cannot be held to its size", codec)
}

// lz4Size unpacks a block once: it has no size of its own, and the library's decoder tries ever greater
// buffers.
func lz4Size(r io.ReaderAt, body, packed, plain int64) error {
	text := make([]byte, packed)
	if err := readFull(r, text, body); err != nil {
		return err
	}
	n, err := lz4.UncompressBlock(text, make([]byte, plain))
	if err == nil && int64(n) != plain {
		err = fmt.Errorf("its LZ4 block has %d bytes, its header says %d", n, plain)
	}
	return err
}

func snappySize(r io.ReaderAt, body, packed, plain int64) error {
	head := make([]byte, min(packed, binary.MaxVarintLen64))
	if err := readFull(r, head, body); err != nil {
		return err
	}
	claimed, n := binary.Uvarint(head)
	if n <= 0 || claimed != uint64(plain) { //nolint:gosec // checked not to be negative
		return fmt.Errorf("its snappy block claims %d bytes, its header %d", claimed, plain)
	}
	return nil
}

// zstdSize believes the frame's own size, to which the decoder holds itself, where that frame is all
// there is. Else the bytes are unpacked once to nowhere: further frames would be unpacked too.
func zstdSize(r io.ReaderAt, body, packed, plain int64) error {
	head := make([]byte, min(packed, zstd.HeaderMaxSize))
	if err := readFull(r, head, body); err != nil {
		return err
	}
	var header zstd.Header
	if err := header.Decode(head); err != nil {
		return err
	}
	if header.HasFCS && !header.Skippable {
		if header.FrameContentSize != uint64(plain) { //nolint:gosec // checked not to be negative
			return fmt.Errorf("its zstd frame claims %d bytes, its header %d", header.FrameContentSize, plain)
		}
		end, err := zstdFrameEnd(r, body, packed, &header)
		if err != nil || end == packed {
			return err
		}
	}
	text := make([]byte, packed)
	if err := readFull(r, text, body); err != nil {
		return err
	}
	decoder, err := zstd.NewReader(bytes.NewReader(text), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return err
	}
	defer decoder.Close()
	return streamSize(decoder, plain)
}

// zstdFrameEnd returns how long the first frame is, from the headers of its blocks.
func zstdFrameEnd(r io.ReaderAt, body, packed int64, header *zstd.Header) (int64, error) {
	const headerBytes, checksumBytes = 3, 4
	at := int64(header.HeaderSize)
	for last := false; !last; {
		var block [headerBytes]byte
		if at+headerBytes > packed {
			return 0, errors.New("its zstd frame ends within a block")
		}
		if err := readFull(r, block[:], body+at); err != nil {
			return 0, err
		}
		bits := int64(block[0]) | int64(block[1])<<8 | int64(block[2])<<16
		last = bits&1 != 0
		size := bits >> 3
		if bits>>1&3 == 1 { // one byte, repeated
			size = 1
		}
		at += headerBytes + size
	}
	if header.HasCheckSum {
		at += checksumBytes
	}
	return at, nil
}

func streamSize(reader io.Reader, plain int64) error {
	n, err := io.Copy(io.Discard, io.LimitReader(reader, plain+1))
	if err == nil && n != plain {
		err = fmt.Errorf("it unpacks to another size than the %d bytes of its header", plain)
	}
	return err
}

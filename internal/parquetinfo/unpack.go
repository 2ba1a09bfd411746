package parquetinfo

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// page makes sure that a page unpacks to what its header says, no more, and that its values are no more than
// it says either.
func (p *pageChecker) page(codec format.CompressionCodec, header *format.PageHeader, body int64, column leafShape) error {
	packed, plain := int64(header.CompressedPageSize), int64(header.UncompressedPageSize)
	if header.Type == format.DataPageV2 { // its levels are never packed
		v2 := &header.DataPageHeaderV2.V
		levels := int64(v2.RepetitionLevelsByteLength) + int64(v2.DefinitionLevelsByteLength)
		if v2.RepetitionLevelsByteLength < 0 || v2.DefinitionLevelsByteLength < 0 || levels > packed || levels > plain {
			return fmt.Errorf("its levels claim %d bytes of %d", levels, packed)
		}
		if err := p.levels(v2, body, column); err != nil {
			return err
		}
		body, packed, plain = body+levels, packed-levels, plain-levels
		if v2.IsCompressed.Valid && !v2.IsCompressed.V {
			codec = format.Uncompressed
		}
	}
	if !column.needsLook(header) {
		return p.size(codec, body, packed, plain)
	}
	if err := p.size(codec, body, packed, plain); err != nil {
		return err
	}
	for n := min(plain, firstLook); ; n = min(plain, n*8) {
		text, err := p.begin(codec, body, packed, plain, n)
		if err != nil {
			return err
		}
		if err = column.look(header, text, plain-int64(len(text))); !errors.Is(err, errCutOff) || int64(len(text)) == plain {
			return err
		}
	}
}

// firstLook is how much of a page is unpacked at first: what says how many values there are stands in front.
const firstLook = 2 << 10

// begin returns at least the first so many bytes of a page whose size was checked.
func (p *pageChecker) begin(codec format.CompressionCodec, body, packed, plain, n int64) ([]byte, error) {
	switch {
	case n == plain:
	case codec == format.Uncompressed:
		return p.unpack(codec, body, n, n)
	case codec == format.Snappy:
		p.packed, p.plain = atLeast(p.packed, min(packed, 2*n+64)), atLeast(p.plain, n)
		if err := readFull(p.r, p.packed, body); err != nil {
			return nil, err
		}
		if text := snappyBegin(p.packed, p.plain[:0:n]); int64(len(text)) == n {
			return text, nil
		} // else it needs more of the block, or it is garbled, which the whole block shows
	}
	return p.unpack(codec, body, packed, plain)
}

// size makes sure that packed bytes unpack to a size, mostly without unpacking them.
func (p *pageChecker) size(codec format.CompressionCodec, body, packed, plain int64) error {
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
		return snappySize(p.r, body, packed, plain)
	case format.Zstd:
		if known, err := zstdSize(p.r, body, packed, plain); known || err != nil {
			return err
		}
	}
	_, err := p.unpack(codec, body, packed, plain)
	return err
}

// unpack returns a page's bytes in a buffer that the next page uses again. It never takes more than the page
// should have.
func (p *pageChecker) unpack(codec format.CompressionCodec, body, packed, plain int64) ([]byte, error) {
	p.packed, p.plain = atLeast(p.packed, packed), atLeast(p.plain, plain)
	if err := readFull(p.r, p.packed, body); err != nil {
		return nil, err
	}
	if packed == 0 && plain == 0 {
		return nil, nil
	}
	switch codec {
	case format.Uncompressed:
		if packed != plain {
			return nil, fmt.Errorf("it is not compressed, and has %d bytes instead of %d", packed, plain)
		}
		return p.packed, nil
	case format.Snappy: // its size was checked
		return s2.Decode(p.plain, p.packed)
	case format.Lz4Raw: // it has no size of its own, and the library's decoder tries ever greater buffers
		n, err := lz4.UncompressBlock(p.packed, p.plain)
		if err == nil && int64(n) != plain {
			err = fmt.Errorf("its LZ4 block has %d bytes, its header says %d", n, plain)
		}
		return p.plain, err
	case format.Zstd:
		return p.unpackZstd()
	case format.Brotli:
		return p.plain, exactly(brotli.NewReader(bytes.NewReader(p.packed)), p.plain)
	case format.Gzip:
		reader, err := gzip.NewReader(bytes.NewReader(p.packed))
		if err != nil {
			return nil, err
		}
		return p.plain, exactly(reader, p.plain)
	}
	return nil, fmt.Errorf("compression %s cannot be held to its size", codec)
}

// atLeast returns a buffer of that size.
func atLeast(buffer []byte, size int64) []byte {
	if int64(cap(buffer)) < size {
		return make([]byte, size)
	}
	return buffer[:size]
}

func (p *pageChecker) unpackZstd() ([]byte, error) {
	source := bytes.NewReader(p.packed)
	var err error
	if p.zstd == nil {
		p.zstd, err = zstd.NewReader(source, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
	} else {
		err = p.zstd.Reset(source)
	}
	if err != nil {
		return nil, err
	}
	return p.plain, exactly(p.zstd, p.plain)
}

// exactly fills a buffer and wants the end behind it.
func exactly(reader io.Reader, buffer []byte) error {
	n, err := io.ReadFull(reader, buffer)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("it unpacks to %d bytes, its header says %d", n, len(buffer))
	case err != nil:
		return err
	}
	var more [1]byte
	if n, err := io.ReadFull(reader, more[:]); n > 0 {
		return fmt.Errorf("it unpacks to more than the %d bytes of its header", len(buffer))
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// zstdSize believes the frame's own size, to which the decoder holds itself, where that frame is all there
// is; known is false where the bytes must be unpacked to know: further frames would be unpacked too.
func zstdSize(r io.ReaderAt, body, packed, plain int64) (known bool, err error) {
	head := make([]byte, min(packed, zstd.HeaderMaxSize))
	if err := readFull(r, head, body); err != nil {
		return false, err
	}
	var header zstd.Header
	if err := header.Decode(head); err != nil {
		return false, err
	}
	if !header.HasFCS || header.Skippable {
		return false, nil
	}
	if header.FrameContentSize != uint64(plain) { //nolint:gosec // checked not to be negative
		return false, fmt.Errorf("its zstd frame claims %d bytes, its header %d", header.FrameContentSize, plain)
	}
	end, err := zstdFrameEnd(r, body, packed, &header)
	return end == packed, err
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

// snappyBegin unpacks as much of the beginning of a block as fits into a buffer, less where the block ends or is
// garbled.
func snappyBegin(block, into []byte) []byte {
	_, n := binary.Uvarint(block)
	if n <= 0 {
		return nil
	}
	for block = block[n:]; len(into) < cap(into); {
		literal, length, back, n := snappyElement(block)
		if n == 0 || back > len(into) || !literal && back == 0 {
			return into
		}
		block = block[n:]
		length = min(length, cap(into)-len(into))
		if literal {
			if length > len(block) {
				return into
			}
			into, block = append(into, block[:length]...), block[length:]
			continue
		}
		for range length { // what is copied may be copied again within one element
			into = append(into, into[len(into)-back])
		}
	}
	return into
}

// snappyElement reads the head of an element: a literal of so many bytes that follow, or a copy of so many from
// so far back. n is the length of the head, 0 when there is none.
func snappyElement(block []byte) (literal bool, length, back, n int) {
	if len(block) == 0 {
		return false, 0, 0, 0
	}
	tag := int(block[0])
	more := func(bytes int) (value int, ok bool) {
		if len(block) <= bytes {
			return 0, false
		}
		for i := range bytes {
			value |= int(block[1+i]) << (8 * i)
		}
		return value, true
	}
	switch tag & 3 {
	case 0:
		bytes := max(0, tag>>2-59)
		value, ok := more(bytes)
		if !ok {
			return false, 0, 0, 0
		}
		if bytes == 0 {
			value = tag >> 2
		}
		return true, value + 1, 0, 1 + bytes
	case 1:
		value, ok := more(1)
		if !ok {
			return false, 0, 0, 0
		}
		return false, tag>>2&7 + 4, tag>>5<<8 | value, 2
	}
	bytes := 2
	if tag&3 == 3 {
		bytes = 4
	}
	value, ok := more(bytes)
	if !ok {
		return false, 0, 0, 0
	}
	return false, tag>>2 + 1, value, 1 + bytes
}

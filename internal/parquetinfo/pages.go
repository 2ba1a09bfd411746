package parquetinfo

import (
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
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
	// LargestPages are bytes: of each column the largest page, with what it is unpacked to. LargestPage is
	// the largest of them.
	LargestPages, LargestPage int64
}

// CheckPages walks all page headers of a Parquet file and refuses what would make a decoder hang,
// allocate more than a page may have, or read beyond its column: lengths that do not add up, counts of
// values that contradict the footer, and compressed bytes that would swell beyond what their header says.
// A compression that cannot be held to that is an error too. Where an encoding could say more
// in a few bytes than a page may hold, the page is unpacked and its runs and lengths are added up. r should be a
// local file. It returns the row groups.
func CheckPages(r io.ReaderAt, size int64) (groups []GroupPages, err error) {
	meta, err := readFooter(r, size)
	if err != nil {
		return nil, fmt.Errorf("check pages: %w", err)
	}
	defer recoverTo(&err)
	leaves, check := leavesOf(meta.Schema), pageChecker{r: r}
	defer check.close()
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
			largest, err := check.chunk(&chunk.MetaData, leaves[c])
			if err != nil {
				return nil, fmt.Errorf("check pages: row group %d, column %d: %w", g, c, err)
			}
			group.LargestPages, group.LargestPage = group.LargestPages+largest, max(group.LargestPage, largest)
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// pageChecker checks pages one after the other.
type pageChecker struct {
	r             io.ReaderAt
	packed, plain []byte // buffers, as header
	header        []byte
	zstd          *zstd.Decoder
}

func (p *pageChecker) close() {
	if p.zstd != nil {
		p.zstd.Close()
	}
}

// chunk returns the bytes of a column chunk's largest page, packed and unpacked together.
func (p *pageChecker) chunk(chunk *format.ColumnMetaData, column leafShape) (largest int64, err error) {
	start := chunk.DataPageOffset
	if chunk.DictionaryPageOffset > 0 {
		start = min(start, chunk.DictionaryPageOffset)
	}
	end := start + chunk.TotalCompressedSize
	values, dictionaries := int64(0), 0
	for at := start; at < end; {
		header, length, err := p.pageHeader(at, end)
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
		if err := column.fits(max(count, int64(header.DictionaryPageHeader.V.NumValues))); err != nil {
			return 0, fmt.Errorf("page at %d: %w", at, err)
		}
		values += count
		if err := p.page(chunk.Codec, header, body, column); err != nil {
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

// pageHeader decodes the header at an offset and returns how long it is. Most are short: the greatest
// possible one is read only where a short look does not show the end.
func (p *pageChecker) pageHeader(at, end int64) (*format.PageHeader, int64, error) {
	const shortLook = 512
	var length int
	for _, look := range []int64{shortLook, maxPageHeaderBytes} {
		p.header = atLeast(p.header, min(end-at, look))
		if err := readFull(p.r, p.header, at); err != nil {
			return nil, 0, err
		}
		walker := thriftWalker{rest: p.header}
		err := walker.fields(0)
		if err == nil {
			length = len(p.header) - len(walker.rest)
			break
		}
		if look == maxPageHeaderBytes || end-at <= look {
			return nil, 0, fmt.Errorf("its header is garbled: %w", err)
		}
	}
	header := new(format.PageHeader)
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), p.header[:length], header); err != nil {
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
		dictionary := &header.DictionaryPageHeader.V
		switch {
		case dictionary.NumValues < 0 || dictionary.NumValues > maxPageValues:
			return 0, fmt.Errorf("its dictionary claims %d values", dictionary.NumValues)
		case dictionary.Encoding != format.Plain && dictionary.Encoding != plainDictionary:
			return 0, fmt.Errorf("its dictionary is encoded as %s", dictionary.Encoding)
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

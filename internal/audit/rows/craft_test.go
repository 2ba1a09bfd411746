package rows

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// craftedPage is a page as it stands in a file, header and body told apart.
type craftedPage struct {
	header format.PageHeader
	body   []byte
	raw    []byte // instead of the encoded header
}

// craftedColumn is a column chunk of a file that no writer would make.
type craftedColumn struct {
	name     string
	kind     format.Type
	repeats  format.FieldRepetitionType
	codec    format.CompressionCodec
	pages    []craftedPage
	values   int64
	dictated bool  // the first page is a dictionary
	length   int32 // of a fixed-length type
	bend     func(m *format.ColumnMetaData)
}

// craft makes a file with one row group of such columns.
func craft(t testing.TB, rows int64, columns ...craftedColumn) []byte {
	t.Helper()
	data := []byte("PAR1")
	encode := func(v any) []byte {
		text, err := thrift.Marshal(new(thrift.CompactProtocol), v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	meta := format.FileMetaData{Version: 1, NumRows: rows}
	meta.Schema = append(meta.Schema, format.SchemaElement{Name: "schema", NumChildren: thrift.New(int32(len(columns)))}) //nolint:gosec // few
	group := format.RowGroup{NumRows: rows}
	for _, column := range columns {
		element := format.SchemaElement{Name: column.name, Type: thrift.New(column.kind), RepetitionType: thrift.New(column.repeats)}
		if column.kind == format.FixedLenByteArray {
			element.TypeLength = thrift.New(column.length)
		}
		meta.Schema = append(meta.Schema, element)
		chunk := format.ColumnMetaData{Type: column.kind, PathInSchema: []string{column.name}, Codec: column.codec, NumValues: column.values, DataPageOffset: int64(len(data))}
		if column.dictated {
			chunk.DictionaryPageOffset = chunk.DataPageOffset
		}
		for i, page := range column.pages {
			if column.dictated && i == 1 {
				chunk.DataPageOffset = int64(len(data))
			}
			if page.raw == nil {
				page.raw = encode(&page.header)
			}
			data = append(append(data, page.raw...), page.body...)
		}
		start := chunk.DataPageOffset
		if column.dictated {
			start = chunk.DictionaryPageOffset
		}
		chunk.TotalCompressedSize = int64(len(data)) - start
		chunk.TotalUncompressedSize = chunk.TotalCompressedSize
		if column.bend != nil {
			column.bend(&chunk)
		}
		group.Columns = append(group.Columns, format.ColumnChunk{MetaData: chunk})
	}
	meta.RowGroups = append(meta.RowGroups, group)
	footer := encode(&meta)
	data = append(data, footer...)
	data = binary.LittleEndian.AppendUint32(data, uint32(len(footer))) //nolint:gosec // small
	return append(data, "PAR1"...)
}

// dataPage is a page of the first version.
func dataPage(values, plain int32, encoding format.Encoding, body []byte) craftedPage {
	return craftedPage{body: body, header: format.PageHeader{Type: format.DataPage, UncompressedPageSize: plain, CompressedPageSize: int32(len(body)), //nolint:gosec // small
		DataPageHeader: thrift.New(format.DataPageHeader{NumValues: values, Encoding: encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})}}
}

func dictionaryPage(values int32, body []byte) craftedPage {
	return craftedPage{body: body, header: format.PageHeader{Type: format.DictionaryPage, UncompressedPageSize: int32(len(body)), CompressedPageSize: int32(len(body)), //nolint:gosec // small
		DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: values, Encoding: format.Plain})}}
}

// plainTexts encodes texts as PLAIN does.
func plainTexts(texts ...string) []byte {
	var out []byte
	for _, text := range texts {
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(text))), text...) //nolint:gosec // short
	}
	return out
}

// goodIDs is a column of three record ids.
func goodIDs() craftedColumn {
	body := plainTexts("rec_1", "rec_2", "rec_3")
	return craftedColumn{name: recordIDColumn, kind: format.ByteArray, values: 3, pages: []craftedPage{dataPage(3, int32(len(body)), format.Plain, body)}} //nolint:gosec // short
}

// packed compresses bytes.
func packed(t testing.TB, codec format.CompressionCodec, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var err error
	switch codec {
	case format.Snappy:
		return snappy.Encode(nil, plain)
	case format.Gzip:
		writer := gzip.NewWriter(&out)
		if _, err = writer.Write(plain); err == nil {
			err = writer.Close()
		}
	case format.Brotli:
		writer := brotli.NewWriter(&out)
		if _, err = writer.Write(plain); err == nil {
			err = writer.Close()
		}
	case format.Zstd:
		var writer *zstd.Encoder
		if writer, err = zstd.NewWriter(nil); err == nil {
			return writer.EncodeAll(plain, nil)
		}
	case format.Lz4Raw:
		block := make([]byte, lz4.CompressBlockBound(len(plain)))
		n, failed := lz4.CompressBlock(plain, block, nil)
		err = failed
		out.Write(block[:n])
	default:
		return plain
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// streamed compresses with zstd without saying how much it was.
func streamed(t testing.TB, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	writer, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	for len(plain) > 0 { // in pieces, so that the encoder does not know
		n := min(len(plain), 1<<20)
		if _, err := writer.Write(plain[:n]); err != nil {
			t.Fatal(err)
		}
		plain = plain[n:]
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

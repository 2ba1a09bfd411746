package parquetinfo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func inspectBytes(data []byte) (PartInfo, error) {
	return Inspect(bytes.NewReader(data), int64(len(data)))
}

func TestRealFilesAreRead(t *testing.T) {
	for name, want := range map[string]struct {
		rows    int64
		columns int
		one     Column
	}{
		"alltypes_plain.parquet":                 {8, 11, Column{"timestamp_col", "INT96"}},
		"delta_encoding_required_column.parquet": {100, 17, Column{"c_customer_id:", "BYTE_ARRAY STRING"}},
		"geometry-annotated.parquet":             {1, 2, Column{"geometry", `BYTE_ARRAY GEOMETRY("projjson:projjson_epsg_5070")`}},
		"geoparquet-example.parquet":             {5, 6, Column{"continent", "BYTE_ARRAY STRING"}},
		"geoparquet-multipolygon.parquet":        {5, 2, Column{"geometry", `BYTE_ARRAY GEOMETRY("OGC:CRS84")`}},
		"geoparquet-point.parquet":               {4, 2, Column{"geometry", `BYTE_ARRAY GEOMETRY("OGC:CRS84")`}},
		"geoparquet-polygon.parquet":             {4, 2, Column{"geometry", `BYTE_ARRAY GEOMETRY("OGC:CRS84")`}},
		"list_columns.parquet":                   {3, 2, Column{"int64_list.list.item", "INT64 repeated"}},
		"nested_structs.rust.parquet":            {1, 216, Column{}},
	} {
		info, err := inspectBytes(readFile(t, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if info.CreatedBy == "" || info.Rows != want.rows || len(info.Columns) != want.columns {
			t.Errorf("%s: %d rows and %d columns by %q, want %d and %d", name, info.Rows, len(info.Columns), info.CreatedBy, want.rows, want.columns)
		}
		found := want.one.Path == ""
		for _, column := range info.Columns {
			found = found || column == want.one
		}
		if !found {
			t.Errorf("%s: no column %v in %v", name, want.one, info.Columns)
		}
	}
}

func TestCutAndGarbledFilesAreErrorsAndNeverPanic(t *testing.T) {
	for _, name := range []string{"geoparquet-example.parquet", "nested_structs.rust.parquet", "list_columns.parquet"} {
		whole := readFile(t, name)
		for _, length := range []int{0, 1, 4, 8, 11, 12, len(whole) / 2, len(whole) - 9, len(whole) - 8, len(whole) - 1} {
			if _, err := inspectBytes(whole[:length]); err == nil {
				t.Errorf("%s cut to %d bytes passed", name, length)
			}
		}
		footer := int(binary.LittleEndian.Uint32(whole[len(whole)-8:]))
		random := rand.New(rand.NewPCG(1, 2))
		failed := 0
		for range 400 {
			garbled := bytes.Clone(whole)
			garbled[len(whole)-8-1-random.IntN(footer)] ^= byte(1 + random.IntN(255))
			if _, err := inspectBytes(garbled); err != nil {
				failed++
			}
			if file, err := Open(bytes.NewReader(garbled), int64(len(garbled)), 4096); (file == nil) == (err == nil) {
				t.Fatalf("%s: open returned %v and %v", name, file, err)
			}
		}
		if failed < 10 {
			t.Errorf("%s: only %d of 400 garbled footers were noticed", name, failed)
		}
	}
}

// withFooter returns a file that consists of a footer and what frames it.
func withFooter(footer []byte) []byte {
	data := append([]byte(magic), footer...)
	data = binary.LittleEndian.AppendUint32(data, uint32(len(footer)))
	return append(data, magic...)
}

func encoded(t *testing.T, meta *format.FileMetaData) []byte {
	t.Helper()
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
	if err != nil {
		t.Fatal(err)
	}
	return footer
}

// smallFooter describes an empty file with one column.
func smallFooter() *format.FileMetaData {
	root := format.SchemaElement{Name: "schema"}
	root.NumChildren.V, root.NumChildren.Valid = 1, true
	leaf := format.SchemaElement{Name: "id"}
	leaf.Type.V, leaf.Type.Valid = format.Int64, true
	return &format.FileMetaData{Version: 1, Schema: []format.SchemaElement{root, leaf}}
}

func TestFootersThatClaimMoreThanTheyHoldAreRefused(t *testing.T) {
	claim := binary.AppendUvarint([]byte{0x29, 0xFC}, 1<<31-1) // field 2: a list of 2^31-1 structs
	deep := bytes.Repeat([]byte{0x1C}, 100_000)                // a struct in a struct in a struct
	lists := append([]byte{0x19}, bytes.Repeat([]byte{0x19}, 100_000)...)
	many := append(binary.AppendUvarint([]byte{0x29, 0xFC}, 1<<20), make([]byte, 1<<20+1)...)
	flags := append(binary.AppendUvarint([]byte{0x29, 0xF1}, 3<<20), make([]byte, 3<<20+1)...)
	for name, test := range map[string]struct {
		data []byte
		says string
	}{
		"list beyond the footer": {withFooter(append(claim, 0)), "claims a list"},
		"text beyond the footer": {withFooter([]byte{0x68, 0xFF, 0xFF, 0xFF, 0xFF, 0x07, 'x', 0}), "middle of a value"},
		"deep structs":           {withFooter(deep), "nested"},
		"deep lists":             {withFooter(lists), "nested"},
		"a million structs":      {withFooter(many), "structs"},
		"three million flags":    {withFooter(flags), "values in lists"},
		"unknown type":           {withFooter([]byte{0x1D, 0}), "unknown type"},
		"bytes behind the end":   {withFooter(append(encoded(t, smallFooter()), 1)), "follow its end"},
		"no footer":              {withFooter(nil), "middle of a value"},
		"encrypted":              {append(withFooter(nil)[:8], "PARE"...), "encrypted"},
		"html":                   {[]byte("<html><body>service unavailable</body></html>"), "does not end as"},
		"length beyond the file": {append(binary.LittleEndian.AppendUint32([]byte("PAR1"), 1<<31), magic...), "claims"},
	} {
		if _, err := inspectBytes(test.data); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want it to say %q", name, err, test.says)
		}
	}
	if info, err := inspectBytes(withFooter(encoded(t, smallFooter()))); err != nil || len(info.Columns) != 1 {
		t.Errorf("the small footer: %v", err)
	}
}

func TestGiantFootersAreNotRead(t *testing.T) {
	data := make([]byte, maxFooterBytes+64)
	binary.LittleEndian.PutUint32(data[len(data)-8:], maxFooterBytes+1)
	copy(data[len(data)-4:], magic)
	if _, err := inspectBytes(data); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("inspect: %v", err)
	}
}

func TestFootersThatContradictThemselvesAreRefused(t *testing.T) {
	group := func(rows int64, columns ...format.ColumnChunk) format.RowGroup {
		return format.RowGroup{NumRows: rows, Columns: columns}
	}
	chunk := func(offset, size int64) format.ColumnChunk {
		return format.ColumnChunk{MetaData: format.ColumnMetaData{DataPageOffset: offset, TotalCompressedSize: size}}
	}
	for name, edit := range map[string]func(*format.FileMetaData){
		"no schema":             func(m *format.FileMetaData) { m.Schema = nil },
		"root alone":            func(m *format.FileMetaData) { m.Schema = m.Schema[:1] },
		"too few children":      func(m *format.FileMetaData) { m.Schema[0].NumChildren.V = 2 },
		"orphans":               func(m *format.FileMetaData) { m.Schema = append(m.Schema, m.Schema[1]) },
		"negative children":     func(m *format.FileMetaData) { m.Schema[0].NumChildren.V = -1 },
		"root without children": func(m *format.FileMetaData) { m.Schema[0].NumChildren.V = 0 },
		"leaf without type":     func(m *format.FileMetaData) { m.Schema[1].Type.Valid = false },
		"too many columns": func(m *format.FileMetaData) {
			m.Schema = make([]format.SchemaElement, maxSchemaNodes+1)
		},
		"too deep": func(m *format.FileMetaData) {
			root := m.Schema[0]
			for range 40 {
				m.Schema = append([]format.SchemaElement{root}, m.Schema...)
			}
		},
		"negative rows":         func(m *format.FileMetaData) { m.NumRows = -1 },
		"rows without a group":  func(m *format.FileMetaData) { m.NumRows = 3 },
		"negative group":        func(m *format.FileMetaData) { m.RowGroups = []format.RowGroup{group(-1, chunk(4, 0))} },
		"more rows in groups":   func(m *format.FileMetaData) { m.RowGroups = []format.RowGroup{group(1, chunk(4, 0))} },
		"group without columns": func(m *format.FileMetaData) { m.RowGroups = []format.RowGroup{group(0)} },
		"chunk behind the end":  func(m *format.FileMetaData) { m.RowGroups = []format.RowGroup{group(0, chunk(1<<40, 0))} },
		"chunk beyond the end":  func(m *format.FileMetaData) { m.RowGroups = []format.RowGroup{group(0, chunk(4, 1<<40))} },
		"negative offset":       func(m *format.FileMetaData) { m.RowGroups = []format.RowGroup{group(0, chunk(-4, 1))} },
		"negative size":         func(m *format.FileMetaData) { m.RowGroups = []format.RowGroup{group(0, chunk(4, -1))} },
	} {
		meta := smallFooter()
		edit(meta)
		if _, err := inspectBytes(withFooter(encoded(t, meta))); err == nil || !strings.Contains(err.Error(), "contradicts itself") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type failingReaderAt struct{ err error }

func (r failingReaderAt) ReadAt([]byte, int64) (int, error) { return 0, r.err }

func TestAReaderThatFailsKeepsItsError(t *testing.T) {
	denied := errors.New("access denied")
	if _, err := Inspect(failingReaderAt{denied}, 1000); !errors.Is(err, denied) {
		t.Errorf("inspect: %v", err)
	}
	if _, err := Inspect(failingReaderAt{io.EOF}, 1000); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file shorter than its size: %v", err)
	}
}

// A footer above the first read takes a second one.
func TestLongFootersAreRead(t *testing.T) {
	meta := smallFooter()
	meta.KeyValueMetadata = []format.KeyValue{{Key: "geo", Value: strings.Repeat("x", 2*firstReadBytes)}}
	data := withFooter(encoded(t, meta))
	if info, err := inspectBytes(data); err != nil || len(info.Columns) != 1 {
		t.Errorf("inspect: %+v, %v", info, err)
	}
}

func written[T any](t *testing.T, rows ...T) PartInfo {
	t.Helper()
	var out bytes.Buffer
	if err := parquet.Write(&out, rows); err != nil {
		t.Fatal(err)
	}
	info, err := inspectBytes(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestDoubts(t *testing.T) {
	type row struct {
		ID   string
		Area int64
	}
	type swapped struct {
		Area int64
		ID   string
	}
	type nullable struct {
		ID   *string
		Area int64
	}
	type wider struct {
		ID   string
		Area int64
		Note string
	}
	type retyped struct {
		ID   string
		Area float64
	}
	type listed struct {
		ID   string
		Area []int64
	}
	named := func(path string, info PartInfo) PartInfo {
		info.Path = path
		return info
	}
	first := named("snapshot/part-0000.parquet", written(t, row{"a", 1}, row{"b", 2}))
	second := func(info PartInfo) []PartInfo { return []PartInfo{first, named("snapshot/part-0001.parquet", info)} }
	broken := PartInfo{Err: errors.New("inspect Parquet file: it does not end as a Parquet file does")}
	for name, test := range map[string]struct {
		parts []PartInfo
		rows  int64
		want  []string
	}{
		"no parts, no rows":  {nil, 0, nil},
		"no parts, but rows": {nil, 3, []string{"parts hold 0 rows, the feed says 3"}},
		"in agreement":       {second(written(t, row{"c", 1})), 3, nil},
		"rows missing":       {second(written(t, row{"c", 1})), 4, []string{"parts hold 3 rows, the feed says 4"}},
		"rows unknown":       {second(written(t, row{"c", 1})), RowsUnknown, nil},
		"other order":        {second(written(t, swapped{1, "c"})), 3, nil},
		"nullable":           {second(written(t, nullable{nil, 1})), 3, nil},
		"column added":       {second(written(t, wider{"c", 1, ""})), 3, []string{`snapshot/part-0001.parquet: schema differs from snapshot/part-0000.parquet: has column "Note" in addition`}},
		"column lost": {[]PartInfo{named("b", written(t, wider{"c", 1, ""})), named("a", first)}, 3,
			[]string{`a: schema differs from b: lacks column "Note"`}},
		"retyped": {second(written(t, retyped{"c", 1})), 3,
			[]string{`snapshot/part-0001.parquet: schema differs from snapshot/part-0000.parquet: column "Area" is DOUBLE, not INT64 INT(64,true)`}},
		"repeated": {second(written(t, listed{"c", nil})), 3,
			[]string{`snapshot/part-0001.parquet: schema differs from snapshot/part-0000.parquet: column "Area" is INT64 INT(64,true) repeated, not INT64 INT(64,true)`}},
		"unreadable": {second(broken), 100,
			[]string{"snapshot/part-0001.parquet: footer cannot be read: inspect Parquet file: it does not end as a Parquet file does"}},
	} {
		if diff := cmp.Diff(test.want, Doubts(test.parts, test.rows)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestDoubtsAreBounded(t *testing.T) {
	parts := make([]PartInfo, 500)
	for i := range parts {
		parts[i].Err = io.ErrUnexpectedEOF
	}
	doubts := Doubts(parts, 1)
	if len(doubts) != maxDoubts+1 || doubts[maxDoubts] != "480 more doubts are not listed" {
		t.Errorf("%d doubts, the last is %q", len(doubts), doubts[len(doubts)-1])
	}
}

func FuzzInspect(f *testing.F) {
	names, err := filepath.Glob("testdata/*.parquet")
	if err != nil || len(names) == 0 {
		f.Fatal("no files to start from", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("PAR1PAR1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if info, err := inspectBytes(data); err == nil && info.Rows < 0 {
			t.Errorf("%d rows", info.Rows)
		}
	})
}

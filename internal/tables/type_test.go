package tables

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/parquetinfo"
)

func part(t *testing.T, node parquet.Node) parquetinfo.PartInfo {
	t.Helper()
	var file bytes.Buffer
	writer := parquet.NewWriter(&file, parquet.NewSchema("t", node))
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := parquetinfo.Inspect(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	info.Path = "snapshot/part-0000.parquet"
	return info
}

func TestEachParquetTypeBecomesTheTypeThatAllEnginesRead(t *testing.T) {
	for _, c := range []struct {
		name string
		node parquet.Node
		want string // a type, or the reason after "!"
	}{
		{"text", parquet.String(), "string"},
		{"json", parquet.JSON(), "string"},
		{"enum", parquet.Enum(), "string"},
		{"bytes", parquet.Leaf(parquet.ByteArrayType), "binary"},
		{"boolean", parquet.Leaf(parquet.BooleanType), "boolean"},
		{"32 bits", parquet.Int(32), "integer"},
		{"8 bits", parquet.Int(8), "byte"},
		{"16 bits", parquet.Int(16), "short"},
		{"64 bits", parquet.Int(64), "long"},
		{"bare 64 bits", parquet.Leaf(parquet.Int64Type), "long"},
		{"single", parquet.Leaf(parquet.FloatType), "float"},
		{"double", parquet.Leaf(parquet.DoubleType), "double"},
		{"date", parquet.Date(), "date"},
		{"small decimal", parquet.Decimal(2, 9, parquet.Int32Type), "decimal(9,2)"},
		{"decimal", parquet.Decimal(4, 18, parquet.Int64Type), "decimal(18,4)"},
		{"wide decimal", parquet.Decimal(4, 38, parquet.FixedLenByteArrayType(16)), "decimal(38,4)"},
		{"instant in micros", parquet.Timestamp(parquet.Microsecond), "timestamp"},
		{"instant in millis", parquet.Timestamp(parquet.Millisecond), "timestamp"},
		{"wall clock", parquet.TimestampAdjusted(parquet.Microsecond, false), "timestamp_ntz"},
		{"list", parquet.List(parquet.String()), "array<string>"},
		{"list of lists", parquet.List(parquet.List(parquet.Int(32))), "array<array<integer>>"},
		{"struct", parquet.Group{"x": parquet.Leaf(parquet.DoubleType), "y": parquet.String()}, "struct<x:double,y:string>"},
		{"unsigned", parquet.Uint(32), "!unsigned"},
		{"nanoseconds", parquet.Timestamp(parquet.Nanosecond), "!nanoseconds"},
		{"time of day", parquet.Time(parquet.Microsecond), "!times of day"},
		{"INT96", parquet.Leaf(parquet.Int96Type), "!INT96"},
		{"uuid", parquet.UUID(), "!uuid"},
		{"map", parquet.Map(parquet.String(), parquet.String()), "!map"},
		{"repeated", parquet.Repeated(parquet.String()), "!without being a list"},
		{"list of unsigned", parquet.List(parquet.Uint(64)), "!unsigned"},
	} {
		t.Run(c.name, func(t *testing.T) {
			columns, err := ColumnsOf([]parquetinfo.PartInfo{part(t, parquet.Group{"c": c.node})})
			if reason, refused := strings.CutPrefix(c.want, "!"); refused {
				if err == nil || !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), `column "c"`) {
					t.Errorf("columns %v, error %v; want one that names %q", columns, err, reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := columns[0].Type.String(); got != c.want {
				t.Errorf("type %s, want %s", got, c.want)
			}
		})
	}
}

func TestPartsThatDisagreeHaveNoTable(t *testing.T) {
	text, number := parquet.String(), parquet.Int(64)
	base := part(t, parquet.Group{"a": text, "b": number})
	for name, other := range map[string]parquet.Node{
		"another type":    parquet.Group{"a": text, "b": text},
		"a column more":   parquet.Group{"a": text, "b": number, "c": text},
		"a column less":   parquet.Group{"a": text},
		"another decimal": parquet.Group{"a": text, "b": parquet.Decimal(1, 18, parquet.Int64Type)},
	} {
		if _, err := ColumnsOf([]parquetinfo.PartInfo{base, part(t, other)}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	optional := part(t, parquet.Group{"b": parquet.Optional(number), "a": text})
	if _, err := ColumnsOf([]parquetinfo.PartInfo{base, optional}); err != nil {
		t.Errorf("a column that may be null, in another order: %v", err)
	}
	if _, err := ColumnsOf([]parquetinfo.PartInfo{part(t, parquet.Group{"Area": number, "area": text})}); err == nil {
		t.Error("columns that differ only in case: no error")
	}
	if _, err := ColumnsOf(nil); err == nil {
		t.Error("no parts: no error")
	}
}

func TestTheSchemaIsSpelledAsTheProtocolHasIt(t *testing.T) {
	columns := []Column{
		{Name: "geometry", Type: Type{Name: typeBinary}, Comment: "WKB, OGC:CRS84"},
		{Name: "tags", Type: Type{Name: typeArray, Element: &Type{Name: typeString}}},
		{Name: "area", Type: Type{Name: typeDecimal, Precision: 12, Scale: 2}},
		{Name: "Größe", Type: Type{Name: typeStruct, Columns: []Column{{Name: "x", Type: Type{Name: typeLong}}}}},
	}
	got, err := schemaString(columns)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"type":"struct","fields":[
		{"name":"geometry","type":"binary","nullable":true,"metadata":{"comment":"WKB, OGC:CRS84"}},
		{"name":"tags","type":{"type":"array","elementType":"string","containsNull":true},"nullable":true,"metadata":{}},
		{"name":"area","type":"decimal(12,2)","nullable":true,"metadata":{}},
		{"name":"Größe","type":{"type":"struct","fields":[{"name":"x","type":"long","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}}]}`
	var a, b any
	if err := json.Unmarshal([]byte(got), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, a); diff != "" {
		t.Error(diff)
	}
}

// The files come from other writers; their licence stands beside them.
func TestRealFilesOfOtherWriters(t *testing.T) {
	const folder = "../parquetinfo/testdata"
	want := map[string]string{
		"alltypes_plain.parquet":                 "!INT96",
		"delta_encoding_required_column.parquet": "",
		"geometry-annotated.parquet":             "!GEOMETRY",
		"geoparquet-example.parquet":             "!GEOMETRY",
		"geoparquet-multipolygon.parquet":        "!GEOMETRY",
		"geoparquet-point.parquet":               "!GEOMETRY",
		"geoparquet-polygon.parquet":             "!GEOMETRY",
		"list_columns.parquet":                   "",
		"nested_structs.rust.parquet":            "!unsigned",
	}
	for name, expected := range want {
		file, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		stat, err := file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		info, err := parquetinfo.Inspect(file, stat.Size())
		if err != nil {
			t.Fatal(err)
		}
		columns, err := ColumnsOf([]parquetinfo.PartInfo{info})
		switch reason, refused := strings.CutPrefix(expected, "!"); {
		case refused:
			if err == nil || !strings.Contains(err.Error(), reason) {
				t.Errorf("%s: error %v, want %s", name, err, reason)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case len(columns) == 0:
			t.Errorf("%s: no columns", name)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheCoordinateSystemOfAGeometryIsTold(t *testing.T) {
	for geo, want := range map[string]string{
		`{"columns":{"g":{"encoding":"WKB"}}}`:                                                "WKB, OGC:CRS84",
		`{"columns":{"g":{"encoding":"WKB","crs":null}}}`:                                     "WKB, no coordinate system",
		`{"columns":{"g":{"encoding":"WKB","crs":{"name":"Local grid"}}}}`:                    "WKB, Local grid",
		`{"columns":{"g":{"encoding":"WKB","crs":{"id":{"authority":"EPSG","code":25833}}}}}`: "WKB, EPSG:25833",
		`{"columns":{"other":{"encoding":"WKB"}}}`:                                            "",
		`not JSON`: "",
		``:         "",
	} {
		info := part(t, parquet.Group{"g": parquet.Leaf(parquet.ByteArrayType)})
		info.Geo = geo
		columns, err := ColumnsOf([]parquetinfo.PartInfo{info})
		if err != nil {
			t.Fatal(err)
		}
		if columns[0].Comment != want {
			t.Errorf("%s: comment %q, want %q", geo, columns[0].Comment, want)
		}
	}
}

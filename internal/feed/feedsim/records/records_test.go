package records_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/feed/feedsim/records"
)

func TestPDFCrossReferences(t *testing.T) {
	for _, size := range []int{0, 900, 50_000} {
		data := records.PDF(`a (odd) \ name`, size)
		start := regexp.MustCompile(`startxref\n(\d+)\n%%EOF\n$`).FindSubmatch(data)
		if start == nil {
			t.Fatalf("no startxref in %q", data)
		}
		table, err := strconv.Atoi(string(start[1]))
		if err != nil || !bytes.HasPrefix(data[table:], []byte("xref\n0 6\n")) {
			t.Fatalf("startxref %s does not lead to the table: %v", start[1], err)
		}
		entries := regexp.MustCompile(`(\d{10}) 00000 n \n`).FindAllSubmatch(data[table:], -1)
		if len(entries) != 5 {
			t.Fatalf("%d entries", len(entries))
		}
		for i, entry := range entries {
			offset, err := strconv.Atoi(string(entry[1]))
			if want := fmt.Sprintf("%d 0 obj\n", i+1); err != nil || !bytes.HasPrefix(data[offset:], []byte(want)) {
				t.Errorf("entry %d leads to %q", i+1, data[offset:offset+10])
			}
		}
		if size > 1000 && (len(data) < size*9/10 || len(data) > size*11/10) {
			t.Errorf("%d bytes, asked for %d", len(data), size)
		}
	}
}

func TestDiffOverWhatBothHave(t *testing.T) {
	column := func(name string) records.Column { return records.Column{Name: name, Type: records.String} }
	row := func(id, a, b, read string) records.Row {
		return records.Row{ID: id, Values: map[string]any{"a": a, "b": b, "read": read}}
	}
	before := records.Table{
		Schema: records.Schema{Key: []string{"a"}, Columns: []records.Column{column("a"), column("read")}},
		Rows:   []records.Row{row("1", "x", "", "mon"), row("2", "y", "", "mon"), row("3", "z", "", "mon")},
	}
	after := records.Table{
		Schema: records.Schema{Key: []string{"a"}, Columns: []records.Column{column("a"), column("b"), column("read")}},
		Rows:   []records.Row{row("1", "x", "new", "tue"), row("2", "w", "new", "tue"), row("4", "v", "new", "tue")},
	}
	var got []string
	for _, c := range records.Diff(before, after) {
		got = append(got, fmt.Sprint(c.Kind, c.Row.ID, c.Columns, c.Match, c.Score != nil))
	}
	want := "[changed2[a]agenttrue added4[]false removed3[]false]"
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestLogicalTypes(t *testing.T) {
	schema := records.Schema{Columns: []records.Column{
		{Name: "z", Type: records.String}, {Name: "i", Type: records.Integer}, {Name: "f", Type: records.Float},
		{Name: "b", Type: records.Boolean}, {Name: "d", Type: records.Date}, {Name: "j", Type: records.JSON},
		{Name: "m", Type: records.Decimal, Precision: &records.Precision{Precision: 9, Scale: 3}},
		{Name: "t", Type: records.Timestamp}, {Name: "u", Type: records.Timestamptz}, {Name: "a", Type: records.Array, Items: "string"},
	}}
	maker := &records.Maker{Random: records.NewRandom(1), Version: 1}
	table := records.Table{Schema: schema}
	maker.AddRows(&table, 20)
	now := time.Unix(1, 0)
	var out bytes.Buffer
	if err := records.WriteSnapshot(&out, schema, records.Envelope{Dataset: "ds", Version: 1, FetchedAt: &now}, table.Rows, false); err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"_ploti_version": "INT(64,true)", "_ploti_fetched_at": "TIMESTAMP(isAdjustedToUTC=true,unit=MICROS)",
		"z": "STRING", "i": "INT(64,true)", "f": "DOUBLE", "b": "BOOLEAN", "d": "DATE", "j": "JSON", "m": "DECIMAL(9,3)",
		"t": "TIMESTAMP(isAdjustedToUTC=false,unit=MICROS)", "u": "TIMESTAMP(isAdjustedToUTC=true,unit=MICROS)",
	}
	for _, field := range file.Schema().Fields() {
		if expected, ok := want[field.Name()]; ok && field.Type().String() != expected {
			t.Errorf("%s is %s, want %s", field.Name(), field.Type(), expected)
		}
	}
	if name := file.Schema().Fields()[6].Name(); name != "z" {
		t.Errorf("the first own column is %s, want z", name)
	}
}

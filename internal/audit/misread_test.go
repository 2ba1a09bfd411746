package audit

import (
	"strings"
	"testing"

	"feedmirror/internal/parquetinfo"
	"feedmirror/manifest"
)

func partOf(path string, names ...string) parquetinfo.PartInfo {
	info := parquetinfo.PartInfo{Path: path}
	for _, name := range names {
		kind := "INT64"
		if text, ok := strings.CutSuffix(name, " text"); ok {
			name, kind = text, "BYTE_ARRAY STRING"
		}
		info.Fields = append(info.Fields, parquetinfo.Field{Name: name})
		info.Columns = append(info.Columns, parquetinfo.Column{Path: name, Type: kind})
	}
	return info
}

// TestOddColumnsAreNoted: names of partitions in any case, another order, other types. What the record
// doubts already is not told twice.
func TestOddColumnsAreNoted(t *testing.T) {
	record := manifest.Record{Dataset: "ds", Version: 7}
	for name, test := range map[string]struct {
		parts  []parquetinfo.PartInfo
		doubts []string
		want   []string
	}{
		"nothing":         {nil, nil, nil},
		"all well":        {[]parquetinfo.PartInfo{partOf("a", "x", "_ploti_version"), partOf("b", "x", "_ploti_version")}, nil, nil},
		"names":           {[]parquetinfo.PartInfo{partOf("a", "PLOTI_Version", "ploti_dataset_id", "Released_Date")}, nil, []string{"collides PLOTI_Version", "collides ploti_dataset_id", "collides Released_Date"}},
		"another order":   {[]parquetinfo.PartInfo{partOf("a", "x", "y"), partOf("b", "y", "x")}, nil, []string{"b order"}},
		"another type":    {[]parquetinfo.PartInfo{partOf("a", "x", "y"), partOf("b", "x", "y text")}, nil, []string{"b differs"}},
		"a column less":   {[]parquetinfo.PartInfo{partOf("a", "x", "y"), partOf("b", "x")}, nil, []string{"b differs"}},
		"doubted already": {[]parquetinfo.PartInfo{partOf("a", "x", "y"), partOf("b", "x")}, []string{`b: schema differs from a: lacks column "y"`}, nil},
	} {
		record.Doubts = test.doubts
		notes := oddities(record, test.parts)
		if len(notes) != len(test.want) {
			t.Errorf("%s: %+v, want %q", name, notes, test.want)
			continue
		}
		for i, note := range notes {
			if note.Kind != KindColumns || !strings.HasSuffix(note.Facts, test.want[i]) {
				t.Errorf("%s: %+v, want %q", name, note, test.want[i])
			}
		}
	}
}

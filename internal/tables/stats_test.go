package tables

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/parquetinfo"
)

type statRow struct {
	ID      string    `parquet:"id"`
	Long    string    `parquet:"long"`
	Count   int64     `parquet:"count"`
	Small   int32     `parquet:"small"`
	Price   int64     `parquet:"price,decimal(2:12)"`
	Day     int32     `parquet:"day,date"`
	At      time.Time `parquet:"at,timestamp(microsecond)"`
	Ratio   float64   `parquet:"ratio"`
	Raw     []byte    `parquet:"raw"`
	Nothing *string   `parquet:"nothing,optional"`
}

func inspected(t *testing.T, groups ...[]statRow) parquetinfo.PartInfo {
	t.Helper()
	var file bytes.Buffer
	writer := parquet.NewGenericWriter[statRow](&file)
	for _, rows := range groups {
		if _, err := writer.Write(rows); err != nil {
			t.Fatal(err)
		}
		if err := writer.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := parquetinfo.Inspect(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestBoundsComeFromAllRowGroupsAndOnlyWhereEveryEngineAgrees(t *testing.T) {
	at := time.Date(2026, 3, 1, 6, 0, 0, 123456000, time.UTC)
	info := inspected(t,
		[]statRow{{ID: "m", Long: strings.Repeat("y", 40), Count: 5, Small: -3, Price: 1999, Day: 10, At: at, Ratio: 1, Raw: []byte{1}}},
		[]statRow{{ID: "b", Long: strings.Repeat("z", 40), Count: -7, Small: 9, Price: -5, Day: -1, At: at.Add(-time.Hour), Ratio: 2, Raw: []byte{2}}},
	)
	text, err := statsOf(&info)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"numRecords":2,
		"minValues":{"id":"b","count":-7,"small":-3,"price":-0.05,"day":"1969-12-31","at":"2026-03-01T05:00:00.123Z"},
		"maxValues":{"id":"m","count":5,"small":9,"price":19.99,"day":"1970-01-11","at":"2026-03-01T06:00:00.124Z"}}`
	var a, b any
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, a); diff != "" {
		t.Error(diff)
	}
}

func TestAFileWithoutRowsHasNoBounds(t *testing.T) {
	info := inspected(t)
	if text, err := statsOf(&info); err != nil || text != `{"numRecords":0}` {
		t.Errorf("%s, %v", text, err)
	}
}

func TestARowGroupThatTellsNothingMakesAColumnUnknown(t *testing.T) {
	info := inspected(t, []statRow{{ID: "a", Count: 1}}, []statRow{{ID: "b", Count: 2}})
	for i := range info.Fields {
		if info.Fields[i].Name == "id" {
			info.Fields[i].Bounds = nil
		}
	}
	text, err := statsOf(&info)
	if err != nil || strings.Contains(text, `"id"`) || !strings.Contains(text, `"count"`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestNumbersAreSpelledExactly(t *testing.T) {
	for _, c := range []struct {
		unscaled string
		scale    int
		want     string
	}{
		{"0", 0, "0"}, {"0", 2, "0.00"}, {"5", 2, "0.05"}, {"-5", 2, "-0.05"}, {"123456", 3, "123.456"}, {"-99999999999999999999", 10, "-9999999999.9999999999"},
	} {
		n, _ := new(big.Int).SetString(c.unscaled, 10)
		if got := decimalText(n, c.scale); got != c.want {
			t.Errorf("%s with scale %d: %s, want %s", c.unscaled, c.scale, got, c.want)
		}
	}
}

func TestTimesBeyondFourDigitsOfYearsHaveNoBounds(t *testing.T) {
	micros := parquetinfo.Annotation{Kind: parquetinfo.KindTimestamp, UTC: true, Unit: parquetinfo.Micros}
	for micro, want := range map[int64]bool{
		0: true, -62135596800_000000: true, -62135596800_000001: false, 253402300799_000000: false, 253402300798_999999: true,
	} {
		if _, ok := spell(big.NewInt(micro), micros, Type{Name: typeTimestamp}, true); ok != want {
			t.Errorf("%d microseconds: %v, want %v", micro, ok, want)
		}
	}
}

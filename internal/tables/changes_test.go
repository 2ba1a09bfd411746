package tables

import (
	"bytes"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/parquetinfo"
)

// TestADatasetsOwnColumnNamedLikeAPartitionKeepsNoVersionOut: readers take a partition's value from the
// log. The file's column is neither compared with the partition's type nor told in the statistics, by
// which engines would skip the file.
func TestADatasetsOwnColumnNamedLikeAPartitionKeepsNoVersionOut(t *testing.T) {
	type row struct {
		ID       string `parquet:"_ploti_record_id"`
		Version  string `parquet:"ploti_version"`
		Dataset  int64  `parquet:"PLOTI_DATASET_ID"`
		Released string `parquet:"released_date"`
	}
	info := inspectedRows(t, row{ID: "a", Version: "draft", Dataset: 7, Released: "soon"})
	if reason := envelopeDiffers(&info); reason != "" {
		t.Errorf("it is kept out: %s", reason)
	}
	stats, err := statsOf(envelopeOf(&info))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stats, "_ploti_record_id") || strings.Contains(strings.ToLower(stats), `"ploti_`) || strings.Contains(stats, "released") {
		t.Errorf("statistics %s, want those of the envelope alone", stats)
	}
}

// TestAnEnvelopeColumnOfAnotherTypeKeepsAVersionOut, since an engine would fail in the middle of a query
// over all datasets.
func TestAnEnvelopeColumnOfAnotherTypeKeepsAVersionOut(t *testing.T) {
	type typed struct {
		Version string `parquet:"_ploti_version"`
	}
	type cased struct {
		Version int64 `parquet:"_Ploti_Version"`
	}
	other, folded := inspectedRows(t, typed{"7"}), inspectedRows(t, cased{7})
	for _, info := range []*parquetinfo.PartInfo{&other, &folded, {Err: bytes.ErrTooLarge}} {
		if envelopeDiffers(info) == "" {
			t.Errorf("%+v is let in", info.Columns)
		}
	}
}

func inspectedRows[T any](t *testing.T, rows ...T) parquetinfo.PartInfo {
	t.Helper()
	var file bytes.Buffer
	writer := parquet.NewGenericWriter[T](&file)
	if _, err := writer.Write(rows); err != nil {
		t.Fatal(err)
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

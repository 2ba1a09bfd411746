package rows

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim/records"
)

const (
	// mostMemory is how many bytes one audit of a small file may ask for, in all.
	mostMemory = 400 << 20
	mostTime   = 20 * time.Second // on a machine that is busy
)

// realFiles are those of several writers that internal/parquetinfo keeps, with their licence.
func realFiles(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("../../parquetinfo/testdata/*.parquet")
	if err != nil || len(paths) < 9 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = data
	}
	return files
}

// rightFiles are a snapshot, changes and an id map as the feed sends them.
func rightFiles(t testing.TB) map[string][]byte {
	t.Helper()
	schema, err := records.NewSchema(records.Polygons)
	if err != nil {
		t.Fatal(err)
	}
	maker := &records.Maker{Random: records.NewRandom(5), Version: 41, ReadAt: time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC)}
	before := records.Table{Schema: schema}
	maker.AddRows(&before, 12)
	after := before.Clone()
	maker.Version = 42
	maker.EditRows(&after, 2, 2, 2)
	files := map[string][]byte{}
	write := func(name string, into func(w io.Writer) error) {
		var out bytes.Buffer
		if err := into(&out); err != nil {
			t.Fatal(err)
		}
		files[name] = out.Bytes()
	}
	write("snapshot", func(w io.Writer) error { return records.WriteSnapshot(w, schema, envelopeOf(42), after.Rows, true) })
	write("changes", func(w io.Writer) error {
		return records.WriteChanges(w, schema, envelopeOf(42), records.Diff(before, after))
	})
	write("id map", func(w io.Writer) error {
		return records.WriteIDMap(w, dataset, []records.IDPair{{Previous: "rec_a", Current: before.Rows[0].ID}})
	})
	return files
}

// encryptedFiles are a file whose columns are encrypted, and one whose footer is too.
func encryptedFiles(t testing.TB) map[string][]byte {
	t.Helper()
	type row struct {
		ID string `parquet:"_ploti_record_id"`
		N  int64  `parquet:"n"`
	}
	files := map[string][]byte{}
	for name, footer := range map[string]bool{"encrypted columns": false, "encrypted footer": true} {
		var out bytes.Buffer
		writer := parquet.NewGenericWriter[row](&out, parquet.WithEncryption(&parquet.EncryptionConfig{FooterKey: bytes.Repeat([]byte{7}, 16), EncryptedFooter: footer}))
		if _, err := writer.Write([]row{{"rec_1", 1}, {"rec_2", 2}}); err != nil {
			t.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		files[name] = out.Bytes()
	}
	return files
}

// hostileFiles are small files that would make a decoder hang, crash, or take all memory there is. Those that
// claim to be few bytes swell to bomb; what repeats itself does so many times.
func hostileFiles(t testing.TB, bomb, many int) map[string][]byte {
	t.Helper()
	files := encryptedFiles(t)
	ids := func(name string, rows int64, column craftedColumn) {
		column.name, column.kind = recordIDColumn, format.ByteArray
		files[name] = craft(t, rows, column)
	}
	numbers := func(name string, rows int64, column craftedColumn) {
		column.name, column.kind = "n", format.Int64
		if len(column.pages) > 0 && column.values == 0 {
			column.values = rows
		}
		files[name] = craft(t, rows, goodIDs(), column)
	}
	zeros := make([]byte, bomb)
	for _, codec := range []format.CompressionCodec{format.Snappy, format.Gzip, format.Brotli, format.Zstd, format.Lz4Raw} {
		body := packed(t, codec, zeros)
		ids(fmt.Sprintf("%s that swells", codec), 3, craftedColumn{codec: codec, values: 3, pages: []craftedPage{dataPage(3, 64, format.Plain, body)}})
		ids(fmt.Sprintf("%s of garbage", codec), 3, craftedColumn{codec: codec, values: 3, pages: []craftedPage{dataPage(3, 64, format.Plain, bytes.Repeat([]byte{0xfe}, 64))}})
	}
	small := packed(t, format.Zstd, plainTexts("rec_1", "rec_2", "rec_3"))
	ids("zstd of two frames", 3, craftedColumn{codec: format.Zstd, values: 3, pages: []craftedPage{dataPage(3, 27, format.Plain, append(small, packed(t, format.Zstd, zeros)...))}})
	ids("zstd without a size", 3, craftedColumn{codec: format.Zstd, values: 3, pages: []craftedPage{dataPage(3, 27, format.Plain, streamed(t, zeros))}})
	ids("an unknown compression", 3, craftedColumn{codec: 77, values: 3, pages: []craftedPage{dataPage(3, 27, format.Plain, plainTexts("rec_1", "rec_2", "rec_3"))}})

	bent := func(change func(h *format.PageHeader)) craftedColumn {
		column := goodIDs()
		change(&column.pages[0].header)
		return column
	}
	ids("a negative packed size", 3, bent(func(h *format.PageHeader) { h.CompressedPageSize = -1 }))
	ids("a negative plain size", 3, bent(func(h *format.PageHeader) { h.UncompressedPageSize = -1 }))
	ids("two gigabytes packed", 3, bent(func(h *format.PageHeader) { h.CompressedPageSize = math.MaxInt32 }))
	ids("two gigabytes plain", 3, bent(func(h *format.PageHeader) { h.UncompressedPageSize = math.MaxInt32 }))
	ids("a negative count", 3, bent(func(h *format.PageHeader) { h.DataPageHeader.V.NumValues = -3 }))
	ids("a count of two billion", 3, bent(func(h *format.PageHeader) { h.DataPageHeader.V.NumValues = math.MaxInt32 }))
	ids("a page of no kind", 3, bent(func(h *format.PageHeader) { h.Type = 9 }))
	ids("an index page", 3, bent(func(h *format.PageHeader) { h.Type = format.IndexPage }))
	ids("a data page without its header", 3, bent(func(h *format.PageHeader) { h.DataPageHeader.Valid = false }))
	ids("an unknown encoding", 3, bent(func(h *format.PageHeader) { h.DataPageHeader.V.Encoding = 99 }))
	ids("a header that never ends", 3, craftedColumn{values: 3, pages: []craftedPage{{raw: bytes.Repeat([]byte{0x1c}, 90_000)}}})
	ids("a header of garbage", 3, craftedColumn{values: 3, pages: []craftedPage{{raw: bytes.Repeat([]byte{0xff}, 64)}}})
	ids("texts beyond the page", 3, craftedColumn{values: 3, pages: []craftedPage{dataPage(3, 12, format.Plain, bytes.Repeat([]byte{0xff, 0xff, 0xff, 0x7f}, 3))}})
	empty := slices.Repeat([]craftedPage{dataPage(0, 0, format.Plain, nil)}, many)
	ids("odd, thousands of empty pages", 3, craftedColumn{values: 3, pages: append(empty, goodIDs().pages...)})

	dictionary := dictionaryPage(1, plainTexts("rec_1"))
	ids("dictionaries without end", 3, craftedColumn{dictated: true, values: 3, pages: slices.Repeat([]craftedPage{dictionary}, many)})
	ids("a dictionary of two billion", 3, craftedColumn{dictated: true, values: 3, pages: []craftedPage{dictionaryPage(math.MaxInt32, plainTexts("rec_1")), dataPage(3, 3, format.RLEDictionary, []byte{1, 6, 0})}})
	ids("a place beyond the dictionary", 3, craftedColumn{dictated: true, values: 3, pages: []craftedPage{dictionary, dataPage(3, 3, format.RLEDictionary, []byte{8, 6, 200})}})
	ids("places of 255 bits", 3, craftedColumn{dictated: true, values: 3, pages: []craftedPage{dictionary, dataPage(3, 3, format.RLEDictionary, []byte{255, 6, 0})}})
	ids("no dictionary at all", 3, craftedColumn{values: 3, pages: []craftedPage{dataPage(3, 3, format.RLEDictionary, []byte{1, 6, 0})}})
	ids("odd, the dictionary's place for that of the data", 3, craftedColumn{dictated: true, values: 3, pages: []craftedPage{dictionary, dataPage(3, 3, format.RLEDictionary, []byte{1, 6, 0})},
		bend: func(m *format.ColumnMetaData) { m.DataPageOffset = m.DictionaryPageOffset }})
	ids("one value, millions of times", 8<<20, craftedColumn{dictated: true, values: 8 << 20, pages: []craftedPage{dictionary, dataPage(8<<20, 6, format.RLEDictionary, []byte{1, 0x80, 0x80, 0x80, 8, 0})}})
	ids("one value, billions of times", math.MaxInt32, craftedColumn{dictated: true, values: math.MaxInt32, pages: []craftedPage{dictionary, dataPage(math.MaxInt32, 7, format.RLEDictionary, []byte{1, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0})}})
	ids("more rows than values", 1<<40, goodIDs())
	ids("a run beyond the page", 3, craftedColumn{dictated: true, values: 3, pages: []craftedPage{dictionary, dataPage(3, 7, format.RLEDictionary, []byte{1, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0})}})

	numbers("blocks of nothing", 3, craftedColumn{pages: []craftedPage{dataPage(3, 8, format.DeltaBinaryPacked, []byte{0, 0, 3, 0, 0, 0, 0, 0})}})
	numbers("blocks of everything", 3, craftedColumn{pages: []craftedPage{dataPage(3, 12, format.DeltaBinaryPacked, []byte{0x80, 0xff, 0xff, 0xff, 0x0f, 1, 3, 0, 0, 0, 0, 0})}})
	numbers("deltas of 255 bits", 3, craftedColumn{pages: []craftedPage{dataPage(3, 12, format.DeltaBinaryPacked, []byte{0x80, 1, 4, 3, 0, 0, 255, 255, 255, 255, 1, 1})}})
	numbers("numbers that are cut off", 3, craftedColumn{pages: []craftedPage{dataPage(3, 7, format.Plain, []byte("1234567"))}})
	numbers("levels beyond the greatest", 3, craftedColumn{repeats: format.Optional, pages: []craftedPage{dataPage(3, 30, format.Plain, append([]byte{2, 0, 0, 0, 6, 9}, make([]byte, 24)...))}})
	numbers("levels that are cut off", 3, craftedColumn{repeats: format.Optional, pages: []craftedPage{dataPage(3, 6, format.Plain, []byte{200, 0, 0, 0, 6, 1})}})
	numbers("a list that goes on with nothing", 3, craftedColumn{repeats: format.Repeated, pages: []craftedPage{dataPage(3, 36, format.Plain, append([]byte{2, 0, 0, 0, 6, 1, 2, 0, 0, 0, 6, 1}, make([]byte, 24)...))}})
	numbers("fewer rows than its neighbour", 3, craftedColumn{values: 2, pages: []craftedPage{dataPage(2, 16, format.Plain, make([]byte, 16))}})
	numbers("more rows than its neighbour", 3, craftedColumn{values: 4, pages: []craftedPage{dataPage(4, 32, format.Plain, make([]byte, 32))}})
	second := craftedPage{body: make([]byte, 24), header: format.PageHeader{Type: format.DataPageV2, UncompressedPageSize: 24, CompressedPageSize: 24}}
	second.header.DataPageHeaderV2 = thrift.New(format.DataPageHeaderV2{NumValues: 3, NumRows: 3, Encoding: format.Plain, DefinitionLevelsByteLength: -5})
	numbers("levels of a negative length", 3, craftedColumn{pages: []craftedPage{second}})
	second.header.DataPageHeaderV2.V.DefinitionLevelsByteLength = math.MaxInt32
	numbers("levels of two gigabytes", 3, craftedColumn{pages: []craftedPage{second}})

	for name, length := range map[string]int32{"no bytes": 0, "minus one byte": -1, "two gigabytes": math.MaxInt32} {
		for kind, encoding := range map[string]format.Encoding{"": format.Plain, " with prefixes": format.DeltaByteArray, " split": format.ByteStreamSplit} {
			files["values of "+name+kind] = craft(t, 3, goodIDs(), craftedColumn{name: "n", kind: format.FixedLenByteArray, length: length, values: 3, pages: []craftedPage{dataPage(3, 24, encoding, make([]byte, 24))}})
		}
	}
	numbers("a text beyond its predecessor", 3, craftedColumn{pages: []craftedPage{dataPage(3, 20, format.DeltaByteArray, []byte{0x80, 1, 4, 3, 0x80, 8, 0, 0, 0, 0, 0, 0x80, 1, 4, 3, 2, 0, 0, 0, 0})}})

	whole := rightFiles(t)["snapshot"]
	files["a footer that is cut off"] = whole[:len(whole)-4]
	files["half of a file"] = whole[:len(whole)/2]
	files["nothing"] = nil
	lying := bytes.Clone(whole)
	copy(lying[len(lying)-8:], []byte{0xff, 0xff, 0xff, 0x7f})
	files["a footer of two gigabytes"] = lying
	return files
}

// audited holds one file against all that an audit looks at: as snapshot, as the one before it, as changes
// and as id map. It wants neither a crash, nor an error of the machine, nor much time or memory.
func audited(t testing.TB, name string, data []byte) Result {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "part")
	if err == nil {
		_, err = file.Write(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // only read from
	part := func(name string) []Part { return []Part{{Name: name, File: file, Size: int64(len(data))}} }
	before := Snapshot{Envelope: Envelope{Dataset: dataset, Version: 41}, Parts: part("snapshot/before.parquet"), Rows: 3}
	in := Input{Snapshot: Snapshot{Envelope: Envelope{Dataset: dataset, Version: 42}, Parts: part("snapshot/part-0000.parquet"), Rows: 3},
		Previous: &before, IDMapFrom: &before, Changes: part("changes/part-0000.parquet"), IDMap: part("id_map/part-0000.parquet"),
		Counts: &Counts{}, Schema: []byte(`{"columns":[{"name":"n","type":"integer"}]}`)}
	var at runtime.MemStats
	runtime.ReadMemStats(&at)
	asked, began := at.TotalAlloc, time.Now()
	result, err := Check(t.Context(), in, Options{Memory: 32 << 20, Folder: filepath.Dir(file.Name())})
	took := time.Since(began)
	runtime.ReadMemStats(&at)
	if asked = at.TotalAlloc - asked; err != nil || asked > mostMemory || took > mostTime {
		t.Errorf("%s: %v, %d MiB of memory, %v", name, err, asked>>20, took)
	}
	return result
}

// TestFilesThatWouldHarmADecoderAreFindings: every hostile file is told as one that cannot be read, by name. Those
// that are odd are read.
func TestFilesThatWouldHarmADecoderAreFindings(t *testing.T) {
	tally := evidence.Count(t, "rows-hostile")
	files := hostileFiles(t, evidence.Size(4<<20, 64<<20), evidence.Size(2_000, 20_000))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		result := audited(t, name, files[name])
		tally.Add(1)
		if strings.HasPrefix(name, "odd, ") {
			if !result.Read {
				t.Errorf("%s: %+v", name, result)
			}
			continue
		}
		at := slices.IndexFunc(result.Findings, func(f Finding) bool { return f.Kind == KindUnreadable })
		if at < 0 || result.Replayed || !strings.Contains(result.Findings[at].Detail, "part-0000.parquet") && !strings.Contains(result.Findings[at].Detail, "before.parquet") {
			t.Errorf("%s: %+v", name, result)
		}
	}
}

// TestRealFilesThatAreNoVersionAreFindings: they can be read, and are no snapshot.
func TestRealFilesThatAreNoVersionAreFindings(t *testing.T) {
	tally := evidence.Count(t, "rows-hostile")
	for name, data := range realFiles(t) {
		result := audited(t, name, data)
		lacks := func(f Finding) bool { return f.Kind == KindEnvelope && slices.Contains(f.Columns, recordIDColumn) }
		if !slices.ContainsFunc(result.Findings, lacks) {
			t.Errorf("%s: %+v", name, result)
		}
		tally.Add(1)
	}
}

// TestARowGroupThatCannotBeReadInBoundedMemoryIsNotChecked: more rows than are held at once, in so many columns
// that the page of each cannot be held either. It is no finding, since nothing is wrong with it.
func TestARowGroupThatCannotBeReadInBoundedMemoryIsNotChecked(t *testing.T) {
	columns := []craftedColumn{goodIDs()}
	for i := range 600 {
		columns = append(columns, craftedColumn{name: fmt.Sprintf("n%d", i), kind: format.Int64, values: 3, pages: []craftedPage{dataPage(3, 24, format.Plain, make([]byte, 24))}})
	}
	data := craft(t, 3, columns...)
	part := writePart(t, "snapshot/part-0000.parquet", func(w io.Writer) error { _, err := w.Write(data); return err })
	in := Input{Snapshot: Snapshot{Envelope: Envelope{Dataset: dataset, Version: 2}, Parts: []Part{part}, Rows: 3}, NoReplay: "a test"}
	for window, read := range map[int]bool{maxWindow: true, 2: false} {
		result, err := Check(t.Context(), in, Options{Memory: 1 << 20, Folder: t.TempDir(), window: window})
		unreadable := slices.ContainsFunc(result.Findings, func(f Finding) bool { return f.Kind == KindUnreadable })
		if err != nil || unreadable || result.Read != read || result.Incomplete == read || strings.Contains(fmt.Sprint(result.NotChecked), errTooLarge.Error()) == read {
			t.Errorf("in pieces of %d: %v %+v", window, err, result.NotChecked)
		}
	}
}

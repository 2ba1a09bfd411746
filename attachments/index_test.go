package attachments

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// everyKind is one attachment of each kind and each awkward form.
func everyKind() []manifest.Attachment {
	sum := manifest.SumBytes([]byte("plan"))
	other := manifest.SumBytes([]byte("the feed's own idea of it"))
	return []manifest.Attachment{
		{Name: "original", Filename: "Bebauungspläne.zip", ContentType: "application/zip", Size: 1 << 33, SHA256: sum},
		{Name: "source:12", Filename: "q?x=1&y=ü \"z\".csv", ContentType: "text/csv; charset=utf-8", Size: 0, SHA256: manifest.SumBytes(nil)},
		{Name: "document:" + other.String(), Filename: "plan.pdf", ContentType: "application/pdf", Size: 4, SHA256: sum},
		{Name: "document:" + strings.ToUpper(sum.String()), Size: 4, SHA256: sum},
		{Name: "document:12", Size: 4, SHA256: sum},
		{Name: "source:", Size: 4, SHA256: sum},
		{Name: "original:2", Size: 4, SHA256: sum},
		{Name: "preview", Size: 4, SHA256: sum},
	}
}

func indexOf(t fataler, rows iter.Seq2[manifest.Attachment, error]) []byte {
	var out bytes.Buffer
	if _, err := WriteIndex(&out, rows); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func readAll(ctx context.Context, data []byte) ([]IndexRow, error) {
	var rows []IndexRow
	err := ReadIndex(ctx, bytes.NewReader(data), int64(len(data)), func(row IndexRow) error {
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

func readDigests(ctx context.Context, data []byte) ([]manifest.SHA256, error) {
	var sums []manifest.SHA256
	for sum, err := range IndexDigests(ctx, bytes.NewReader(data), int64(len(data))) {
		if err != nil {
			return sums, err
		}
		sums = append(sums, sum)
	}
	return sums, nil
}

func TestAnIndexReadsBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.SampledFrom(everyKind()), 0, 20).Draw(t, "some")
		for i := range rapid.SampledFrom([]int{0, 1, 255, 256, 257}).Draw(t, "many") {
			list = append(list, numbered(i))
		}
		data := indexOf(t, stream(list))
		rows, err := readAll(context.Background(), data)
		if err != nil {
			t.Fatal(err)
		}
		sums, err := readDigests(context.Background(), data)
		if err != nil || len(rows) != len(list) || len(sums) != len(list) {
			t.Fatalf("%d rows and %d digests of %d, %v", len(rows), len(sums), len(list), err)
		}
		for i, a := range list {
			if diff := cmp.Diff(RowOf(a), rows[i]); diff != "" || sums[i] != a.SHA256 {
				t.Fatalf("row %d: %s", i, diff)
			}
		}
	})
}

func TestKindsFollowTheNames(t *testing.T) {
	want := []string{KindOriginal, KindSource, KindDocument, KindDocument, KindOther, KindOther, KindOther, KindOther}
	for i, a := range everyKind() {
		row := RowOf(a)
		if row.Kind != want[i] || (row.Document != nil) != (row.Kind == KindDocument) {
			t.Errorf("%s is %s with document %v, want %s", a.Name, row.Kind, row.Document, want[i])
		}
	}
}

// What people write into SQL: names, order and types of the columns.
func TestTheColumnsStayAsReadersKnowThem(t *testing.T) {
	data := indexOf(t, stream(everyKind()))
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, field := range file.Schema().Fields() {
		columns = append(columns, field.Name()+" "+typeName(field))
	}
	want := []string{
		"file STRING", "filename STRING", "content_type STRING", "size_bytes INT(64,true)",
		"sha256 STRING", "key STRING", "kind STRING", "document_sha256 optional STRING",
	}
	if diff := cmp.Diff(want, columns); diff != "" {
		t.Error(diff)
	}
	if got := file.Metadata().CreatedBy; got != "feedmirror version 1(build attachment-index)" {
		t.Errorf("created by %q", got)
	}
}

// Two mirrors of one feed must write the same index. A change of this hash, by our code or by a
// new version of a library, makes mirrors of different versions disagree: say so in the changelog.
func TestTheBytesOfAnIndexArePinned(t *testing.T) {
	list := everyKind()
	for a, err := range firstN(3000) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, a)
	}
	const want = "6c8bafaa14662b084a0022e380db5caced06af396f55927986238c97c9d4aec5"
	if got := manifest.SumBytes(indexOf(t, stream(list))).String(); got != want {
		t.Errorf("index hashes to %s, want %s", got, want)
	}
}

func TestAnIndexErrorOfTheRowsStopsIt(t *testing.T) {
	broken := errors.New("manifest is cut")
	rows := failing([]manifest.Attachment{numbered(1)}, broken)
	if _, err := WriteIndex(io.Discard, rows); !errors.Is(err, broken) {
		t.Errorf("write: %v", err)
	}
	if _, err := NewIndex(func() iter.Seq2[manifest.Attachment, error] { return rows }); !errors.Is(err, broken) {
		t.Errorf("new: %v", err)
	}
}

type brokenDisk struct{}

func (brokenDisk) Write([]byte) (int, error) { return 0, errDisk }

var errDisk = errors.New("no space left")

func TestAnIndexErrorOfTheWriterStopsIt(t *testing.T) {
	if _, err := WriteIndex(brokenDisk{}, firstN(10)); !errors.Is(err, errDisk) {
		t.Errorf("write: %v", err)
	}
}

// greatIndexRows make an index of two row groups, above what these tests keep in memory.
const (
	greatIndexRows = indexGroupRows + 3000
	testInMemory   = 1 << 20
)

func TestContentIsTheSameSmallAndGreat(t *testing.T) {
	for name, count := range map[string]int{"empty": 0, "small": 1000, "great": greatIndexRows} {
		t.Run(name, func(t *testing.T) {
			want := indexOf(t, firstN(count))
			index, err := newIndex(func() iter.Seq2[manifest.Attachment, error] { return firstN(count) }, testInMemory)
			if err != nil {
				t.Fatal(err)
			}
			defer index.Close()
			content := index.Content
			if great := int64(len(want)) > testInMemory; great != (count == greatIndexRows) {
				t.Fatalf("an index of %d rows has %d bytes", count, len(want))
			}
			if content.Size != int64(len(want)) || content.SHA256 != manifest.SumBytes(want) || index.Stats.Rows != int64(count) {
				t.Fatalf("content %d %s, %d rows", content.Size, content.SHA256, index.Stats.Rows)
			}
			if err := iotest.TestReader(io.LimitReader(content.Body, 100), want[:min(100, len(want))]); err != nil {
				t.Error(err)
			}
			for _, stop := range []int{len(want), len(want) / 2, len(want)} { // whole, given up half way, again
				if _, err := content.Body.(io.Seeker).Seek(0, io.SeekStart); err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(io.LimitReader(content.Body, int64(stop)))
				if err != nil || !bytes.Equal(got, want[:stop]) {
					t.Fatalf("read %d bytes, %v, equal %v", len(got), err, bytes.Equal(got, want[:stop]))
				}
			}
		})
	}
}

func TestAGreatBodySeeksAnywhere(t *testing.T) {
	want := indexOf(t, firstN(greatIndexRows))
	index, err := newIndex(func() iter.Seq2[manifest.Attachment, error] { return firstN(greatIndexRows) }, testInMemory)
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	body := index.Content.Body.(io.ReadSeeker)
	if end, err := body.Seek(0, io.SeekEnd); err != nil || end != int64(len(want)) {
		t.Fatalf("end at %d, %v", end, err)
	}
	if _, err := body.Seek(-1, io.SeekStart); err == nil {
		t.Error("a seek before the start passed")
	}
	for _, offset := range []int64{int64(len(want)) - 8, 10, int64(len(want)) / 2} {
		if _, err := body.Seek(offset, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 8)
		if _, err := io.ReadFull(body, got); err != nil || !bytes.Equal(got, want[offset:offset+8]) {
			t.Fatalf("at %d: %q, %v", offset, got, err)
		}
	}
}

func TestRowsThatChangeBetweenHashAndBytesAreNoticed(t *testing.T) {
	counts := []int{greatIndexRows, greatIndexRows - 3000}
	index, err := newIndex(func() iter.Seq2[manifest.Attachment, error] {
		count := counts[0]
		counts = counts[1:]
		return firstN(count)
	}, testInMemory)
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	if _, err := io.ReadAll(index.Content.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("read: %v", err)
	}
}

func TestDamagedIndexesAreErrorsAndNeverPanic(t *testing.T) {
	whole := indexOf(t, stream(append(everyKind(), slices.Collect(firstOnly(firstN(600)))...)))
	check := func(name string, data []byte) {
		t.Helper()
		rows, err := readAll(t.Context(), data)
		if err != nil && !fault.Is(err, fault.Malformed) {
			t.Fatalf("%s: %v", name, err)
		}
		if err == nil && len(rows) != 608 {
			t.Fatalf("%s: %d rows without an error", name, len(rows))
		}
		if _, err := readDigests(t.Context(), data); err != nil && !fault.Is(err, fault.Malformed) {
			t.Fatalf("%s: digests: %v", name, err)
		}
	}
	for length := 0; length < len(whole); length += 1 + length/8 {
		check("cut", whole[:length])
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 600 {
		garbled := bytes.Clone(whole)
		for range 1 + random.IntN(3) {
			garbled[random.IntN(len(garbled))] ^= byte(1 + random.IntN(255))
		}
		check("garbled", garbled)
	}
}

func firstOnly(seq iter.Seq2[manifest.Attachment, error]) iter.Seq[manifest.Attachment] {
	return func(yield func(manifest.Attachment) bool) {
		for a, err := range seq {
			if err != nil || !yield(a) {
				return
			}
		}
	}
}

func parquetOf[T any](t *testing.T, rows ...T) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := parquet.Write(&out, rows); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestIndexesThatLieAreRefused(t *testing.T) {
	good := lineOf(numbered(1))
	change := func(edit func(*indexLine)) []byte {
		line := good
		edit(&line)
		return parquetOf(t, line)
	}
	type foreign struct {
		Name string `parquet:"name"`
	}
	type repeated struct {
		indexLine
		SHA256 []string `parquet:"sha256"`
	}
	for name, data := range map[string][]byte{
		"no parquet":        []byte("<html>not found</html>"),
		"foreign columns":   parquetOf(t, foreign{Name: "x"}),
		"repeated sha256":   parquetOf(t, repeated{SHA256: []string{good.SHA256, good.SHA256}}),
		"short hash":        change(func(l *indexLine) { l.SHA256 = "ab" }),
		"negative size":     change(func(l *indexLine) { l.SizeBytes = -1 }),
		"foreign key":       change(func(l *indexLine) { l.Key = "current/x.json" }),
		"wrong kind":        change(func(l *indexLine) { l.Kind = KindOriginal }),
		"no document":       change(func(l *indexLine) { l.DocumentSHA256 = nil }),
		"wrong document":    change(func(l *indexLine) { l.DocumentSHA256 = &l.Key }),
		"document of other": change(func(l *indexLine) { l.File, l.Kind = "x", KindOther }),
	} {
		if _, err := readAll(t.Context(), data); !fault.Is(err, fault.Malformed) || fault.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if rows, err := readAll(t.Context(), parquetOf(t, good)); err != nil || len(rows) != 1 {
		t.Errorf("the good row: %v", err)
	}
}

func TestReadingStopsWhenItsReaderWantsNoMore(t *testing.T) {
	data := indexOf(t, firstN(1000))
	enough := errors.New("enough")
	seen := 0
	err := ReadIndex(t.Context(), bytes.NewReader(data), int64(len(data)), func(IndexRow) error {
		seen++
		if seen == 300 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || seen != 300 {
		t.Errorf("%v after %d rows", err, seen)
	}
	for _, err := range IndexDigests(t.Context(), bytes.NewReader(data), int64(len(data))) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := readAll(ctx, data); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := readDigests(ctx, data); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled digests: %v", err)
	}
}

func TestAPanicOfTheVisitorIsNotTakenForADamagedIndex(t *testing.T) {
	defer func() {
		if recover() != "a bug" {
			t.Error("the visitor's panic was swallowed")
		}
	}()
	data := indexOf(t, firstN(1))
	err := ReadIndex(t.Context(), bytes.NewReader(data), int64(len(data)), func(IndexRow) error { panic("a bug") })
	t.Fatal(err)
}

// A store that fails is no damaged index.
func TestAStoreThatFailsKeepsItsFault(t *testing.T) {
	denied := &fault.Error{Op: "get object", Side: fault.SideBucket, Kind: fault.Denied}
	reader := failingReaderAt{data: indexOf(t, firstN(2000)), err: denied}
	for reader.left = 0; ; reader.left++ {
		attempt := reader
		rows := 0
		err := ReadIndex(t.Context(), &attempt, int64(len(reader.data)), func(IndexRow) error { rows++; return nil })
		if err == nil {
			if rows != 2000 || reader.left < 4 {
				t.Fatalf("%d rows after %d reads", rows, reader.left)
			}
			return
		}
		if !fault.Is(err, fault.Denied) {
			t.Fatalf("failing at read %d: %v", reader.left, err)
		}
	}
}

type failingReaderAt struct {
	data []byte
	left int
	err  error
}

func (r *failingReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	if r.left == 0 {
		return 0, r.err
	}
	r.left--
	return bytes.NewReader(r.data).ReadAt(p, offset)
}

func TestWritingManyRowsTakesBoundedMemory(t *testing.T) {
	before, peak := liveBytes(), uint64(0)
	rows := 0
	_, err := WriteIndex(io.Discard, func(yield func(manifest.Attachment, error) bool) {
		for a, err := range firstN(300_000) {
			if rows++; rows%50_000 == 0 {
				runtime.GC()
				var stats runtime.MemStats
				runtime.ReadMemStats(&stats)
				peak = max(peak, stats.HeapAlloc)
			}
			if !yield(a, err) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	held := int64(peak) - int64(before)
	t.Logf("at most %d KiB live", held>>10)
	if held > 24<<20 {
		t.Errorf("writing holds %d bytes", held)
	}
}

func BenchmarkWriteIndex(b *testing.B) {
	const count = 50_000
	b.ReportAllocs()
	for b.Loop() {
		if _, err := WriteIndex(io.Discard, firstN(count)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/row")
}

func BenchmarkIndexDigests(b *testing.B) {
	const count = 50_000
	data := indexOf(b, firstN(count))
	for b.Loop() {
		if sums, err := readDigests(b.Context(), data); err != nil || len(sums) != count {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(data))/count, "bytes/row")
}

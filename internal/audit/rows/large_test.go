package rows

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim/records"
)

// largeInput writes a large pair of versions.
func largeInput(t testing.TB, rows, parts int64) Input {
	t.Helper()
	large := records.Large{Dataset: dataset, Rows: rows}
	write := func(name string, into func(w io.Writer) error) Part {
		file, err := os.CreateTemp(t.TempDir(), "part")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		if err := into(file); err != nil {
			t.Fatal(err)
		}
		size, err := file.Seek(0, io.SeekEnd)
		if err != nil {
			t.Fatal(err)
		}
		return Part{Name: name, File: file, Size: size}
	}
	snapshot := func(version int64) Snapshot {
		s := Snapshot{Envelope: Envelope{Dataset: dataset, Version: version}, Rows: large.RowsOf(version)}
		for part := range parts {
			s.Parts = append(s.Parts, write(fmt.Sprintf("snapshot/part-%04d.parquet", part), func(w io.Writer) error {
				return large.WriteSnapshot(w, envelopeOf(version), part, parts)
			}))
		}
		return s
	}
	before := snapshot(1)
	in := Input{Snapshot: snapshot(2), Previous: &before}
	in.Changes = []Part{write("changes/part-0000.parquet", func(w io.Writer) error { return large.WriteChanges(w, envelopeOf(2)) })}
	in.Counts = &Counts{}
	in.Counts.Added, in.Counts.Changed, in.Counts.Removed = large.Counts()
	return in
}

// decode reads every value of a file, as the Parquet library gives them.
func decode(p Part) (values int64, err error) {
	file, err := parquet.OpenFile(p.File, p.Size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(readBuffer))
	if err != nil {
		return 0, err
	}
	buffer := make([]parquet.Value, 1024)
	for _, group := range file.RowGroups() {
		for _, chunk := range group.ColumnChunks() {
			pages := chunk.Pages()
			for {
				page, err := pages.ReadPage()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return values, err
				}
				reader := page.Values()
				for {
					n, err := reader.ReadValues(buffer)
					values += int64(n)
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						return values, err
					}
				}
				parquet.Release(page)
			}
			if err := pages.Close(); err != nil {
				return values, err
			}
		}
	}
	return values, nil
}

// cpuTime is what this process has computed.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestAReplayTakesAFewTimesADecoding of both snapshots and the changes: by the time computed, since other tests
// run beside this one, and the best of a few tries. By the clock, on a machine with nothing else to do and with 5
// million rows, it takes at most three times as long (docs/acceptance.md); here it may be four.
func TestAReplayTakesAFewTimesADecoding(t *testing.T) {
	rows := int64(evidence.Size(100_000, 2_000_000))
	if raceDetector {
		rows = 20_000
	}
	in := largeInput(t, rows, 2)
	best := 1000.0
	for try := 0; try < 2 || best > 4 && try < 6; try++ {
		began := cpuTime(t)
		for _, p := range slices.Concat(in.Snapshot.Parts, in.Previous.Parts, in.Changes) {
			if _, err := decode(p); err != nil {
				t.Fatal(err)
			}
		}
		decoding := cpuTime(t) - began
		began = cpuTime(t)
		result, err := Check(t.Context(), in, Options{Memory: rows * 40, Folder: t.TempDir()})
		replay := cpuTime(t) - began
		if err != nil || len(result.Findings) > 0 || !result.Replayed || result.Rows != in.Snapshot.Rows || result.Partitions < 2 || len(result.Compared) != 8 {
			t.Fatalf("%v %+v", err, result)
		}
		best = min(best, replay.Seconds()/decoding.Seconds())
		t.Logf("decoding %v, replay %v, %d partitions, %d bytes in files", decoding, replay, result.Partitions, result.Spilled)
	}
	if best > 4 && !raceDetector {
		t.Errorf("the replay takes %.1f times as long as decoding", best)
	}
}

//go:build readers

package readers_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// TestReadersSeeWholeVersionsWhileAWriterSwitches lets real passes, rollbacks and approvals move a pointer
// a hundred times, columns and parts changing with it, while three engines read in processes of their own.
// Each read must be one version, whole, with its columns; and no reader goes back but with the pointer.
func TestReadersSeeWholeVersionsWhileAWriterSwitches(t *testing.T) {
	const switches, leastReads = 100, 50
	w, stop := newWorld(t, newPlace(t, onS3))
	defer stop(t)
	d := w.dataset(t, feedsim.DatasetSpec{ID: orange, Character: feedsim.Points, Rows: 200, Parts: 3})
	moved := []int64{w.release(t, d, feedsim.ReleaseSpec{})}
	w.mirror(t, "sync")

	var readers []*watcher
	for _, engine := range []string{"duckdb", "clickhouse", "deltalake"} {
		readers = append(readers, watchWith(t, w, engine))
	}
	for _, r := range readers {
		r.reads(t, 1) // all read before the writer begins
	}
	began := time.Now()
	moved = append(moved, w.switchOften(t, d, switches)...)
	took := time.Since(began)
	for _, r := range readers {
		r.reads(t, leastReads)
		r.stop(t)
	}
	root := w.place.files(t)
	check(t, root)
	whole := wholeVersions(t, folder(root), moved)
	for _, r := range readers {
		met := r.judge(t, moved, whole)
		seen.note("%s on %s: %d reads while the writer switched %d times in %.0f s, each one whole version; %d different ones",
			r.engine, onS3, len(r.lines), switches, took.Seconds(), met)
	}
}

// switchOften makes moves of the pointer: of five, three releases, a rollback and an approval. Some
// releases add a column, some retype one.
func (w *world) switchOften(t *testing.T, d *feedsim.Dataset, switches int) (moved []int64) {
	t.Helper()
	var newest int64
	for len(moved) < switches {
		switch n := len(moved); n % 5 {
		case 3:
			before := moved[n-2]
			w.mirror(t, "rollback", d.ID(), number(before), "--reason", "a loader failed")
			moved = append(moved, before)
		case 4:
			w.mirror(t, "approve", d.ID(), "--reason", "it was mended")
			moved = append(moved, newest)
		default:
			newest = w.release(t, d, feedsim.ReleaseSpec{Add: 7, Change: 20, Remove: 5, Minor: n%20 == 1, Retype: n == 30 || n == 60})
			w.mirror(t, "sync", "--publish-on-major", "follow")
			moved = append(moved, newest)
		}
	}
	return moved
}

// reading is what a reader tells of one read.
type reading struct {
	Columns  []string
	Rows     int
	Versions []int64
	IDs      string // sha256 of the sorted record ids, one a line
}

// wholeVersions returns what a read of each version must tell.
func wholeVersions(t *testing.T, f folder, versions []int64) map[int64]reading {
	t.Helper()
	whole := map[int64]reading{}
	for _, n := range versions {
		if _, known := whole[n]; known {
			continue
		}
		rows := f.rows(t, f.record(t, orange, n), "snapshot")
		var ids []string
		for _, row := range rows.Rows {
			ids = append(ids, rows.cell(row, "_ploti_record_id").(string))
		}
		slices.Sort(ids)
		sum := sha256.Sum256([]byte(strings.Join(ids, "\n")))
		whole[n] = reading{Columns: rows.Columns, Rows: len(ids), Versions: []int64{n}, IDs: hex.EncodeToString(sum[:])}
	}
	return whole
}

// watcher is an engine that reads one table again and again in a process of its own.
type watcher struct {
	engine string
	run    *exec.Cmd
	input  io.Closer
	text   bytes.Buffer
	heard  chan string // a line for each read; closed when the process ends
	lines  []string
}

func watchWith(t *testing.T, w *world, engine string) *watcher {
	t.Helper()
	script := engine
	if engine == "deltalake" {
		script = "polars"
	}
	asked := task{Mode: "watch", Script: w.mirror(t, "ddl", "--engine", script), Database: "ploti", Root: w.place.root, S3: w.place.access(), Scratch: t.TempDir(),
		Datasets: []taskDataset{{Dataset: orange, Table: tableName(orange), Location: w.place.root + "/snapshot/ploti_dataset_id=" + orange, Binary: []string{"geometry"}}}}
	r := &watcher{engine: engine, run: python(t.Context(), t, w.place, engine+"_reader"), heard: make(chan string, 1<<16)}
	input, err := r.run.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := r.run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.input, r.run.Stderr = input, &r.text
	if err := r.run.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := input.Write(asked.line(t)); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.heard)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			r.heard <- lines.Text()
		}
	}()
	return r
}

// reads waits until so many reads were told.
func (r *watcher) reads(t *testing.T, least int) {
	t.Helper()
	limit := time.After(engineLimit)
	for len(r.lines) < least {
		select {
		case line, alive := <-r.heard:
			if !alive {
				t.Fatalf("%s ended after %d reads: %v\n%s", r.engine, len(r.lines), r.run.Wait(), r.text.String())
			}
			r.lines = append(r.lines, line)
		case <-limit:
			t.Fatalf("%s made %d reads, want %d", r.engine, len(r.lines), least)
		}
	}
}

// stop ends the process and takes what it told.
func (r *watcher) stop(t *testing.T) {
	t.Helper()
	if err := r.input.Close(); err != nil {
		t.Fatal(err)
	}
	for line := range r.heard {
		r.lines = append(r.lines, line)
	}
	if err := r.run.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", r.engine, err, r.text.String())
	}
}

// judge holds every read against the versions, in the order in which the pointer moved, and returns how
// many different versions were read.
func (r *watcher) judge(t *testing.T, moved []int64, whole map[int64]reading) int {
	t.Helper()
	at, met := 0, map[int64]bool{}
	for i, line := range r.lines {
		var got reading
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%s told %q: %v", r.engine, line, err)
		}
		if len(got.Versions) != 1 {
			t.Fatalf("%s, read %d: rows of versions %v at once", r.engine, i, got.Versions)
		}
		want := whole[got.Versions[0]]
		if got.Rows != want.Rows || got.IDs != want.IDs || !slices.Equal(got.Columns, want.Columns) {
			t.Fatalf("%s, read %d: %+v is no whole version, want %+v", r.engine, i, got, want)
		}
		next := slices.Index(moved[at:], got.Versions[0])
		if next < 0 {
			t.Fatalf("%s, read %d: version %d after it had read %d", r.engine, i, got.Versions[0], moved[at])
		}
		at += next
		met[got.Versions[0]] = true
	}
	return len(met)
}

package mirror_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/audit"
	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/tables"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

// readerBeside reads all logs as an engine does, before and after each delete.
type readerBeside struct {
	bucket.Store
	t     *testing.T
	roots []string
	reads int
}

func (r *readerBeside) Delete(ctx context.Context, key string, tag bucket.Tag) error {
	err := r.Store.Delete(ctx, key, tag)
	for _, root := range r.roots {
		var shown map[manifest.Number]bool
		reading, readErr := tables.Read(ctx, r.Store, root, func(s tables.State) {
			shown = map[manifest.Number]bool{}
			for _, f := range s.Files() {
				parsed, _ := manifest.ParseDataKey(f.Key)
				shown[parsed.Version] = true
			}
		})
		if readErr != nil || len(reading.Problems) > 0 {
			r.t.Errorf("after %s went: %v, problems %+v", key, readErr, reading.Problems)
		}
		if strings.HasPrefix(root, "snapshot/") && len(shown) > 1 {
			r.t.Errorf("after %s went: %s shows a mixture of versions: %v", key, root, shown)
		}
		r.reads++
	}
	return err
}

// TestReadersBesideARebuildSeeWholeStates: while logs that are not damaged are written anew, a reader sees
// an older state or none after each single delete.
func TestReadersBesideARebuildSeeWholeStates(t *testing.T) {
	tally := evidence.Count(t, "rebuild-readers")
	origin, _ := tabledWorld(t)
	w, store := origin.copyOf(t)
	beside := &readerBeside{Store: store, t: t, roots: []string{tables.SnapshotRoot(permits), tables.AttachmentRoot(permits), tables.ChangesRoot, tables.PublicationsRoot}}
	w.store = beside
	report := w.publishTables(rebuildAll)
	if report.Exit != 0 || report.Written != 4 {
		t.Errorf("rebuild: %+v", report)
	}
	for _, table := range report.Tables {
		if strings.Contains(table.Root, permits) && (table.Deleted == 0 || table.Commit != 0) {
			t.Errorf("%+v, want its log deleted and one commit", table)
		}
	}
	w.wholeTables("after the rebuild")
	tally.Add(beside.reads)
}

// TestARebuildBesideAPassEndsRightOrSaysSo lets a whole pass, with a new release, run before each request
// of a rebuild. Where the rebuild says that it failed, it goes through when it is run again.
func TestARebuildBesideAPassEndsRightOrSaysSo(t *testing.T) {
	tally := evidence.Count(t, "rebuild-beside-pass")
	origin, d := tabledWorld(t)
	origin.release(d, feedsim.ReleaseSpec{Add: 2})
	counted, store := origin.copyOf(t)
	counter := &frozen{Store: store}
	counted.store = counter
	counted.publishTables(rebuildAll)
	all, said := requests(counter.calls, 0)[:evidence.Size(1, counter.calls)], 0
	for _, root := range []string{tables.ChangesRoot, tables.PublicationsRoot} { // when a log is empty
		all = append(all, 1+slices.Index(counter.journal, "create "+commitOf(root, 0)))
	}
	for _, nth := range all {
		w, store := origin.copyOf(t)
		sleeping := &frozen{Store: store, nth: nth, meanwhile: func() {
			awake := w.store
			w.store = store
			if report := mirror.Run(t.Context(), w.options()); report.Exit != 0 {
				t.Errorf("a pass before request %d: exit %d, %+v", nth, report.Exit, report.Failures)
			}
			w.store = awake
		}}
		w.store = sleeping
		report := w.publishTables(rebuildAll)
		w.store = store
		if report.Exit != 0 {
			said++
			for _, f := range report.Failures {
				if !strings.Contains(strings.ToLower(f.Hint), "run it again") {
					t.Errorf("a pass before request %d: %+v has no such hint", nth, f)
				}
			}
			if report = w.publishTables(rebuildAll); report.Exit != 0 {
				t.Errorf("a pass before request %d: again: %+v", nth, report.Failures)
			}
		}
		w.syncUntilDone()
		w.wholeTables(fmt.Sprintf("a pass before request %d", nth))
		tally.Add(1)
	}
	if said == 0 {
		t.Error("no rebuild met what a pass wrote meanwhile: the requests are not well chosen")
	}
	tally.Note("%d requests of a rebuild, %d times it said that it must be run again", counter.calls, said)
}

// TestACommitThatComesLateIsTold: a pass that computed its commit before the log was cleared puts it behind
// the new one.
func TestACommitThatComesLateIsTold(t *testing.T) {
	origin, _ := tabledWorld(t)
	counted, store := origin.copyOf(t)
	counter := &frozen{Store: store}
	counted.store = counter
	counted.publishTables(rebuildAll)
	roots := []string{tables.ChangesRoot, tables.PublicationsRoot, tables.SnapshotRoot(permits)}
	for _, root := range roots[:evidence.Size(1, len(roots))] {
		w, store := origin.copyOf(t)
		late, err := os.ReadFile(filepath.Join(w.dir, commitOf(root, w.headOf(root))))
		if err != nil {
			t.Fatal(err)
		}
		w.store = &frozen{Store: store, nth: 1 + slices.Index(counter.journal, "create "+commitOf(root, 0)), meanwhile: func() {
			w.rewrite(commitOf(root, 9), func(string) string { return string(late) })
		}}
		report := w.publishTables(rebuildAll)
		w.store = store
		if report.Exit != mirror.ExitFailed || len(report.Failures) != 1 || !strings.Contains(report.Failures[0].Hint, "Run it again") && !strings.Contains(report.Failures[0].Hint, "--rebuild-shared") {
			t.Errorf("%s: exit %d, failures %+v", root, report.Exit, report.Failures)
		}
		if again := w.publishTables(rebuildAll); again.Exit != 0 {
			t.Errorf("%s: again: %+v", root, again.Failures)
		}
		w.wholeTables(root)
	}
}

// TestARebuildThatDiesIsRunAgain kills a rebuild at each of its writes and deletes; a second one mends all.
func TestARebuildThatDiesIsRunAgain(t *testing.T) {
	tally := evidence.Count(t, "rebuild-killed")
	origin, _ := tabledWorld(t)
	for nth := int64(1); ; nth += int64(evidence.Size(9, 1)) {
		w, store := origin.copyOf(t)
		crash := &buckettest.CrashAfterNthWrite{Store: store, Nth: nth, When: buckettest.AfterWrite}
		w.store = crash
		o := mirror.PublishTablesOptions{Store: crash, Tables: w.tables(w.clock.Now), LeaseTTL: time.Minute, Run: "died", Host: "test", Now: w.clock.Now, Pause: w.pause}
		rebuildAll(&o)
		_, err := mirror.PublishTables(t.Context(), o)
		w.store = store
		if !crash.Crashed() {
			if err != nil {
				t.Error(err)
			}
			tally.Note("%d writes and deletes of a rebuild", crash.Writes())
			return
		}
		w.clock.Advance(2 * time.Minute) // its lease expired
		if report := w.publishTables(rebuildAll); report.Exit != 0 {
			t.Errorf("died at %d, then: %+v", nth, report.Failures)
		}
		w.wholeTables(fmt.Sprintf("died at write %d", nth))
		tally.Add(1)
	}
}

// TestRowsOfForgottenMovesComeFromTheFiles: a pointer remembers so many moves. What it forgot stands in the
// files of publications; what stands nowhere is told, and not made up.
func TestRowsOfForgottenMovesComeFromTheFiles(t *testing.T) {
	w, _ := tabledWorld(t)
	files := []string{}
	for info, err := range w.store.List(t.Context(), tables.PublicationsRoot, "") {
		if err == nil && strings.HasSuffix(info.Key, ".parquet") {
			files = append(files, info.Key)
		}
	}
	path := filepath.Join(w.dir, filepath.FromSlash(manifest.PointerKey(permits)))
	pointer := w.pointer(permits)
	if pointer.Move != 4 || len(files) < 4 {
		t.Fatalf("%d moves and %d files, want at least 4", pointer.Move, len(files))
	}
	pointer.Left = pointer.Left[len(pointer.Left)-1:] // it remembers moves 3 and 4
	body, err := manifest.EncodeDocument(pointer)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	w.damaged = true
	report := w.publishTables(rebuildAll)
	if report.Exit != 0 || len(report.Notes) != 0 {
		t.Fatalf("with all files: %+v", report)
	}
	if got := w.moves(permits); fmt.Sprint(got) != "[1 2 3 4]" {
		t.Errorf("with all files: moves %v", got)
	}
	// The file of the first move is lost, another holds rubbish.
	for _, key := range files {
		rows, err := tables.ReadPublications(t.Context(), w.store, key)
		if err == nil && rows[0].Move == 1 {
			w.remove(key)
		}
	}
	w.lay("publications/2026-01-01/rubbish.parquet", 48*time.Hour)
	report = w.publishTables(rebuildAll)
	notes := fmt.Sprint(report.Notes)
	if report.Exit != 0 || !strings.Contains(notes, "moves-unknown moves 1 of its pointer") || !strings.Contains(notes, "rubbish.parquet") {
		t.Errorf("with a lost file: exit %d, notes %s", report.Exit, notes)
	}
	if got := w.moves(permits); fmt.Sprint(got) != "[2 3 4]" {
		t.Errorf("with a lost file: moves %v", got)
	}
	audited := w.audit(audit.LevelInventory)
	if len(audited.Findings) != 0 || !strings.Contains(fmt.Sprint(audited.Notes), "it does not tell moves 1,") {
		t.Errorf("findings %+v, notes %+v", audited.Findings, audited.Notes)
	}
}

// TestRowsThatContradictPointersOrRecordsAreNotTakenOver: a file that somebody put among those of the table
// of publications is listed by no rebuild, and what it says of moves neither.
func TestRowsThatContradictPointersOrRecordsAreNotTakenOver(t *testing.T) {
	w, _ := tabledWorld(t)
	rows, err := tables.PublicationsOf(w.pointer(permits), func(n manifest.Number) (manifest.Record, error) { return w.record(permits, n), nil })
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	rows[1].Version, rows[2].ResyncRequired = 1, true
	rows = append(rows, rows[3], rows[3])
	rows[4].Move, rows[5].Dataset = 5, "ds_nobody"
	var body bytes.Buffer
	writer := parquet.NewGenericWriter[tables.Publication](&body)
	if _, err := writer.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	key := "publications/2020-01-01/first.parquet" // sorts before the table's own
	if err := os.MkdirAll(filepath.Join(w.dir, filepath.Dir(key)), 0o755); err != nil {
		t.Fatal(err)
	}
	w.rewrite(key, func(string) string { return body.String() })
	if report := w.publishTables(rebuildAll); report.Exit != 0 {
		t.Fatalf("%+v", report.Failures)
	}
	if got := w.moves(permits); fmt.Sprint(got) != "[1 2 3 4]" {
		t.Errorf("moves %v", got)
	}
	reading, err := tables.Read(t.Context(), w.store, tables.PublicationsRoot, nil)
	if err != nil || slices.ContainsFunc(reading.Files, func(f tables.Listed) bool { return f.Key == key }) {
		t.Errorf("%v, files %+v", err, reading.Files)
	}
	w.wholeTables("after the rebuild")
}

// moves returns the numbers of a dataset's moves in the table of publications, as its log lists them.
func (w *world) moves(dataset string) []int64 {
	w.t.Helper()
	reading, err := tables.Read(w.t.Context(), w.store, tables.PublicationsRoot, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	found := map[int64]bool{}
	var moves []int64
	for _, file := range reading.Files {
		rows, err := tables.ReadPublications(w.t.Context(), w.store, file.Key)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, row := range rows {
			if row.Dataset == dataset {
				if found[row.Move] {
					w.t.Errorf("move %d is told twice", row.Move)
				}
				found[row.Move] = true
			}
		}
	}
	for n := int64(1); n <= 100; n++ {
		if found[n] {
			moves = append(moves, n)
		}
	}
	return moves
}

// TestAVersionThatNoTableCanShowIsTold everywhere: by the pass, in status, by the audit, which finds
// nothing wrong with it.
func TestAVersionThatNoTableCanShowIsTold(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	w.release(d, feedsim.ReleaseSpec{Add: 1, Parts: 2, MixedParts: true})
	w.sync(0)
	if _, err := mirror.Approve(t.Context(), w.decide(), permits); err != nil { // it was held for its doubts
		t.Fatal(err)
	}
	w.published(permits, 3)
	if report := w.publishTables(); report.Exit != 0 || report.Written != 0 || !strings.Contains(report.Tables[0].Reason, "differs from") {
		t.Errorf("publish-tables: %+v", report)
	}
	shard, _, err := state.LoadShard(t.Context(), w.store, state.ShardID{Of: 1, History: manifest.HistoryAll})
	if err != nil || !strings.Contains(shard.Datasets[0].Table, "differs from") {
		t.Errorf("%v: status says %q", err, shard.Datasets[0].Table)
	}
	report := w.audit(audit.LevelBytes)
	if len(report.Findings) != 0 || !strings.Contains(fmt.Sprint(report.Notes), "no-table snapshot/") {
		t.Errorf("findings %+v, notes %+v", report.Findings, report.Notes)
	}
}

package mirror_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/audit"
	"feedmirror/internal/evidence"
)

// lay puts a file where no mirror would, as old as the world's files are not.
func (w *world) lay(key string, age time.Duration) {
	w.t.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(key))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("stray"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	at := w.clock.Now().Add(-age)
	if err := os.Chtimes(path, at, at); err != nil {
		w.t.Fatal(err)
	}
	w.damaged = true
}

// TestWhatBelongsToNothingIsTold: data of datasets without a version, and keys at the top level that no
// mirror writes. None of it is a finding, and a whole bucket has none.
func TestWhatBelongsToNothingIsTold(t *testing.T) {
	w := auditedWorld(t)
	for _, note := range w.audit(audit.LevelInventory).Notes {
		if note.Kind == audit.KindForeign || note.Kind == audit.KindOrphan {
			t.Errorf("a whole bucket: %+v", note)
		}
	}
	old := 48 * time.Hour
	want := map[string]audit.Kind{
		"snapshot/ploti_dataset_id=ds_gone/ploti_version=0000000001/part-0000.parquet":  audit.KindOrphan,
		"changes/ploti_dataset_id=ds_gone/ploti_version=0000000001/part-0000.parquet":   audit.KindOrphan,
		"attachment_index/ploti_dataset_id=aa/ploti_version=0000000001/index.parquet":   audit.KindOrphan,
		"snapshot/ploti_dataset_id=ds_young/ploti_version=0000000001/part-0000.parquet": audit.KindInProgress,
		"snapshot/ploti_dataset_id=ds_log/_delta_log/00000000000000000000.json":         audit.KindOrphan,
		"snapshot/notes.txt":            audit.KindForeign,
		"id_map/ploti_dataset_id=../x":  "", // no file can be called so here
		"backup/2025/a.tar":             audit.KindForeign,
		"zz-last.txt":                   audit.KindForeign,
		"README":                        audit.KindForeign,
		"attachmentsX/y":                audit.KindForeign,
		"publications/_delta_log/x":     audit.KindForeign,
		"changes/_delta_log/00001.json": audit.KindForeign,
	}
	for key, kind := range want {
		if strings.Contains(key, "..") {
			delete(want, key)
			continue
		}
		age := old
		if kind == audit.KindInProgress {
			age = time.Hour
		}
		w.lay(key, age)
	}
	w.lay("backup/2025/b.tar", old) // told by the first of the folder
	w.lay("snapshot/ploti_dataset_id=ds_gone/ploti_version=0000000002/part-0000.parquet", old)
	for _, partial := range []bool{false, true} {
		report := w.auditOf(audit.Options{Level: audit.LevelInventory, Partial: partial, Select: func(dataset string) bool { return !partial || dataset != "ds_gone" }})
		if report.Exit != 0 || len(report.Findings) != 0 {
			t.Errorf("exit %d, findings %+v", report.Exit, report.Findings)
		}
		for key, kind := range want {
			notes := only(report.Notes, key)
			if partial && (kind == audit.KindForeign || strings.Contains(key, "ds_gone")) {
				kind = ""
			}
			if kind == "" && len(notes) != 0 || kind != "" && (len(notes) != 1 || notes[0].Kind != kind) {
				t.Errorf("partial %t, %s: notes %+v, want %q", partial, key, notes, kind)
			}
		}
		if len(only(report.Notes, "backup/2025/b.tar")) != 0 {
			t.Error("every file of a foreign folder is told")
		}
	}
	notes := only(w.audit(audit.LevelInventory).Notes, "snapshot/ploti_dataset_id=ds_gone/ploti_version=0000000001/part-0000.parquet")
	if len(notes) != 1 || !strings.Contains(notes[0].Detail, "2 objects") {
		t.Errorf("notes %+v", notes)
	}
}

// TestAFileThatEnginesReadWithATableIsAFinding: in the folder of a version that is whole, or a Parquet file
// anywhere below a table's folder. Engines pass over hidden names, and so does the audit.
func TestAFileThatEnginesReadWithATableIsAFinding(t *testing.T) {
	w := auditedWorld(t)
	old := 48 * time.Hour
	part := "ploti_dataset_id=" + permits + "/"
	misread := []string{
		"snapshot/" + part + "ploti_version=0000000002/part-0007.parquet",
		"snapshot/" + part + "ploti_version=0000000002/README.txt",
		"attachment_index/" + part + "ploti_version=0000000003/more.parquet",
		"id_map/" + part + "ploti_version=0000000003/part-0009.PARQUET",
		"snapshot/" + part + "all.parquet",
		"changes/all.parquet",
		"changes/ploti_dataset_id=_x/part.parquet",
	}
	quiet := map[string]audit.Kind{
		"snapshot/" + part + "ploti_version=0000000002/_SUCCESS":          audit.KindOrphan,
		"snapshot/" + part + "ploti_version=0000000002/.part.parquet":     audit.KindForeign,
		"snapshot/" + part + "ploti_version=0000000099/part-0000.parquet": audit.KindOrphan,
		"snapshot/" + part + "notes.txt":                                  audit.KindForeign,
		"publications/2026-01-01/lost.parquet":                            audit.KindOrphan,
		"publications/2026-01-01/notes.txt":                               audit.KindForeign,
	}
	for _, key := range misread {
		w.lay(key, old)
	}
	for key := range quiet {
		w.lay(key, old)
	}
	report := w.audit(audit.LevelInventory)
	for _, key := range misread {
		if found := only(report.Findings, key); len(found) != 1 || found[0].Kind != audit.KindMisread || found[0].Hint == "" {
			t.Errorf("%s: findings %+v", key, found)
		}
	}
	for key, kind := range quiet {
		if notes := only(report.Notes, key); len(notes) != 1 || notes[0].Kind != kind {
			t.Errorf("%s: notes %+v, want %s", key, notes, kind)
		}
	}
	if len(report.Findings) != len(misread) {
		t.Errorf("%d findings, want %d: %+v", len(report.Findings), len(misread), report.Findings)
	}
}

// TestAnAuditBesideAPruneAccusesNobody lets a whole prune run before each request of an audit.
func TestAnAuditBesideAPruneAccusesNobody(t *testing.T) {
	tally := evidence.Count(t, "audit-beside-prune")
	origin := twinsWorld(t)
	w, store := origin.copyOf(t)
	counter := &frozen{Store: store}
	whole := w.auditOf(audit.Options{Reader: counter, Level: audit.LevelBytes})
	for at, level := range []audit.Level{audit.LevelBytes, audit.LevelInventory} {
		for _, nth := range requests(counter.calls, 2+at) {
			when := fmt.Sprintf("level %s, a prune before request %d", level, nth)
			w, store := origin.copyOf(t)
			sleeping := &frozen{Store: store, nth: nth, meanwhile: func() {
				if err := pruneOnce(w, store); err != nil {
					t.Error(err)
				}
			}}
			report := w.auditOf(audit.Options{Reader: sleeping, Level: level})
			if report.Exit != 0 || len(report.Findings) != 0 {
				t.Fatalf("%s: exit %d, findings %+v", when, report.Exit, report.Findings)
			}
			if report.Checked.Records != whole.Checked.Records {
				t.Errorf("%s: %d records were checked, want %d", when, report.Checked.Records, whole.Checked.Records)
			}
			if sleeping.slept {
				tally.Add(1)
			}
		}
	}
}

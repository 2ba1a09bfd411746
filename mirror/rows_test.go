package mirror_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/audit"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

func rowsLevel(v *mirror.VerifyOptions) { v.Audit.Level = audit.LevelRows }

func versionRows(t *testing.T, report audit.Report, dataset string, n manifest.Number) audit.VersionRows {
	t.Helper()
	at := slices.IndexFunc(report.Rows.Versions, func(v audit.VersionRows) bool { return v.Dataset == dataset && v.Version == int64(n) })
	if at < 0 {
		t.Fatalf("%s version %d is not in %+v", dataset, n, report.Rows.Versions)
	}
	return report.Rows.Versions[at]
}

// TestRowsOfEveryKindOfVersionHold: of each character, in each form that the feed may give to what its
// documentation leaves open, over everything that a release can bring.
func TestRowsOfEveryKindOfVersionHold(t *testing.T) {
	tally := evidence.Count(t, "rows-honest")
	assumptions := map[string]func(o *feedsim.Options){
		"as documented":     func(*feedsim.Options) {},
		"last change":       func(o *feedsim.Options) { o.Assume.RowVersionIsLastChange = true },
		"an unknown type":   func(o *feedsim.Options) { o.Assume.UnknownColumnType = true },
		"nulls in schemas":  func(o *feedsim.Options) { o.Assume.SchemaKeys = feedsim.PresenceNull },
		"removed as object": func(o *feedsim.Options) { o.Assume.RemovedAsObjects = true },
	}
	names := slices.Sorted(maps.Keys(assumptions))
	for _, name := range names[:evidence.Size(2, len(names))] {
		t.Run(name, func(t *testing.T) {
			options := feedsim.Options{}
			assumptions[name](&options)
			w := newWorld(t, options)
			releases := []feedsim.ReleaseSpec{{}, {Add: 3, Change: 2, Remove: 2, Parts: 3, ChangeParts: 2}, {Minor: true, Change: 2}, {Empty: true}, {ReplaceIDs: true, Add: 1}, {Change: 3},
				{Major: true}, {Remove: 4}, {Retype: true}, {Resync: true}, {Add: 2}}
			for _, character := range []feedsim.Character{feedsim.Points, feedsim.Polygons, feedsim.Plain, feedsim.Archive} {
				d := w.dataset("ds_"+string(character), character)
				for _, spec := range releases {
					w.release(d, spec)
				}
			}
			w.sync(0)
			report := w.audit(audit.LevelRows)
			if len(report.Findings) > 0 || report.Checked.Versions != int64(4*len(releases)) || report.Checked.Replays != 4*6 || report.NotChecked.Versions != 0 || report.NotChecked.Replays != 4*5 {
				t.Errorf("%+v, not checked %+v, findings %+v", report.Checked, report.NotChecked, report.Findings)
			}
			form := versionRows(t, report, "ds_plain", 2).VersionColumn
			if (form == "last-change") != (name == "last change") {
				t.Errorf("_ploti_version is told as %s", form)
			}
			unknown := fmt.Sprint(versionRows(t, report, "ds_polygons", 2).NotChecked)
			if strings.Contains(unknown, "variant") != (name == "an unknown type") {
				t.Errorf("not checked: %s", unknown)
			}
			tally.Add(int(report.Checked.Versions))
		})
	}
}

// TestRowsAreReadOnceEach: without a ledger every file of every version is read once, the snapshot that the
// next version is held against among them. Nothing is left of them.
func TestRowsAreReadOnceEach(t *testing.T) {
	w, d := permitsWorld(t)
	w.release(d, feedsim.ReleaseSpec{Parts: 3})
	w.release(d, feedsim.ReleaseSpec{ReplaceIDs: true})
	w.sync(0)
	counting := &countedReads{Store: w.store, reads: map[string]int{}}
	w.store = counting
	temporary := t.TempDir()
	report := w.auditOf(audit.Options{Reader: w.store, Level: audit.LevelRows, TempFolder: temporary})
	if report.Exit != 0 || report.Rows.DiskBytes == 0 {
		t.Errorf("%+v", report)
	}
	for key, times := range counting.take() {
		if isFile(key) && times != 1 {
			t.Errorf("%s was read %d times", key, times)
		}
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("%d files are left: %v", len(left), err)
	}
}

// TestRowsNeedRoom: a folder that cannot be written to is an error of the machine, and accuses no object.
func TestRowsNeedRoom(t *testing.T) {
	w, _ := permitsWorld(t)
	w.sync(0)
	_, err := audit.Run(context.Background(), audit.Options{Reader: w.store, Level: audit.LevelRows, Now: w.clock.Now, TempFolder: t.TempDir() + "/absent"})
	if fault.KindOf(err) != fault.Usage || !strings.Contains(fault.HintOf(err), "TMPDIR") {
		t.Errorf("%v (%s)", err, fault.HintOf(err))
	}
}

// TestTheLedgerKnowsRows: a version is due as a whole, what was only hashed is not taken for looked into, and
// attachments that were hashed are not read again for their rows.
func TestTheLedgerKnowsRows(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	w.verify(budget(1 << 40)) // at level bytes
	counting := &countedReads{Store: w.store, reads: map[string]int{}}
	w.store = counting
	report := w.verify(budget(1<<40), rowsLevel)
	if report.Exit != 0 || report.Checked.Versions != 2 || report.NotChecked.Fresh == 0 {
		t.Fatalf("%+v, not checked %+v", report.Checked, report.NotChecked)
	}
	for key := range counting.take() {
		if strings.HasPrefix(key, manifest.AttachmentPrefix) {
			t.Errorf("%s was read although it was hashed a moment ago", key)
		}
	}
	again := w.verify(budget(1<<40), rowsLevel)
	if reads := filesIn(counting.take()); len(reads) > 0 || again.Checked.Versions != 0 || again.NotChecked.Fresh != again.Checked.Objects || len(again.Rows.Versions) != 0 {
		t.Errorf("read %v, %+v, not checked %+v", reads, again.Checked, again.NotChecked)
	}
	if bytes := w.verify(budget(1 << 40)); bytes.NotChecked.Fresh != bytes.Checked.Objects {
		t.Errorf("what was looked into is not taken for hashed: %+v", bytes.NotChecked)
	}
	counting.take()
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	counting.take()
	next := w.verify(budget(1<<40), rowsLevel)
	row := versionRows(t, next.Report, permits, 3)
	if !row.Replayed || len(next.Rows.Versions) != 1 {
		t.Errorf("%+v", next.Rows)
	}
	for _, key := range filesIn(counting.take()) {
		if !strings.Contains(key, manifest.Number(3).Padded()) && !strings.HasPrefix(key, "snapshot/"+manifest.Partition(permits, 2)) && !strings.HasPrefix(key, manifest.AttachmentPrefix) {
			t.Errorf("%s was read again", key)
		}
	}
}

// TestVersionsThatAreWrongKeepNoOthersFromTheirTurn: a budget of one byte reads one thing a run, the stalest
// first. What is wrong stays due and is told whenever its turn comes, in turn with all else.
func TestVersionsThatAreWrongKeepNoOthersFromTheirTurn(t *testing.T) {
	w, d := permitsWorld(t)
	w.release(d, feedsim.ReleaseSpec{Add: 2, CountsOff: 1})
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	read, told := map[int64]int{}, 0
	for run := 0; run < 60 && len(read) < 4; run++ {
		report := w.verify(budget(1), rowsLevel)
		for _, v := range report.Rows.Versions {
			read[v.Version]++
		}
		told += len(report.Findings)
		w.clock.Advance(time.Hour)
	}
	if len(read) != 4 || told == 0 {
		t.Fatalf("versions %v were read, %d findings", read, told)
	}
	w.clock.Advance(40 * 24 * time.Hour)
	all := w.verify(budget(1<<40), rowsLevel)
	if len(all.Findings) != 1 || string(all.Findings[0].Kind) != "rows-counts" || all.Findings[0].Version != 3 || all.Checked.Versions != 4 {
		t.Errorf("%+v, findings %+v", all.Checked, all.Findings)
	}
	once := w.verify(budget(1<<40), rowsLevel)
	if len(once.Rows.Versions) != 1 || len(once.Findings) != 1 || once.Findings[0].ID != all.Findings[0].ID {
		t.Errorf("what is wrong is not told in every run: %+v, %+v", once.Rows, once.Findings)
	}
}

// TestADamagedFileIsToldOnce: as the bytes it is, and what cannot be looked into because of it is not checked.
func TestADamagedFileIsToldOnce(t *testing.T) {
	w, d := permitsWorld(t)
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	snapshot := "snapshot/" + manifest.Partition(permits, 2) + "part-0000.parquet"
	w.damage(snapshot, flip)
	report := w.audit(audit.LevelRows)
	if len(report.Findings) != 1 || report.Findings[0].Key != snapshot || report.Findings[0].Kind != audit.KindCorrupt {
		t.Errorf("findings %+v", report.Findings)
	}
	second, third := versionRows(t, report, permits, 2), versionRows(t, report, permits, 3)
	if second.Read || third.Replayed || !third.Read || !strings.Contains(fmt.Sprint(third.NotChecked), "snapshot of version 2") || report.NotChecked.Versions != 1 {
		t.Errorf("%+v, %+v", second, third)
	}
	repaired := w.verify(w.repairing, rowsLevel)
	if repaired.Exit != 0 || len(repaired.Repair.Restored) != 1 {
		t.Errorf("%+v, %+v", repaired.Findings, repaired.Repair)
	}
	w.restored()
	w.remove("changes/" + manifest.Partition(permits, 3) + "part-0000.parquet")
	report = w.audit(audit.LevelRows)
	third = versionRows(t, report, permits, 3)
	if len(report.Findings) != 1 || report.Findings[0].Kind != audit.KindMissing || third.Replayed || !third.Read || !strings.Contains(fmt.Sprint(third.NotChecked), "a file of the changes") {
		t.Errorf("findings %+v, %+v", report.Findings, third)
	}
}

// TestAReplayIsHeldAgainstWhatIsThere: before the first version that is held there is nothing, nor where a
// prune took it, which is said.
func TestAReplayIsHeldAgainstWhatIsThere(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0, current)
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0, current)
	w.clock.Advance(48 * time.Hour)
	w.wantReplays(map[manifest.Number]string{2: "it follows version 1, and no version before it is held", 3: "", 4: ""})
	w.prune(0, manifest.KeepRules{Versions: 1})
	w.wantReplays(map[manifest.Number]string{4: "version 3, which it follows, was pruned"})
}

// wantReplays wants a replay of each version, or the reason why there was none, and no other versions.
func (w *world) wantReplays(reasons map[manifest.Number]string) {
	w.t.Helper()
	report := w.audit(audit.LevelRows)
	for n, want := range reasons {
		v := versionRows(w.t, report, permits, n)
		if v.Replayed != (want == "") || !strings.Contains(fmt.Sprint(v.NotChecked), want) {
			w.t.Errorf("version %d: %+v", n, v)
		}
	}
	if len(report.Rows.Versions) != len(reasons) || len(report.Findings) > 0 {
		w.t.Errorf("%d versions, findings %+v", len(report.Rows.Versions), report.Findings)
	}
}

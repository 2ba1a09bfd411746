package mirror_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/audit"
	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
	"feedmirror/internal/tables"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// tabledWorld is a bucket whose tables went through a first version, a MINOR, a rollback and its end.
func tabledWorld(t *testing.T) (*world, *feedsim.Dataset) {
	t.Helper()
	w, d := permitsWorld(t)
	archive := w.dataset(zoning, feedsim.Archive)
	w.release(archive, feedsim.ReleaseSpec{})
	w.sync(0)
	w.release(d, feedsim.ReleaseSpec{Minor: true, Parts: 2})
	w.release(archive, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	if _, err := mirror.Rollback(t.Context(), w.decide(), permits, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := mirror.Approve(t.Context(), w.decide(), permits); err != nil {
		t.Fatal(err)
	}
	w.published(permits, 3)
	return w, d
}

// publishTables brings the tables up to date, or writes some anew.
func (w *world) publishTables(change ...func(*mirror.PublishTablesOptions)) mirror.PublishTablesReport {
	w.t.Helper()
	o := mirror.PublishTablesOptions{Store: w.store, Tables: w.tables(w.clock.Now), LeaseTTL: time.Minute, Run: "tables" + manifest.Number(w.runs.Add(1)).Padded(),
		Host: "test", Tool: "mirror test", Now: w.clock.Now, Pause: w.pause}
	for _, c := range change {
		c(&o)
	}
	report, err := mirror.PublishTables(w.t.Context(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

func rebuildAll(o *mirror.PublishTablesOptions) {
	o.Rebuild, o.RebuildChanges, o.RebuildPublications = []string{permits}, true, true
}

// rewrite puts other bytes in the place of a file, and leaves those that it is linked to alone.
func (w *world) rewrite(key string, change func(string) string) {
	w.t.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(key))
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	_ = os.Remove(path) // it may not be there
	after := change(string(data))
	if bytes.Equal(data, []byte(after)) {
		w.t.Fatalf("%s is as before", key)
	}
	if err := os.WriteFile(path, []byte(after), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.damaged = true
}

func commitOf(root string, n int) string { return fmt.Sprintf("%s_delta_log/%020d.json", root, n) }

// headOf returns the number of a log's newest commit.
func (w *world) headOf(root string) int {
	n := 0
	for w.has(commitOf(root, n)) {
		n++
	}
	return n - 1
}

func inText(old, text string) func(string) string {
	return func(s string) string { return strings.Replace(s, old, text, 1) }
}

// inAdd replaces a text in the last line that lists a file.
func inAdd(old, text string) func(string) string {
	return func(s string) string {
		at := strings.LastIndex(s, `"add"`)
		return s[:at] + strings.Replace(s[at:], old, text, 1)
	}
}

// withoutLast drops the last line that names something.
func withoutLast(part string) func(string) string {
	return func(s string) string {
		lines := strings.SplitAfter(s, "\n")
		for i := len(lines) - 1; i >= 0; i-- {
			if strings.Contains(lines[i], part) {
				return strings.Join(slices.Delete(lines, i, i+1), "")
			}
		}
		return s
	}
}

// tableDamage is one way in which a log goes wrong, what it is called, and what the finding says.
type tableDamage struct {
	name string
	do   func(w *world)
	kind audit.Kind
	says string
	late bool // told as a note until a pass had time enough
}

func tableDamages() []tableDamage {
	own, index := tables.SnapshotRoot(permits), tables.AttachmentRoot(permits)
	other := strings.TrimSuffix(tables.SnapshotRoot(zoning), "/")
	at := func(root string, back int, change func(string) string) func(w *world) {
		return func(w *world) { w.rewrite(commitOf(root, w.headOf(root)-back), change) }
	}
	constant := func(text string) func(string) string { return func(string) string { return text } }
	foreign := `{"commitInfo":{"timestamp":0,"operation":"DELETE","engineInfo":"another engine"}}` + "\n"
	return []tableDamage{
		{"a gap", func(w *world) { w.remove(commitOf(own, 1)) }, audit.KindTable, "commit 1 is missing", false},
		{"no first commit", func(w *world) { w.remove(commitOf(own, 0)) }, audit.KindTable, "commit 0 is missing", false},
		{"a commit cut in a line", at(own, 0, func(s string) string { return s[:len(s)-40] }), audit.KindTable, "decode commit", false},
		{"a commit cut between lines", at(own, 0, withoutLast(`"add"`)), audit.KindTable, "it lacks", false},
		{"an old commit cut between lines", at(own, 1, withoutLast(`"add"`)), audit.KindTable, "removes", false},
		{"a commit without its txn", at(own, 0, withoutLast(`"txn"`)), audit.KindTable, "no txn does", false},
		{"an emptied commit", at(own, 0, constant("")), audit.KindTable, "no action", false},
		{"a commit that is no JSON", at(own, 0, constant("PAR1")), audit.KindTable, "decode commit", false},
		{"a commit of another engine", at(own, -1, constant(foreign)), audit.KindTable, "no mirror wrote it", false},
		{"a wrong size", at(own, 0, inAdd(`"size":`, `"size":1`)), audit.KindTable, "bytes, the record names", false},
		{"wrong statistics", at(own, 0, inAdd(`\"numRecords\":`, `\"numRecords\":1`)), audit.KindTable, "rows, it has", false},
		{"a file of another dataset", at(own, 0, inAdd(`"add":{"path":"`, `"add":{"path":"../`+filepath.Base(other)+`/`)), audit.KindTable, "as version 3 it l", false},
		{"a file outside the bucket", at(own, 0, inAdd(`"add":{"path":"`, `"add":{"path":"s3://elsewhere/`)), audit.KindTable, "outside the table", false},
		{"a file of another version", at(own, 0, inText(`"add":{"path":"ploti_version=0000000003`, `"add":{"path":"ploti_version=0000000002`)), audit.KindTable, "as version 3 it", false},
		{"a partition that the table has not", at(own, 0, inAdd(`"partitionValues":{}`, `"partitionValues":{"a":"b"}`)), audit.KindTable, "a partition, and the table has none", false},
		{"another version in its own words", at(own, 0, inText(`\"ploti_version\":3`, `\"ploti_version\":2`)), audit.KindTable, "its txn says", false},
		{"another dataset in its own words", at(own, 0, inText(`\"ploti_dataset_id\":\"`+permits, `\"ploti_dataset_id\":\"`+zoning)), audit.KindTable, "its txn says", false},
		{"another record", at(own, 0, inText(`\"record_sha256\":\"`, `\"record_sha256\":\"0`)), audit.KindTable, "by record", false},
		{"another schema", func(w *world) { w.rewrite(commitOf(own, 0), inText(`\"nullable\":true`, `\"nullable\":false`)) }, audit.KindTable, "its id or schema is another", false},
		{"no schema", func(w *world) { w.rewrite(commitOf(own, 0), withoutLast(`"metaData"`)) }, audit.KindTable, "no protocol or no schema", false},
		{"a raised protocol", func(w *world) { w.rewrite(commitOf(own, 0), inText(`"minReaderVersion":1`, `"minReaderVersion":2`)) }, audit.KindTable, "protocol that no mirror", false},
		{"a hint to nowhere", func(w *world) {
			w.rewrite(own+"_delta_log/_last_checkpoint", constant(`{"version":3,"size":9}`))
		}, audit.KindTable, "leads to checkpoint 3", false},
		{"a hint that is none", func(w *world) { w.rewrite(own+"_delta_log/_last_checkpoint", constant(`[]`)) }, audit.KindTable, "names no checkpoint", false},
		{"a checkpoint that is none", func(w *world) {
			w.rewrite(own+"_delta_log/00000000000000000001.checkpoint.parquet", constant("PAR1"))
		}, audit.KindTable, "cannot be read", false},
		{"a checkpoint ahead", func(w *world) {
			w.rewrite(own+"_delta_log/00000000000000000009.checkpoint.parquet", constant("PAR1"))
		}, audit.KindTable, "ahead of the newest commit", false},
		{"a compacted commit", func(w *world) {
			w.rewrite(own+"_delta_log/00000000000000000000.00000000000000000001.compacted.json", constant(foreign))
		}, audit.KindTable, "no mirror wrote it", false},
		{"the newest commit gone", func(w *world) { w.remove(commitOf(own, w.headOf(own))) }, audit.KindTableBehind, "it shows version 2, published is 3", true},
		{"the whole log gone", func(w *world) {
			for n := w.headOf(own); n >= 0; n-- {
				w.remove(commitOf(own, n))
			}
		}, audit.KindTableBehind, "it shows nothing", true},
		{"an index of another size", at(index, 0, inAdd(`"size":`, `"size":1`)), audit.KindTable, "with 1", false},
		{"an index left out", at(index, 0, withoutLast(`"add"`)), audit.KindTable, "it shows nothing", false},
		{"a gap in changes", func(w *world) { w.remove(commitOf(tables.ChangesRoot, 0)) }, audit.KindTable, "commit 0 is missing", false},
		{"changes of another size", at(tables.ChangesRoot, 0, inAdd(`"size":`, `"size":1`)), audit.KindTable, "bytes, the record names", false},
		{"changes in another partition", at(tables.ChangesRoot, 0, inAdd(`"ploti_version":"`, `"ploti_version":"1`)), audit.KindTable, "the partition", false},
		{"changes of another day", at(tables.ChangesRoot, 0, inAdd(`"released_date":"2026`, `"released_date":"2025`)), audit.KindTable, "the partition", false},
		{"changes left out", func(w *world) { w.rewrite(commitOf(tables.ChangesRoot, 0), withoutLast(`"add"`)) }, audit.KindTableBehind, "it lacks the changes", true},
		{"changes of a dataset that is not there", at(tables.ChangesRoot, 0, func(s string) string {
			return strings.ReplaceAll(s, `"path":"ploti_dataset_id=`, `"path":"ploti_dataset_id=no_`)
		}), audit.KindTable, "belongs to no version of a dataset", false},
		{"a file of publications gone", func(w *world) { w.remove(w.anyKey("publications/")) }, audit.KindTable, "the bucket does not have it", false},
		{"a file of publications that is none", func(w *world) { w.rewrite(w.anyKey("publications/"), constant("PAR1")) }, audit.KindTable, "read publications", false},
		{"publications of another size", func(w *world) {
			w.rewrite(commitOf(tables.PublicationsRoot, 0), inAdd(`"size":`, `"size":1`))
		}, audit.KindTable, "the log lists it with", false},
		{"publications left out", func(w *world) { w.rewrite(commitOf(tables.PublicationsRoot, 0), withoutLast(`"add"`)) }, audit.KindTable, "it lacks move 1", false},
		{"publications behind", func(w *world) {
			w.remove(commitOf(tables.PublicationsRoot, w.headOf(tables.PublicationsRoot)))
		}, audit.KindTableBehind, "the pointer made", true},
	}
}

// TestDamageOfATableIsFoundNamedAndMended damages each log in each way: the audit of documents finds and
// names it, publish-tables leaves a damaged log alone, a rebuild mends it, and the next passes go on.
func TestDamageOfATableIsFoundNamedAndMended(t *testing.T) {
	tally := evidence.Count(t, "table-damage")
	origin, _ := tabledWorld(t)
	if report := origin.audit(audit.LevelBytes); len(report.Findings) != 0 || report.Checked.Tables != 6 {
		t.Fatalf("undamaged: %d tables, findings %+v", report.Checked.Tables, report.Findings)
	}
	for at, damage := range tableDamages() {
		if at%evidence.Size(4, 1) != 0 {
			continue
		}
		w, _ := origin.copyOf(t)
		damage.do(w)
		report := w.audit(audit.LevelChain)
		if damage.late {
			if told(report.Notes, damage) == nil || report.Exit != 0 {
				t.Errorf("%s, at once: exit %d, notes %+v", damage.name, report.Exit, report.Notes)
			}
			report = w.auditOf(audit.Options{Level: audit.LevelChain, Now: func() time.Time { return w.clock.Now().Add(72 * time.Hour) }})
		}
		if f := told(report.Findings, damage); f == nil || report.Exit != audit.ExitFindings || !strings.Contains(f.Hint, "publish-tables") {
			t.Errorf("%s: exit %d, findings %+v, want %s %q", damage.name, report.Exit, report.Findings, damage.kind, damage.says)
		}
		tally.Add(1)
		if at%evidence.Size(16, 1) != 0 {
			continue
		}
		if rebuilt := w.publishTables(rebuildAll); rebuilt.Exit != 0 {
			t.Errorf("%s: the rebuild ended with %+v", damage.name, rebuilt.Failures)
		}
		w.wholeTables(damage.name)
	}
}

func told(list []audit.Finding, damage tableDamage) *audit.Finding {
	at := slices.IndexFunc(list, func(f audit.Finding) bool { return f.Kind == damage.kind && strings.Contains(f.Detail, damage.says) })
	if at < 0 {
		return nil
	}
	return &list[at]
}

// wholeTables wants the tables as they should be, by the audit and by the files alone, and nothing to do.
func (w *world) wholeTables(when string) {
	w.t.Helper()
	if report := w.audit(audit.LevelBytes); len(report.Findings) != 0 {
		w.t.Errorf("%s: findings %+v", when, report.Findings)
	}
	for _, violation := range invariant.Check(invariant.Folder(w.dir)) {
		w.t.Errorf("%s: violated %+v", when, violation)
	}
	w.tablesUpToDate()
	if report := w.publishTables(); report.Exit != 0 || report.Written != 0 {
		w.t.Errorf("%s: tables are written again: %+v", when, report)
	}
}

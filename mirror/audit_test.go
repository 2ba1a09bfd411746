package mirror_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"feedmirror/internal/audit"
	"feedmirror/internal/bucket/localstore"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
)

func (w *world) audit(level audit.Level) audit.Report {
	w.t.Helper()
	report, err := audit.Run(context.Background(), audit.Options{Reader: w.store, Level: level, Now: w.clock.Now})
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

func auditedWorld(t *testing.T) *world {
	t.Helper()
	w, d := permitsWorld(t)
	w.release(d, feedsim.ReleaseSpec{ReplaceIDs: true})
	zoning := w.dataset("ds_zoning", feedsim.Archive)
	w.release(zoning, feedsim.ReleaseSpec{})
	w.sync(0)
	return w
}

func TestAnUndamagedBucketIsCleanAtEveryLevel(t *testing.T) {
	w := auditedWorld(t)
	for _, level := range audit.Levels() {
		report := w.audit(level)
		if report.Exit != 0 || len(report.Findings) != 0 || report.Checked.Records != 4 {
			t.Errorf("%s: exit %d, %d records, findings %+v, notes %+v", level, report.Exit, report.Checked.Records, report.Findings, report.Notes)
		}
		if level == audit.LevelChecksum && report.NotChecked.NoChecksum != report.Checked.Objects {
			t.Errorf("a folder keeps no checksums, yet only %d of %d objects are called not checked", report.NotChecked.NoChecksum, report.Checked.Objects)
		}
		if level == audit.LevelBytes && (report.Checked.Bytes == 0 || report.NotChecked.Objects != 0 || report.Checked.Attachments == 0) {
			t.Errorf("bytes: checked %+v, not checked %+v", report.Checked, report.NotChecked)
		}
	}
}

// damage rewrites a file as nobody but an attacker or a bad disk would.
func (w *world) damage(key string, change func([]byte) []byte) {
	w.t.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(key))
	data, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, change(data), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.damaged = true
}

func flip(data []byte) []byte {
	data[len(data)/2] ^= 1
	return data
}

func (w *world) anyKey(prefix string) string {
	w.t.Helper()
	for info, err := range w.store.List(context.Background(), prefix, "") {
		if err == nil && info.Size > 0 && !strings.Contains(info.Key, "/_delta_log/") {
			return info.Key
		}
	}
	w.t.Fatalf("nothing under %s", prefix)
	return ""
}

func TestDamageIsFoundAndNamed(t *testing.T) {
	tests := map[string]struct {
		level audit.Level
		kind  audit.Kind
		do    func(w *world) (key string)
	}{
		"one flipped bit in a part": {audit.LevelBytes, audit.KindCorrupt, func(w *world) string {
			key := w.anyKey("snapshot/")
			w.damage(key, flip)
			return key
		}},
		"one flipped bit in an attachment": {audit.LevelBytes, audit.KindCorrupt, func(w *world) string {
			key := w.anyKey(manifest.AttachmentPrefix)
			w.damage(key, flip)
			return key
		}},
		"a flipped bit behind the tag that was noted, without reading all": {audit.LevelInventory, audit.KindCorrupt, func(w *world) string {
			key := w.anyKey("snapshot/")
			w.damage(key, flip)
			return key
		}},
		"a shortened part": {audit.LevelInventory, audit.KindWrongSize, func(w *world) string {
			key := w.anyKey("changes/")
			w.damage(key, func(data []byte) []byte { return data[:len(data)-1] })
			return key
		}},
		"a removed attachment": {audit.LevelInventory, audit.KindMissing, func(w *world) string {
			key := w.anyKey(manifest.AttachmentPrefix)
			w.remove(key)
			return key
		}},
		"a removed schema": {audit.LevelInventory, audit.KindMissing, func(w *world) string {
			key := manifest.VersionPrefix(permits, 1) + "schema.json"
			w.remove(key)
			return key
		}},
		"an edited record": {audit.LevelChain, audit.KindChain, func(w *world) string {
			w.damage(manifest.RecordKey(permits, 1), func(data []byte) []byte {
				return bytes.Replace(data, []byte(`"rowCount": 12`), []byte(`"rowCount": 13`), 1)
			})
			return manifest.RecordKey(permits, 2)
		}},
		"a removed record": {audit.LevelChain, audit.KindChain, func(w *world) string {
			w.remove(manifest.RecordKey(permits, 1))
			return manifest.RecordKey(permits, 2)
		}},
		"a pointer to a version that is not there": {audit.LevelChain, audit.KindPointer, func(w *world) string {
			w.damage(manifest.PointerKey(permits), func(data []byte) []byte {
				return bytes.Replace(data, []byte(`"version": 3`), []byte(`"version": 9`), 1)
			})
			return manifest.PointerKey(permits)
		}},
		"a garbled pointer": {audit.LevelChain, audit.KindPointer, func(w *world) string {
			w.damage(manifest.PointerKey(permits), func([]byte) []byte { return []byte("<html>") })
			return manifest.PointerKey(permits)
		}},
		"a SHA256SUMS that lacks a line": {audit.LevelBytes, audit.KindSums, func(w *world) string {
			w.damage(manifest.SumsKey(permits, 1), func(data []byte) []byte { return data[bytes.IndexByte(data, '\n')+1:] })
			return manifest.SumsKey(permits, 1)
		}},
		"a file among the attachments that no hash names": {audit.LevelInventory, audit.KindAttachmentName, func(w *world) string {
			key := manifest.AttachmentPrefix + "zz/stray"
			path := filepath.Join(w.dir, filepath.FromSlash(key))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				w.t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
				w.t.Fatal(err)
			}
			w.damaged = true
			return key
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := auditedWorld(t)
			key := test.do(w)
			report := w.audit(test.level)
			found := false
			for _, f := range report.Findings {
				found = found || (f.Key == key && f.Kind == test.kind)
				if f.Dataset == "" && f.Kind != audit.KindAttachmentName {
					t.Errorf("%s of %s names no dataset: %s", f.Kind, f.Key, f.Detail)
				}
			}
			if !found || report.Exit != audit.ExitFindings {
				t.Errorf("exit %d, findings %+v: want %s of %s", report.Exit, report.Findings, test.kind, key)
			}
		})
	}
}

func (w *world) remove(key string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.dir, filepath.FromSlash(key))); err != nil {
		w.t.Fatal(err)
	}
	w.damaged = true
}

func TestAMovedBucketVerifiesAndGoesOnWithoutDownloads(t *testing.T) {
	w := auditedWorld(t)
	moved := filepath.Join(t.TempDir(), "other", "prefix")
	err := filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, _ := filepath.Rel(w.dir, path)
		target := filepath.Join(moved, relative)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	store, err := localstore.New(localstore.Options{Root: moved})
	if err != nil {
		t.Fatal(err)
	}
	w.store, w.dir = store, moved
	for _, level := range []audit.Level{audit.LevelInventory, audit.LevelBytes} {
		if report := w.audit(level); report.Exit != 0 {
			t.Errorf("%s: findings %+v", level, report.Findings)
		}
	}
	w.feed.ResetLog()
	report := w.sync(0, full)
	if report.Files.Copied != 0 || len(w.feed.Completed()) != 0 {
		t.Errorf("copied %d files, fetched %v", report.Files.Copied, w.feed.Completed())
	}
}

func TestANewerLayoutIsRefusedAndNothingWritten(t *testing.T) {
	w := auditedWorld(t)
	w.damage(manifest.LayoutKey, func(data []byte) []byte {
		return bytes.Replace(data, []byte(`"layout": 1`), []byte(`"layout": 2`), 1)
	})
	before := w.snapshot()
	report := w.sync(2, full)
	if len(report.Failures) != 1 || !strings.Contains(report.Failures[0].Hint, "Upgrade") {
		t.Errorf("failures %+v", report.Failures)
	}
	if after := w.snapshot(); after != before {
		t.Error("something was written")
	}
}

// snapshot returns names and sizes of all files, as one text.
func (w *world) snapshot() string {
	w.t.Helper()
	var text strings.Builder
	for info, err := range w.store.List(context.Background(), "", "") {
		if err != nil {
			w.t.Fatal(err)
		}
		text.WriteString(info.Key + " " + string(info.Tag) + "\n")
	}
	return text.String()
}

package mirror_test

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/audit"
	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// says is a store that says something else of one object.
type says struct {
	bucket.Store
	key    string
	change func(*bucket.Info)
	opened int
}

func (s *says) Stat(ctx context.Context, key string) (bucket.Info, error) {
	info, err := s.Store.Stat(ctx, key)
	if err == nil && key == s.key {
		s.change(&info)
	}
	return info, err
}

func (s *says) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		for info, err := range s.Store.List(ctx, prefix, after) {
			if err == nil && info.Key == s.key {
				s.change(&info)
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

func (s *says) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	if key == s.key && length < 0 { // to its end; a footer is read by ranges
		s.opened++ // one worker
	}
	return s.Store.Open(ctx, key, offset, length)
}

// auditOf audits with one worker.
func (w *world) auditOf(o audit.Options) audit.Report {
	w.t.Helper()
	if o.Reader == nil {
		o.Reader = w.store
	}
	if o.Now == nil {
		o.Now = w.clock.Now
	}
	o.Workers = 1
	report, err := audit.Run(context.Background(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

func only(list []audit.Finding, key string) []audit.Finding {
	var of []audit.Finding
	for _, f := range list {
		if f.Key == key {
			of = append(of, f)
		}
	}
	return of
}

func TestAnAuditBelievesWhatTheStoreSaysOfAnObject(t *testing.T) {
	wrong := manifest.SumBytes(nil)
	tests := map[string]struct {
		level   audit.Level
		says    func(*bucket.Info)
		finding audit.Kind // empty: none
		note    audit.Kind
		opened  int
	}{
		"an encoding":          {audit.LevelInventory, func(i *bucket.Info) { i.Encoding = "gzip" }, audit.KindEncoded, "", 0},
		"no size":              {audit.LevelInventory, func(i *bucket.Info) { i.Size = -1 }, "", "", 0},
		"another tag":          {audit.LevelInventory, func(i *bucket.Info) { i.Tag = "other" }, "", "", 1},
		"another sha256":       {audit.LevelChecksum, func(i *bucket.Info) { i.SHA256 = &wrong }, audit.KindChecksum, "", 0},
		"an archive tier":      {audit.LevelBytes, func(i *bucket.Info) { i.Archived = true }, "", audit.KindArchived, 0},
		"nothing out of order": {audit.LevelBytes, func(*bucket.Info) {}, "", "", 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := auditedWorld(t)
			store := &says{Store: w.store, key: w.anyKey("snapshot/"), change: test.says}
			report := w.auditOf(audit.Options{Reader: store, Level: test.level})
			if test.finding == "" && len(report.Findings) != 0 || test.finding != "" && (len(report.Findings) != 1 || report.Findings[0].Kind != test.finding || report.Findings[0].Key != store.key) {
				t.Errorf("findings %+v, want %q", report.Findings, test.finding)
			}
			notes := only(report.Notes, store.key)
			if test.note == "" && len(notes) != 0 || test.note != "" && (len(notes) != 1 || notes[0].Kind != test.note) {
				t.Errorf("notes %+v, want %q", notes, test.note)
			}
			if store.opened != test.opened {
				t.Errorf("it was read %d times, want %d", store.opened, test.opened)
			}
			if archived := report.NotChecked.Archived; (archived == 1) != (test.note == audit.KindArchived) {
				t.Errorf("%d archived objects were not checked", archived)
			}
		})
	}
}

func TestAnAuditCountsWhatItCouldNotCheck(t *testing.T) {
	w := auditedWorld(t)
	store := &says{Store: w.store, key: w.anyKey("snapshot/")}
	raw, _, err := bucket.ReadAll(t.Context(), w.store, store.key, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	sum := manifest.SumBytes(raw)
	store.change = func(i *bucket.Info) { i.SHA256 = &sum }
	report := w.auditOf(audit.Options{Reader: store, Level: audit.LevelChecksum})
	if n := report.NotChecked; n.Objects != report.Checked.Objects-1 || n.NoChecksum != n.Objects || len(report.Findings) != 0 {
		t.Errorf("not checked %+v of %d objects, want all but the one with a sha256", n, report.Checked.Objects)
	}
	if got, want := report.Checked.Attachments, int64(w.countKeys(manifest.AttachmentPrefix)); got != want {
		t.Errorf("checked %d attachments, want each of the %d once", got, want)
	}
}

// TestAnObjectOfNoKnownSizeIsReadToItsEnd audits files whose size neither the record nor the store
// tells.
func TestAnObjectOfNoKnownSizeIsReadToItsEnd(t *testing.T) {
	for _, key := range []string{manifest.SumsKey(permits, 3), manifest.IndexKey(permits, 3)} {
		for name, damage := range map[string]func([]byte) []byte{
			"as it is": nil, "one bit flipped": flip, "one byte too many": func(data []byte) []byte { return append(data, '\n') },
		} {
			t.Run(key+" "+name, func(t *testing.T) {
				w := auditedWorld(t)
				if damage != nil {
					w.damage(key, damage)
				}
				list := &listsNoSize{Store: w.store, key: key}
				report := w.auditOf(audit.Options{Reader: list, Level: audit.LevelBytes})
				corrupt := false
				for _, f := range only(report.Findings, key) {
					corrupt = corrupt || f.Kind == audit.KindCorrupt
				}
				if corrupt != (damage != nil) || (damage == nil && len(report.Findings) != 0) {
					t.Errorf("findings %+v", report.Findings)
				}
			})
		}
	}
}

// listsNoSize is a store whose listings, and readings of a whole object, do not tell its size.
type listsNoSize struct {
	bucket.Store
	key string
}

func (l *listsNoSize) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	unsized := &says{Store: l.Store, key: l.key, change: func(i *bucket.Info) { i.Size = -1 }}
	return unsized.List(ctx, prefix, after)
}

func (l *listsNoSize) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	body, info, err := l.Store.Open(ctx, key, offset, length)
	if key == l.key && length < 0 {
		info.Size = -1
	}
	return body, info, err
}

// badOnce is a store whose first reading of one object goes wrong.
type badOnce struct {
	buckettest.FlipBit
	done bool
}

func (b *badOnce) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	if key != b.Key || b.done {
		return b.Store.Open(ctx, key, offset, length)
	}
	b.done = true
	return b.FlipBit.Open(ctx, key, offset, length)
}

func TestABadReadingIsRepeatedBeforeAnythingIsAccused(t *testing.T) {
	w := auditedWorld(t)
	store := &badOnce{FlipBit: buckettest.FlipBit{Store: w.store, Key: w.anyKey("snapshot/"), Offset: 9}}
	report := w.auditOf(audit.Options{Reader: store, Level: audit.LevelBytes})
	notes := only(report.Notes, store.Key)
	if len(report.Findings) != 0 || len(notes) != 1 || notes[0].Kind != audit.KindUnreadable || !store.done {
		t.Errorf("findings %+v, notes %+v: want one note", report.Findings, notes)
	}
}

func TestEveryMissingAttachmentIsFound(t *testing.T) {
	w := auditedWorld(t)
	var keys []string
	for info, err := range w.store.List(t.Context(), manifest.AttachmentPrefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	for _, key := range []string{keys[0], keys[len(keys)/2], keys[len(keys)-1]} {
		w.remove(key)
		report := w.audit(audit.LevelInventory)
		if found := only(report.Findings, key); len(found) != 1 || found[0].Kind != audit.KindMissing {
			t.Errorf("findings %+v, want %s missing", report.Findings, key)
		}
	}
}

func TestAttachmentsOfOtherDatasetsAreNoOrphansInAPartialAudit(t *testing.T) {
	w := auditedWorld(t)
	chosen := func(dataset string) bool { return dataset != permits }
	loose := func(partial bool) int {
		report := w.auditOf(audit.Options{Level: audit.LevelInventory, Select: chosen, Partial: partial})
		if len(report.Findings) != 0 || report.Checked.Datasets != 1 {
			t.Errorf("datasets %d, findings %+v", report.Checked.Datasets, report.Findings)
		}
		count := 0
		for _, note := range report.Notes {
			if note.Kind == audit.KindOrphan || note.Kind == audit.KindInProgress {
				count++
			}
		}
		return count
	}
	if partial, whole := loose(true), loose(false); partial != 0 || whole != 1 {
		t.Errorf("%d notes in a partial audit, %d in one that should know all", partial, whole)
	}
}

// rewrite changes a document of the bucket as nobody may.
func rewrite[T any](w *world, key string, change func(*T)) {
	w.t.Helper()
	w.damage(key, func(data []byte) []byte {
		var doc T
		if err := json.Unmarshal(data, &doc); err != nil {
			w.t.Fatal(err)
		}
		change(&doc)
		body, err := manifest.EncodeDocument(doc)
		if err != nil {
			w.t.Fatal(err)
		}
		return body
	})
}

func TestDocumentsThatContradictEachOtherAreFound(t *testing.T) {
	pointer, record, body := manifest.PointerKey(permits), manifest.RecordKey(permits, 3), manifest.ManifestKey(permits, 3)
	tests := map[string]struct {
		level  audit.Level
		do     func(w *world)
		key    string
		kind   audit.Kind
		detail string
	}{
		"a pointer with a part too many": {audit.LevelChain, func(w *world) {
			rewrite(w, pointer, func(p *state.Pointer) { p.Snapshot = append(p.Snapshot, p.Snapshot[0]) })
		}, pointer, audit.KindPointer, "other snapshot parts"},
		"a pointer that lacks a part": {audit.LevelChain, func(w *world) {
			rewrite(w, pointer, func(p *state.Pointer) { p.Snapshot = p.Snapshot[1:] })
		}, pointer, audit.KindPointer, "other snapshot parts"},
		"a pointer to another manifest": {audit.LevelChain, func(w *world) {
			rewrite(w, pointer, func(p *state.Pointer) { p.Manifest.SHA256 = manifest.SumBytes(nil) })
		}, pointer, audit.KindPointer, "another manifest"},
		"a pointer to what was pruned": {audit.LevelChain, func(w *world) {
			w.put(manifest.PrunedKey(permits, 3), prunedNote(3))
			w.damaged = true
		}, pointer, audit.KindPointer, "pruned"},
		"a record with a file that its manifest lacks": {audit.LevelBytes, func(w *world) {
			rewrite(w, record, func(r *manifest.Record) {
				extra := manifest.File{Kind: manifest.KindOf("zz/notes.txt"), Path: "zz/notes.txt", Size: 1, SHA256: manifest.SumBytes([]byte("x"))}
				r.Files = append(r.Files, manifest.RecordFile{Kind: extra.Kind, Path: extra.Path, Key: manifest.FileKey(permits, 3, extra), Size: 1, SHA256: extra.SHA256})
			})
		}, body, audit.KindManifest, "which it does not"},
		"a record without a file that its manifest names": {audit.LevelBytes, func(w *world) {
			rewrite(w, record, func(r *manifest.Record) { r.Files = r.Files[:len(r.Files)-1] })
		}, body, audit.KindManifest, "does not name"},
		"a record that counts another attachment": {audit.LevelBytes, func(w *world) {
			rewrite(w, record, func(r *manifest.Record) { r.Attachments.Count++ })
		}, body, audit.KindManifest, "the record counts"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := auditedWorld(t)
			test.do(w)
			report := w.audit(test.level)
			for _, f := range only(report.Findings, test.key) {
				if f.Kind == test.kind && strings.Contains(f.Detail, test.detail) && f.Version == 3 {
					return
				}
			}
			t.Errorf("findings %+v: want %s of %s about %q", report.Findings, test.kind, test.key, test.detail)
		})
	}
}

func TestWhatWasPrunedIsNeitherMissingNorLeftOver(t *testing.T) {
	w := auditedWorld(t)
	w.put(manifest.PrunedKey(permits, 1), prunedNote(1))
	before := w.audit(audit.LevelBytes)
	w.remove(w.anyKey("snapshot/" + manifest.Partition(permits, 1)))
	for name, report := range map[string]audit.Report{"before the deletes": before, "in the middle of them": w.audit(audit.LevelBytes)} {
		if len(report.Findings) != 0 || report.NotChecked.Pruned != 1 {
			t.Errorf("%s: not checked %+v, findings %+v", name, report.NotChecked, report.Findings)
		}
		for _, note := range report.Notes {
			if note.Version == 1 && note.Kind == audit.KindOrphan {
				t.Errorf("%s: note %+v", name, note)
			}
		}
	}
}

// TestFilesOfAVersionThatIsOwedAreInProgressHoweverOld audits two days after a pass died.
func TestFilesOfAVersionThatIsOwedAreInProgressHoweverOld(t *testing.T) {
	w := diedBeforeItsRecord(t)
	key := w.anyKey("snapshot/" + manifest.Partition(permits, 3))
	later := func() time.Time { return time.Now().Add(48 * time.Hour) } // a folder dates its files by the machine's clock
	kind := func() audit.Kind {
		report := w.auditOf(audit.Options{Level: audit.LevelInventory, Now: later})
		notes := only(report.Notes, key)
		if len(report.Findings) != 0 || len(notes) != 1 {
			t.Fatalf("findings %+v, notes %+v", report.Findings, notes)
		}
		return notes[0].Kind
	}
	if got := kind(); got != audit.KindInProgress {
		t.Errorf("while it is owed it is %s", got)
	}
	_, err := state.Update(t.Context(), w.store, w.pause, state.ShardID{Of: 1, History: manifest.HistoryAll}.Key(), func(standing *state.Shard) (*state.Shard, error) {
		next := *standing
		next.Owed = nil
		return &next, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := kind(); got != audit.KindUncommittedOld {
		t.Errorf("when nobody owes it any more it is %s", got)
	}
}

func TestANewerLayoutIsNotAudited(t *testing.T) {
	w := auditedWorld(t)
	rewrite(w, manifest.LayoutKey, func(l *state.Layout) { l.Layout++ })
	report, err := audit.Run(t.Context(), audit.Options{Reader: w.store, Level: audit.LevelChain, Now: w.clock.Now})
	if !fault.Is(err, fault.Usage) || report.Status != "incomplete" {
		t.Errorf("%s, %v", report.Status, err)
	}
}

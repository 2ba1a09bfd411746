package mirror_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"feedmirror/internal/audit"
	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// ills are what may be wrong with one object of a store.
type ills struct {
	name     string
	unlisted bool                // listings lack it
	archived bool                // listings say that it is in an archive tier
	stat     error               // every look at it fails so
	open     func(nth int) error // the nth opening fails so; nil: it does not
	flip     func(nth int) int64 // the nth reading has a bit changed at this byte; negative: it has not
	short    func(nth int) bool  // the nth reading breaks off in the middle
}

// sickStore is a store with one sick object.
type sickStore struct {
	bucket.Store
	key   string
	ill   ills
	mu    sync.Mutex
	opens int
}

func (s *sickStore) Stat(ctx context.Context, key string) (bucket.Info, error) {
	if key == s.key && s.ill.stat != nil {
		return bucket.Info{}, s.ill.stat
	}
	return s.Store.Stat(ctx, key)
}

func (s *sickStore) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		for info, err := range s.Store.List(ctx, prefix, after) {
			if err == nil && info.Key == s.key {
				if s.ill.unlisted {
					continue
				}
				info.Archived = s.ill.archived
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

func (s *sickStore) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	if key != s.key {
		return s.Store.Open(ctx, key, offset, length)
	}
	s.mu.Lock()
	s.opens++
	nth := s.opens
	s.mu.Unlock()
	if s.ill.open != nil {
		if err := s.ill.open(nth); err != nil {
			return nil, bucket.Info{}, err
		}
	}
	if s.ill.flip != nil {
		if at := s.ill.flip(nth); at >= 0 {
			return (&buckettest.FlipBit{Store: s.Store, Key: key, Offset: at}).Open(ctx, key, offset, length)
		}
	}
	body, info, err := s.Store.Open(ctx, key, offset, length)
	if err == nil && s.ill.short != nil && s.ill.short(nth) {
		body = broken{io.MultiReader(io.LimitReader(body, info.Size/2), failing{buckettest.Unavailable()}), body}
	}
	return body, info, err
}

type broken struct {
	io.Reader
	io.Closer
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func ofKind(kind fault.Kind) error {
	return &fault.Error{Op: "get object", Side: fault.SideBucket, Kind: kind}
}

func always(err error) func(int) error { return func(int) error { return err } }

func once(err error) func(int) error {
	return func(nth int) error {
		if nth == 1 {
			return err
		}
		return nil
	}
}

// class is how an audit is to call an object at each level: "" for good, "finding" or "note:" and the
// kind, and which count of what was not checked is 1.
type class struct{ chain, inventory, checksum, bytes string }

// at returns the class at a level.
func (c class) at(level audit.Level) string {
	return map[audit.Level]string{audit.LevelChain: c.chain, audit.LevelInventory: c.inventory, audit.LevelChecksum: c.checksum, audit.LevelBytes: c.bytes, audit.LevelRows: c.bytes}[level]
}

// sicknesses are all that may be wrong, with the class of a file of the feed. A store in a folder keeps
// no checksums, so that level checksum only looks whether the object is there.
func sicknesses() []struct {
	ills
	file class
} {
	flipOnce := func(nth int) int64 { return map[bool]int64{true: 10, false: -1}[nth == 1] }
	return []struct {
		ills
		file class
	}{
		{ills{name: "nothing"}, class{}},
		{ills{name: "403", stat: ofKind(fault.Denied), open: always(ofKind(fault.Denied))}, class{"", "", "unreadable", "unreadable"}},
		{ills{name: "503 for ever", stat: buckettest.Unavailable(), open: always(buckettest.Unavailable())}, class{"", "", "unreadable", "unreadable"}},
		{ills{name: "503 once", open: once(buckettest.Unavailable())}, class{"", "", "", "note:unreadable"}},
		{ills{name: "archived, as listed", archived: true, open: always(ofKind(fault.Archived))}, class{"", "", "", "note:archived"}},
		{ills{name: "archived, as read", open: always(ofKind(fault.Archived))}, class{"", "", "", "note:archived"}},
		{ills{name: "a short read once", short: func(nth int) bool { return nth == 1 }}, class{"", "", "", "note:unreadable"}},
		{ills{name: "short reads for ever", short: func(int) bool { return true }}, class{"", "", "", "unreadable"}},
		{ills{name: "flipped once", flip: flipOnce}, class{"", "", "", "note:unreadable"}},
		{ills{name: "flipped for ever", flip: func(int) int64 { return 10 }}, class{"", "", "", "corrupt"}},
		{ills{name: "flipped elsewhere each time", flip: func(nth int) int64 { return int64(10 + nth) }}, class{"", "", "", "unreadable"}},
		{ills{name: "404, though listed", stat: ofKind(fault.NotFound), open: always(ofKind(fault.NotFound))}, class{"", "", "missing", "missing"}},
		{ills{name: "404 and not listed", unlisted: true, stat: ofKind(fault.NotFound), open: always(ofKind(fault.NotFound))}, class{"", "missing", "missing", "missing"}},
		{ills{name: "not listed, but there", unlisted: true}, class{}},
		{ills{name: "not listed, and 403", unlisted: true, stat: ofKind(fault.Denied), open: always(ofKind(fault.Denied))}, class{"", "unreadable", "unreadable", "unreadable"}},
	}
}

// TestAnAuditTellsClassesApart makes one object sick in one way, at each level.
func TestAnAuditTellsClassesApart(t *testing.T) {
	tally := evidence.Count(t, "audit-classes")
	w := auditedWorld(t)
	whole := map[audit.Level]audit.Report{}
	for _, level := range audit.Levels() {
		whole[level] = w.audit(level)
	}
	keys := []string{w.anyKey("snapshot/"), w.anyKey(manifest.AttachmentPrefix), w.anyKey("changes/"), manifest.VersionPrefix(permits, 1) + "schema.json"}
	for _, key := range keys[:evidence.Size(2, len(keys))] {
		for _, sick := range sicknesses() {
			for _, level := range audit.Levels() {
				name := fmt.Sprintf("%s, %s, level %s", key, sick.name, level)
				report := w.auditOf(audit.Options{Reader: &sickStore{Store: w.store, key: key, ill: sick.ills}, Level: level})
				wantClass(t, name, report, key, sick.file.at(level))
				if report.Checked.Objects != whole[level].Checked.Objects || report.Checked.Records != whole[level].Checked.Records || report.Checked.Attachments != whole[level].Checked.Attachments {
					t.Errorf("%s: checked %+v, a whole bucket %+v", name, report.Checked, whole[level].Checked)
				}
				tally.Add(1)
			}
		}
	}
}

// wantClass wants one finding or one note about the object, the count that goes with it and the exit
// code, and nothing about any other object.
func wantClass(t *testing.T, name string, report audit.Report, key, want string) {
	t.Helper()
	got := []string{}
	for _, f := range report.Findings {
		got = append(got, string(f.Kind)+" "+f.Key)
	}
	for _, f := range only(report.Notes, key) {
		got = append(got, "note:"+string(f.Kind)+" "+f.Key)
	}
	wanted := []string{}
	if want != "" {
		wanted = append(wanted, want+" "+key)
	}
	if !slices.Equal(got, wanted) {
		t.Errorf("%s: told %q, want %q", name, got, wanted)
	}
	exit := 0
	if want != "" && !strings.HasPrefix(want, "note:") {
		exit = audit.ExitFindings
	}
	if report.Exit != exit {
		t.Errorf("%s: exit %d, want %d", name, report.Exit, exit)
	}
	n := report.NotChecked
	if (n.Unreadable == 1) != (want == "unreadable") || (n.Archived == 1) != (want == "note:archived") || n.Objects != n.Unreadable+n.Archived+n.NoChecksum {
		t.Errorf("%s: not checked %+v", name, n)
	}
}

// TestADocumentThatCannotBeReadEndsNoAudit makes a document of the mirror sick: it is unreadable, all
// else is audited, and nothing that only it could say is held against anybody.
func TestADocumentThatCannotBeReadEndsNoAudit(t *testing.T) {
	tally := evidence.Count(t, "audit-classes")
	w := auditedWorld(t)
	records := w.audit(audit.LevelChain).Checked.Records
	keys := []string{
		manifest.RecordKey(permits, 2), manifest.PointerKey(permits), manifest.IndexKey(permits, 3), w.anyKey(manifest.ShardsPrefix),
		manifest.RecordKey(permits, 1), manifest.RecordKey(permits, 3), manifest.StoredKey(permits, 2), manifest.ManifestKey(permits, 2), manifest.SumsKey(permits, 2),
	}
	for _, key := range keys[:evidence.Size(4, len(keys))] {
		for _, sick := range sicknesses() {
			if sick.unlisted || sick.archived || strings.HasPrefix(sick.name, "404") {
				continue // of a document that is another tale: without a record there is no version
			}
			for _, level := range audit.Levels() {
				name := fmt.Sprintf("%s, %s, level %s", key, sick.name, level)
				report := w.auditOf(audit.Options{Reader: &sickStore{Store: w.store, key: key, ill: sick.ills}, Level: level})
				damaged := sick.name == "flipped for ever" || sick.name == "flipped elsewhere each time"
				for _, f := range report.Findings {
					if f.Kind != audit.KindUnreadable && !damaged || f.Kind == audit.KindUnreadable && f.Key != key {
						t.Errorf("%s: %s of %s: %s", name, f.Kind, f.Key, f.Detail)
					}
				}
				for _, note := range report.Notes {
					if note.Kind == audit.KindOrphan || note.Kind == audit.KindForeign {
						t.Errorf("%s: %s is called %s", name, note.Key, note.Kind)
					}
				}
				if (sick.name == "nothing" || strings.HasSuffix(sick.name, "once")) && len(report.Findings) > 0 {
					t.Errorf("%s: findings %+v", name, report.Findings)
				}
				if report.Checked.Records < records-1 || report.Checked.Datasets != 2 {
					t.Errorf("%s: only %+v was checked", name, report.Checked)
				}
				unread := level != audit.LevelChain || strings.HasSuffix(key, "/record.json") || strings.HasPrefix(key, "current/")
				if sick.name == "503 for ever" && unread && strings.HasSuffix(key, "/record.json") && (len(report.Findings) != 1 || report.NotChecked.Unreadable != 1 || report.Exit != audit.ExitFindings) {
					t.Errorf("%s: findings %+v, not checked %+v", name, report.Findings, report.NotChecked)
				}
				if level != audit.LevelChain && len(only(report.Findings, manifest.RecordKey(permits, 2))) > 0 && report.NotChecked.NoRecord == 0 {
					t.Errorf("%s: nothing of the version counts as not checked: %+v", name, report.NotChecked)
				}
				tally.Add(1)
			}
		}
	}
}

// TestARepairTellsClassesApart: what is unreadable or archived is not replaced, what is corrupt or
// missing is.
func TestARepairTellsClassesApart(t *testing.T) {
	tally := evidence.Count(t, "audit-classes")
	origin := auditedWorld(t)
	for _, key := range []string{origin.anyKey("snapshot/"), origin.anyKey(manifest.AttachmentPrefix)} {
		for _, sick := range sicknesses() {
			w, store := origin.copyOf(t)
			before := w.take()
			w.store = &sickStore{Store: store, key: key, ill: sick.ills}
			report, err := mirror.Verify(t.Context(), w.verifyOptions(w.repairing))
			w.store = store
			restored := report.Repair != nil && len(report.Repair.Restored) > 0
			if err != nil || restored {
				t.Errorf("%s, %s: error %v, repair %+v", key, sick.name, err, report.Repair)
			}
			if after := w.take(); after.Objects[key] != before.Objects[key] {
				t.Errorf("%s, %s: it was replaced", key, sick.name)
			}
			if strings.HasSuffix(sick.name, "once") || strings.HasPrefix(sick.name, "archived") {
				if report.Repair != nil || report.Exit != 0 {
					t.Errorf("%s, %s: exit %d, repair %+v", key, sick.name, report.Exit, report.Repair)
				}
			}
			tally.Add(1)
		}
	}
}

// TestIDsOfFindingsAreMadeOfFacts: who asks again gets another wording, and the same id.
func TestIDsOfFindingsAreMadeOfFacts(t *testing.T) {
	w := auditedWorld(t)
	key := w.anyKey("snapshot/")
	told := func(text string) audit.Finding {
		refused := &fault.Error{Op: "get object", Object: key, Side: fault.SideBucket, Kind: fault.Denied, Err: fmt.Errorf("request %s was refused", text)}
		report := w.auditOf(audit.Options{Reader: &sickStore{Store: w.store, key: key, ill: ills{open: always(refused)}}, Level: audit.LevelBytes})
		if len(report.Findings) != 1 || !strings.Contains(report.Findings[0].Detail, text) {
			t.Fatalf("findings %+v", report.Findings)
		}
		return report.Findings[0]
	}
	first, second := told("4711"), told("0815")
	if first.ID != second.ID || first.Detail == second.Detail || first.Facts != string(fault.Denied) {
		t.Errorf("first %+v, second %+v", first, second)
	}
	seen := map[string]audit.Finding{}
	for at := range 12 { // other bytes are other facts
		flipped := ills{flip: func(int) int64 { return int64(at) }}
		report := w.auditOf(audit.Options{Reader: &sickStore{Store: w.store, key: key, ill: flipped}, Level: audit.LevelBytes})
		f := report.Findings[0]
		if other, twice := seen[f.ID]; twice || f.Kind != audit.KindCorrupt {
			t.Errorf("%+v has the id of %+v", f, other)
		}
		seen[f.ID] = f
	}
}

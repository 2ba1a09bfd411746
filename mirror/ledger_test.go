package mirror_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"feedmirror/internal/audit"
	"feedmirror/internal/audit/ledger"
	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// countedReads counts the readings of whole objects by key.
type countedReads struct {
	bucket.Store
	mu    sync.Mutex
	reads map[string]int
}

func (c *countedReads) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	if offset == 0 && length == -1 {
		c.mu.Lock()
		c.reads[key]++
		c.mu.Unlock()
	}
	return c.Store.Open(ctx, key, offset, length)
}

func (c *countedReads) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	reads := c.reads
	c.reads = map[string]int{}
	return reads
}

// isFile reports whether a key holds a file of the feed that only the check of bytes reads whole.
func isFile(key string) bool {
	for _, prefix := range []string{"snapshot/", "changes/", "id_map/", manifest.AttachmentPrefix, "attachment_index/"} {
		if strings.HasPrefix(key, prefix) {
			return !strings.Contains(key, "/_delta_log/")
		}
	}
	return strings.HasSuffix(key, "/schema.json") || strings.Contains(key, "/files/")
}

func (w *world) checkedBytes() (size int64, files map[string]bool) {
	w.t.Helper()
	files = map[string]bool{}
	report := w.audit(audit.LevelBytes)
	for info := range w.listed("") {
		if isFile(info.Key) {
			files[info.Key] = true
		}
	}
	return report.Checked.Bytes, files
}

func budget(bytes int64) func(*mirror.VerifyOptions) {
	return func(v *mirror.VerifyOptions) { v.Audit.Budget, v.MaxAge = bytes, 30*24*time.Hour }
}

// TestTenRunsWithATenthEachReadEverythingOnce: and one more reads nothing, until the age is reached.
func TestTenRunsWithATenthEachReadEverythingOnce(t *testing.T) {
	w := auditedWorld(t)
	size, files := w.checkedBytes()
	counting := &countedReads{Store: w.store, reads: map[string]int{}}
	w.store = counting
	total := map[string]int{}
	var largest int64
	for info := range w.listed("") {
		largest = max(largest, info.Size)
	}
	for run := range 10 {
		report := w.verify(budget((size + 9) / 10))
		wantProgress(t, run, report)
		if read := report.Checked.Bytes; read > (size+9)/10+largest {
			t.Errorf("run %d read %d of %d bytes", run, read, size)
		}
		for key, times := range counting.take() {
			if isFile(key) {
				total[key] += times
			}
		}
		w.clock.Advance(24 * time.Hour)
	}
	for key := range files {
		if total[key] != 1 {
			t.Errorf("%s was read %d times", key, total[key])
		}
	}
	report := w.verify(budget(size))
	if reads := counting.take(); report.Exit != 0 || report.NotChecked.Fresh != report.Checked.Objects || len(filesIn(reads)) != 0 {
		t.Errorf("one run more: exit %d, %+v, read %v", report.Exit, report.NotChecked, filesIn(reads))
	}
	w.clock.Advance(30 * 24 * time.Hour)
	w.verify(budget(size / 10))
	if len(filesIn(counting.take())) == 0 {
		t.Error("nothing was read although all of it is a month old")
	}
}

// wantProgress wants the first of ten runs to be stopped by its budget, and the last to have all.
func wantProgress(t *testing.T, run int, report mirror.VerifyReport) {
	t.Helper()
	n := report.NotChecked
	if run == 0 && (report.Exit != audit.ExitStopped || report.Status != "stopped" || n.Budget == 0 || n.Fresh != 0) {
		t.Errorf("the first run ends with %d, %s, not checked %+v", report.Exit, report.Status, n)
	}
	if run == 9 && (report.Exit != 0 || n.Budget != 0) {
		t.Errorf("the last run ends with %d, not checked %+v", report.Exit, n)
	}
}

func filesIn(reads map[string]int) []string {
	var list []string
	for key := range reads {
		if isFile(key) {
			list = append(list, key)
		}
	}
	return list
}

// TestTheStalestIsReadFirst: what was never checked, then what was checked longest ago.
func TestTheStalestIsReadFirst(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	w.verify(budget(1 << 40))
	known := map[string]bool{}
	for info := range w.listed(manifest.AttachmentPrefix) {
		known[info.Key] = true
	}
	w.clock.Advance(40 * 24 * time.Hour)
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	counting := &countedReads{Store: w.store, reads: map[string]int{}}
	w.store = counting
	w.verify(budget(1)) // one object
	read := filesIn(counting.take())
	if len(read) != 1 || known[read[0]] || !strings.HasPrefix(read[0], manifest.AttachmentPrefix) && !strings.Contains(read[0], manifest.Number(3).Padded()) {
		t.Errorf("read %v, want one object that was never checked", read)
	}
}

func TestALostOrDamagedLedgerMeansNotChecked(t *testing.T) {
	for name, lose := range map[string]func(w *world, key string){
		"lost":    func(w *world, key string) { w.remove(key) },
		"damaged": func(w *world, key string) { w.damage(key, flip) },
		"garbage": func(w *world, key string) { w.damage(key, func([]byte) []byte { return []byte("PAR1 no PAR1") }) },
		"empty":   func(w *world, key string) { w.damage(key, func([]byte) []byte { return nil }) },
	} {
		t.Run(name, func(t *testing.T) {
			w := auditedWorld(t)
			all := w.verify(budget(1 << 40))
			if all.Exit != 0 || all.NotChecked.Fresh != 0 {
				t.Fatalf("exit %d, not checked %+v", all.Exit, all.NotChecked)
			}
			key := ledger.Key(permits, manifest.SHA256{})
			entries, err := ledger.Decode(w.bytesOf(key))
			if err != nil || len(entries) == 0 {
				t.Fatalf("ledger: %d entries, %v", len(entries), err)
			}
			lose(w, key)
			report := w.verify(budget(1 << 40))
			if want := all.Checked.Objects - int64(len(entries)); report.NotChecked.Fresh != want || report.Exit != 0 {
				t.Errorf("%d objects are taken for checked, want %d; exit %d, findings %+v", report.NotChecked.Fresh, want, report.Exit, report.Findings)
			}
			noted := false
			for _, note := range report.Notes {
				noted = noted || note.Key == key
			}
			if noted == (name == "lost") {
				t.Errorf("told of the damage: %t", noted)
			}
			if again := w.verify(budget(1 << 40)); again.NotChecked.Fresh != all.Checked.Objects {
				t.Errorf("it was not written anew: %+v", again.NotChecked)
			}
			w.damaged = false
		})
	}
}

// TestWhatIsWrongIsReadInEveryRun: a check that found something lasts no time at all, and a changed
// object is another one than the ledger knows.
func TestWhatIsWrongIsReadInEveryRun(t *testing.T) {
	w := auditedWorld(t)
	w.verify(budget(1 << 40))
	part := w.anyKey("snapshot/")
	w.damage(part, flip)
	for range 3 {
		if report := w.verify(budget(1 << 40)); report.Exit != audit.ExitFindings || len(report.Findings) != 1 || report.Findings[0].Kind != audit.KindCorrupt {
			t.Fatalf("exit %d, findings %+v", report.Exit, report.Findings)
		}
	}
}

// TestAStoppedAuditKeepsWhatItChecked: the next one goes on.
func TestAStoppedAuditKeepsWhatItChecked(t *testing.T) {
	w := auditedWorld(t)
	beneath := w.store
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	w.store = &stopsAt{Store: beneath, left: 12, stop: func() { stop(mirror.ErrTerminated) }}
	options := w.verifyOptions(budget(1 << 40))
	options.Audit.Workers = 1
	if _, err := mirror.Verify(ctx, options); err == nil {
		t.Fatal("a stopped audit ended well")
	}
	w.store = beneath
	if report := w.verify(budget(1 << 40)); report.NotChecked.Fresh == 0 || report.NotChecked.Fresh == report.Checked.Objects {
		t.Errorf("%d of %d objects were kept as checked", report.NotChecked.Fresh, report.Checked.Objects)
	}
}

// stopsAt calls stop when an attachment is read for the last allowed time.
type stopsAt struct {
	bucket.Store
	left int
	stop func()
}

func (s *stopsAt) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	if isFile(key) {
		if s.left--; s.left == 0 {
			s.stop()
		}
	}
	return s.Store.Open(ctx, key, offset, length)
}

// TestTwoAuditsShareALedger: entries of both stand in the end, whatever the store's answers were.
func TestTwoAuditsShareALedger(t *testing.T) {
	w := auditedWorld(t)
	only := func(dataset string) func(*mirror.VerifyOptions) {
		return func(v *mirror.VerifyOptions) {
			v.Audit.Partial, v.Audit.Select = true, func(id string) bool { return id == dataset }
		}
	}
	beneath := w.store
	w.store = &buckettest.LostAnswer{Store: beneath, Nth: 2}
	w.verify(budget(1<<40), only(permits))
	w.store = &rival{Store: beneath, before: func() {
		options := w.verifyOptions(budget(1<<40), only(permits))
		options.Store, options.Audit.Reader = beneath, beneath
		if _, err := mirror.Verify(context.Background(), options); err != nil {
			t.Error(err)
		}
	}}
	w.verify(budget(1<<40), only("ds_zoning"))
	w.store = beneath
	if report := w.verify(budget(1 << 40)); report.NotChecked.Fresh != report.Checked.Objects {
		t.Errorf("%d of %d objects are known as checked", report.NotChecked.Fresh, report.Checked.Objects)
	}
}

// rival lets another process write before the first swap.
type rival struct {
	bucket.Store
	once   sync.Once
	before func()
}

func (r *rival) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	r.once.Do(r.before)
	return r.Store.Swap(ctx, key, old, data)
}

func TestShardsTogetherCheckEverything(t *testing.T) {
	w := auditedWorld(t)
	counting := &countedReads{Store: w.store, reads: map[string]int{}}
	_, files := w.checkedBytes()
	w.store = counting
	for shard := range 3 {
		report := w.verify(func(v *mirror.VerifyOptions) {
			v.Audit.Partial, v.Audit.Sharded, v.Audit.Select = true, true, func(dataset string) bool { return mirror.InShard(dataset, shard, 3) }
		})
		if report.Exit != 0 {
			t.Errorf("shard %d: %+v", shard, report.Findings)
		}
	}
	reads := counting.take()
	for key := range files {
		if reads[key] == 0 {
			t.Errorf("no shard read %s", key)
		}
	}
}

func TestWhatCannotBeMeantTogetherIsRefused(t *testing.T) {
	w := auditedWorld(t)
	for name, change := range map[string]func(*mirror.VerifyOptions){
		"a budget at a level that reads nothing": func(v *mirror.VerifyOptions) { v.MaxAge, v.Audit.Level = time.Hour, audit.LevelInventory },
		"a comparison that repairs":              func(v *mirror.VerifyOptions) { w.repairing(v); w.against(v) },
		"a comparison that keeps a ledger":       func(v *mirror.VerifyOptions) { w.against(v); v.MaxAge = time.Hour },
	} {
		if _, err := mirror.Verify(context.Background(), w.verifyOptions(change)); !fault.Is(err, fault.Usage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func (w *world) against(v *mirror.VerifyOptions) { v.Against = w.options().Feed }

// TestARewrittenOldManifestIsFoundAgainstTheFeed: and nothing is written to say so.
func TestARewrittenOldManifestIsFoundAgainstTheFeed(t *testing.T) {
	w := auditedWorld(t)
	before := w.snapshot()
	clean := w.verify(w.against)
	if clean.Exit != 0 || clean.Compared != 4 || len(clean.Findings) != 0 {
		t.Errorf("exit %d, compared %d, findings %+v", clean.Exit, clean.Compared, clean.Findings)
	}
	if err := w.feed.Dataset(permits).RewriteHistory(1); err != nil {
		t.Fatal(err)
	}
	report := w.verify(w.against)
	if report.Exit != audit.ExitFindings || len(report.Findings) != 1 || report.Findings[0].Kind != audit.KindHistoryChanged || report.Findings[0].Key != manifest.ManifestKey(permits, 1) {
		t.Errorf("exit %d, findings %+v", report.Exit, report.Findings)
	}
	if w.snapshot() != before {
		t.Error("something was written")
	}
	if without := w.verify(); without.Exit != 0 {
		t.Errorf("without the feed: exit %d", without.Exit)
	}
}

func TestWhatTheFeedNoLongerHasIsNotCompared(t *testing.T) {
	w := auditedWorld(t)
	w.clock.Advance(200 * 24 * time.Hour)
	report := w.verify(w.against)
	if report.Exit != 0 || report.Compared >= 4 {
		t.Errorf("exit %d, compared %d, findings %+v", report.Exit, report.Compared, report.Findings)
	}
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Times: feedsim.Always}, feedsim.Refuse(401, "unauthorized", "no such key"))
	if _, err := mirror.Verify(context.Background(), w.verifyOptions(w.against)); !fault.Is(err, fault.FeedUnfit) {
		t.Errorf("a feed that refuses: %v", err)
	}
}

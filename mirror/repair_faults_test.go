package mirror_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"feedmirror/internal/audit"
	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// TestWhatCannotBeReadIsNotReplaced: unreadable is not corrupt.
func TestWhatCannotBeReadIsNotReplaced(t *testing.T) {
	w := auditedWorld(t)
	part := w.anyKey("snapshot/")
	w.damage(part, flip)
	before := w.take()
	w.feed.ResetLog()
	w.store = &failingRead{Store: w.store, key: part, err: buckettest.Unavailable()}
	report := w.repair(map[string]string{part: "open"})
	if report.Exit != mirror.ExitFailed || len(report.Findings) != 1 || report.Findings[0].Kind != audit.KindUnreadable || report.NotChecked.Unreadable != 1 {
		t.Errorf("exit %d, not checked %+v, findings %+v", report.Exit, report.NotChecked, report.Findings)
	}
	if after := w.take(); after.Objects[part] != before.Objects[part] || len(w.feed.Completed()) != 0 {
		t.Errorf("it was replaced although nobody could read it, or fetched: %v", w.feed.Completed())
	}
}

// TestAReplaceThatTheStoreRefusesOnceIsRepeated: what stands meanwhile is not taken for a conflict.
func TestAReplaceThatTheStoreRefusesOnceIsRepeated(t *testing.T) {
	w := auditedWorld(t)
	part := w.anyKey("snapshot/")
	w.damage(part, flip)
	w.store = &buckettest.FailNth{Store: w.store, Op: buckettest.OpReplace, From: 1,
		Err: &fault.Error{Op: "replace object", Side: fault.SideBucket, Kind: fault.WrongBytes}}
	if report := w.repair(map[string]string{part: "feed"}); report.Exit != 0 {
		t.Errorf("exit %d, findings %+v", report.Exit, report.Findings)
	}
	w.restored()
}

// TestWhatIsRebuiltWithOtherBytesIsNotWritten: an index that another release of the mirror wrote.
func TestWhatIsRebuiltWithOtherBytesIsNotWritten(t *testing.T) {
	w := auditedWorld(t)
	newest := w.pointer(permits).Version
	index, record := manifest.IndexKey(permits, newest), manifest.RecordKey(permits, newest)
	sum := w.record(permits, newest).Attachments.Index.SHA256.String()
	other := strings.Repeat("ab", 32)
	w.damage(record, func(data []byte) []byte { return []byte(strings.ReplaceAll(string(data), sum, other)) })
	w.remove(index)
	report := w.repair(map[string]string{index: "lost", record: "lost"})
	if w.has(index) || report.Exit != audit.ExitFindings {
		t.Errorf("index there: %t, exit %d", w.has(index), report.Exit)
	}
}

// failingRead fails every reading of one key.
type failingRead struct {
	bucket.Store
	key string
	err error
}

func (f *failingRead) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	if key == f.key {
		return nil, bucket.Info{}, f.err
	}
	return f.Store.Open(ctx, key, offset, length)
}

// flipsOnce gives one bad reading of a key, at a given count of openings.
type flipsOnce struct {
	bucket.Store
	key   string
	at    int
	opens int
}

func (f *flipsOnce) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	if key != f.key || offset != 0 {
		return f.Store.Open(ctx, key, offset, length)
	}
	f.opens++
	if f.opens != f.at {
		return f.Store.Open(ctx, key, offset, length)
	}
	return (&buckettest.FlipBit{Store: f.Store, Key: key, Offset: 10}).Open(ctx, key, offset, length)
}

// TestABadReadIsRepeatedBeforeAnythingIsAccused: one bad reading, whenever it comes, replaces nothing.
func TestABadReadIsRepeatedBeforeAnythingIsAccused(t *testing.T) {
	w := auditedWorld(t)
	part := w.anyKey("snapshot/")
	beneath := w.store
	w.store = &flipsOnce{Store: beneath, key: part, at: 1}
	if report := w.verify(w.repairing); report.Exit != 0 || len(report.Findings) != 0 || report.Repair != nil {
		t.Errorf("one bad reading: exit %d, findings %+v, repair %+v", report.Exit, report.Findings, report.Repair)
	}
	// The audit reads badly twice, the repair once more: the third reading is a good one.
	before := w.take()
	w.store = &readings{Store: beneath, key: part, bad: 3}
	report := w.verify(w.repairing)
	if after := w.take(); after.Objects[part] != before.Objects[part] || report.Repair == nil || len(report.Repair.Restored) != 0 {
		t.Errorf("three bad readings: repair %+v", report.Repair)
	}
	w.store = beneath
	w.restored()
}

// readings flips a bit in the first readings of a key.
type readings struct {
	bucket.Store
	key string
	bad int
}

func (r *readings) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	if key != r.key || offset != 0 || r.bad == 0 {
		return r.Store.Open(ctx, key, offset, length)
	}
	r.bad--
	return (&buckettest.FlipBit{Store: r.Store, Key: key, Offset: 10}).Open(ctx, key, offset, length)
}

// woundedWorld has wrong bytes in a part, an index, a schema and a SHA256SUMS, and lacks a manifest, a
// changes file and two attachments. It returns the keys.
func woundedWorld(t *testing.T) (w *world, wounds map[string]bool) {
	t.Helper()
	w, wounds = auditedWorld(t), map[string]bool{}
	for _, key := range []string{w.anyKey("snapshot/"), manifest.IndexKey(permits, 1), manifest.VersionPrefix(permits, 2) + "schema.json", manifest.SumsKey(permits, 2)} {
		w.damage(key, flip)
		wounds[key] = true
	}
	lost := []string{manifest.ManifestKey(permits, 3), w.anyKey("changes/")}
	for info := range w.listed(manifest.AttachmentPrefix) {
		if lost = append(lost, info.Key); len(lost) == 4 {
			break
		}
	}
	for _, key := range lost {
		w.remove(key)
		wounds[key] = true
	}
	return w, wounds
}

// TestARepairThatDiesAtAnyWriteIsFinishedByTheNext: whenever it dies, nothing that was right is wrong.
func TestARepairThatDiesAtAnyWriteIsFinishedByTheNext(t *testing.T) {
	tally := evidence.Count(t, "repair-interruptions")
	origin, wounds := woundedWorld(t)
	undisturbed, store := origin.copyOf(t)
	counter := &buckettest.CrashAfterNthWrite{Store: store, Nth: 1 << 30}
	undisturbed.store = counter
	if report := undisturbed.verify(undisturbed.repairing); report.Exit != 0 || len(report.Repair.Restored) != len(wounds) {
		t.Fatalf("undisturbed it ends with %d: %+v, %+v", report.Exit, report.Findings, report.Repair)
	}
	undisturbed.store = store
	undisturbed.restored()
	writes := counter.Writes()
	if writes < int64(len(wounds)) {
		t.Fatalf("an undisturbed repair makes only %d writes", writes)
	}
	tally.Note("%d writes", writes)
	for nth := int64(1); nth <= writes; nth++ {
		for when := buckettest.BeforeWrite; when <= buckettest.MidWrite; when++ {
			if !evidence.Long() && (nth+int64(when))%4 != 0 {
				continue
			}
			crashRepair(t, origin, wounds, nth, when)
			tally.Add(1)
		}
	}
}

func crashRepair(t *testing.T, origin *world, wounds map[string]bool, nth int64, when buckettest.CrashWhen) {
	t.Helper()
	name := fmt.Sprintf("crash %d at write %d", when, nth)
	w, beneath := origin.copyOf(t)
	before := w.take()
	crashing := &buckettest.CrashAfterNthWrite{Store: beneath, Nth: nth, When: when}
	w.store = crashing
	report, err := mirror.Verify(context.Background(), w.verifyOptions(w.repairing))
	if !crashing.Crashed() || err == nil && report.Exit == 0 && when == buckettest.BeforeWrite {
		t.Errorf("%s: crashed: %t, error %v, exit %d", name, crashing.Crashed(), err, report.Exit)
	}
	w.store = beneath
	after := w.take()
	for key, was := range before.Objects {
		if after.Objects[key] != was && !wounds[key] && !strings.HasSuffix(key, "/stored.json") {
			t.Errorf("%s: %s was changed or is gone", name, key)
		}
	}
	for key := range after.Objects {
		if _, there := before.Objects[key]; !there && !wounds[key] && !strings.HasPrefix(key, manifest.AuditsPrefix) {
			t.Errorf("%s: %s is new", name, key)
		}
	}
	if report := w.verify(w.repairing); report.Exit != 0 {
		t.Errorf("%s: the next repair ends with %d: %+v", name, report.Exit, report.Findings)
	}
	w.restored()
	w.whole(name)
}

func TestALostAnswerOfAReplaceIsNoFailure(t *testing.T) {
	w := auditedWorld(t)
	part := w.anyKey("snapshot/")
	w.damage(part, flip)
	w.store = &buckettest.LostAnswer{Store: w.store, Nth: 1}
	if report := w.repair(map[string]string{part: "feed"}); report.Exit != 0 {
		t.Errorf("exit %d, findings %+v", report.Exit, report.Findings)
	}
	w.restored()
}

func TestADeniedReplaceEndsTheRepair(t *testing.T) {
	w := auditedWorld(t)
	w.damage(w.anyKey("snapshot/"), flip)
	w.store = &buckettest.FailNth{Store: w.store, Op: buckettest.OpReplace, From: 1, To: 99,
		Err: &fault.Error{Op: "replace object", Side: fault.SideBucket, Kind: fault.Denied}}
	report, err := mirror.Verify(context.Background(), w.verifyOptions(w.repairing))
	if !fault.Is(err, fault.BucketUnfit) || len(report.Findings) != 1 {
		t.Errorf("error %v, findings %+v", err, report.Findings)
	}
}

// TestTwoRepairsAtOnce: both end well, and one of them wrote.
func TestTwoRepairsAtOnce(t *testing.T) {
	w := auditedWorld(t)
	part := w.anyKey("snapshot/")
	w.damage(part, flip)
	type end struct {
		report mirror.VerifyReport
		err    error
	}
	ends := make(chan end)
	for range 2 {
		options := w.verifyOptions(w.repairing)
		go func() {
			report, err := mirror.Verify(context.Background(), options)
			ends <- end{report, err}
		}()
	}
	for range 2 {
		if e := <-ends; e.err != nil || e.report.Exit != 0 {
			t.Errorf("error %v, report %+v", e.err, e.report)
		}
	}
	w.restored()
}

func TestAnUndamagedBucketIsNotTouchedByARepair(t *testing.T) {
	w := auditedWorld(t)
	before := w.snapshot()
	if report := w.verify(w.repairing); report.Exit != 0 || report.Repair != nil {
		t.Errorf("report %+v", report)
	}
	if w.snapshot() != before {
		t.Error("something was written")
	}
}

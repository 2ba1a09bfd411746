package mirror_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/audit"
	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/transfer"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// verifyOptions audits the world's bucket at the deepest level; change may add to it.
func (w *world) verifyOptions(change ...func(*mirror.VerifyOptions)) mirror.VerifyOptions {
	w.t.Helper()
	o := w.options()
	v := mirror.VerifyOptions{Store: o.Store, Pause: w.pause, Log: o.Log, Run: o.Run, Tool: o.Tool,
		Audit: audit.Options{Reader: o.Store, Level: audit.LevelBytes, Now: w.clock.Now}}
	for _, c := range change {
		c(&v)
	}
	return v
}

// repairing lets a verification repair, with the feed behind it.
func (w *world) repairing(v *mirror.VerifyOptions) {
	o := w.options()
	v.Repair = &mirror.RepairOptions{Store: o.Store, Versions: versionsOf(w.store), FeedURL: o.FeedURL, Pause: w.pause, Now: w.clock.Now,
		Feed: func() (mirror.RepairFeed, error) {
			return mirror.RepairFeed{Signer: o.Feed, Transfer: w.transferOptions(o)}, nil
		}}
}

func versionsOf(store bucket.Store) bucket.Versioned {
	versions, _ := store.(bucket.Versioned)
	return versions
}

func (w *world) transferOptions(o mirror.Options) transfer.Options {
	reader, ok := o.Manifests.(mirror.ManifestReader)
	if !ok {
		w.t.Fatal("the world reads manifests another way")
	}
	return reader.Options
}

func (w *world) verify(change ...func(*mirror.VerifyOptions)) mirror.VerifyReport {
	w.t.Helper()
	report, err := mirror.Verify(context.Background(), w.verifyOptions(change...))
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

// repair repairs and wants these ends: keys with "from", "lost" or "open".
func (w *world) repair(want map[string]string) mirror.VerifyReport {
	w.t.Helper()
	report := w.verify(w.repairing)
	if report.Repair == nil {
		w.t.Fatalf("nothing was repaired: %+v", report)
	}
	got := map[string]string{}
	for _, one := range report.Repair.Restored {
		got[one.Key] = one.From
	}
	for _, one := range report.Repair.Lost {
		got[one.Key] = "lost"
	}
	for _, one := range report.Repair.Unresolved {
		got[one.Key] = "open"
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("repaired %v\n    want %v\nreport %+v", got, want, report.Repair)
	}
	return report
}

// restored wants a clean audit at every level, and the invariants to be checked at the end.
func (w *world) restored() {
	w.t.Helper()
	for _, level := range audit.Levels() {
		if report := w.audit(level); report.Exit != 0 {
			w.t.Errorf("%s: findings %+v", level, report.Findings)
		}
	}
	w.damaged = false
}

func TestRepairRestoresEveryKindOfObject(t *testing.T) {
	w := auditedWorld(t)
	sums, index := manifest.SumsKey(permits, 1), manifest.IndexKey(permits, 1)
	part, changes, attachment := w.anyKey("snapshot/"), w.anyKey("changes/"), w.anyKey(manifest.AttachmentPrefix)
	schema, manifestKey := manifest.VersionPrefix(permits, 2)+"schema.json", manifest.ManifestKey(permits, 1)
	stored := manifest.StoredKey(permits, 3)
	w.damage(part, flip)
	w.damage(changes, func(data []byte) []byte { return data[:len(data)-1] })
	w.damage(attachment, flip)
	w.remove(schema)
	w.damage(manifestKey, flip)
	w.remove(index)
	w.damage(sums, func(data []byte) []byte { return append(data, data...) })
	w.damage(stored, func([]byte) []byte { return []byte("{") })
	before := w.take()
	report := w.repair(map[string]string{part: "feed", changes: "feed", attachment: "feed", schema: "feed", manifestKey: "feed", index: "rebuilt", sums: "rebuilt"})
	if report.Exit != 0 || report.Status != "clean" || len(report.Findings) != 0 {
		t.Errorf("exit %d, status %s, findings %+v", report.Exit, report.Status, report.Findings)
	}
	w.restored()
	after := w.take()
	for key, object := range before.Objects {
		touched := slices.Contains([]string{part, changes, attachment, schema, manifestKey, index, sums, stored}, key) || strings.HasSuffix(key, "/stored.json")
		if !touched && after.Objects[key] != object {
			t.Errorf("%s was touched", key)
		}
	}
	// stored.json says again what the store says: a look at the inventory reads nothing.
	if read := w.audit(audit.LevelInventory).Checked.Bytes; read != 0 {
		t.Errorf("the inventory read %d bytes after the repair", read)
	}
	w.sync(0, full)
}

func TestRepairFindsAnAttachmentInAnotherVersionAndDataset(t *testing.T) {
	w := auditedWorld(t)
	var keys []string
	want := map[string]string{}
	for info := range w.listed(manifest.AttachmentPrefix) {
		keys = append(keys, info.Key)
		want[info.Key] = "feed"
	}
	for _, key := range keys {
		w.remove(key)
	}
	if report := w.repair(want); report.Exit != 0 {
		t.Errorf("exit %d, findings %+v", report.Exit, report.Findings)
	}
	w.restored()
}

func (w *world) listed(prefix string) iter.Seq[bucket.Info] {
	return func(yield func(bucket.Info) bool) {
		for info, err := range w.store.List(context.Background(), prefix, "") {
			if err != nil {
				w.t.Fatal(err)
			}
			if !yield(info) {
				return
			}
		}
	}
}

func TestRepairNamesWhatIsLostAndItStaysAFinding(t *testing.T) {
	w := auditedWorld(t)
	part, own := w.anyKey("snapshot/"), manifest.SumsKey(permits, 1)
	w.remove(part)
	w.remove(own)
	w.clock.Advance(100 * 24 * time.Hour) // past the feed's retention
	report := w.repair(map[string]string{part: "lost", own: "rebuilt"})
	if report.Exit != mirror.ExitFindings || len(report.Findings) != 1 || report.Findings[0].Key != part || report.Findings[0].Kind != audit.KindMissing {
		t.Errorf("exit %d, findings %+v", report.Exit, report.Findings)
	}
	if reason := report.Repair.Lost[0].Reason; !strings.Contains(reason, "version 1 at the feed") {
		t.Errorf("the reason is %q", reason)
	}
	if again := w.audit(audit.LevelBytes); len(again.Findings) != 1 || again.Findings[0].ID != report.Findings[0].ID {
		t.Errorf("the next audit finds %+v", again.Findings)
	}
}

// TestRepairTakesNothingThatTheRecordDoesNotName: the feed rewrote the version; its new bytes have no
// place in the bucket.
func TestRepairTakesNothingThatTheRecordDoesNotName(t *testing.T) {
	w := auditedWorld(t)
	part := w.anyKey("snapshot/")
	w.damage(part, flip)
	w.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, Times: feedsim.Always}, feedsim.FlipByte(50))
	before := w.take()
	report := w.repair(map[string]string{part: "open"})
	if report.Exit != mirror.ExitFailed || len(report.Findings) != 1 {
		t.Errorf("exit %d, findings %+v", report.Exit, report.Findings)
	}
	if after := w.take(); after.Objects[part] != before.Objects[part] {
		t.Error("the object was touched")
	}
	w.feed.ClearScript()
	if report := w.repair(map[string]string{part: "feed"}); report.Exit != 0 {
		t.Errorf("exit %d once the source is well", report.Exit)
	}
	w.restored()
}

func TestRepairWithAFeedThatRefusesEndsWith4AndRestoresTheRest(t *testing.T) {
	w := auditedWorld(t)
	part, own := w.anyKey("snapshot/"), manifest.SumsKey(permits, 1)
	w.remove(part)
	w.remove(own)
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Times: feedsim.Always}, feedsim.Refuse(401, "unauthorized", "no such key"))
	report, err := mirror.Verify(context.Background(), w.verifyOptions(w.repairing))
	if !fault.Is(err, fault.FeedUnfit) {
		t.Errorf("error %v, want a feed that cannot be used", err)
	}
	if len(report.Repair.Restored) != 1 || len(report.Repair.Unresolved) != 1 || len(report.Findings) != 1 {
		t.Errorf("report %+v, findings %+v", report.Repair, report.Findings)
	}
	if w.has(part) || !w.has(own) {
		t.Error("the sums are not there, or the part is")
	}
}

func TestRepairOfAnotherFeedsBucketIsRefused(t *testing.T) {
	w := auditedWorld(t)
	w.remove(w.anyKey("snapshot/"))
	_, err := mirror.Verify(context.Background(), w.verifyOptions(w.repairing, func(v *mirror.VerifyOptions) { v.Repair.FeedURL = "https://other.example" }))
	if !fault.Is(err, fault.Usage) || !strings.Contains(err.Error(), "other.example") {
		t.Errorf("error %v, want a refusal that names the other feed", err)
	}
}

func TestRepairWaitsForAPrune(t *testing.T) {
	w := auditedWorld(t)
	part := w.anyKey("snapshot/")
	w.remove(part)
	if _, err := bucket.CreateDocument(context.Background(), w.store, manifest.PruneKey, []byte("{}\n")); err != nil {
		t.Fatal(err)
	}
	_, err := mirror.Verify(context.Background(), w.verifyOptions(w.repairing))
	if !fault.Is(err, fault.Budget) || w.has(part) {
		t.Errorf("error %v, part there: %t", err, w.has(part))
	}
}

// TestRepairGoesOnAfterAFinishedPrune: the document of a prune stays behind, and means nothing then.
func TestRepairGoesOnAfterAFinishedPrune(t *testing.T) {
	w, _ := pruneWorld(t)
	w.prune(0, keepOne)
	part := w.pointer(permits).Snapshot[0]
	w.remove(part)
	if report := w.repair(map[string]string{part: "feed"}); report.Exit != 0 {
		t.Errorf("exit %d, findings %+v", report.Exit, report.Findings)
	}
	w.restored()
}

// history keeps older versions of objects in memory, as S3 does.
type history struct {
	bucket.Store
	older map[string][][]byte // newest first
	err   error
}

func (h *history) Older(_ context.Context, key string) iter.Seq2[bucket.OlderVersion, error] {
	return func(yield func(bucket.OlderVersion, error) bool) {
		if h.err != nil {
			yield(bucket.OlderVersion{}, h.err)
			return
		}
		for at, data := range h.older[key] {
			if !yield(bucket.OlderVersion{ID: fmt.Sprint(at), Info: bucket.Info{Key: key, Size: int64(len(data))}}, nil) {
				return
			}
		}
	}
}

func (h *history) OpenOlder(_ context.Context, key, id string) (io.ReadCloser, bucket.Info, error) {
	for at, data := range h.older[key] {
		if fmt.Sprint(at) == id {
			return io.NopCloser(bytes.NewReader(data)), bucket.Info{Key: key, Size: int64(len(data))}, nil
		}
	}
	return nil, bucket.Info{}, errors.New("no such version")
}

func (w *world) bytesOf(key string) []byte {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, filepath.FromSlash(key)))
	if err != nil {
		w.t.Fatal(err)
	}
	return data
}

// TestRepairTakesOlderVersionsFirst: the feed is not asked for what the store itself still has, and a
// record, which no feed has, comes back whole.
func TestRepairTakesOlderVersionsFirst(t *testing.T) {
	w := auditedWorld(t)
	part, attachment, record := w.anyKey("snapshot/"), w.anyKey(manifest.AttachmentPrefix), manifest.RecordKey(permits, 1)
	index, manifestKey := manifest.IndexKey(permits, 2), manifest.ManifestKey(permits, 2)
	kept := &history{Store: w.store, older: map[string][][]byte{}}
	for _, key := range []string{part, attachment, record, index, manifestKey} {
		data := w.bytesOf(key)
		kept.older[key] = [][]byte{flip(bytes.Clone(data)), data[:len(data)-1], data}
		w.damage(key, flip)
	}
	w.store = kept
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Times: feedsim.Always}, feedsim.Refuse(http.StatusInternalServerError, "down", "down"))
	report := w.repair(map[string]string{part: "older-version", attachment: "older-version", record: "older-version", index: "older-version", manifestKey: "older-version"})
	if report.Exit != 0 {
		t.Errorf("exit %d, findings %+v", report.Exit, report.Findings)
	}
	w.restored()
}

func TestRepairGoesOnToTheFeedWhereOlderVersionsDoNotHelp(t *testing.T) {
	for name, kept := range map[string]*history{
		"they are other bytes":    {older: map[string][][]byte{}},
		"they cannot be listed":   {err: &fault.Error{Op: "list", Side: fault.SideBucket, Kind: fault.Denied}},
		"the store has none":      {err: &fault.Error{Op: "list", Side: fault.SideBucket, Kind: fault.Unsupported}},
		"their listing is broken": {err: errors.New("broken")},
	} {
		t.Run(name, func(t *testing.T) {
			w := auditedWorld(t)
			part := w.anyKey("snapshot/")
			kept.Store = w.store
			if kept.older != nil {
				kept.older[part] = [][]byte{flip(w.bytesOf(part))}
			}
			w.damage(part, flip)
			w.store = kept
			if report := w.repair(map[string]string{part: "feed"}); report.Exit != 0 {
				t.Errorf("exit %d, findings %+v", report.Exit, report.Findings)
			}
			w.restored()
		})
	}
}

func TestARecordWithoutHistoryIsLost(t *testing.T) {
	w := auditedWorld(t)
	record := manifest.RecordKey(permits, 1)
	w.remove(record)
	report := w.repair(map[string]string{record: "lost"})
	if report.Exit != mirror.ExitFindings || report.Findings[0].Kind != audit.KindChain {
		t.Errorf("exit %d, findings %+v", report.Exit, report.Findings)
	}
}

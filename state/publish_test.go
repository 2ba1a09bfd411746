package state_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

func ref(key string) manifest.ObjectRef {
	return manifest.ObjectRef{Key: key, SHA256: manifest.SumBytes([]byte(key))}
}

// recordOf returns the record of a version without files.
func recordOf(n manifest.Number, major int) manifest.Record {
	return manifest.Record{
		Layout: 1, Dataset: "ds", Version: n, SchemaVersion: manifest.SchemaVersion{Major: major}, PublishedAt: began,
		Manifest: ref(manifest.ManifestKey("ds", n)), Sums: ref(manifest.SumsKey("ds", n)),
		Changes: manifest.ChangesEmpty, Files: []manifest.RecordFile{}, Doubts: []string{}, CommittedAt: began,
	}
}

// putRecord puts a record under the key of version n, which need not be its own.
func putRecord(t *testing.T, store bucket.Store, n manifest.Number, record manifest.Record) {
	t.Helper()
	body, err := manifest.EncodeDocument(record)
	if err != nil {
		t.Fatal(err)
	}
	if _, ours, err := state.CreateOnce(t.Context(), store, manifest.RecordKey("ds", n), body); err != nil || !ours {
		t.Fatalf("put record %d: ours %v, %v", n, ours, err)
	}
}

// publication puts records and returns what would publish them.
func publication(t *testing.T, store bucket.Store, records ...manifest.Record) state.Publication {
	t.Helper()
	p := state.Publication{Dataset: "ds", OnMajor: manifest.MajorHold, FirstReady: true, Now: began}
	for _, record := range records {
		putRecord(t, store, record.Version, record)
		committed, err := state.Recall(t.Context(), store, "ds", record.Version)
		if err != nil {
			t.Fatal(err)
		}
		p.Committed = append(p.Committed, committed)
		p.Holding = p.Holding.With(manifest.Held{Number: record.Version, Record: true})
	}
	return p
}

// carry carries out one step on a pointer and wants it written.
func carry(t *testing.T, change state.Change, err error) *state.Pointer {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if change.After == nil {
		t.Fatal("there is no pointer")
	}
	return change.After
}

func TestAFirstPublicationWaitsForTheNewestVersion(t *testing.T) {
	store := newStore(t)
	p := publication(t, store, recordOf(1, 1))
	p.FirstReady = false
	if change, err := state.Publish(t.Context(), store, noPause, p); err != nil || change.After != nil {
		t.Fatalf("published %+v, %v", change.After, err)
	}
	p.FirstReady = true
	change, err := state.Publish(t.Context(), store, noPause, p)
	if after := carry(t, change, err); after.Version != 1 {
		t.Errorf("published %d", after.Version)
	}
}

func TestAHoldKeepsTheTimeItBegan(t *testing.T) {
	store, ctx := newStore(t), t.Context()
	p := publication(t, store, recordOf(1, 1))
	change, err := state.Publish(ctx, store, noPause, p)
	p.Seen = carry(t, change, err).Revision
	p.Committed = publication(t, store, recordOf(2, 2)).Committed
	for hours := range 2 {
		p.Now, p.Fence = began.Add(time.Duration(hours)*time.Hour), true
		change, err := state.Publish(ctx, store, noPause, p)
		after := carry(t, change, err)
		if after.Held == nil || after.Held.Version != 2 || !after.Held.Since.Equal(began) {
			t.Fatalf("after %d hours it holds %+v, want version 2 since %s", hours, after.Held, began)
		}
		p.Seen = after.Revision
	}
	p.Committed[0] = publication(t, newStore(t), recordOf(3, 3)).Committed[0]
	change, err = state.Publish(ctx, store, noPause, p)
	if after := carry(t, change, err); after.Held.Version != 3 || !after.Held.Since.Equal(p.Now) {
		t.Errorf("another hold is %+v, want version 3 since %s", after.Held, p.Now)
	}
}

// TestAnApprovalLiftsAPinAlsoWhereThePointerStays rolls back to the newest version itself.
func TestAnApprovalLiftsAPinAlsoWhereThePointerStays(t *testing.T) {
	store, ctx := newStore(t), t.Context()
	p := publication(t, store, recordOf(1, 1))
	change, err := state.Publish(ctx, store, noPause, p)
	p.Seen = carry(t, change, err).Revision
	change, err = p.Rollback(ctx, store, noPause, "a", p.Committed[0])
	after := carry(t, change, err)
	if !after.Pinned {
		t.Fatal("a rollback did not pin")
	}
	p.Seen, p.Committed = after.Revision, nil
	change, err = p.Approve(ctx, store, noPause, "b", state.Decision{})
	if after = carry(t, change, err); after.Pinned || after.Version != 1 || !slices.Equal(after.Decisions, []string{"a", "b"}) {
		t.Errorf("pointer after the approval: %+v", after)
	}
}

func TestAPointerRemembersItsLastDecisionsOnly(t *testing.T) {
	store, ctx := newStore(t), t.Context()
	p := publication(t, store, recordOf(1, 1))
	change, err := state.Publish(ctx, store, noPause, p)
	after := carry(t, change, err)
	var keys []string
	for at := range 40 {
		keys = append(keys, fmt.Sprintf("decision %02d", at))
		p.Seen = after.Revision
		change, err = p.Rollback(ctx, store, noPause, keys[at], p.Committed[0])
		after = carry(t, change, err)
	}
	if !slices.Equal(after.Decisions, keys[8:]) {
		t.Errorf("it remembers %d decisions, from %s to %s; want the last 32", len(after.Decisions), after.Decisions[0], after.Decisions[len(after.Decisions)-1])
	}
	before := after.Revision
	p.Seen = before
	for name, step := range map[string]func() (state.Change, error){
		"a rollback": func() (state.Change, error) { return p.Rollback(ctx, store, noPause, keys[0], p.Committed[0]) },
		"an approval": func() (state.Change, error) {
			return p.Approve(ctx, store, noPause, keys[0], state.Decision{})
		},
	} {
		change, err = step()
		if after = carry(t, change, err); after.Revision != before || !after.Pinned {
			t.Errorf("%s that later ones overtook was carried out: %+v", name, after)
		}
	}
}

func TestPendingDecisionsAreThoseBehindTheNewestThatIsObeyed(t *testing.T) {
	store, ctx := newStore(t), t.Context()
	var keys []string
	for at := range 4 {
		key, err := state.WriteDecision(ctx, store, state.Decision{Dataset: "ds", Action: state.ActionApprove, At: began.Add(time.Duration(at) * time.Hour), Run: "r"})
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	pending, err := state.PendingDecisions(ctx, store, "ds", &state.Pointer{Decisions: []string{keys[0], keys[2]}})
	if err != nil {
		t.Fatal(err)
	}
	if len(pending) != 1 || pending[0].Key != keys[3] {
		t.Errorf("pending %+v, want %s only", pending, keys[3])
	}
}

// verifiedOf puts the objects that a record without files names, and verifies them.
func verifiedOf(t *testing.T, store bucket.Store, record manifest.Record) state.Verified {
	t.Helper()
	var objects []state.Object
	for _, ref := range []manifest.ObjectRef{record.Manifest, record.Sums} {
		body := []byte(ref.Key)
		if _, _, err := state.CreateOnce(t.Context(), store, ref.Key, body); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, state.Object{Key: ref.Key, Size: int64(len(body)), SHA256: ref.SHA256})
	}
	verified, err := state.Verify(t.Context(), store, record.Dataset, record.Version, objects, attachmentCheck{})
	if err != nil {
		t.Fatal(err)
	}
	return verified
}

func TestTheRecordThatStandsIsTheCommitUnlessItNamesAnotherManifest(t *testing.T) {
	record := recordOf(1, 1)
	rival, rewritten := record, record
	rival.Run, rival.CommittedAt = "rival", began.Add(time.Hour)
	rewritten.Manifest.SHA256 = manifest.SumBytes([]byte("another"))
	tests := map[string]struct {
		standing manifest.Record
		kind     fault.Kind
	}{"a rival's": {rival, ""}, "of another manifest": {rewritten, fault.History}}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store := newStore(t)
			verified := verifiedOf(t, store, record)
			putRecord(t, store, 1, test.standing)
			committed, err := state.Commit(t.Context(), store, verified, record)
			if fault.KindOf(err) != test.kind {
				t.Fatalf("got %v, want %q", err, test.kind)
			}
			if err == nil && committed.Record().Run != "rival" {
				t.Errorf("the commit is of %q, not the one that stands", committed.Record().Run)
			}
		})
	}
}

func TestARecordOfAnotherVersionIsNotRecalled(t *testing.T) {
	store := newStore(t)
	putRecord(t, store, 2, recordOf(1, 1))
	if _, err := state.Recall(t.Context(), store, "ds", 2); !fault.Is(err, fault.Malformed) {
		t.Errorf("got %v, want malformed", err)
	}
}

func TestReasonsAreReadFromTheGivenVersionOnAndOnlyWithoutARecord(t *testing.T) {
	store := newStore(t)
	var holding manifest.Holding
	for n := manifest.Number(1); n <= 4; n++ {
		if err := state.NoteGone(t.Context(), store, noPause, state.Gone{Dataset: "ds", Version: n, Reason: manifest.GapWithdrawn}); err != nil {
			t.Fatal(err)
		}
		holding = append(holding, manifest.Held{Number: n, Gone: true, Record: n == 4})
	}
	if err := state.ReadNotes(t.Context(), store, "ds", holding, 2); err != nil {
		t.Fatal(err)
	}
	for at, want := range []manifest.GapReason{"", manifest.GapWithdrawn, manifest.GapWithdrawn, ""} {
		if got := holding[at].GoneFor; got != want {
			t.Errorf("version %d is gone for %q, want %q", holding[at].Number, got, want)
		}
	}
}

func TestANoteThatStandsIsLeftAlone(t *testing.T) {
	store, ctx := newStore(t), t.Context()
	for _, step := range []struct {
		reason   manifest.GapReason
		revision int64
	}{{manifest.GapExpired, 1}, {manifest.GapExpired, 1}, {manifest.GapWithdrawn, 2}} {
		if err := state.NoteGone(ctx, store, noPause, state.Gone{Dataset: "ds", Version: 3, Reason: step.reason, At: began}); err != nil {
			t.Fatal(err)
		}
		doc, _, err := state.Read[state.Gone](ctx, store, manifest.GoneKey("ds", 3))
		if err != nil || doc.Revision != step.revision || doc.Reason != step.reason {
			t.Errorf("the note is %+v (%v), want revision %d for %s", doc, err, step.revision, step.reason)
		}
	}
}

func TestALayoutKeepsTheDayTheBucketWasMade(t *testing.T) {
	store, ctx := newStore(t), t.Context()
	for at, bucketURL := range []string{"s3://a", "s3://a", "s3://b"} {
		now := began.Add(time.Duration(at) * time.Hour)
		layout, err := state.SaveLayout(ctx, store, noPause, state.Layout{Layout: 1, Store: bucketURL, CreatedAt: now, ProbedAt: now})
		if err != nil {
			t.Fatal(err)
		}
		if !layout.CreatedAt.Equal(began) || layout.Store != bucketURL || layout.Revision != int64(1+at/2) {
			t.Errorf("%s, save %d: layout %+v", bucketURL, at, layout)
		}
	}
	if _, err := state.SaveLayout(ctx, store, noPause, state.Layout{Layout: 0, Store: "s3://c"}); err == nil {
		t.Error("an older mirror overwrote the layout of a newer one")
	}
}

func TestMergeKeepsWhatThePassDidNotTouch(t *testing.T) {
	standing := &state.Shard{Datasets: []state.Line{{Dataset: "a", Newest: 1}, {Dataset: "b", Newest: 2}}, Outbox: []byte(`[1]`)}
	progress := state.Progress{Seen: standing, Run: "r", Attempt: began, Success: true, Lines: []state.Line{{Dataset: "a", Newest: 7}}}
	merged := progress.Merge(standing)
	if len(merged.Datasets) != 2 || merged.Datasets[0].Newest != 7 || merged.Datasets[1].Newest != 2 {
		t.Errorf("lines %+v", merged.Datasets)
	}
	if !merged.LastSuccess.Equal(began) || !bytes.Equal(merged.Outbox, standing.Outbox) {
		t.Errorf("last success %s, outbox %s", merged.LastSuccess, merged.Outbox)
	}
}

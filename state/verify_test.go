package state_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// saysOf changes what a store says of its objects.
type saysOf struct {
	bucket.Store
	change func(*bucket.Info)
}

func (s *saysOf) Stat(ctx context.Context, key string) (bucket.Info, error) {
	info, err := s.Store.Stat(ctx, key)
	s.change(&info)
	return info, err
}

type attachmentCheck struct{ err error }

func (a attachmentCheck) AllPresent(context.Context) error { return a.err }

// TestVerifyBelievesNothingThatTheStoreCannotShow puts one object and lets the store say, or send,
// something else of it.
func TestVerifyBelievesNothingThatTheStoreCannotShow(t *testing.T) {
	const key = "versions/ds/0000000001/manifest.json"
	body := []byte("twelve bytes")
	right, wrong := manifest.SumBytes(body), manifest.SumBytes(nil)
	same := func(*bucket.Info) {}
	tests := []struct {
		name     string
		says     func(*bucket.Info)
		damaged  bool // what is read has another bit
		streamed bool
		attested string // empty: refused
	}{
		{"as it is, read back", same, false, false, "read"},
		{"other bytes are found by reading", same, true, false, ""},
		{"hashed on the way in", same, true, true, "streamed"},
		{"hashed on the way in, but the store does not say its size", func(i *bucket.Info) { i.Size = -1 }, true, true, ""},
		{"another size", func(i *bucket.Info) { i.Size++ }, false, true, ""},
		{"another encoding", func(i *bucket.Info) { i.Encoding = "gzip" }, false, true, ""},
		{"the store's own sha256", func(i *bucket.Info) { i.SHA256 = &right }, true, false, "sha256"},
		{"another sha256 of the store", func(i *bucket.Info) { i.SHA256 = &wrong }, false, true, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			sound := newStore(t)
			if _, _, err := state.CreateOnce(t.Context(), sound, key, body); err != nil {
				t.Fatal(err)
			}
			store := bucket.Store(&saysOf{Store: sound, change: test.says})
			if test.damaged {
				store = &buckettest.FlipBit{Store: store, Key: key, Offset: 3}
			}
			object := state.Object{Key: key, Size: int64(len(body)), SHA256: right, Streamed: test.streamed}
			verified, err := state.Verify(t.Context(), store, "ds", 1, []state.Object{object}, attachmentCheck{})
			switch {
			case test.attested == "" && !fault.Is(err, fault.Conflict):
				t.Errorf("got %v, want a conflict", err)
			case test.attested != "" && err != nil:
				t.Error(err)
			case test.attested != "" && verified.StoredObjects()[0].Attested != test.attested:
				t.Errorf("attested %s, want %s", verified.StoredObjects()[0].Attested, test.attested)
			}
		})
	}
	absent := errors.New("an attachment is absent")
	if _, err := state.Verify(t.Context(), newStore(t), "ds", 1, nil, attachmentCheck{absent}); !errors.Is(err, absent) {
		t.Errorf("got %v: absent attachments went unnoticed", err)
	}
	if _, err := state.Commit(t.Context(), newStore(t), state.Verified{}, manifest.Record{Dataset: "ds", Version: 1}); !fault.Is(err, fault.Internal) {
		t.Errorf("got %v: a record of what was never verified", err)
	}
}

func TestNotesSayWhatTheyMean(t *testing.T) {
	store, ctx := newStore(t), t.Context()
	now := began
	read := func() bool {
		holding := manifest.Holding{{Number: 3, Record: true, Withdrawn: true}}
		if err := state.ReadNotes(ctx, store, "ds", holding, 9); err != nil {
			t.Fatal(err)
		}
		return holding[0].Withdrawn
	}
	open, closed := state.Withdrawn{Dataset: "ds", Version: 3, From: now}, state.Withdrawn{Dataset: "ds", Version: 3, Until: &now}
	if err := state.NoteWithdrawn(ctx, store, noPause, closed); err != nil {
		t.Fatal(err)
	}
	if doc, _, err := state.Read[state.Withdrawn](ctx, store, manifest.WithdrawnKey("ds", 3)); err != nil || doc != nil {
		t.Errorf("a withdrawal that never was has the note %+v, %v", doc, err)
	}
	for _, step := range []struct {
		note state.Withdrawn
		want bool
	}{{open, true}, {closed, false}, {open, true}} {
		if err := state.NoteWithdrawn(ctx, store, noPause, step.note); err != nil {
			t.Fatal(err)
		}
		if got := read(); got != step.want {
			t.Errorf("withdrawn %v, want %v", got, step.want)
		}
	}
}

func TestMergeForgetsWhatIsBehindTheWatermarkAndKeepsSuccess(t *testing.T) {
	standing := &state.Shard{LastSuccess: began, LastFull: began, Outbox: []byte(`{"a":1}`), Recent: []state.Recent{
		{Dataset: "old", Version: 1, PublishedAt: began.Add(-time.Hour)}, {Dataset: "young", Version: 1, PublishedAt: began.Add(time.Hour)}}}
	standing.Revision = 1
	failed := state.Progress{Run: "r", Seen: standing, Watermark: began, LastFull: began.Add(time.Hour), Attempt: began.Add(time.Hour)}
	merged := failed.Merge(standing)
	if len(merged.Recent) != 1 || merged.Recent[0].Dataset != "young" {
		t.Errorf("recent %+v, want only what lies behind the watermark", merged.Recent)
	}
	if !merged.LastSuccess.Equal(began) || string(merged.Outbox) != `{"a":1}` || !merged.LastFull.Equal(began.Add(time.Hour)) {
		t.Errorf("last success %s, outbox %s, last full %s", merged.LastSuccess, merged.Outbox, merged.LastFull)
	}
	other := *standing
	other.Revision = 2
	if merged = failed.Merge(&other); !merged.LastFull.Equal(began) {
		t.Errorf("last full %s, want the older one beside a rival", merged.LastFull)
	}
}

package audit

import (
	"strings"
	"testing"

	"feedmirror/manifest"
)

// TestAReplayNeedsTheVersionThatAVersionFollows: and says what is missing.
func TestAReplayNeedsTheVersionThatAVersionFollows(t *testing.T) {
	follows := manifest.Record{Version: 43, PreviousVersion: 42, Changes: manifest.ChangesPresent}
	held := predecessor{version: 42}
	for name, c := range map[string]struct {
		bend   func(r *manifest.Record)
		before predecessor
		says   string // empty: the changes are replayed
		snaps  bool   // the snapshot before is of use
	}{
		"changes":           {func(*manifest.Record) {}, held, "", true},
		"no change at all":  {func(r *manifest.Record) { r.Changes = manifest.ChangesEmpty }, held, "", true},
		"the first version": {func(r *manifest.Record) { r.PreviousVersion, r.ResyncRequired = 0, true }, predecessor{}, "no version comes before it", false},
		"a reload":          {func(r *manifest.Record) { r.ResyncRequired, r.Changes = true, manifest.ChangesNotApplicable }, held, "resyncRequired", false},
		"a reload with an id map": {func(r *manifest.Record) {
			r.ResyncRequired, r.Files = true, []manifest.RecordFile{{Kind: manifest.KindIDMap}}
		}, held, "resyncRequired", true},
		"changes that were lost":     {func(r *manifest.Record) { r.Changes = manifest.ChangesExpired }, held, "retention", false},
		"changes of another kind":    {func(r *manifest.Record) { r.Changes = "withheld" }, held, "withheld", false},
		"nothing held before":        {func(*manifest.Record) {}, predecessor{}, "no version before it is held", false},
		"another version held":       {func(*manifest.Record) {}, predecessor{version: 41}, "the version held before it is 41", false},
		"a fork":                     {func(r *manifest.Record) { r.PreviousVersion = 41 }, held, "follows version 41, and the version held before it is 42", false},
		"a pruned version before":    {func(*manifest.Record) {}, predecessor{version: 42, pruned: true}, "was pruned", false},
		"a record that is no record": {func(*manifest.Record) {}, predecessor{version: 42, unread: true}, "cannot be used", false},
	} {
		record := follows
		c.bend(&record)
		got := noReplay(record, c.before)
		if (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q, want it to say %q", name, got, c.says)
		}
		if snaps := needsPrevious(record, c.before); snaps != c.snaps {
			t.Errorf("%s: the snapshot before is of use: %t", name, snaps)
		}
	}
}

// TestThePredecessorIsTheVersionHeldBefore: whatever became of it.
func TestThePredecessorIsTheVersionHeldBefore(t *testing.T) {
	of := func(n manifest.Number, record bool) *version {
		return &version{held: manifest.Held{Number: n, Record: record}}
	}
	gone, unread := of(40, false), of(41, true)
	if got := predecessorOf([]*version{gone, of(43, true)}, 1); got != (predecessor{}) {
		t.Errorf("a version without a record: %+v", got)
	}
	if got := predecessorOf([]*version{unread, gone, of(43, true)}, 2); got != (predecessor{version: 41, unread: true}) {
		t.Errorf("a record that cannot be used: %+v", got)
	}
}

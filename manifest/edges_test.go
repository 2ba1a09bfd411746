package manifest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"feedmirror/manifest"
)

func withdrawnAt(n manifest.Number) manifest.Held {
	return manifest.Held{Number: n, Record: true, Withdrawn: true}
}

func TestTheNewestRecordBelowALimitIsBelowIt(t *testing.T) {
	held := holdingOf(recordAt(41), recordAt(42), manifest.Held{Number: 43, Claimed: true})
	for limit, want := range map[manifest.Number]manifest.Number{41: 0, 42: 41, 43: 42, manifest.MaxNumber + 1: 42} {
		if got := held.NewestRecord(limit); got != want {
			t.Errorf("the newest record below %d is %d, want %d", limit, got, want)
		}
	}
}

func TestAGapTellsAForkFromWhatWasNeverHeld(t *testing.T) {
	tests := map[string]struct {
		version manifest.Version
		held    manifest.Holding
		want    manifest.Gap
	}{
		"a second first version is a fork, also over withdrawn ones": {
			manifest.Version{Number: 44}, holdingOf(withdrawnAt(42)), manifest.Gap{Reason: manifest.GapFork}},
		"the version before lies below the first record": {
			manifest.Version{Number: 44, Previous: 41}, holdingOf(recordAt(42)), manifest.Gap{Expected: 41, Reason: manifest.GapHistoryCurrent}},
		"the version before lies above the first record": {
			manifest.Version{Number: 44, Previous: 43}, holdingOf(recordAt(42)), manifest.Gap{Expected: 43, Reason: manifest.GapIncomplete}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, gap := manifest.Follow(test.version, test.held, never); !cmp.Equal(gap, &test.want) {
				t.Errorf("gap %+v, want %+v", gap, test.want)
			}
		})
	}
}

func TestPlanWorkAsksForNothingInVain(t *testing.T) {
	soon := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	gone := manifest.Held{Number: 3, Gone: true, GoneSince: soon}
	newest := chainOf(1, 3, 4)[2:]
	tests := map[string]struct {
		held manifest.Holding
		o    manifest.PlanOptions
		ask  []manifest.Number
	}{
		"what lies below the version that records begin with": {nil, manifest.PlanOptions{History: manifest.HistoryCurrent, Current: 4}, nil},
		"what is noted gone": {holdingOf(recordAt(1), gone), manifest.PlanOptions{History: manifest.HistoryAll}, nil},
		"what is noted gone, in a full pass, after retention":     {holdingOf(recordAt(1), gone), manifest.PlanOptions{History: manifest.HistoryAll, Full: true, FeedNow: soon.Add(manifest.Retention)}, nil},
		"but what is noted gone and young, in a full pass, it is": {holdingOf(recordAt(1), gone), manifest.PlanOptions{History: manifest.HistoryAll, Full: true, FeedNow: soon.Add(manifest.Retention - 1)}, []manifest.Number{3}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			work := manifest.PlanWork(newest, test.held, test.o)
			if got := numbersOf(work.Copy); !slices.Equal(got, []manifest.Number{4}) || !slices.Equal(work.Ask, test.ask) {
				t.Errorf("copies %v and asks for %v, want 4 and %v", got, work.Ask, test.ask)
			}
		})
	}
}

func TestAMassRefusalIsMoreThanHalfOfFourOrMore(t *testing.T) {
	for _, test := range []struct {
		refused, asked int
		want           bool
	}{{3, 3, false}, {2, 4, false}, {3, 4, true}, {2, 5, false}, {3, 5, true}, {3, 6, false}, {4, 6, true}} {
		if got := manifest.MassRefusal(test.refused, test.asked); got != test.want {
			t.Errorf("%d of %d: alarm %v, want %v", test.refused, test.asked, got, test.want)
		}
	}
}

func pruned(c *manifest.Candidate) { c.Pruned = true }

func TestPublicationStepsOverWhatReadersCannotUse(t *testing.T) {
	at10 := manifest.Published{Version: 10, Schema: schemaAt(2)}
	tests := map[string]struct {
		now    manifest.Published
		list   []manifest.Candidate
		target manifest.Number
		hold   *manifest.Hold
	}{
		"a pruned version is never moved to": {at10, []manifest.Candidate{candidate(11, 2), candidate(12, 2, pruned)}, 11, nil},
		"a pruned MAJOR holds nothing":       {at10, []manifest.Candidate{candidate(11, 3, pruned), candidate(12, 2)}, 12, nil},
		"a first publication may be a fork":  {manifest.Published{}, []manifest.Candidate{candidate(11, 2, forked)}, 11, nil},
		"a MAJOR is not stepped over": {at10, []manifest.Candidate{candidate(11, 3), candidate(12, 2)}, 0,
			&manifest.Hold{Version: 11, Schema: schemaAt(3), Reason: manifest.HoldMajor}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			target, hold := manifest.NextPublication(test.now, test.list, manifest.MajorHold)
			if target != test.target || !cmp.Equal(hold, test.hold) {
				t.Errorf("moves to %d and holds %+v, want %d and %+v", target, hold, test.target, test.hold)
			}
		})
	}
}

// TestAnApprovalThatWasOvertakenAcceptsNothingNew approves a hold below the published version: what
// it accepted says nothing about the MAJOR that waits now.
func TestAnApprovalThatWasOvertakenAcceptsNothingNew(t *testing.T) {
	now := manifest.Published{Version: 10, Schema: schemaAt(2)}
	list := []manifest.Candidate{candidate(9, 3), candidate(11, 3)}
	for _, version := range []manifest.Number{9, 10} {
		list[0].Version = version
		target, hold := manifest.Approve(now, &manifest.Hold{Version: version, Schema: schemaAt(3), Reason: manifest.HoldMajor}, list, manifest.MajorHold)
		if target != 0 || hold == nil || hold.Version != 11 {
			t.Errorf("approving %d moves to %d and holds %+v, want 11 held", version, target, hold)
		}
	}
}

package manifest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"feedmirror/manifest"
)

func holdingOf(held ...manifest.Held) manifest.Holding { return manifest.Holding(held) }

func recordAt(n manifest.Number) manifest.Held { return manifest.Held{Number: n, Record: true} }

func never(manifest.Number) bool { return false }

func TestFollowNamesTheRecordBeforeAndWhyItIsNotTheOneTheFeedNames(t *testing.T) {
	withdrawn := recordAt(43)
	withdrawn.Withdrawn = true
	tests := map[string]struct {
		version  manifest.Version
		held     manifest.Holding
		failed   func(manifest.Number) bool
		previous manifest.Number
		gap      *manifest.Gap
	}{
		"a first version follows nothing": {
			version: manifest.Version{Number: 7}},
		"numbers may skip": {
			version: manifest.Version{Number: 45, Previous: 42}, held: holdingOf(recordAt(41), recordAt(42)), previous: 42},
		"a rebuild follows the withdrawn version it names": {
			version: manifest.Version{Number: 44, Previous: 43, ResyncRequired: true}, held: holdingOf(recordAt(42), withdrawn), previous: 43},
		"a version that reaches back over withdrawn ones": {
			version: manifest.Version{Number: 44, Previous: 42}, held: holdingOf(recordAt(42), withdrawn), previous: 43,
			gap: &manifest.Gap{Expected: 42, Reason: manifest.GapWithdrawn}},
		"a version that reaches back over one that still stands is a fork": {
			version: manifest.Version{Number: 44, Previous: 42}, held: holdingOf(recordAt(42), recordAt(43)), previous: 43,
			gap: &manifest.Gap{Expected: 42, Reason: manifest.GapFork}},
		"a second first version is a fork": {
			version: manifest.Version{Number: 44}, held: holdingOf(recordAt(42)), previous: 42,
			gap: &manifest.Gap{Expected: 0, Reason: manifest.GapFork}},
		"the version before is noted gone": {
			version: manifest.Version{Number: 44, Previous: 43}, held: holdingOf(recordAt(42), manifest.Held{Number: 43, Gone: true}), previous: 42,
			gap: &manifest.Gap{Expected: 43, Reason: manifest.GapExpired}},
		"the version before was withdrawn before it was copied": {
			version: manifest.Version{Number: 44, Previous: 43}, held: holdingOf(recordAt(42), manifest.Held{Number: 43, Gone: true, GoneFor: manifest.GapWithdrawn}), previous: 42,
			gap: &manifest.Gap{Expected: 43, Reason: manifest.GapWithdrawn}},
		"the version before could not be copied": {
			version: manifest.Version{Number: 44, Previous: 43}, held: holdingOf(recordAt(42)), previous: 42,
			failed: func(n manifest.Number) bool { return n == 43 },
			gap:    &manifest.Gap{Expected: 43, Reason: manifest.GapIncomplete}},
		"records begin with the current version": {
			version: manifest.Version{Number: 44, Previous: 43}, held: holdingOf(),
			gap: &manifest.Gap{Expected: 43, Reason: manifest.GapHistoryCurrent}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			failed := test.failed
			if failed == nil {
				failed = never
			}
			previous, gap := manifest.Follow(test.version, test.held, failed)
			if previous != test.previous || !cmp.Equal(gap, test.gap) {
				t.Errorf("follows %d with gap %+v, want %d with %+v", previous, gap, test.previous, test.gap)
			}
		})
	}
}

func chainOf(numbers ...manifest.Number) []manifest.Version {
	var list []manifest.Version
	var previous manifest.Number
	for _, n := range numbers {
		list = append(list, manifest.Version{Number: n, Previous: previous, PublishedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
		previous = n
	}
	return list
}

func numbersOf(list []manifest.Version) []manifest.Number {
	var numbers []manifest.Number
	for _, v := range list {
		numbers = append(numbers, v.Number)
	}
	return numbers
}

func TestPlanWorkTakesWhatIsListedAndLacking(t *testing.T) {
	soon := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	late := time.Date(2026, 6, 2, 0, 0, 0, 0, time.UTC)
	gone := manifest.Held{Number: 3, Gone: true, GoneSince: soon}
	tests := map[string]struct {
		listed []manifest.Version
		held   manifest.Holding
		o      manifest.PlanOptions
		want   []manifest.Number
		ask    []manifest.Number
	}{
		"all of a new dataset": {listed: chainOf(1, 3, 4), o: manifest.PlanOptions{History: manifest.HistoryAll}, want: []manifest.Number{1, 3, 4}},
		"only the current one of a new dataset": {listed: chainOf(1, 3, 4), o: manifest.PlanOptions{History: manifest.HistoryCurrent, Current: 4},
			want: []manifest.Number{4}},
		"the last listed when the feed does not say which is current": {listed: chainOf(1, 3), o: manifest.PlanOptions{History: manifest.HistoryCurrent},
			want: []manifest.Number{3}},
		"what is new": {listed: chainOf(1, 3, 4), held: holdingOf(recordAt(1), recordAt(3)), o: manifest.PlanOptions{History: manifest.HistoryAll},
			want: []manifest.Number{4}},
		"nothing below the first record in an incremental pass": {listed: chainOf(1, 3, 4), held: holdingOf(recordAt(3)),
			o: manifest.PlanOptions{History: manifest.HistoryAll}, want: []manifest.Number{4}},
		"what lies below the first record in a full pass, oldest first": {listed: chainOf(1, 2, 3, 4), held: holdingOf(recordAt(3), recordAt(4)),
			o: manifest.PlanOptions{History: manifest.HistoryAll, Full: true}, want: []manifest.Number{1, 2}},
		"never below the first record with history current": {listed: chainOf(1, 3, 4), held: holdingOf(recordAt(3)),
			o: manifest.PlanOptions{History: manifest.HistoryCurrent, Full: true}, want: []manifest.Number{4}},
		"not again what is noted gone": {listed: chainOf(1, 3, 4), held: holdingOf(recordAt(1), gone), o: manifest.PlanOptions{History: manifest.HistoryAll},
			want: []manifest.Number{4}},
		"once more what is noted gone, in a full pass": {listed: chainOf(1, 3, 4), held: holdingOf(recordAt(1), gone),
			o: manifest.PlanOptions{History: manifest.HistoryAll, Full: true, FeedNow: soon}, want: []manifest.Number{3, 4}},
		"not what retention has taken": {listed: chainOf(1, 3, 4), held: holdingOf(recordAt(1), gone),
			o: manifest.PlanOptions{History: manifest.HistoryAll, Full: true, FeedNow: late}, want: []manifest.Number{4}},
		"asks for a missed version that the list leaves out": {listed: chainOf(1, 3, 4)[2:], held: holdingOf(recordAt(1)),
			o: manifest.PlanOptions{History: manifest.HistoryAll}, want: []manifest.Number{4}, ask: []manifest.Number{3}},
		"asks for a gone version that is no longer listed": {listed: chainOf(1, 4), held: holdingOf(recordAt(1), gone, recordAt(4)),
			o: manifest.PlanOptions{History: manifest.HistoryAll, Full: true, FeedNow: soon}, ask: []manifest.Number{3}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			work := manifest.PlanWork(test.listed, test.held, test.o)
			if got := numbersOf(work.Copy); !slices.Equal(got, test.want) || !slices.Equal(work.Ask, test.ask) {
				t.Errorf("copies %v and asks for %v, want %v and %v", got, work.Ask, test.want, test.ask)
			}
		})
	}
}

func TestOnlySomeRefusalsAreWithdrawals(t *testing.T) {
	fetched := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		refusal manifest.Refusal
		want    bool
	}{
		"the message says so":                    {manifest.Refusal{Version: 3, ReleasedAgain: true}, true},
		"newer than the feed's current":          {manifest.Refusal{Version: 3, FeedCurrent: 2}, true},
		"sooner than retention can explain":      {manifest.Refusal{Version: 3, FeedCurrent: 4, FetchedAt: &fetched, FeedNow: fetched.Add(24 * time.Hour)}, true},
		"retention explains it":                  {manifest.Refusal{Version: 3, FeedCurrent: 4, FetchedAt: &fetched, FeedNow: fetched.Add(91 * 24 * time.Hour)}, false},
		"nothing is known: no instruction to us": {manifest.Refusal{Version: 3}, false},
		"without the feed's clock":               {manifest.Refusal{Version: 3, FetchedAt: &fetched}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.refusal.Withdrawn(); got != test.want {
				t.Errorf("withdrawn: %v, want %v", got, test.want)
			}
		})
	}
}

func TestPlanWorkCopiesEachListedVersionOnceAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfNDistinct(rapid.Int64Range(1, 60), 0, 20, rapid.ID).Draw(t, "listed")
		slices.Sort(numbers)
		var chain []manifest.Number
		for _, n := range numbers {
			chain = append(chain, manifest.Number(n))
		}
		var held manifest.Holding
		for _, n := range chain {
			if rapid.Bool().Draw(t, "held") {
				held = held.With(recordAt(n))
			}
		}
		work := manifest.PlanWork(chainOf(chain...), held, manifest.PlanOptions{History: manifest.HistoryAll, Full: true})
		got := numbersOf(work.Copy)
		if !slices.IsSorted(got) {
			t.Fatalf("%v is not oldest first", got)
		}
		for _, n := range chain {
			if slices.Contains(got, n) == held.HasRecord(n) {
				t.Fatalf("version %d: held %v, copied %v", n, held.HasRecord(n), slices.Contains(got, n))
			}
		}
		if len(work.Ask) != 0 {
			t.Fatalf("asks for %v, which is listed or held", work.Ask)
		}
	})
}

package state

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"feedmirror/manifest"
)

func TestRangesHoldExactlyWhatWasChosenAmongCommittedVersions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfDistinct(rapid.Int64Range(1, 60), func(n int64) int64 { return n }).Draw(t, "versions")
		slices.Sort(numbers)
		chosen := map[manifest.Number]bool{}
		var holding manifest.Holding
		for _, n := range numbers {
			held := manifest.Held{Number: manifest.Number(n), Record: rapid.Bool().Draw(t, "record")}
			holding = append(holding, held)
			chosen[held.Number] = rapid.Bool().Draw(t, "chosen")
		}
		ranges := RangesOf(holding, func(n manifest.Number) bool { return chosen[n] })
		for _, held := range holding {
			if held.Record && ranges.Has(held.Number) != chosen[held.Number] {
				t.Fatalf("%v has %d: %v", ranges, held.Number, ranges.Has(held.Number))
			}
		}
		for at := 1; at < len(ranges); at++ {
			if ranges[at].From <= ranges[at-1].To {
				t.Fatalf("%v is not in order", ranges)
			}
		}
	})
}

func TestAThousandVersionsInARowAreOneRange(t *testing.T) {
	var holding manifest.Holding
	for n := range manifest.Number(1000) {
		holding = append(holding, manifest.Held{Number: 3*n + 1, Record: true})
	}
	ranges := RangesOf(holding, func(n manifest.Number) bool { return n != 301 })
	if want := (Ranges{{1, 298}, {304, 2998}}); !slices.Equal(ranges, want) {
		t.Errorf("ranges are %v, want %v", ranges, want)
	}
	if ranges.Has(0) || ranges.Has(301) || ranges.Has(2999) {
		t.Error("they have what was not chosen")
	}
}

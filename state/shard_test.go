package state_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"feedmirror/manifest"
	"feedmirror/state"
)

func names(owed []state.Owed) []string {
	var list []string
	for _, o := range owed {
		list = append(list, o.Dataset)
	}
	return list
}

func TestMergeKeepsWhatAnOperatorAddedMeanwhile(t *testing.T) {
	debt := state.Owed{Dataset: "a", Run: "r0", Since: began}
	seen := &state.Shard{Owed: []state.Owed{debt}}
	seen.Revision = 1
	standing := &state.Shard{Owed: []state.Owed{{Dataset: "a", Reason: "approve", Run: "operator", Since: began.Add(time.Hour)}, {Dataset: "b", Run: "operator", Since: began}}, Watermark: began}
	standing.Revision = 2
	progress := state.Progress{Run: "r1", Seen: seen, Finished: []string{"a", "b"}, Watermark: began.Add(time.Hour)}
	merged := progress.Merge(standing)
	if !slices.Equal(names(merged.Owed), []string{"a", "b"}) {
		t.Errorf("owes %v: the operator's debts were not paid by this pass", names(merged.Owed))
	}
	if !merged.Watermark.Equal(began) {
		t.Errorf("watermark %s, want the older one", merged.Watermark)
	}
	undisturbed := progress.Merge(seen)
	if len(undisturbed.Owed) != 0 || !undisturbed.Watermark.Equal(began.Add(time.Hour)) {
		t.Errorf("owes %v with watermark %s, want nothing and the new one", names(undisturbed.Owed), undisturbed.Watermark)
	}
}

func TestShardsOfOtherFiltersAndHistoriesHaveOtherDocuments(t *testing.T) {
	keys := map[string]bool{}
	for _, id := range []state.ShardID{
		{Of: 1}, {Of: 1, Filter: []string{"a*"}}, {Of: 1, History: manifest.HistoryCurrent}, {Index: 1, Of: 2}, {Index: 0, Of: 2},
	} {
		keys[id.Key()] = true
	}
	if len(keys) != 5 {
		t.Errorf("five shards share %d documents", len(keys))
	}
	a, b := state.ShardID{Of: 1, Filter: []string{"x", "y"}}, state.ShardID{Of: 1, Filter: []string{"y", "x"}}
	if a.Key() != b.Key() {
		t.Error("the order of globs makes another shard")
	}
}

// TestMergingInAnyOrderLosesNoDebt: two passes that ran at the same time, saved in either order.
func TestMergingInAnyOrderLosesNoDebt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		seen := &state.Shard{}
		seen.Revision = 1
		for _, dataset := range rapid.SliceOfDistinct(id, rapid.ID).Draw(t, "owed before") {
			seen.Owed = append(seen.Owed, state.Owed{Dataset: dataset, Run: "r0", Since: began})
		}
		pass := func(run string) state.Progress {
			p := state.Progress{Run: run, Seen: seen, Finished: rapid.SliceOfDistinct(id, rapid.ID).Draw(t, run+" finished")}
			for _, dataset := range rapid.SliceOfDistinct(id, rapid.ID).Draw(t, run+" owes") {
				if !slices.Contains(p.Finished, dataset) {
					p.Owed = append(p.Owed, state.Owed{Dataset: dataset, Run: run, Since: began})
				}
			}
			return p
		}
		one, two := pass("r1"), pass("r2")
		first := one.Merge(seen)
		first.Revision = 2
		both := names(two.Merge(first).Owed)
		for _, dataset := range []string{"a", "b", "c", "d"} {
			newDebt := slices.Contains(names(one.Owed), dataset) || slices.Contains(names(two.Owed), dataset)
			old := slices.Contains(names(seen.Owed), dataset)
			paid := slices.Contains(one.Finished, dataset) || slices.Contains(two.Finished, dataset)
			want := newDebt || (old && !paid)
			if slices.Contains(both, dataset) != want {
				t.Fatalf("%s: owed %v, want %v", dataset, !want, want)
			}
		}
	})
}

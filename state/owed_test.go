package state_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"feedmirror/state"
)

// TestADebtThatWasAddedMeanwhileStaysAsItIs merges what a pass owes of a dataset with what the
// document that stands owes of it.
func TestADebtThatWasAddedMeanwhileStaysAsItIs(t *testing.T) {
	old := state.Owed{Dataset: "a", Reason: "failed", Run: "r0", Since: began}
	added := state.Owed{Dataset: "a", Reason: "approve", Run: "operator", Since: began.Add(time.Minute)}
	ours := state.Owed{Dataset: "a", Reason: "failed", Full: true, Run: "r1", Since: began.Add(time.Hour)}
	whole := added
	whole.Full = true
	narrow := ours
	narrow.Full = false
	addedWhole := added
	addedWhole.Full = true
	tests := map[string]struct {
		standing, owes []state.Owed
		finished       []string
		want           []state.Owed
	}{
		"owed again: the newer reason":                   {[]state.Owed{old}, []state.Owed{ours}, nil, []state.Owed{ours}},
		"added meanwhile, and owed: the one that is new": {[]state.Owed{added}, []state.Owed{narrow}, nil, []state.Owed{added}},
		"a whole look stays one":                         {[]state.Owed{added}, []state.Owed{ours}, nil, []state.Owed{whole}},
		"an added whole look stays one":                  {[]state.Owed{addedWhole}, []state.Owed{narrow}, nil, []state.Owed{addedWhole}},
		"added meanwhile, and finished: not paid":        {[]state.Owed{added}, nil, []string{"a"}, []state.Owed{added}},
		"seen and finished: paid":                        {[]state.Owed{old}, nil, []string{"a"}, nil},
		"seen and neither finished nor owed: stays owed": {[]state.Owed{old}, nil, nil, []state.Owed{old}},
		"only of this pass":                              {nil, []state.Owed{ours}, nil, []state.Owed{ours}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			seen := &state.Shard{Owed: []state.Owed{old}}
			seen.Revision = 1
			standing := &state.Shard{Owed: test.standing}
			standing.Revision = 2
			merged := state.Progress{Run: "r1", Seen: seen, Owed: test.owes, Finished: test.finished}.Merge(standing)
			if difference := cmp.Diff(test.want, merged.Owed); difference != "" {
				t.Errorf("owed (- want, + got):\n%s", difference)
			}
		})
	}
}

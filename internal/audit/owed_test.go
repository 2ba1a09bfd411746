package audit

import (
	"testing"
	"time"

	"feedmirror/state"
)

func TestWhatADocumentThatNobodyUsesOwesExcusesNothing(t *testing.T) {
	now := time.Date(2026, 3, 20, 6, 0, 0, 0, time.UTC)
	shards := []*state.Shard{
		{LastAttempt: now, Owed: []state.Owed{{Dataset: "ds_now"}}},
		{LastAttempt: now.AddDate(0, 0, -13), Owed: []state.Owed{{Dataset: "ds_lately"}}},
		{LastAttempt: now.AddDate(0, 0, -15), Owed: []state.Owed{{Dataset: "ds_long_ago"}}},
	}
	owed := owedOf(shards)
	if len(owed) != 2 || !owed["ds_now"] || !owed["ds_lately"] {
		t.Errorf("owed are %v", owed)
	}
}

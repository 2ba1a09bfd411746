package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/report"
	"feedmirror/state"
)

// TestStatusTellsWhatNothingWaitsFor prints notices, a prune that died and a document that nobody uses.
func TestStatusTellsWhatNothingWaitsFor(t *testing.T) {
	now := time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC)
	status := report.Status{
		At: now,
		Shards: []report.ShardStatus{
			{Key: "_mirror/shards/0-of-1-aaaaaaaa.json", LastAttempt: now},
			{Key: "_mirror/shards/0-of-1-bbbbbbbb.json", LastAttempt: now.AddDate(0, 0, -20), Owed: 3, Filter: []string{"ds_p*"}, History: "all", Idle: true},
		},
		Datasets: []report.DatasetStatus{{Dataset: "ds_a", State: "ok", Notices: []state.Notice{
			{Kind: "history-changed", Version: 7, Versions: 3, Message: "another manifest"},
			{Kind: "feed-behind", Version: 9, Versions: 1, Message: "still answers"},
		}}},
		Prune: &report.PruneStatus{State: "deleting", Run: "r1", Host: "h1", At: now.Add(-time.Hour), Versions: 2, Next: "mirror prune --resume"},
	}
	var out bytes.Buffer
	if err := printStatus(&out, status); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"note: ds_a version 7 and 2 below it: history-changed: another manifest\n",
		"note: ds_a version 9: feed-behind: still answers\n",
		"prune deleting: 2 versions, by run r1 on h1, last sign of life 1h0m0s ago; if it died: mirror prune --resume\n",
		"not used for 20 days: _mirror/shards/0-of-1-bbbbbbbb.json (--datasets ds_p*, --history all); the 3 datasets that it owes do not count\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("status prints\n%s\nwithout %q", out.String(), want)
		}
	}
}

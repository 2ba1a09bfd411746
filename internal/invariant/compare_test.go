package invariant

import (
	"fmt"
	"strings"
	"testing"
)

func TestComparedStates(t *testing.T) {
	rollback := `{"dataset":"berlin.plans","action":"rollback","version":3,"at":"2026-01-02T03:04:05Z"}`
	newDecision := "_mirror/decisions/" + ds + "/20260203T030405Z-run.json"
	down := func(m memory) {
		m[pointerKey] = fmt.Appendf(nil, `{"revision":5,"dataset":%q,"version":3}`, ds)
	}
	for name, test := range map[string]struct {
		change func(memory)
		kind   Kind // empty: nothing is wrong
		key    string
	}{
		"nothing changed":              {func(memory) {}, "", ""},
		"a part overwritten":           {put(part5, "x"), Overwritten, part5},
		"a record overwritten":         {put(v5+"record.json", "{}"), Overwritten, v5 + "record.json"},
		"a manifest overwritten":       {put(v5+"manifest.json", "{}"), Overwritten, v5 + "manifest.json"},
		"sums overwritten":             {put(v5+"SHA256SUMS", "x"), Overwritten, v5 + "SHA256SUMS"},
		"an index overwritten":         {put(index5, "x"), Overwritten, index5},
		"an attachment overwritten":    {put(pdfKey(), "x"), Overwritten, pdfKey()},
		"a log entry overwritten":      {put("changes/_delta_log/00000000000000000000.json", "x"), Overwritten, "changes/_delta_log/00000000000000000000.json"},
		"a decision overwritten":       {put(decisionKey, rollback), Overwritten, decisionKey},
		"a stray key overwritten":      {put("README", "y"), Overwritten, "README"},
		"a part deleted":               {remove(part5), Deleted, part5},
		"a record deleted":             {remove(v5 + "record.json"), Deleted, v5 + "record.json"},
		"an attachment deleted":        {remove(pdfKey()), Deleted, pdfKey()},
		"a pointer deleted":            {remove(pointerKey), Deleted, pointerKey},
		"a lease deleted":              {remove("_mirror/leases/" + ds + ".json"), Deleted, "_mirror/leases/" + ds + ".json"},
		"status documents overwritten": {func(m memory) { m[v5+"stored.json"], m["_mirror/status.html"] = []byte("{}"), []byte("x") }, "", ""},
		"shard and lease overwritten": {func(m memory) {
			m["_mirror/shards/0-of-1-ab12.json"], m["_mirror/leases/"+ds+".json"] = []byte("{}"), []byte("{}")
		}, "", ""},
		"staging files deleted":         {remove("_mirror/tmp/half-a-file"), "", ""},
		"new objects":                   {put(strings.ReplaceAll(part5, "05/part", "09/part"), "x"), "", ""},
		"a pruned version's part":       {func(m memory) { delete(m, part5); m[v5+"pruned.json"] = []byte("{}") }, "", ""},
		"another version's part pruned": {func(m memory) { delete(m, part5); m[v3+"pruned.json"] = []byte("{}") }, Deleted, part5},
		"a pruned version's record":     {func(m memory) { delete(m, v5+"record.json"); m[v5+"pruned.json"] = []byte("{}") }, Deleted, v5 + "record.json"},
		"the pointer moved up":          {func(m memory) { m[pointerKey] = fmt.Appendf(nil, `{"revision":5,"version":7}`) }, "", ""},
		"the pointer without revision":  {func(m memory) { m[pointerKey] = fmt.Appendf(nil, `{"revision":4,"version":7}`) }, PointerBack, pointerKey},
		"the pointer moved down":        {down, PointerBack, pointerKey},
		"the pointer rolled back":       {func(m memory) { down(m); m[newDecision] = []byte(rollback) }, "", ""},
		"rolled back to another version": {func(m memory) {
			down(m)
			m[newDecision] = []byte(strings.Replace(rollback, `:3`, `:1`, 1))
		}, PointerBack, pointerKey},
		"a pointer that does not parse": {put(pointerKey, "<"), BadDocument, pointerKey},
	} {
		t.Run(name, func(t *testing.T) {
			before := build(t, nil)
			before["README"] = []byte("x")
			after := before.clone()
			test.change(after)
			old, err := Take(before)
			if err != nil {
				t.Fatal(err)
			}
			now, err := Take(after)
			if err != nil {
				t.Fatal(err)
			}
			violations := Compare(old, now)
			if test.kind == "" && len(violations) > 0 || test.kind != "" && (len(violations) != 1 || !has(violations, test.kind, test.key)) {
				t.Errorf("want %q at %q, got %v", test.kind, test.key, violations)
			}
		})
	}
}

// TestAPruneUnderWayDeletesAttachments: it listed them and put its notes before the first state was taken.
func TestAPruneUnderWayDeletesAttachments(t *testing.T) {
	for state, violations := range map[string]int{"deleting": 0, "deciding": 1, "finished": 1} {
		before := build(t, nil)
		before[pruneKey] = fmt.Appendf(nil, `{"state":%q}`, state)
		after := before.clone()
		delete(after, pdfKey())
		old, err := Take(before)
		if err != nil {
			t.Fatal(err)
		}
		now, err := Take(after)
		if err != nil {
			t.Fatal(err)
		}
		if found := Compare(old, now); len(found) != violations {
			t.Errorf("while it was %s: %v", state, found)
		}
	}
}

package manifest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"feedmirror/manifest"
)

func schemaAt(major int) manifest.SchemaVersion { return manifest.SchemaVersion{Major: major} }

func candidate(n manifest.Number, major int, change ...func(*manifest.Candidate)) manifest.Candidate {
	c := manifest.Candidate{Version: n, Schema: schemaAt(major)}
	for _, apply := range change {
		apply(&c)
	}
	return c
}

func doubtful(c *manifest.Candidate)  { c.Doubts = true }
func forked(c *manifest.Candidate)    { c.Fork = true }
func reload(c *manifest.Candidate)    { c.ResyncRequired = true }
func withdrawn(c *manifest.Candidate) { c.Withdrawn = true }

func TestNextPublication(t *testing.T) {
	at10 := manifest.Published{Version: 10, Schema: schemaAt(2)}
	hold := func(n manifest.Number, major int, reason manifest.HoldReason) *manifest.Hold {
		return &manifest.Hold{Version: n, Schema: schemaAt(major), Reason: reason}
	}
	tests := map[string]struct {
		now    manifest.Published
		list   []manifest.Candidate
		follow bool
		target manifest.Number
		hold   *manifest.Hold
	}{
		"moves to the newest":                         {now: at10, list: []manifest.Candidate{candidate(11, 2), candidate(12, 2)}, target: 12},
		"stays without a newer one":                   {now: at10, list: []manifest.Candidate{candidate(9, 2), candidate(10, 2)}},
		"holds at a MAJOR and goes as far as before":  {now: at10, list: []manifest.Candidate{candidate(11, 2), candidate(12, 3), candidate(13, 3)}, target: 11, hold: hold(12, 3, manifest.HoldMajor)},
		"follows a MAJOR when told to":                {now: at10, list: []manifest.Candidate{candidate(12, 3)}, follow: true, target: 12},
		"a first publication is not held for MAJOR":   {list: []manifest.Candidate{candidate(1, 1), candidate(2, 2)}, target: 2},
		"doubts hold":                                 {now: at10, list: []manifest.Candidate{candidate(11, 2, doubtful)}, hold: hold(11, 2, manifest.HoldContent)},
		"doubts hold a first publication too":         {list: []manifest.Candidate{candidate(1, 1, doubtful)}, hold: hold(1, 1, manifest.HoldContent)},
		"a later one without doubts lifts the hold":   {now: at10, list: []manifest.Candidate{candidate(11, 2, doubtful), candidate(12, 2)}, target: 12},
		"doubts before a MAJOR are named first":       {now: at10, list: []manifest.Candidate{candidate(11, 2, doubtful), candidate(12, 3)}, hold: hold(11, 2, manifest.HoldContent)},
		"a fork holds":                                {now: at10, list: []manifest.Candidate{candidate(11, 2, forked)}, hold: hold(11, 2, manifest.HoldFork)},
		"what continues a fork is held with it":       {now: at10, list: []manifest.Candidate{candidate(11, 2, forked), candidate(12, 2)}, hold: hold(11, 2, manifest.HoldFork)},
		"a fork that is a reload publishes":           {now: at10, list: []manifest.Candidate{candidate(11, 2, forked, reload)}, target: 11},
		"a reload lifts a fork":                       {now: at10, list: []manifest.Candidate{candidate(11, 2, forked), candidate(12, 2, reload)}, target: 12},
		"a withdrawn version is never moved to":       {now: at10, list: []manifest.Candidate{candidate(11, 2), candidate(12, 2, withdrawn)}, target: 11},
		"a pinned pointer stays, and says what waits": {now: manifest.Published{Version: 10, Schema: schemaAt(2), Pinned: true}, list: []manifest.Candidate{candidate(11, 2), candidate(12, 3)}, hold: hold(12, 3, manifest.HoldMajor)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			onMajor := manifest.MajorHold
			if test.follow {
				onMajor = manifest.MajorFollow
			}
			target, got := manifest.NextPublication(test.now, test.list, onMajor)
			if target != test.target || !cmp.Equal(got, test.hold) {
				t.Errorf("moves to %d and holds %+v, want %d and %+v", target, got, test.target, test.hold)
			}
		})
	}
}

func TestApproveAcceptsOneHoldOnly(t *testing.T) {
	now := manifest.Published{Version: 10, Schema: schemaAt(2)}
	list := []manifest.Candidate{candidate(11, 2), candidate(12, 3), candidate(13, 3), candidate(14, 4)}
	_, held := manifest.NextPublication(now, list, manifest.MajorHold)
	target, next := manifest.Approve(now, held, list, manifest.MajorHold)
	if target != 13 || next == nil || next.Version != 14 {
		t.Errorf("approval moves to %d and holds %+v, want 13, and 14 held", target, next)
	}
	doubts := []manifest.Candidate{candidate(11, 2, doubtful)}
	_, held = manifest.NextPublication(now, doubts, manifest.MajorHold)
	if target, next = manifest.Approve(now, held, doubts, manifest.MajorHold); target != 11 || next != nil {
		t.Errorf("approving doubts moves to %d and holds %+v, want 11 and nothing", target, next)
	}
	gone := []manifest.Candidate{candidate(11, 2), candidate(12, 3, withdrawn)}
	_, held = manifest.NextPublication(now, []manifest.Candidate{candidate(11, 2), candidate(12, 3)}, manifest.MajorHold)
	if target, next = manifest.Approve(now, held, gone, manifest.MajorHold); target != 11 || next != nil {
		t.Errorf("approving a version that was withdrawn meanwhile moves to %d and holds %+v, want 11 and nothing", target, next)
	}
	overtaken := &manifest.Hold{Version: 9, Schema: schemaAt(1), Reason: manifest.HoldMajor}
	if target, _ = manifest.Approve(now, overtaken, list, manifest.MajorHold); target != 11 {
		t.Errorf("an approval that was overtaken moves to %d, want 11", target)
	}
}

func TestPublicationRulesHoldForEveryChain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := manifest.Published{Version: manifest.Number(rapid.Int64Range(0, 20).Draw(t, "published")), Schema: schemaAt(1),
			Pinned: rapid.Bool().Draw(t, "pinned")}
		if now.Version == 0 {
			now.Pinned = false
		}
		var list []manifest.Candidate
		n, major := manifest.Number(0), 1
		for range rapid.IntRange(0, 12).Draw(t, "length") {
			n += manifest.Number(rapid.Int64Range(1, 4).Draw(t, "step"))
			if rapid.IntRange(0, 5).Draw(t, "major") == 0 {
				major++
			}
			c := candidate(n, major)
			c.Doubts, c.Fork = rapid.Bool().Draw(t, "doubts"), rapid.Bool().Draw(t, "fork")
			c.ResyncRequired, c.Withdrawn = rapid.Bool().Draw(t, "resync"), rapid.Bool().Draw(t, "withdrawn")
			list = append(list, c)
		}
		target, hold := manifest.NextPublication(now, list, manifest.MajorHold)
		checkTarget(t, now, list, target)
		if hold != nil && (hold.Version <= now.Version || target >= hold.Version) {
			t.Fatalf("holds %d while moving to %d from %d", hold.Version, target, now.Version)
		}
		if target == 0 {
			return
		}
		moved := manifest.Published{Version: target, Schema: schemaOf(list, target)}
		again, same := manifest.NextPublication(moved, list, manifest.MajorHold)
		if now.Version != 0 && (again != 0 || !cmp.Equal(same, hold)) {
			t.Fatalf("a second look moves to %d and holds %+v, the first moved to %d and held %+v", again, same, target, hold)
		}
	})
}

func checkTarget(t *rapid.T, now manifest.Published, list []manifest.Candidate, target manifest.Number) {
	if target == 0 {
		return
	}
	if now.Pinned || target <= now.Version {
		t.Fatalf("moves from %+v to %d", now, target)
	}
	for _, c := range list {
		if c.Version != target {
			continue
		}
		if c.Doubts || c.Withdrawn || (now.Version != 0 && c.Schema.Breaks(now.Schema)) {
			t.Fatalf("moves to %+v", c)
		}
	}
}

func schemaOf(list []manifest.Candidate, n manifest.Number) manifest.SchemaVersion {
	for _, c := range list {
		if c.Version == n {
			return c.Schema
		}
	}
	return manifest.SchemaVersion{}
}

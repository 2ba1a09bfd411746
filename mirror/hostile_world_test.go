package mirror_test

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

const zoning = "ds_zoning"

// feedFault is one way in which the feed lies, refuses or breaks, and what a pass makes of it.
// Versions 1 and 2 of the permits are published, 3 is new; the zoning dataset has a new version too.
type feedFault struct {
	name      string
	lie       func(w *world, d *feedsim.Dataset)
	options   []func(*mirror.Options)
	exit      int
	says      string                  // stands in a failure or note of the pass; empty: it has neither
	published manifest.Number         // of the permits afterwards; zero: still 2
	owes      bool                    // the pass leaves something owed although it ends with 0
	requests  int64                   // of feed and links together, at most; zero: 40
	heal      []func(*mirror.Options) // how the pass after it is made
	newest    manifest.Number         // of the permits once the feed is sound again; zero: 3
	check     func(t *testing.T, w *world, report mirror.Report)
}

// try runs one fault: a pass under it, then passes over a feed that is sound again, which finish
// the work and come to rest.
func (f feedFault) try(t *testing.T, tally *evidence.Tally) {
	w, d := permitsWorld(t)
	other := w.dataset(zoning, feedsim.Plain)
	w.release(other, feedsim.ReleaseSpec{})
	w.sync(0)
	w.release(other, feedsim.ReleaseSpec{Add: 1})
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	f.lie(w, d)
	report := w.sync(f.exit, f.options...)
	f.judge(t, w, report)
	w.feed.ClearScript()
	w.clock.Advance(time.Hour)
	w.sync(0, f.heal...)
	w.published(permits, max(f.newest, 3))
	w.published(zoning, 2)
	rest := w.sync(0)
	if rest.Requests.Feed != 1 || rest.Versions.Committed != 0 || len(w.shards()[0].Owed) != 0 {
		t.Errorf("the mirror does not come to rest: %+v, owed %+v", rest.Requests, w.shards()[0].Owed)
	}
	tally.Add(1)
}

func (f feedFault) judge(t *testing.T, w *world, report mirror.Report) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"failures": report.Failures, "notes": report.Notes})
	if err != nil {
		t.Fatal(err)
	}
	told := len(report.Failures) + len(report.Notes)
	if (f.says == "") != (told == 0) || !strings.Contains(string(text), f.says) {
		t.Errorf("it says %s, want %q in it", text, f.says)
	}
	for _, failure := range report.Failures {
		if failure.Hint == "" || failure.Side == "" {
			t.Errorf("a failure names no side or no way out: %+v", failure)
		}
	}
	if asked := report.Requests.Feed + report.Requests.Links; asked > cmp.Or(f.requests, 40) {
		t.Errorf("asked %d times", asked)
	}
	w.published(permits, cmp.Or(f.published, 2))
	if f.exit != 4 {
		w.published(zoning, 2)
		if owed := len(w.shards()[0].Owed) > 0; owed != (f.exit != 0 || f.owes) {
			t.Errorf("owed %+v", w.shards()[0].Owed)
		}
	}
	if f.check != nil {
		f.check(t, w, report)
	}
}

// tryFaults runs a table of faults: all in the long form, and one of each few in the short one.
func tryFaults(t *testing.T, faults []feedFault, oneOf int) {
	tally := evidence.Count(t, "feed-faults")
	t.Run("all", func(t *testing.T) { // ends when all that run beside each other have
		for at, fault := range faults {
			if evidence.Long() || at%oneOf == 0 {
				t.Run(fault.name, func(t *testing.T) { fault.try(t, tally) })
			}
		}
	})
}

// call is one kind of question to the feed.
type call struct {
	name string
	rule feedsim.Rule // requests about the permits, where it is about a dataset
	exit int          // of a pass that gets no usable answer
}

func byName(r feedsim.Request) bool { return strings.HasSuffix(r.Path, "/datasets/"+permits) }

// calls are all kinds of questions, in the order in which a pass asks them.
func calls() []call {
	api := func(resource string, version int64, match func(feedsim.Request) bool) feedsim.Rule {
		return feedsim.Rule{Side: feedsim.SideAPI, Resource: resource, Version: version, Match: match, Times: feedsim.Always}
	}
	ofPermits := func(r feedsim.Request) bool { return r.Dataset == permits }
	return []call{
		{"the list of datasets", api("", 0, isDatasetList), 4},
		{"a dataset by name", api("", 0, byName), 1},
		{"the list of versions", api("versions", 0, func(r feedsim.Request) bool { return ofPermits(r) && r.Version == 0 }), 1},
		{"a version", api("versions", 3, ofPermits), 1},
		{"fresh links", api("links", 3, ofPermits), 1},
	}
}

// spoil lets the feed answer a kind of question with a fault, and makes sure that it is asked.
func (c call) spoil(w *world, fault feedsim.Fault) {
	if c.name == "a dataset by name" {
		// A list that does not say which version is current makes a pass ask for the dataset.
		w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Match: isDatasetList, Times: feedsim.Always}, feedsim.Rewrite(inItems("datasets", func(item map[string]any) {
			if item["id"] == permits {
				item["current"] = nil
			}
		})))
	}
	w.feed.Script(c.rule, fault)
}

// inItems changes each item of a list in a JSON answer.
func inItems(list string, change func(item map[string]any)) func([]byte) []byte {
	return edit(func(answer map[string]any) {
		items, _ := answer[list].([]any)
		for _, item := range items {
			change(item.(map[string]any))
		}
	})
}

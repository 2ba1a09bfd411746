package mirror_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

// pruneWorld has a dataset of six versions, the last of which are a held MAJOR and one behind it.
// Documents
// leave with their rows.
func pruneWorld(t *testing.T) (*world, *feedsim.Dataset) {
	t.Helper()
	w := newWorld(t, feedsim.Options{})
	d := w.dataset(permits, feedsim.Points)
	w.release(d, feedsim.ReleaseSpec{})
	w.release(d, feedsim.ReleaseSpec{Remove: 3, Add: 1, Parts: 2})
	w.release(d, feedsim.ReleaseSpec{ReplaceIDs: true, Extra: []feedsim.ExtraFile{{Path: "notes/read.txt", Data: []byte("a note")}}})
	w.release(d, feedsim.ReleaseSpec{Remove: 2})
	w.sync(0)
	w.release(d, feedsim.ReleaseSpec{Major: true})
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	return w, d
}

// late is long after everything in the world, its files on the disk included.
func late() time.Time { return time.Now().Add(400 * 24 * time.Hour) }

func (w *world) pruneOptions(rules manifest.KeepRules) mirror.PruneOptions {
	return mirror.PruneOptions{Store: w.store, Rules: rules, Apply: true, LeaseTTL: time.Minute,
		Run: "prune" + manifest.Number(w.runs.Add(1)).Padded(), Host: "test", Tool: "mirror test", Now: late, Pause: w.pause, Tables: w.tables(late)}
}

// prune prunes and wants this exit code and a bucket that keeps every promise.
func (w *world) prune(exit int, rules manifest.KeepRules, change ...func(*mirror.PruneOptions)) mirror.PruneReport {
	w.t.Helper()
	o := w.pruneOptions(rules)
	for _, c := range change {
		c(&o)
	}
	before := w.take()
	report, err := mirror.Prune(context.Background(), o)
	for _, violation := range invariant.Compare(before, w.take()) {
		if violation.Kind == invariant.Deleted && strings.HasPrefix(violation.Key, manifest.AttachmentPrefix) {
			continue // a later prune may take what an earlier one had to leave; Check knows what is needed
		}
		w.t.Errorf("prune violated: %+v", violation)
	}
	if err != nil || report.Exit != exit {
		text, _ := json.MarshalIndent(report, "", " ")
		w.t.Fatalf("prune ended with %d and %v, want %d:\n%s", report.Exit, err, exit, text)
	}
	w.whole("after the prune")
	return report
}

// whole reads the bucket from its files alone and wants it to keep every promise now.
func (w *world) whole(when string) {
	w.t.Helper()
	for _, violation := range invariant.Check(invariant.Folder(w.dir)) {
		w.t.Errorf("%s: %+v", when, violation)
	}
}

// filesOf returns the keys of a version's files under the tables' prefixes.
func (w *world) filesOf(n manifest.Number) int {
	w.t.Helper()
	count := 0
	for key := range w.take().Objects {
		if strings.Contains(key, "/"+manifest.Partition(permits, n)) {
			count++
		}
	}
	return count
}

func (w *world) attachmentsStored() int {
	w.t.Helper()
	count := 0
	for key := range w.take().Objects {
		if strings.HasPrefix(key, manifest.AttachmentPrefix) {
			count++
		}
	}
	return count
}

func (w *world) pruneDocument() *state.Prune {
	w.t.Helper()
	doc, _, err := state.LoadPrune(context.Background(), w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	return doc
}

func numbersOf(versions []state.PruneVersion) []manifest.Number {
	var list []manifest.Number
	for _, v := range versions {
		list = append(list, v.Version)
	}
	return list
}

package mirror_test

import (
	"context"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// The datasets of the scenario. Routes and trails share an archived source, and the empty file.
const (
	routes = "ds_routes"
	trails = "ds_trails"
)

// action is one process: a pass, or a person's command.
type action func(ctx context.Context, w *world, store bucket.Store) error

// chapter is what happens at the feed, and then the processes that run over the bucket.
type chapter struct {
	name    string
	feed    func(w *world)
	command action // a person's, before the pass; nil for none
}

// lifeOfABucket is a bucket's life. In each chapter a pass runs behind the command, if there is one. A
// day and more passes before each chapter whose changes only a full pass sees.
func lifeOfABucket() []chapter {
	release := func(dataset string, spec feedsim.ReleaseSpec) func(*world) {
		return func(w *world) { w.release(w.feed.Dataset(dataset), spec) }
	}
	return []chapter{
		{name: "first pass", feed: func(w *world) {
			w.smallDataset(permits, feedsim.Points)
			w.smallDataset(routes, feedsim.Archive)
			w.smallDataset(trails, feedsim.Archive)
			release(permits, feedsim.ReleaseSpec{Parts: 2})(w)
			release(routes, feedsim.ReleaseSpec{})(w)
			release(trails, feedsim.ReleaseSpec{})(w)
		}},
		{name: "changes in parts, a minor schema, a changed source", feed: func(w *world) {
			release(permits, feedsim.ReleaseSpec{Add: 1, Remove: 1, Change: 1, Parts: 3, ChangeParts: 2,
				Extra: []feedsim.ExtraFile{{Path: "notes/read.txt", Data: []byte("a note")}}})(w)
			release(permits, feedsim.ReleaseSpec{Minor: true, SkipNumbers: 2})(w)
			release(routes, feedsim.ReleaseSpec{ChangeSource: true, Change: 1})(w)
		}},
		{name: "new ids, then a major schema that is held, and one behind it", feed: func(w *world) {
			release(permits, feedsim.ReleaseSpec{ReplaceIDs: true})(w)
			release(permits, feedsim.ReleaseSpec{Major: true})(w)
			release(permits, feedsim.ReleaseSpec{Add: 1})(w)
			release(trails, feedsim.ReleaseSpec{Empty: true})(w)
		}},
		{name: "approve", command: approve(permits)},
		{name: "a version is withdrawn", feed: func(w *world) {
			w.withdraw(permits)
			w.clock.Advance(25 * time.Hour)
		}},
		{name: "its rebuild arrives", feed: func(w *world) {
			w.clock.Advance(time.Hour)
			if _, err := w.feed.Dataset(permits).ReleaseRebuild(); err != nil {
				w.t.Fatal(err)
			}
		}},
		{name: "rollback", command: rollback(permits, 6)},
		{name: "a version meets the pin", feed: release(permits, feedsim.ReleaseSpec{Remove: 2})},
		{name: "approve after the rollback", command: approve(permits)},
		{name: "both change the shared source", feed: func(w *world) {
			release(routes, feedsim.ReleaseSpec{Add: 1})(w)
			release(trails, feedsim.ReleaseSpec{ChangeSource: true, Change: 1})(w)
		}},
		{name: "prune", command: pruneTo(1)},
		{name: "life goes on", feed: func(w *world) {
			release(permits, feedsim.ReleaseSpec{Add: 1, Parts: 2})(w)
			release(trails, feedsim.ReleaseSpec{Add: 1})(w)
		}},
	}
}

func (w *world) smallDataset(id string, character feedsim.Character) {
	w.t.Helper()
	if _, err := w.feed.AddDataset(feedsim.DatasetSpec{ID: id, Character: character, Rows: 5}); err != nil {
		w.t.Fatal(err)
	}
}

// withdraw lets the feed release the current version of a dataset again.
func (w *world) withdraw(dataset string) {
	w.t.Helper()
	d := w.feed.Dataset(dataset)
	if err := d.ReleaseAgain(d.Current()); err != nil {
		w.t.Fatal(err)
	}
}

func approve(dataset string) action {
	return func(ctx context.Context, w *world, store bucket.Store) error {
		_, err := mirror.Approve(ctx, w.deciding(store), dataset)
		return err
	}
}

func rollback(dataset string, to manifest.Number) action {
	return func(ctx context.Context, w *world, store bucket.Store) error {
		_, err := mirror.Rollback(ctx, w.deciding(store), dataset, to)
		return err
	}
}

func (w *world) deciding(store bucket.Store) mirror.DecideOptions {
	w.clock.Advance(time.Second)
	o := w.decide()
	o.Docs = store
	return o
}

// pruneTo keeps so many versions of each dataset. A prune that died is finished the way its error says.
func pruneTo(versions int) action {
	return func(ctx context.Context, w *world, store bucket.Store) error {
		o := w.pruneOptions(manifest.KeepRules{Versions: versions})
		o.Store = store
		_, err := mirror.Prune(ctx, o)
		if !fault.Is(err, fault.Budget) {
			return err
		}
		if _, err := mirror.ResumePrune(ctx, o); err != nil {
			return err
		}
		_, err = mirror.Prune(ctx, o)
		return err
	}
}

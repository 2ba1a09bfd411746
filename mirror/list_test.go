package mirror_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/mirror"
	"feedmirror/state"
)

func (w *world) shards() []*state.Shard {
	w.t.Helper()
	var list []*state.Shard
	for info, err := range w.store.List(context.Background(), "_mirror/shards/", "") {
		if err != nil {
			w.t.Fatal(err)
		}
		shard, _, err := state.Read[state.Shard](context.Background(), w.store, info.Key)
		if err != nil {
			w.t.Fatal(err)
		}
		list = append(list, shard)
	}
	return list
}

func TestADecisionIsNotOwedForEverByOtherShards(t *testing.T) {
	w, d := permitsWorld(t)
	w.release(w.dataset("zoning", feedsim.Plain), feedsim.ReleaseSpec{})
	parts := []func(*mirror.Options){
		func(o *mirror.Options) { o.ShardIndex, o.ShardOf = 0, 2 },
		func(o *mirror.Options) { o.ShardIndex, o.ShardOf = 1, 2 },
		func(o *mirror.Options) { o.Filter = []string{"zoning*"} },
	}
	for _, part := range parts {
		w.sync(0, part)
	}
	w.release(d, feedsim.ReleaseSpec{Major: true})
	for _, part := range parts {
		w.sync(0, part)
	}
	if _, err := mirror.Approve(context.Background(), w.decide(), permits); err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		w.sync(0, part)
	}
	for _, shard := range w.shards() {
		if len(shard.Owed) != 0 {
			t.Errorf("shard of filter %v still owes %+v", shard.Filter, shard.Owed)
		}
	}
}

func emptyAnswer(list string, date time.Time) feedsim.Fault {
	header := http.Header{"Content-Type": {"application/json"}}
	if !date.IsZero() {
		header.Set("Date", date.Format(http.TimeFormat))
	}
	return feedsim.Status(200, header, `{"`+list+`": [], "nextCursor": null}`)
}

func isDatasetList(r feedsim.Request) bool { return strings.HasSuffix(r.Path, "/datasets") }

func TestOneWrongClockOfTheFeedBlindsNoPassForLong(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Match: isDatasetList}, emptyAnswer("datasets", w.clock.Now().AddDate(1, 0, 0)))
	w.sync(0)
	w.sync(0, full)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	if report := w.sync(0); report.Pass != "incremental" {
		t.Fatalf("a %s pass", report.Pass)
	}
	w.published(permits, newest)
}

func TestADatasetWhoseItemCannotBeUsedIsAskedForByName(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.feed.OverrideList(func(data []byte) []byte {
		return bytes.Replace(data, []byte(`"version":3`), []byte(`"version":"three"`), 1)
	})
	report := w.sync(1)
	if len(report.Failures) != 1 || report.Failures[0].Kind != "malformed" {
		t.Errorf("failures %+v, want the item", report.Failures)
	}
	w.published(permits, newest)
}

func TestAnUnsubscribedDatasetThatWasNeverHeldIsAskedAgainByFullPassesOnly(t *testing.T) {
	w := newWorld(t, feedsim.Options{})
	d := w.dataset(permits, feedsim.Plain)
	w.release(d, feedsim.ReleaseSpec{})
	d.Unsubscribe()
	if report := w.sync(0); report.Datasets.NotSubscribed != 1 {
		t.Errorf("datasets %+v", report.Datasets)
	}
	newest := w.release(d, feedsim.ReleaseSpec{})
	if report := w.sync(0); report.Requests.Feed != 1 || report.Datasets.Seen != 0 {
		t.Errorf("an incremental pass asked %d times, saw %d", report.Requests.Feed, report.Datasets.Seen)
	}
	d.Subscribe()
	w.sync(0, full)
	w.published(permits, newest)
}

func TestACurrentVersionThatIsNotListedYetStaysOwed(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Match: func(r feedsim.Request) bool { return strings.HasSuffix(r.Path, "/versions") }},
		emptyAnswer("versions", time.Time{}))
	if report := w.sync(0); report.Datasets.Owed != 1 || len(report.Notes) != 1 || report.Notes[0].Kind != "not-listed" {
		t.Errorf("owed %d, notes %+v", report.Datasets.Owed, report.Notes)
	}
	w.clock.Advance(time.Hour)
	w.sync(0)
	w.published(permits, newest)
}

func TestAnEmptyFullListSettlesNothing(t *testing.T) {
	w, d := permitsWorld(t)
	w.sync(0)
	w.clock.Advance(25 * time.Hour)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	d.Remove()
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Match: isDatasetList}, emptyAnswer("datasets", time.Time{}))
	if report := w.sync(1); report.Pass != "full" {
		t.Fatalf("a %s pass", report.Pass)
	}
	d.Restore()
	w.clock.Advance(time.Hour)
	if report := w.sync(0); report.Pass != "full" {
		t.Errorf("the pass after an empty list was %s", report.Pass)
	}
	w.published(permits, newest)
}

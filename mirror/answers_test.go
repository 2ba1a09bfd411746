package mirror_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/feed"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// otherAnswers is a feed whose answers say something else than the simulated one's.
type otherAnswers struct {
	mirror.Feed
	everything bool // the list of datasets ignores updatedSince
	listing    func(*feed.Listing)
	dataset    func(*feed.Dataset)
	versions   func([]manifest.Version) []manifest.Version
	answer     func(*feed.Answer)
}

func (o *otherAnswers) Datasets(ctx context.Context, since time.Time, visit func(feed.Dataset) error) (feed.Listing, error) {
	if o.everything {
		since = time.Time{}
	}
	listing, err := o.Feed.Datasets(ctx, since, func(d feed.Dataset) error {
		if o.dataset != nil {
			o.dataset(&d)
		}
		return visit(d)
	})
	if err == nil && o.listing != nil {
		o.listing(&listing)
	}
	return listing, err
}

func (o *otherAnswers) Dataset(ctx context.Context, id string) (feed.Dataset, error) {
	d, err := o.Feed.Dataset(ctx, id)
	if err == nil && o.dataset != nil {
		o.dataset(&d)
	}
	return d, err
}

func (o *otherAnswers) Versions(ctx context.Context, id string, after manifest.Number, visit func(manifest.Version) error) error {
	if o.versions == nil {
		return o.Feed.Versions(ctx, id, after, visit)
	}
	var list []manifest.Version
	err := o.Feed.Versions(ctx, id, after, func(v manifest.Version) error {
		list = append(list, v)
		return nil
	})
	if err != nil {
		return err
	}
	for _, v := range o.versions(list) {
		if err := visit(v); err != nil {
			return err
		}
	}
	return nil
}

func (o *otherAnswers) Version(ctx context.Context, id string, n manifest.Number, visit func(feed.Entry) error) (feed.Answer, error) {
	answer, err := o.Feed.Version(ctx, id, n, visit)
	if err == nil && o.answer != nil {
		o.answer(&answer)
	}
	return answer, err
}

func answering(other otherAnswers) func(*mirror.Options) {
	return func(o *mirror.Options) {
		other.Feed = o.Feed
		o.Feed = &other
	}
}

func saying(date, greatest time.Time) func(*mirror.Options) {
	return answering(otherAnswers{listing: func(l *feed.Listing) { l.Date, l.Greatest = date, greatest }})
}

func TestTheNextPassBeginsWhereTheFeedsOwnClockSays(t *testing.T) {
	const overlap = 10 * time.Minute
	later, sooner := start.Add(48*time.Hour), start.Add(time.Hour)
	tests := map[string]struct {
		date, greatest time.Time
		full           bool
		want           func(before time.Time) time.Time
	}{
		"its Date, less the overlap":                 {later, later.Add(time.Hour), false, func(time.Time) time.Time { return later.Add(-overlap) }},
		"without one, the greatest time it listed":   {time.Time{}, later, false, func(time.Time) time.Time { return later.Add(-overlap) }},
		"with neither, where it was":                 {time.Time{}, time.Time{}, false, func(before time.Time) time.Time { return before }},
		"with neither, where it was, in a full pass": {time.Time{}, time.Time{}, true, func(before time.Time) time.Time { return before }},
		"never back, in an incremental pass":         {sooner, sooner, false, func(before time.Time) time.Time { return before }},
		"back, in a full pass: it asked for all":     {sooner, sooner, true, func(time.Time) time.Time { return sooner.Add(-overlap) }},
		"the greatest time of a list is no way back": {time.Time{}, sooner, false, func(before time.Time) time.Time { return before }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w, _ := permitsWorld(t)
			w.sync(0)
			before := w.shards()[0].Watermark
			report := w.sync(0, saying(test.date, test.greatest), func(o *mirror.Options) { o.Full = test.full })
			if got, want := w.shards()[0].Watermark, test.want(before); !got.Equal(want) {
				t.Errorf("a %s pass leaves %s, want %s (before: %s)", report.Pass, got, want, before)
			}
		})
	}
}

func TestWhatIsSettledIsRememberedInsideTheOverlapOnly(t *testing.T) {
	w, _ := permitsWorld(t)
	w.sync(0)
	if recent := w.shards()[0].Recent; len(recent) != 1 || recent[0].Version != 2 {
		t.Fatalf("recent %+v, want version 2", recent)
	}
	for _, step := range []struct {
		wait time.Duration
		want int
	}{{9 * time.Minute, 1}, {9 * time.Minute, 0}} {
		w.clock.Advance(step.wait)
		if report := w.sync(0, answering(otherAnswers{everything: true})); report.Datasets.Seen != 0 {
			t.Errorf("looked at %d datasets that are settled", report.Datasets.Seen)
		}
		if recent := w.shards()[0].Recent; len(recent) != step.want {
			t.Errorf("after %s more: recent %+v, want %d", step.wait, recent, step.want)
		}
	}
}

// TestAListOfVersionsThatContradictsItselfChangesNothing gives chains that no feed may send.
func TestAListOfVersionsThatContradictsItselfChangesNothing(t *testing.T) {
	tests := map[string]func([]manifest.Version) []manifest.Version{
		"a version twice": func(list []manifest.Version) []manifest.Version { return append(list, list[0]) },
		"a version before itself": func(list []manifest.Version) []manifest.Version {
			list[0].Previous = list[0].Number
			return list
		},
		"a version before a lower one": func(list []manifest.Version) []manifest.Version {
			list[0].Previous = list[0].Number + 1
			return list
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			w, d := permitsWorld(t)
			w.sync(0)
			w.release(d, feedsim.ReleaseSpec{Add: 1})
			newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
			report := w.sync(1, answering(otherAnswers{versions: change}))
			if len(report.Failures) != 1 || report.Failures[0].Kind != "malformed" || report.Versions.Committed != 0 {
				t.Errorf("committed %d, failures %+v", report.Versions.Committed, report.Failures)
			}
			w.published(permits, 2)
			w.sync(0)
			w.published(permits, newest)
		})
	}
}

// TestAListInAnyOrderNamesTheSameCurrentVersion lists the newest first and says of no version that
// it is the current one.
func TestAListInAnyOrderNamesTheSameCurrentVersion(t *testing.T) {
	w, d := permitsWorld(t)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	report := w.sync(0, current, answering(otherAnswers{
		dataset:  func(d *feed.Dataset) { d.Current = 0 },
		versions: func(list []manifest.Version) []manifest.Version { slices.Reverse(list); return list },
	}))
	if report.Versions.Committed != 1 {
		t.Errorf("committed %d versions, want the newest only", report.Versions.Committed)
	}
	w.published(permits, newest)
}

func TestAnAnswerAboutSomethingElseIsNotUsed(t *testing.T) {
	tests := map[string]func(*feed.Answer){
		"another dataset":                      func(a *feed.Answer) { a.Version.Dataset = "ds_other" },
		"another version":                      func(a *feed.Answer) { a.Version.Number++ },
		"another version before than the list": func(a *feed.Answer) { a.Version.Previous-- },
		"itself as the version before":         func(a *feed.Answer) { a.Version.Previous = a.Version.Number },
		"no manifest":                          func(a *feed.Answer) { a.Manifest = feed.Entry{} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			w, d := permitsWorld(t)
			w.sync(0)
			newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
			report := w.sync(1, answering(otherAnswers{answer: change}))
			if len(report.Failures) != 1 || report.Failures[0].Kind != "malformed" || report.Failures[0].Version != int64(newest) {
				t.Errorf("failures %+v, want version %d malformed", report.Failures, newest)
			}
			if w.has(manifest.VersionPrefix(permits, newest)) {
				t.Error("something of it was stored")
			}
			w.sync(0)
			w.published(permits, newest)
		})
	}
}

// TestADatasetThatCannotBeAskedForByNameStaysOwed gives no answer about a dataset that the full
// list lacks.
func TestADatasetThatCannotBeAskedForByNameStaysOwed(t *testing.T) {
	w, d := permitsWorld(t)
	w.release(w.dataset("ds_other", feedsim.Plain), feedsim.ReleaseSpec{})
	w.sync(0)
	newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
	d.Remove()
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Times: feedsim.Always, Match: func(r feedsim.Request) bool {
		return strings.HasSuffix(r.Path, "/"+permits)
	}}, feedsim.Refuse(400, "bad_request", "no"))
	if report := w.sync(1, full); len(report.Failures) != 1 || report.Failures[0].Dataset != permits {
		t.Errorf("failures %+v", report.Failures)
	}
	if owed := w.shards()[0].Owed; len(owed) != 1 || owed[0].Dataset != permits || !owed[0].Full {
		t.Errorf("owed %+v, want a whole look at %s", owed, permits)
	}
	w.feed.ClearScript()
	d.Restore()
	w.clock.Advance(time.Hour)
	w.sync(0)
	w.published(permits, newest)
}

// TestADebtOfADatasetThatTheFeedForgotIsPaid lets a full pass find that an owed dataset is unknown.
func TestADebtOfADatasetThatTheFeedForgotIsPaid(t *testing.T) {
	w, d := permitsWorld(t)
	w.release(w.dataset("ds_other", feedsim.Plain), feedsim.ReleaseSpec{})
	w.sync(0)
	w.rollback(1) // owed by every shard
	d.Remove()
	report := w.sync(0, full)
	if len(report.Notes) != 1 || report.Notes[0].Kind != "unknown" {
		t.Errorf("notes %+v", report.Notes)
	}
	if owed := w.shards()[0].Owed; len(owed) != 0 {
		t.Errorf("still owed: %+v", owed)
	}
}

package resilience_test

import (
	"strings"
	"testing"
	"time"

	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
)

// pace is a file, how long it takes at an even rate, and the limits that it must live with. The short form
// has everything smaller and the limits shorter; the long one has the program's own.
type pace struct {
	bytes  int64
	over   time.Duration
	limits limits
}

func theirPace() pace {
	if evidence.Long() {
		return pace{bytes: 64 << 20, over: 100 * time.Second}
	}
	return pace{bytes: 3 << 20, over: 3 * time.Second, limits: limits{idle: 2 * time.Second, rate: 100 << 10, window: time.Second}}
}

// TestSlowButEvenIsFine takes far longer than the window over which the rate is judged, and than the time
// that a silence may last.
func TestSlowButEvenIsFine(t *testing.T) {
	t.Parallel()
	tally := evidence.Count(t, "slow-but-even")
	p := theirPace()
	w := newWorld(t, feedsim.BulkSpec{Parts: 1, PartBytes: p.bytes, Attachments: 1, AttachmentBytes: 2 << 10})
	rate := p.bytes / int64(p.over/time.Second)
	way := newLine(t, w.feed.LinksURL())
	way.spoil(t, toxic{kind: "bandwidth", attributes: map[string]any{"rate": rate / 1000}}, "downstream")
	w.feed.AdvertiseLinks(way.url())
	w.feed.ResetLog()
	at := w.memory()
	began := time.Now()
	report := w.limitedPass(t, at, p.limits, 0)
	took := time.Since(began)
	if took < p.over*8/10 {
		t.Errorf("it took %s, too fast to prove anything", took)
	}
	for file, times := range w.feed.Completed() {
		if times != 1 {
			t.Errorf("%s was fetched %d times", file, times)
		}
	}
	if report.Requests.Source != int64(len(w.fetched)) {
		t.Errorf("%d requests to the links host for %d files", report.Requests.Source, len(w.fetched))
	}
	w.healed(t, at, report)
	tally.Add(1)
	tally.Note("%d bytes in %.0f s", p.bytes, took.Seconds())
}

// TestADripIsNotFine meets a source that sends something all the time, and too little of it.
func TestADripIsNotFine(t *testing.T) {
	t.Parallel()
	tally := evidence.Count(t, "slow-but-even")
	w := newWorld(t, smallVersion())
	drip, l := 500, limits{attempts: 2}
	if !evidence.Long() {
		drip, l = 100, limits{attempts: 2, idle: time.Second, rate: 4096, window: 500 * time.Millisecond}
	}
	w.feed.Script(feedsim.Rule{Side: feedsim.SideLinks, File: w.targets[0], Times: feedsim.Always}, feedsim.SlowDrip(drip))
	at := w.memory()
	began := time.Now()
	report := w.limitedPass(t, at, l, 1)
	if len(report.Failures) != 1 || !strings.Contains(report.Failures[0].Message, "slower than the least rate") {
		t.Errorf("failures %+v", report.Failures)
	}
	w.healed(t, at, report)
	tally.Add(1)
	tally.Note("a drip of %d bytes/s was left after %.0f s", drip, time.Since(began).Seconds())
}

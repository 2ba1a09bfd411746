package resilience_test

import (
	"fmt"
	"testing"
	"time"

	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim/catalogue"
	"feedmirror/mirror"
)

// TestEveryFaultOfTheSource runs a pass under each case of the catalogue, and the next one without it.
// What strikes once strikes all targets in one pass, and in the long form also each download in turn.
func TestEveryFaultOfTheSource(t *testing.T) {
	tally := evidence.Count(t, "source-faults")
	cases := catalogue.Short()
	if evidence.Long() {
		cases = catalogue.Cases()
	}
	const workers = 4
	t.Run("cases", func(t *testing.T) {
		for worker := range workers {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, smallVersion())
				for at := worker; at < len(cases); at += workers {
					t.Run(cases[at].String(), func(t *testing.T) { w.faults(t, cases[at], at, tally) })
				}
			})
		}
	})
	tally.Note("%d kinds of faults", len(cases))
}

// faults runs the passes of one case.
func (w *world) faults(t *testing.T, c catalogue.Case, number int, tally *evidence.Tally) {
	switch {
	case c.Place != catalogue.Files:
		w.fault(t, c, []string{""}, 1)
		tally.Add(1)
	case c.Always, c.Whole:
		for i := range evidence.Size(1, len(w.targets)) {
			w.fault(t, c, w.targets[(number+i)%len(w.targets):][:1], 1)
			tally.Add(1)
		}
	default:
		w.fault(t, c, w.targets, 1)
		tally.Add(len(w.targets))
		for nth := range evidence.Size(0, len(w.fetched)) {
			w.fault(t, c, []string{""}, nth+1)
			tally.Add(1)
		}
	}
}

// fault runs one pass in which the case strikes each of the files, and heals it.
func (w *world) fault(t *testing.T, c catalogue.Case, files []string, nth int) {
	w.feed.ClearScript()
	w.feed.ResetLog()
	var hits []func() int
	for _, file := range files {
		hits = append(hits, c.Script(w.feed, c.Rule(file), nth))
	}
	var l limits
	if c.Slow {
		l = limits{idle: 300 * time.Millisecond, rate: 4096, window: 200 * time.Millisecond}
	}
	at := w.memory()
	report := w.limitedPass(t, at, l, c.Exit)
	for i, hit := range hits {
		least := len(c.Faults)
		if files[i] == "" && c.Place == catalogue.Files {
			least = 1 // the request may be for a file that ends before the fault begins, and be the last
		}
		if hit() < least {
			t.Errorf("%q was struck %d times by %d faults", files[i], hit(), len(c.Faults))
		}
	}
	w.checkFailures(t, c, report)
	if nth == 1 && files[0] != "" || c.Place != catalogue.Files {
		for _, file := range files {
			w.checkRequests(t, c, file)
		}
	}
	w.healed(t, at, report)
}

// checkFailures wants a pass that failed to say what, where and what to do.
func (w *world) checkFailures(t *testing.T, c catalogue.Case, report mirror.Report) {
	t.Helper()
	if (report.Exit != 0) != (len(report.Failures) > 0) {
		t.Errorf("exit %d with failures %+v", report.Exit, report.Failures)
	}
	for _, failure := range report.Failures {
		if failure.Message == "" || failure.Hint == "" || failure.Side == "" || c.Place != catalogue.Datasets && failure.Dataset != dataset {
			t.Errorf("a failure that says too little: %+v", failure)
		}
	}
}

// checkRequests wants the exact number of requests that the case allows.
func (w *world) checkRequests(t *testing.T, c catalogue.Case, file string) {
	t.Helper()
	if c.Requests == 0 {
		return
	}
	rule := c.Rule(file)
	sent := 0
	for _, event := range w.feed.Log() {
		here := event.Side == rule.Side && event.Resource == rule.Resource || rule.Resource == "-" && event.Resource == "" && event.Side == rule.Side
		if here && (rule.File == "" || rule.File == event.File) && (rule.Match == nil || rule.Match(event.Request)) {
			sent++
		}
	}
	if sent != c.Requests {
		t.Errorf("%d requests for %q, want exactly %d", sent, file, c.Requests)
	}
}

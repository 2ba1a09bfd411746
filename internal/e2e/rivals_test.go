package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
)

// TestProcessesAtOnceShareABucket lets two and eight processes sync one bucket at the same moment, on
// each kind of store: an empty one first, then one in which every dataset has a new version.
func TestProcessesAtOnceShareABucket(t *testing.T) {
	t.Parallel()
	tally := evidence.Count(t, "rivals")
	for name, open := range places() {
		for _, processes := range []int{2, 8} {
			if !evidence.Long() && (name != "versitygw" || processes != 8) { // two at once: TestTwoRunsAtOnceShareTheWork
				continue
			}
			t.Run(fmt.Sprintf("%d on %s", processes, name), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, open(t), feedsim.Options{})
				newest := w.manyDatasets()
				for round := range evidence.Size(1, 2) {
					if round > 0 {
						for id := range newest {
							newest[id] = w.release(w.feed.Dataset(id), feedsim.ReleaseSpec{Add: 1})
						}
					}
					committed := w.together(processes, tally)
					if want := len(newest) * (2 - round); committed != want {
						t.Errorf("round %d: %d versions were committed by all together, want %d", round, committed, want)
					}
				}
				if r := w.sync(0); r.Files.Copied != 0 || r.Datasets.Owed != 0 || r.Datasets.Failed != 0 {
					t.Errorf("the next run: %+v", r)
				}
				for id, version := range newest {
					w.published(id, version)
				}
				w.run(0, "verify", "--level", "bytes")
			})
		}
	}
}

// together starts syncs at once, wants that all end well, and returns how many versions they
// committed. A file is fetched once, and once more at most for each lease that was taken over.
func (w *world) together(processes int, tally *evidence.Tally) (committed int) {
	w.t.Helper()
	w.feed.ResetLog()
	runs := make([]*run, processes)
	for i := range runs {
		runs[i] = w.start(nil, "sync", "--output", "json", "--lease-ttl", "10s")
	}
	lost := 0
	for _, r := range runs {
		done := r.wait()
		if done.exit != 0 {
			w.t.Fatalf("a run of %d ended with %d\n%s%s", processes, done.exit, done.out, tail(done.err))
		}
		one := decode[report](w.t, done)
		committed += one.Versions.Committed
		for _, note := range one.Notes {
			if strings.Contains(note.Message, "lease") {
				lost++
			}
		}
		tally.Add(1)
	}
	for file, times := range w.feed.Completed() {
		if times > 1+lost {
			w.t.Errorf("%s was fetched %d times, and %d leases were lost", file, times, lost)
		}
	}
	return committed
}

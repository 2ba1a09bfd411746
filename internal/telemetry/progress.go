package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Progress is told what a pass is doing. Its methods are called by many goroutines and return at
// once. Close ends it, prints where it stands and may be called twice.
type Progress interface {
	// Planned adds files and bytes to what is known to lie ahead.
	Planned(dataset string, files, bytes int64)
	// Bytes tells of bytes as they arrive, also of those that are fetched again.
	Bytes(dataset string, bytes int)
	// Finished tells of one file that ended well.
	Finished(dataset string)
	// Stage names what a dataset is at; an empty stage means that it is through.
	Stage(dataset, stage string)
	Close()
}

// Silent is a Progress that shows nothing.
type Silent struct{}

// Planned implements Progress.
func (Silent) Planned(string, int64, int64) {}

// Bytes implements Progress.
func (Silent) Bytes(string, int) {}

// Finished implements Progress.
func (Silent) Finished(string) {}

// Stage implements Progress.
func (Silent) Stage(string, string) {}

// Close implements Progress.
func (Silent) Close() {}

// tally adds up what a pass reported.
type tally struct {
	mutex   sync.Mutex
	now     func() time.Time
	files   count
	bytes   count
	stages  map[string]string
	changed bool // since the last snapshot

	began time.Time // when the first byte came
	last  time.Time // of the last snapshot
	moved int64     // bytes at the last snapshot
	rate  float64   // bytes a second, smoothed
}

type count struct{ done, planned int64 }

func newTally(now func() time.Time) *tally {
	return &tally{now: now, stages: map[string]string{}, last: now()}
}

// Planned implements Progress.
func (t *tally) Planned(_ string, files, bytes int64) {
	t.update(func() { t.files.planned += files; t.bytes.planned += bytes })
}

// Bytes implements Progress.
func (t *tally) Bytes(_ string, bytes int) {
	t.update(func() {
		if t.began.IsZero() {
			t.began = t.now()
		}
		t.bytes.done += int64(bytes)
	})
}

// Finished implements Progress.
func (t *tally) Finished(string) { t.update(func() { t.files.done++ }) }

// Stage implements Progress.
func (t *tally) Stage(dataset, stage string) {
	t.update(func() {
		if stage == "" {
			delete(t.stages, dataset)
		} else {
			t.stages[dataset] = stage
		}
	})
}

func (t *tally) update(change func()) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	change()
	t.changed = true
}

// snapshot is where a pass stands.
type snapshot struct {
	files, bytes count
	rate         float64       // bytes a second
	left         time.Duration // zero when it cannot be told
	stages       []string      // "dataset: stage", sorted
	changed      bool          // since the snapshot before
}

// snapshot returns where the pass stands and begins a new interval of the rate.
func (t *tally) snapshot() snapshot {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := t.now()
	if passed := now.Sub(t.last).Seconds(); passed > 0 && !t.began.IsZero() {
		// A time constant of five seconds: steady enough to read, quick enough to show a stall.
		weight := passed / (passed + 5)
		t.rate += weight * (float64(t.bytes.done-t.moved)/passed - t.rate)
		if t.moved == 0 {
			t.rate = float64(t.bytes.done) / passed
		}
		t.last, t.moved = now, t.bytes.done
	} else if t.began.IsZero() {
		t.last = now
	}
	out := snapshot{files: t.files, bytes: t.bytes, rate: t.rate, changed: t.changed}
	t.changed = false
	// Bytes that were fetched again, or files nobody planned, must not make more than all.
	out.bytes.planned = max(out.bytes.planned, out.bytes.done)
	out.files.planned = max(out.files.planned, out.files.done)
	if left := out.bytes.planned - out.bytes.done; left > 0 && out.rate >= 1 {
		out.left = min(time.Duration(float64(left)/out.rate), 1000*time.Hour/time.Second) * time.Second
	}
	for dataset, stage := range t.stages {
		if dataset == "" {
			out.stages = append(out.stages, stage)
		} else {
			out.stages = append(out.stages, dataset+": "+stage)
		}
	}
	slices.Sort(out.stages)
	return out
}

// FormatBytes returns bytes for people: "1.5 GiB", "12 B".
func FormatBytes(bytes int64) string {
	if bytes < 1<<10 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes), -1
	for value >= 1023.95 && unit < 5 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTPE"[unit])
}

// line returns a snapshot in one line.
func (s snapshot) line() string {
	parts := []string{fmt.Sprintf("%d of %d files", s.files.done, s.files.planned),
		fmt.Sprintf("%s of %s", FormatBytes(s.bytes.done), FormatBytes(s.bytes.planned))}
	if s.rate >= 1 {
		parts = append(parts, FormatBytes(int64(s.rate))+"/s")
	}
	if s.left > 0 {
		parts = append(parts, s.left.String()+" left")
	}
	return strings.Join(parts, ", ")
}

package mirror_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"feedmirror/internal/bucket/localstore"
	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// disk fails one change to the file system, or all from one on.
type disk struct {
	mu     sync.Mutex
	asked  int
	fails  int // number of the step, from 1; 0: none
	onward bool
	only   localstore.Step // empty: all steps count
	errno  syscall.Errno
}

func (d *disk) before(step localstore.Step, _ string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.only != "" && d.only != step {
		return nil
	}
	d.asked++
	if d.fails > 0 && (d.asked == d.fails || d.onward && d.asked > d.fails) {
		return d.errno
	}
	return nil
}

func (d *disk) set(fails int, onward bool, only localstore.Step, errno syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked, d.fails, d.onward, d.only, d.errno = 0, fails, onward, only, errno
}

func (d *disk) met() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// diskWorld is a world whose next pass has a version to copy, over a disk that can fail.
type diskWorld struct {
	*world
	*disk
	dataset *feedsim.Dataset
}

// newDiskWorld makes a world of one version, and of another before it that is mirrored unless the
// pass is to be the first.
func newDiskWorld(t *testing.T, first bool) *diskWorld {
	t.Helper()
	w := &diskWorld{world: newWorld(t, feedsim.Options{}), disk: &disk{}}
	store, err := localstore.New(localstore.Options{Root: w.dir, Before: w.before})
	if err != nil {
		t.Fatal(err)
	}
	w.store = store
	w.dataset = w.world.dataset(permits, feedsim.Points)
	w.release(w.dataset, feedsim.ReleaseSpec{})
	if !first {
		w.sync(0)
		w.release(w.dataset, feedsim.ReleaseSpec{Add: 2, Parts: 2})
	}
	return w
}

// outlives makes a pass with the fault that is set, and one without it.
func (w *diskWorld) outlives() mirror.Report {
	w.t.Helper()
	before := w.take()
	report := mirror.Run(context.Background(), w.options())
	for _, violation := range invariant.Compare(before, w.take()) {
		w.t.Errorf("sync violated: %+v", violation)
	}
	w.whole("after the fault")
	w.set(0, false, "", 0)
	w.sync(0)
	w.published(permits, manifest.Number(w.dataset.Current()))
	return report
}

// TestAPassMeetsAFailingDisk makes the steps of a pass fail, one at a time and all from one on:
// nothing in the bucket is untrue, and the next pass ends the work.
func TestAPassMeetsAFailingDisk(t *testing.T) {
	tally := evidence.Count(t, "local-faults-sync")
	w := newDiskWorld(t, false)
	w.set(0, false, "", 0)
	w.sync(0)
	steps := w.met()
	tally.Note("a pass asks for %d changes to the file system", steps)
	trials := evidence.Size(2, steps)
	for i := range trials {
		n := 1 + i*steps/trials
		for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
			onward := (i+int(errno))%2 == 0
			t.Run(fmt.Sprintf("%v at %d, onward %t", errno, n, onward), func(t *testing.T) {
				w := newDiskWorld(t, false)
				w.set(n, onward, "", errno)
				report := w.outlives()
				if report.Exit != 0 && report.Exit != 1 && report.Exit != 5 {
					t.Errorf("ended with %d: %+v", report.Exit, report.Failures)
				}
				if report.Exit == 0 && onward && n < steps*9/10 { // the report of a run, which comes last, may be lost
					t.Errorf("told as done, with a disk that failed from step %d of %d on", n, steps)
				}
				tally.Add(1)
			})
		}
	}
}

// TestAPassMeetsAFolderThatCannotBeUsed: one that is read-only, or has no hard links.
func TestAPassMeetsAFolderThatCannotBeUsed(t *testing.T) {
	tally := evidence.Count(t, "local-faults-sync")
	for name, c := range map[string]struct {
		only  localstore.Step
		errno syscall.Errno
		says  string
	}{
		"read-only":            {"", syscall.EROFS, "writable"},
		"no hard links":        {localstore.StepLink, syscall.EPERM, "hard links"},
		"no more disk quota":   {localstore.StepWrite, syscall.EDQUOT, "quota"},
		"folders are refused":  {localstore.StepFolder, syscall.EACCES, "writable"},
		"flushes are refused":  {localstore.StepFlush, syscall.EIO, "I/O error"},
		"no room for one name": {localstore.StepStage, syscall.ENOSPC, "Free space"},
	} {
		for _, first := range []bool{false, true} {
			if !evidence.Long() && (first != (name == "no hard links") || name > "no") {
				continue
			}
			t.Run(fmt.Sprintf("%s, first pass %t", name, first), func(t *testing.T) {
				w := newDiskWorld(t, first)
				w.set(1, true, c.only, c.errno)
				report := w.outlives()
				if report.Exit != 5 && (first || report.Exit != 1) {
					t.Errorf("ended with %d: %+v", report.Exit, report.Failures)
				}
				w.tells(report, c.says)
				tally.Add(1)
			})
		}
	}
}

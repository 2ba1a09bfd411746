package e2e_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"feedmirror/internal/evidence"
)

// TestASyncThatSleepsAnywhereInAFolder stops a sync at a random moment until its leases are over and
// another one has done the work, and lets it go on.
func TestASyncThatSleepsAnywhereInAFolder(t *testing.T) {
	t.Parallel()
	tally := evidence.Count(t, "frozen-local")
	w := newKillWorld(t, folderPlace(t), rand.New(rand.NewPCG(newSeed(t, tally), 2)))
	locked := 0
	for hits := 0; hits < evidence.Size(1, 40); {
		w.release()
		hit, waited := w.sleeper()
		if hit {
			hits++
			tally.Add(1)
		}
		if waited {
			locked++
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	tally.Note("%d slept with a file lock in hand: the other run said so and ended", locked)
	w.settle()
}

// sleeper runs a sync that sleeps while another one goes by. hit is false when it was over before its
// moment; locked tells that it slept with a file lock in hand, so that the other had to give up.
func (w *killWorld) sleeper() (hit, locked bool) {
	w.t.Helper()
	before := w.now
	moment := w.moment("sync")
	r := w.start(nil, w.syncLine()...)
	over := make(chan struct{})
	go func() { r.ended(); close(over) }()
	time.Sleep(moment)
	if err := r.command.Process.Signal(syscall.SIGSTOP); err != nil && !errors.Is(err, os.ErrProcessDone) {
		w.t.Fatal(err)
	}
	other := w.start(nil, w.syncLine()...).wait()
	locked = other.exit != 0 && strings.Contains(other.out+other.err, "lock not free")
	if other.exit != 0 && !locked {
		w.t.Errorf("the other run ended with %d\n%s%s", other.exit, other.out, tail(other.err))
	}
	select {
	case <-over:
	default:
		hit = true
	}
	if err := r.command.Process.Signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		w.t.Fatal(err)
	}
	done := r.wait()
	if done.exit != 0 {
		w.t.Errorf("the run that slept ended with %d\n%s%s", done.exit, done.out, tail(done.err))
	}
	w.learn("sync", hit, done.took)
	w.now = w.look()
	w.compare(before)
	w.before = w.now
	return hit, locked
}

package soak_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// apiKey is nothing that stands in an output by chance.
const apiKey = "pk_live_7f3d+soak/never=shown"

const (
	// runLimit bounds one run; one that takes longer hangs.
	runLimit = 2 * time.Minute
	// stopLimit is how long a run may take to end after SIGTERM.
	stopLimit = 10 * time.Second
	// leaseTTL is shorter than the time for which processes are frozen.
	leaseTTL = 2 * time.Second
)

// world is a simulated feed, a bucket, and everybody who works on it.
type world struct {
	t     *testing.T
	feed  *feedsim.Feed
	place place
	home  string

	mu         sync.Mutex
	violations []string
	counts     map[string]int
}

// violated notes a broken promise. The test goes on, since the next one may tell more.
func (w *world) violated(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := time.Now().UTC().Format("15:04:05.000 ") + fmt.Sprintf(format, args...)
	if len(w.violations) < 20 {
		w.t.Error(text)
	} else {
		w.t.Fail()
	}
	w.violations = append(w.violations, text)
}

// count counts something that happened.
func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

func (w *world) counted(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[what]
}

// exits spells how often each command ended how.
func (w *world) exits() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var parts []string
	for what, n := range w.counts {
		if strings.Contains(what, " exit ") {
			parts = append(parts, fmt.Sprintf("%s: %d", what, n))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// fate is what happens to a process.
type fate struct {
	kind  string        // "", "kill", "term" or "freeze"
	after time.Duration // its start
	thaw  time.Duration // of a freeze
}

// drawFate spares about half of the processes.
func drawFate(c *chance) fate {
	f := fate{after: c.between(0, 1500*time.Millisecond)}
	switch n := c.number(100); {
	case n < 20:
		f.kind = "kill"
	case n < 32:
		f.kind = "term"
	case n < 47:
		f.kind, f.thaw = "freeze", c.between(100*time.Millisecond, 2*leaseTTL)
	}
	return f
}

// ended is a run that came to its end.
type ended struct {
	exit     int            // -1: ended by a signal
	signal   syscall.Signal // which
	out, err []byte
}

// run runs the program to its end, whatever happens to it on the way. It never fails the test itself:
// what is wrong is a violation.
// The end of the accidents ends no run.
func (w *world) run(ctx context.Context, f fate, args ...string) ended {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), runLimit)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	var out, errors bytes.Buffer
	command.Dir, command.Stdout, command.Stderr = w.home, &out, &errors
	command.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "TMPDIR=" + w.home, "PLOTI_API_KEY=" + apiKey,
		"MIRROR_FEED_URL=" + w.feed.URL(), "MIRROR_BUCKET=" + w.place.url, "MIRROR_LOG_LEVEL=debug", "MIRROR_LOG_FORMAT=json",
		"MIRROR_LEASE_TTL=" + leaseTTL.String(), "MIRROR_FEED_REBUILD_WAIT=2s", "MIRROR_TRANSFER_IDLE_TIMEOUT=3s",
	}, w.place.env...)
	if err := command.Start(); err != nil {
		w.violated("start the program: %v", err)
		return ended{exit: -1}
	}
	done := make(chan struct{})
	var struck sync.WaitGroup
	struck.Go(func() { w.strike(f, command.Process, done) })
	began := time.Now()
	err := command.Wait()
	close(done)
	struck.Wait()
	e := ended{exit: command.ProcessState.ExitCode(), out: out.Bytes(), err: errors.Bytes()}
	if status, ok := command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.signal = status.Signal()
	}
	w.judge(f, args, e, err, time.Since(began))
	return e
}

// strike does to a process what its fate says, unless it ends before.
func (w *world) strike(f fate, process *os.Process, done <-chan struct{}) {
	if f.kind == "" || !waits(done, f.after) {
		return
	}
	switch f.kind {
	case "kill":
		w.signal(process, syscall.SIGKILL)
	case "term":
		w.signal(process, syscall.SIGTERM)
		if waits(done, stopLimit) {
			w.violated("a process ran on for %s after SIGTERM", stopLimit)
			w.signal(process, syscall.SIGKILL)
		}
	case "freeze":
		w.signal(process, syscall.SIGSTOP)
		waits(done, f.thaw)
		w.signal(process, syscall.SIGCONT)
	}
}

func (w *world) signal(process *os.Process, signal os.Signal) {
	if err := process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		w.violated("send %s: %v", signal, err)
	}
}

// waits reports whether a time passed before done.
func waits(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}

// judge looks at what no accident excuses.
func (w *world) judge(f fate, args []string, e ended, err error, took time.Duration) {
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		w.violated("run %s: %v", args[0], err)
	}
	w.count(fmt.Sprintf("%s exit %d", args[0], e.exit))
	switch {
	case e.exit == -1 && f.kind == "kill":
		w.count("killed")
	case e.exit == -1 && f.kind == "term" && e.signal == syscall.SIGTERM: // before its first line ran
		w.count("terminated")
	case e.exit == -1:
		w.violated("%s was ended by a signal after %s: %v", strings.Join(args, " "), took.Round(time.Second), err)
	case e.exit == 143 && f.kind == "term":
		w.count("terminated")
	case e.exit == 2 && (args[0] == "approve" || args[0] == "rollback"): // there is nothing to approve, or no such version
	case e.exit == 3 && args[0] == "verify": // the findings decide
	case e.exit == 2 || e.exit == 3 || e.exit > 6:
		w.violated("%s ended with %d: %s%s", strings.Join(args, " "), e.exit, short(e.out), short(e.err))
	}
	if f.kind == "freeze" {
		w.count("frozen")
	}
	text := string(e.out) + string(e.err)
	for _, sign := range []string{"panic:", "fatal error:", "goroutine 1 ["} {
		if at := strings.Index(text, sign); at >= 0 {
			w.violated("%s panicked: %s", args[0], text[at:min(len(text), at+2000)])
		}
	}
	if strings.Contains(text, apiKey) {
		w.violated("%s told the API key", args[0])
	}
}

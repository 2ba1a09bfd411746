package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// demoLimit is how long make demo may take in a fresh clone on a machine without caches.
const demoLimit = 6 * time.Minute

// freshDemo: make demo in a fresh clone, with nothing in Go's caches.
func freshDemo(ctx context.Context, s *stage) error {
	clone, err := s.clone(ctx)
	if err != nil {
		return err
	}
	// A module cache is read-only unless asked, and could not be removed.
	env := append(os.Environ(), "GOMODCACHE="+s.dir+"/modules", "GOCACHE="+s.dir+"/cache", "GOFLAGS=-modcacherw")
	cold, err := s.make(ctx, clone, env, "demo")
	if err != nil {
		return err
	}
	s.want(cold <= demoLimit, "make demo in a fresh clone with empty caches: %s", cold.Round(time.Second))
	warm, err := s.make(ctx, clone, env, "demo")
	if err != nil {
		return err
	}
	s.want(warm <= time.Minute, "make demo once built: %s", warm.Round(100*time.Millisecond))
	return nil
}

// testLimit is how long make test may take with its tools built, bareLimit on a machine without caches.
const (
	testLimit = 10 * time.Minute
	bareLimit = 25 * time.Minute
)

// freshTest: make test in a fresh clone with nothing in Go's caches, which installs its tools and servers;
// then again with what was built.
func freshTest(ctx context.Context, s *stage) error {
	clone, err := s.clone(ctx)
	if err != nil {
		return err
	}
	env := append(os.Environ(), "GOMODCACHE="+s.dir+"/modules", "GOCACHE="+s.dir+"/cache", "GOFLAGS=-modcacherw")
	bare, err := s.make(ctx, clone, env, "test")
	if err != nil {
		return err
	}
	s.want(bare <= bareLimit, "make test in a fresh clone with empty caches: %s", bare.Round(time.Second))
	clean := exec.CommandContext(ctx, "go", "clean", "-testcache") // results of tests are no measurement
	clean.Dir, clean.Env = clone, env
	if out, err := clean.CombinedOutput(); err != nil {
		return fmt.Errorf("forget results of tests: %w: %s", err, out)
	}
	built, err := s.make(ctx, clone, env, "test")
	if err != nil {
		return err
	}
	s.want(built <= testLimit, "make test with its tools built: %s", built.Round(time.Second))
	return nil
}

func (s *stage) clone(ctx context.Context) (string, error) {
	clone := filepath.Join(s.dir, "clone")
	s.command("git clone " + s.root + " " + clone)
	if out, err := exec.CommandContext(ctx, "git", "clone", "-q", s.root, clone).CombinedOutput(); err != nil {
		return "", fmt.Errorf("clone: %w: %s", err, out)
	}
	return clone, nil
}

// make runs a target and wants it to succeed.
func (s *stage) make(ctx context.Context, dir string, env []string, target string) (time.Duration, error) {
	s.command("make " + target)
	began := time.Now()
	command := exec.CommandContext(ctx, "make", target)
	command.Dir, command.Env = dir, env
	// What make starts ends with it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = 20 * time.Second
	out, err := command.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("make %s: %w: %s", target, err, out[max(0, len(out)-1500):])
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	took := time.Since(began)
	used := command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	s.note("make %s ended with 0 after %s of processor time: %s", target, used.Round(time.Second), lines[len(lines)-1])
	return took, nil
}

// goTests: the tests of the repository that are about bad input.
func goTests(ctx context.Context, s *stage) error {
	for _, one := range [][]string{
		{"./mirror", "^(TestAManifestThatCannotBeUsedFailsItsDatasetOnly|TestGarbageFromTheFeedFailsWhatItIsAbout|TestWrongBytesAreNeverStored)$"},
		{"./cmd/mirror", "^TestScripts$"},
	} {
		s.command("go test -run '" + one[1] + "' " + one[0])
		command := exec.CommandContext(ctx, "go", "test", "-json", "-vet=off", "-count=1", "-run", one[1], one[0])
		command.Dir = s.root
		var stderr bytes.Buffer
		command.Stderr = &stderr
		out, err := command.Output()
		var exited *exec.ExitError
		if err != nil && !errors.As(err, &exited) {
			return fmt.Errorf("run go test: %w", err)
		}
		counts := countTests(out)
		if err != nil {
			s.want(false, "%s", lastOutput(out))
		}
		s.want(err == nil && counts["pass"] > 0 && counts["fail"]+counts["skip"] == 0, "%s: %d tests passed, %d failed, %d skipped %s", one[0], counts["pass"], counts["fail"], counts["skip"], strings.TrimSpace(stderr.String()))
	}
	return nil
}

// lastOutput returns the end of what was printed, by tests or by the compiler.
func lastOutput(out []byte) string {
	var printed strings.Builder
	for line := range bytes.Lines(out) {
		var event struct{ Output string }
		if json.Unmarshal(line, &event) == nil {
			printed.WriteString(event.Output)
		}
	}
	text := strings.TrimSpace(printed.String())
	return text[max(0, len(text)-500):]
}

// countTests counts the results of tests in the output of go test -json.
func countTests(out []byte) map[string]int {
	counts := map[string]int{}
	for line := range bytes.Lines(out) {
		var event struct{ Action, Test string }
		if json.Unmarshal(line, &event) == nil && event.Test != "" {
			counts[event.Action]++
		}
	}
	return counts
}

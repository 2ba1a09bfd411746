package testservers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// checkout makes a folder with a program in .tools/bin that runs script, and enters a folder
// two levels below it, where a package's tests would run.
func checkout(t *testing.T, name, script string) {
	t.Helper()
	root := t.TempDir()
	inside := filepath.Join(root, "internal", "package")
	if err := errors.Join(os.MkdirAll(filepath.Join(root, ".tools", "bin"), 0o755), os.MkdirAll(inside, 0o755)); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(root, ".tools", "bin", name)
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(inside)
	t.Setenv("TMPDIR", root)
}

// scriptPlan is a server that serves as soon as it wrote a file.
func scriptPlan() plan {
	return plan{
		name: "script", tool: "script", ports: 1,
		arguments: func(dir string, _ []int) ([]string, error) { return []string{filepath.Join(dir, "up")}, nil },
		ready:     func(context.Context, []int) error { return nil },
	}
}

func TestMissingToolNamesTheCommandToType(t *testing.T) {
	checkout(t, "other", "")
	_, _, err := start(scriptPlan())
	if err == nil || !strings.Contains(err.Error(), "type: make tools") {
		t.Errorf("got %v, want the command to type", err)
	}
}

func TestServerThatEndsAtOnceIsReportedWithItsLog(t *testing.T) {
	checkout(t, "script", "echo no such setting >&2; exit 3")
	p := scriptPlan()
	p.ready = func(context.Context, []int) error { return errors.New("connection refused") }
	_, _, err := start(p)
	for _, want := range []string{"no such setting", "exit status 3"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "feedmirror-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestCloseEndsTheWholeProcessGroup(t *testing.T) {
	checkout(t, "script", `sleep 600 & echo $! > "$1"; wait`)
	p := scriptPlan()
	var child string
	p.ready = func(context.Context, []int) error {
		paths, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "feedmirror-script-*", "up"))
		if err != nil || len(paths) != 1 {
			return errors.New("not up yet")
		}
		data, err := os.ReadFile(paths[0])
		child = strings.TrimSpace(string(data))
		if child == "" {
			return errors.New("not up yet")
		}
		return err
	}
	s := New()
	if _, err := s.start(p); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := s.Close(true, &out); err != nil {
		t.Fatal(err)
	}
	waitForEnd(t, child)
	log := strings.TrimSpace(strings.TrimPrefix(out.String(), "log of script: "))
	if _, err := os.Stat(log); err != nil {
		t.Errorf("kept log: %v (said %q)", err, out.String())
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(log), "up")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("data beside the log: %v, want it gone", err)
	}
}

// waitForEnd wants a killed process to end: the kernel takes a moment, and the process stays in its
// table until the new parent asks.
func waitForEnd(t *testing.T, process string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		status, err := os.ReadFile(filepath.Join("/proc", process, "stat"))
		if err != nil || strings.Contains(string(status), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the child runs on: %s", status)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestCloseTellsOfAServerThatBroke(t *testing.T) {
	checkout(t, "script", "exit 7")
	s := New()
	if _, err := s.start(scriptPlan()); err != nil {
		t.Fatal(err)
	}
	<-s.processes[0].ended
	var out strings.Builder
	if err := s.Close(false, &out); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("got %v, want how it ended", err)
	}
	if !strings.HasPrefix(out.String(), "log of script: ") {
		t.Errorf("said %q, want where its log is", out.String())
	}
}

func TestFreePortsDiffer(t *testing.T) {
	ports, err := freePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range ports {
		if seen[port] {
			t.Errorf("port %d twice", port)
		}
		seen[port] = true
	}
	if len(seen) != 20 {
		t.Errorf("%d ports, want 20", len(seen))
	}
}

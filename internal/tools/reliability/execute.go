package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"feedmirror/internal/evidence"
)

// stopTime is how long a command may take to end once it was told to.
const stopTime = 15 * time.Second

// tailBytes is how much of a failed command's output is shown.
const tailBytes = 3000

// execute runs one command to its end and collects what its tests said. Its whole output stays in folder.
// Only what keeps it from running at all, or from being understood, is an error.
func execute(ctx context.Context, b batch, long bool, folder string) (ran, error) {
	fmt.Fprintf(os.Stderr, "reliability: %s\n", b.command)
	said := filepath.Join(folder, "evidence")
	if err := os.MkdirAll(said, 0o755); err != nil {
		return ran{}, err
	}
	output, err := os.Create(filepath.Join(folder, "output"))
	if err != nil {
		return ran{}, err
	}
	failure := start(ctx, b, long, said, output)
	if err := output.Close(); err != nil {
		return ran{}, err
	}
	if ctx.Err() != nil {
		return ran{}, fmt.Errorf("run %s: %w", b.command, context.Cause(ctx))
	}
	lines, err := collect(said)
	if failure != "" {
		text, readErr := os.ReadFile(output.Name())
		err = errors.Join(err, readErr)
		fmt.Fprintf(os.Stderr, "%s\nreliability: %s: %s\n", text[max(0, len(text)-tailBytes):], b.command, failure)
	}
	return ran{failure: failure, lines: lines}, err
}

// start runs the command in a process group of its own, so that what it started ends with it, and
// returns why it did not end well.
func start(ctx context.Context, b batch, long bool, said string, output *os.File) string {
	limited, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	args := b.command.args
	if !long && b.command.short != nil {
		args = b.command.short
	}
	if b.command.program == "go" { // go test has a limit of its own, which tells where it hung
		args = append([]string{args[0], "-timeout=" + (b.limit - stopTime).String()}, args[1:]...)
	}
	command := exec.CommandContext(limited, b.command.program, args...)
	command.Env = append(os.Environ(), evidence.FolderVariable+"="+said, evidence.LongVariable+"=")
	if long {
		command.Env = append(command.Env, evidence.LongVariable+"=1")
	}
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = stopTime
	err := command.Run()
	switch {
	case err == nil:
		return ""
	case limited.Err() != nil:
		return "the command was not done after " + b.limit.String()
	default:
		return "the command ended with " + strings.TrimSpace(err.Error())
	}
}

// collect reads all evidence below the folder.
func collect(folder string) ([]evidence.Line, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var all []evidence.Line
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		lines, err := decode(text)
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	return all, nil
}

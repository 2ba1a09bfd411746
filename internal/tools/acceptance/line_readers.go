package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// readers lets real query engines read mirrored buckets: `make test-readers` installs them first.
func readers(ctx context.Context, s *stage) error {
	s.command("make test-readers")
	command := exec.CommandContext(ctx, "make", "test-readers")
	command.Dir = s.root
	// What make starts ends with it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = 20 * time.Second
	out, err := command.CombinedOutput()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		return fmt.Errorf("run make test-readers: %w", err)
	}
	if err != nil {
		s.want(false, "make test-readers: %v: %s", err, out[max(0, len(out)-800):])
		return nil
	}
	answers, notes := readersTally(string(out))
	s.want(len(answers) > 0, "%d engines and places answered", len(answers))
	for _, one := range answers {
		s.note("%s", one)
	}
	for _, note := range notes {
		s.note("%s", note)
	}
	return nil
}

// readersTally reads the closing table of the tests of readers: right answers by engine and place, and
// the notes below it.
func readersTally(out string) (answers, notes []string) {
	_, table, found := strings.Cut(out, "\nengine ")
	if !found {
		return nil, nil
	}
	count, rows := 0, 0
	_, table, _ = strings.Cut(table, "\n")
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if line == "" {
			break
		}
		cells := strings.Fields(line)
		switch {
		case len(cells) == 4 && cells[2] == "all":
			answers = append(answers, fmt.Sprintf("%s, %s: %d right answers, %d rows compared", cells[0], cells[1], count, rows))
			count, rows = 0, 0
		case len(cells) == 6 && isNumber(cells[3]) && isNumber(cells[4]):
			count, rows = count+number(cells[3]), rows+number(cells[4])
		default:
			notes = append(notes, line)
		}
	}
	return answers, notes
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0 // asked before
	}
	return n
}

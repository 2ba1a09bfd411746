package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"feedmirror/internal/testservers"
)

// bench is what all lines share.
type bench struct {
	root   string // of the checkout
	binary string // the program under test
	work   string // temporary, on a real disk
	quick  bool
}

func newBench(s settings) (*bench, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find checkout: %w", err)
	}
	b := &bench{root: root, binary: filepath.Join(root, "bin", "mirror"), quick: s.quick}
	if _, err := os.Stat(b.binary); err != nil {
		return nil, fmt.Errorf("find program (type: make build): %w", err)
	}
	if b.work, err = os.MkdirTemp(s.work, "feedmirror-acceptance-"); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	// The servers put their data there too.
	if err := os.Setenv("TMPDIR", b.work); err != nil {
		return nil, fmt.Errorf("set TMPDIR: %w", err)
	}
	return b, nil
}

func (b *bench) close() {
	if err := os.RemoveAll(b.work); err != nil {
		fmt.Fprintf(os.Stderr, "acceptance: %v\n", err)
	}
}

// pick returns a size: the one that the requirement names, or a small one in a quick run.
func (b *bench) pick(full, quick int64) int64 {
	if b.quick {
		return quick
	}
	return full
}

// fatal is a panic by which a helper of the test servers ends a line.
type fatal struct{ text string }

// tb is as much of a test as the helpers of the test servers use.
type tb struct{ testing.TB }

// Helper implements testing.TB.
func (tb) Helper() {}

// Fatal implements testing.TB.
func (tb) Fatal(args ...any) { panic(fatal{fmt.Sprint(args...)}) }

// Fatalf implements testing.TB.
func (tb) Fatalf(format string, args ...any) { panic(fatal{fmt.Sprintf(format, args...)}) }

// withServers runs use with servers of its own and stops them behind it: heavy servers run one
// after the other.
func withServers(use func(*testservers.Servers) error) (err error) {
	servers := testservers.New()
	defer func() {
		if closed := servers.Close(false, os.Stderr); err == nil {
			err = closed
		}
	}()
	return use(servers)
}

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"feedmirror/internal/testservers"
)

var (
	servers = testservers.New()
	// program is the path of the program under test; TestMain builds it.
	program string
)

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "feedmirror-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	program = filepath.Join(dir, "mirror")
	if err := testservers.BuildProgram(context.Background(), program, "0.0.0-e2e"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return servers.Run(m)
}

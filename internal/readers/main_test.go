//go:build readers

package readers_test

import (
	"context"
	"flag"
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
	// workshop is a folder of this run: the program, and the buckets in folders.
	workshop string
	// seen counts what engines answered, over all tests.
	seen = newTally()
	// stories are told once each, whoever asks first.
	stories = newShelf()
)

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	var err error
	if workshop, err = os.MkdirTemp("", "feedmirror-readers-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(workshop) //nolint:errcheck // a temporary folder
	program = filepath.Join(workshop, "mirror")
	if err := testservers.BuildProgram(context.Background(), program, "0.0.0-readers"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := servers.Run(m)
	fmt.Println(seen)
	// With -run one engine is asked alone; a whole run must have heard all of them.
	if chosen := flag.Lookup("test.run"); code == 0 && chosen.Value.String() == "" {
		for _, missing := range seen.missing() {
			fmt.Fprintf(os.Stderr, "nobody answered: %s\n", missing)
			code = 1
		}
	}
	return code
}

package localstore_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/bucket/localstore"
	"feedmirror/internal/fault"
)

// childVariable makes the test binary one of the processes of a race on the folder it names.
const childVariable = "FEEDMIRROR_TEST_FOLDER"

const (
	racers  = 4
	creates = 150
	rounds  = 60
)

func TestMain(m *testing.M) {
	if root := os.Getenv(childVariable); root != "" {
		if err := raceAsChild(root); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// raceAsChild creates keys that its rivals create too, printing those it won, and counts up one
// document and deletes and makes another.
func raceAsChild(root string) error {
	store, err := localstore.New(localstore.Options{Root: root})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i := range creates {
		key := fmt.Sprintf("raced/%d/%d", i%7, i)
		_, err := bucket.CreateDocument(ctx, store, key, fmt.Appendf(nil, "%d", os.Getpid()))
		switch {
		case err == nil:
			fmt.Printf("%s %d\n", key, os.Getpid())
		case !fault.Is(err, fault.Exists):
			return err
		}
	}
	for range rounds {
		if err := buckettest.CountUp(ctx, store, "n.json"); err != nil {
			return err
		}
	}
	return nil
}

// TestProcesses: several processes on one folder have one winner for each key, and lose no update.
func TestProcesses(t *testing.T) {
	root := t.TempDir()
	store, err := localstore.New(localstore.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Swap(t.Context(), "n.json", bucket.Absent, []byte(`{"n":0}`)); err != nil {
		t.Fatal(err)
	}
	winners := runRacers(t, root)
	if len(winners) != creates {
		t.Errorf("%d keys were won, want %d", len(winners), creates)
	}
	for key, pid := range winners {
		if data, _, err := bucket.ReadAll(t.Context(), store, key, 100); err != nil || string(data) != pid {
			t.Errorf("%s holds %q, %v; its winner was %s", key, data, err, pid)
		}
	}
	data, _, err := bucket.ReadAll(t.Context(), store, "n.json", 100)
	if want := fmt.Sprintf(`{"n":%d}`, racers*rounds); err != nil || string(data) != want {
		t.Errorf("counter is %s, %v, want %s", data, err, want)
	}
	if left := staging(t, root); len(left) > 0 {
		t.Errorf("staging files are left: %q", left)
	}
}

// runRacers runs the processes and returns who won each key.
func runRacers(t *testing.T, root string) map[string]string {
	t.Helper()
	var children []*exec.Cmd
	outputs := make([]bytes.Buffer, racers)
	for i := range racers {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), childVariable+"="+root)
		child.Stdout, child.Stderr = &outputs[i], os.Stderr
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, child)
	}
	winners := map[string]string{}
	for i, child := range children {
		if err := child.Wait(); err != nil {
			t.Fatalf("process %d: %v", i, err)
		}
		lines := bufio.NewScanner(&outputs[i])
		for lines.Scan() {
			key, pid, _ := strings.Cut(lines.Text(), " ")
			if other, taken := winners[key]; taken {
				t.Errorf("%s was won by %s and %s", key, other, pid)
			}
			winners[key] = pid
		}
	}
	return winners
}

func staging(t *testing.T, root string) []string {
	t.Helper()
	entries, err := os.ReadDir(root + "/_mirror/tmp")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	slices.Sort(names)
	return names
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// settings are the command line.
type settings struct {
	only  []string // ids of rows; empty: all
	short bool
	out   string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	good, err := measure(ctx, readSettings())
	if err != nil {
		fmt.Fprintf(os.Stderr, "reliability: %v\n", err)
	}
	if err != nil || !good {
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func readSettings() settings {
	var s settings
	only := flag.String("only", "", "run only these rows, as in soak,fuzz; the others stay as they were measured")
	flag.BoolVar(&s.short, "short", false, "run the short forms and write nothing")
	flag.StringVar(&s.out, "out", "docs/reliability.md", "file that the table is written to")
	flag.Parse()
	if *only != "" {
		s.only = strings.Split(*only, ",")
	}
	return s
}

// measure runs the chosen rows and writes the document, after each command, so that what was measured
// stays when a later one is interrupted. It reports whether each chosen row is met.
func measure(ctx context.Context, s settings) (bool, error) {
	m := &measurement{settings: s, areas: areas(), began: time.Now(), now: map[string]entry{}}
	if ids := unknown(m.areas, s.only); len(ids) > 0 {
		return false, fmt.Errorf("there is no row %s", strings.Join(ids, ", "))
	}
	var err error
	if m.root, err = os.Getwd(); err != nil {
		return false, err
	}
	before, err := os.ReadFile(s.out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	m.before = string(before)
	commit, err := commit(ctx)
	if err != nil {
		return false, err
	}
	m.when = m.began.UTC().Format(time.DateOnly) + ", " + commit
	runs, err := runsFolder(m.root)
	if err != nil {
		return false, err
	}
	fmt.Fprintf(os.Stderr, "reliability: what the commands print stays in %s\n", runs)
	good := true
	for i, b := range batches(m.areas, s.only) {
		met, err := m.batch(ctx, b, filepath.Join(runs, strconv.Itoa(i)))
		if err != nil {
			return false, err
		}
		good = good && met
		if err := m.write(); err != nil {
			return false, err
		}
	}
	return good, nil
}

// runsFolder makes the folder that keeps what the commands of this run print: two runs in one checkout
// must not read each other's evidence.
func runsFolder(root string) (string, error) {
	out := filepath.Join(root, ".tools", "out")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(out, "reliability-"+time.Now().UTC().Format("20060102T150405-"))
}

// measurement is one run of this program.
type measurement struct {
	settings settings
	areas    []area
	root     string
	before   string // the document that stands
	when     string // day and commit
	began    time.Time
	now      map[string]entry // by id, what was measured in this run
}

// batch runs one command and reports whether all of its rows are met.
func (m *measurement) batch(ctx context.Context, b batch, folder string) (bool, error) {
	long := !m.settings.short
	ran, err := execute(ctx, b, long, folder)
	if err != nil {
		return false, err
	}
	good := true
	if ids := strangers(m.areas, ran.lines); len(ids) > 0 {
		good = false
		fmt.Fprintf(os.Stderr, "reliability: tests spoke of rows that no table has: %s\n", strings.Join(ids, ", "))
	}
	for _, row := range b.rows {
		entry := newEntry(row, judge(row, ran, long), m.when)
		m.now[row.id] = entry
		good = good && entry.met == "yes"
		fmt.Fprintf(os.Stderr, "reliability: %s: %s %s, met: %s; %s\n", row.id, number(entry.tried), row.unit, entry.met, entry.notes)
	}
	return good, nil
}

// write writes the document, but never from short forms.
func (m *measurement) write() error {
	if m.settings.short {
		return nil
	}
	var entries []entry
	for _, area := range m.areas {
		for _, row := range area.rows {
			entry, ok := m.now[row.id]
			if !ok {
				entry = kept(row, m.before)
			}
			entries = append(entries, entry)
		}
	}
	text := anonymous(render(m.areas, entries, facts(m.began)), m.root, strings.TrimSuffix(os.TempDir(), "/"))
	return os.WriteFile(m.settings.out, []byte(text), 0o644)
}

// facts says when and on what machine the last run was.
func facts(began time.Time) string {
	return fmt.Sprintf("- last run: %s, %s in all\n- machine: %s/%s, %d CPUs, %s\n", began.UTC().Format("2006-01-02 15:04 MST"),
		time.Since(began).Round(time.Second), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}

// commit names the tree that is measured, and says when it holds more than the commit.
func commit(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--exclude=*", "--dirty=-changed").Output()
	if err != nil {
		return "", fmt.Errorf("ask git for the commit: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

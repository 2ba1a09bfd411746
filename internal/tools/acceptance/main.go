package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings are the command line.
type settings struct {
	only        []string // numbers of lines; empty: all
	quick       bool
	clone, test bool
	out         string
	work        string // where the temporary folder is made
	limit       time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	good, err := run(ctx, readSettings())
	if err != nil {
		fmt.Fprintf(os.Stderr, "acceptance: %v\n", err)
	}
	if err != nil || !good {
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func readSettings() settings {
	var s settings
	only := flag.String("only", "", "run only these lines, as in 2,5")
	flag.BoolVar(&s.quick, "quick", false, "small sizes; the table says so")
	flag.BoolVar(&s.clone, "clone", false, "also measure a fresh clone: make demo with empty caches")
	flag.BoolVar(&s.test, "test", false, "with --clone: also make test in the fresh clone")
	flag.StringVar(&s.out, "out", "docs/acceptance.md", "file that the table is written to")
	flag.StringVar(&s.work, "work", os.TempDir(), "folder on a disk with 40 GiB free, below which a temporary one is made")
	flag.DurationVar(&s.limit, "limit", 90*time.Minute, "stop after this time")
	flag.Parse()
	if *only != "" {
		s.only = strings.Split(*only, ",")
	}
	return s
}

// run measures the chosen lines and writes the table. It reports whether each of them is met.
func run(ctx context.Context, s settings) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	b, err := newBench(s)
	if err != nil {
		return false, err
	}
	defer b.close()
	table, good := table{begun: time.Now(), quick: s.quick}, true
	if len(s.only) > 0 {
		before, err := os.ReadFile(s.out)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		table.before = string(before)
	}
	for _, line := range requirements() {
		row := row{line: line}
		if chosen(s, line) {
			fmt.Fprintf(os.Stderr, "acceptance: line %s: %s\n", line.number, line.title)
			row.result = measure(ctx, b, line)
			good = good && row.result.met()
			fmt.Fprintf(os.Stderr, "acceptance: line %s: met %s in %s\n", line.number, yesNo(row.result.met()), row.result.took.Round(time.Millisecond))
			for _, wrong := range row.result.wrong {
				fmt.Fprintf(os.Stderr, "acceptance: line %s: NOT MET: %s\n", line.number, wrong)
			}
		}
		table.rows = append(table.rows, row)
	}
	text, err := b.render(ctx, table)
	if err == nil {
		err = os.WriteFile(s.out, []byte(text), 0o644)
	}
	return good, errors.Join(err, ctx.Err())
}

func chosen(s settings, l line) bool {
	if len(s.only) > 0 && !slices.Contains(s.only, l.number) {
		return false
	}
	return (!l.needsClone || s.clone) && (!l.needsTest || s.clone && s.test)
}

// measure runs one line. Its own error, and a panic of a test server's helper, count as not met.
func measure(ctx context.Context, b *bench, l line) (r *result) {
	began := time.Now()
	r = &result{}
	defer func() {
		if failure, ok := recover().(fatal); ok {
			r.want(false, "%s", failure.text)
		}
		r.took = time.Since(began)
	}()
	dir := filepath.Join(b.work, "line"+l.number)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.want(false, "%v", err)
		return r
	}
	if err := l.run(ctx, &stage{bench: b, result: r, dir: dir}); err != nil {
		r.want(false, "the line ended early: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		r.want(false, "%v", err)
	}
	return r
}

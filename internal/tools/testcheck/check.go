package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

const (
	// slowestShown is the number of packages in the closing list.
	slowestShown = 5
	// slowEnough hides packages from that list which nobody would speed up.
	slowEnough = time.Second
)

// event is one line of `go test -json`; `go doc test2json` describes it. Lines of
// the build carry ImportPath instead of Package.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

// testName identifies a test of a run; Test is empty for the package itself.
type testName struct{ Package, Test string }

// packageTime is how long the tests of a package took.
type packageTime struct {
	name    string
	elapsed time.Duration
}

// summary counts what a run did. Tests and subtests count alike; a package that
// failed without a failed test (build, TestMain, time limit) counts as one failure.
type summary struct {
	passed, failed, skipped int
	packages                []packageTime
}

// good reports whether the run counts as passed.
func (s summary) good() bool {
	return s.failed == 0 && s.skipped == 0 && s.passed > 0
}

// checker holds the state of a run: what is printed only if it fails, and what has
// begun but not ended.
type checker struct {
	out     io.Writer
	summary summary
	output  map[testName][]string // lines of tests and packages that have not ended
	open    map[testName]bool     // begun, not ended
	counts  map[string]int        // tests that ended, by package
	bad     map[string]int        // tests that failed or were skipped, by package
	builds  map[string][]string   // compiler output by import path
}

// check reads a run from in, reports on out and returns the counts. The error is
// about reading in or writing out, never about a test.
func check(in io.Reader, out io.Writer) (summary, error) {
	buffered := bufio.NewWriter(out)
	c := &checker{
		out:    buffered,
		output: map[testName][]string{},
		open:   map[testName]bool{},
		counts: map[string]int{},
		bad:    map[string]int{},
		builds: map[string][]string{},
	}
	lines := bufio.NewReader(in)
	for {
		line, readErr := lines.ReadBytes('\n')
		if len(line) > 0 {
			c.line(line)
		}
		// A person watches: each package is shown when it ends.
		if err := buffered.Flush(); err != nil {
			return c.summary, fmt.Errorf("write report: %w", err)
		}
		if errors.Is(readErr, io.EOF) {
			break
		}
		if readErr != nil {
			return c.summary, fmt.Errorf("read test output: %w", readErr)
		}
	}
	c.close()
	if err := buffered.Flush(); err != nil {
		return c.summary, fmt.Errorf("write report: %w", err)
	}
	return c.summary, nil
}

// line takes one line of the stream. What is no event is shown as it is: it comes
// from a test binary that writes past the testing package.
func (c *checker) line(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil || e.Action == "" {
		c.printf("%s", line)
		return
	}
	name := testName{e.Package, e.Test}
	switch e.Action {
	case "start", "run":
		c.open[name] = true
	case "output":
		if !isChatter(e.Output) {
			c.output[name] = append(c.output[name], e.Output)
		}
	case "build-output":
		c.builds[e.ImportPath] = append(c.builds[e.ImportPath], e.Output)
	case "pass", "fail", "skip":
		c.end(name, e)
	}
}

// end books the result of a test or of a package.
func (c *checker) end(name testName, e event) {
	delete(c.open, name)
	if name.Test == "" {
		c.endPackage(e)
	} else {
		c.endTest(name, e)
	}
	delete(c.output, name)
}

func (c *checker) endTest(name testName, e event) {
	c.counts[name.Package]++
	switch e.Action {
	case "pass":
		c.summary.passed++
	case "fail":
		c.summary.failed++
		c.bad[name.Package]++
		c.show("FAIL", name, c.output[name])
	case "skip":
		c.summary.skipped++
		c.bad[name.Package]++
		c.show("SKIP", name, c.output[name])
	}
}

// endPackage prints the package's line. A skipped package has no test files, which
// is no failure: the linter, not this check, judges what needs tests.
func (c *checker) endPackage(e event) {
	if e.Action == "skip" {
		return
	}
	elapsed := time.Duration(e.Elapsed * float64(time.Second))
	c.summary.packages = append(c.summary.packages, packageTime{e.Package, elapsed})
	if e.Action == "fail" && c.bad[e.Package] == 0 {
		c.summary.failed++
		c.bad[e.Package]++
		lines := slices.Concat(c.builds[e.FailedBuild], c.output[testName{e.Package, ""}])
		c.show("FAIL", testName{e.Package, ""}, lines)
	}
	verdict := "ok"
	if c.bad[e.Package] > 0 {
		verdict = "FAIL"
	}
	c.printf("%-4s  %7.1f s  %4d tests  %s\n", verdict, elapsed.Seconds(), c.counts[e.Package], e.Package)
}

// close counts what never ended as failed, then prints the slowest packages and the totals.
func (c *checker) close() {
	var unfinished []testName
	for name := range c.open {
		unfinished = append(unfinished, name)
	}
	slices.SortFunc(unfinished, func(a, b testName) int {
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Test, b.Test))
	})
	for _, name := range unfinished {
		c.summary.failed++
		c.show("FAIL (never ended)", name, c.output[name])
	}
	c.printSlowest()
	if c.summary.skipped > 0 {
		c.printf("\n%d skipped: a skipped test proves nothing and counts as a failure\n", c.summary.skipped)
	}
	if c.summary.passed+c.summary.failed+c.summary.skipped == 0 {
		c.printf("\nno test ran\n")
	}
	c.printf("\n%d passed, %d failed\n", c.summary.passed, c.summary.failed+c.summary.skipped)
}

func (c *checker) printSlowest() {
	packages := slices.Clone(c.summary.packages)
	slices.SortStableFunc(packages, func(a, b packageTime) int { return cmp.Compare(b.elapsed, a.elapsed) })
	if len(packages) == 0 || packages[0].elapsed < slowEnough {
		return
	}
	c.printf("\nslowest packages:\n")
	for _, p := range packages[:min(slowestShown, len(packages))] {
		if p.elapsed >= slowEnough {
			c.printf("  %7.1f s  %s\n", p.elapsed.Seconds(), p.name)
		}
	}
}

// show prints a test or package that counts against the run, with what it wrote.
func (c *checker) show(verdict string, name testName, lines []string) {
	c.printf("\n%s  %s  %s\n", verdict, name.Package, name.Test)
	for _, line := range lines {
		c.printf("    %s\n", strings.TrimSuffix(line, "\n"))
	}
}

// printf writes into a bufio.Writer, which keeps the first error until Flush.
func (c *checker) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.out, format, args...)
}

// isChatter reports whether a line only says what the testing package is doing.
func isChatter(line string) bool {
	for _, prefix := range []string{"=== RUN", "=== PAUSE", "=== CONT", "=== NAME"} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

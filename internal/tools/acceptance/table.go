package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

type row struct {
	line   line
	result *result // nil: not run
}

type table struct {
	begun  time.Time
	quick  bool
	rows   []row
	before string // the table that stands: its rows stay for lines that were not run now
}

// kept returns the row that an earlier run wrote for a line; "" when there is none.
func (t table) kept(number string) string {
	for line := range strings.Lines(t.before) {
		if strings.HasPrefix(line, "| "+number+" |") && !strings.Contains(line, "| not run |") {
			return line
		}
	}
	return ""
}

var port = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)

// anonymous takes out what differs on each machine: the temporary folder, the checkout and ports.
func (b *bench) anonymous(text string) string {
	text = strings.ReplaceAll(text, b.work, "$WORK")
	text = strings.ReplaceAll(text, b.root, ".")
	return port.ReplaceAllString(text, "127.0.0.1:PORT")
}

// cell makes a text fit into a cell of a Markdown table.
func cell(lines []string) string {
	var trimmed []string
	for _, line := range lines {
		trimmed = append(trimmed, strings.TrimSpace(line))
	}
	text := strings.Join(trimmed, "\n")
	text = strings.NewReplacer("|", `\|`, "\r", "", "<", "&lt;").Replace(text)
	return strings.ReplaceAll(text, "\n", "<br>")
}

func codes(commands []string) []string {
	var quoted []string
	for _, command := range commands {
		quoted = append(quoted, "`"+command+"`")
	}
	return quoted
}

// render writes the table with what it was measured on.
func (b *bench) render(ctx context.Context, t table) (string, error) {
	var out strings.Builder
	version, err := exec.CommandContext(context.WithoutCancel(ctx), b.binary, "version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", b.binary, err)
	}
	fmt.Fprintf(&out, "# What was measured\n\nWritten by `make acceptance` (internal/tools/acceptance); do not edit by hand. Every figure comes from a run of the real program\n"+
		"against simulated feeds and real servers on loopback; each row ends with the time it took and the program it measured.\n\n")
	fmt.Fprintf(&out, "- last run: %s, %s in all\n- program: %s\n- machine: %s/%s, %d CPUs, %s, %s\n", t.begun.UTC().Format("2006-01-02 15:04 MST"),
		time.Since(t.begun).Round(time.Second), strings.TrimSpace(string(version)), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), loadAverage())
	if t.quick {
		out.WriteString("- **quick run: sizes are smaller than the requirements name**\n")
	}
	out.WriteString("\n| # | requirement | command | measured | met |\n|---|---|---|---|---|\n")
	for _, r := range t.rows {
		if kept := t.kept(r.line.number); r.result == nil && kept != "" {
			out.WriteString(kept)
			continue
		}
		if r.result == nil {
			fmt.Fprintf(&out, "| %s | %s | | not run | - |\n", r.line.number, cell([]string{r.line.title}))
			continue
		}
		what := short(string(version))
		if r.line.needsClone || r.line.needsTest {
			what = "commit " + b.commit(ctx)
		}
		measured := append(slices.Clone(r.result.measured), fmt.Sprintf("(%s, %s)", r.result.took.Round(100*time.Millisecond), what))
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", r.line.number, cell([]string{r.line.title}), cell(codes(r.result.commands)), cell(measured), yesNo(r.result.met()))
	}
	return b.anonymous(out.String()), nil
}

// commit names what a fresh clone of the checkout holds.
func (b *bench) commit(ctx context.Context) string {
	out, err := exec.CommandContext(context.WithoutCancel(ctx), "git", "-C", b.root, "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// short returns the program's name and version alone.
func short(version string) string {
	name, _, _ := strings.Cut(version, " (")
	return strings.TrimSpace(name)
}

// loadAverage says how busy the machine is, which times depend on.
func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(data))
	if err != nil || len(fields) == 0 {
		return "load unknown"
	}
	return "load " + fields[0] + " at the end"
}

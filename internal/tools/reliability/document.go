package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entry is a row as the document shows it.
type entry struct {
	row      row
	tried    int
	notes    string
	took     string
	measured string // day and commit
	met      string // "yes", "no", or "not run"
}

// newEntry is the entry of a row that was run now.
func newEntry(row row, j judged, measured string) entry {
	notes := slices.Clone(j.notes)
	for _, wrong := range j.wrong {
		notes = append(notes, "**not met:** "+wrong)
	}
	met := "no"
	if j.met() {
		met = "yes"
	}
	return entry{row: row, tried: j.tried, notes: cell(notes), took: j.took.Round(100 * time.Millisecond).String(), measured: measured, met: met}
}

// kept returns the entry that an earlier run wrote, under the goal of today.
func kept(row row, before string) entry {
	for line := range strings.Lines(before) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 8 || strings.TrimPrefix(cells[0], "| ") != row.id {
			continue
		}
		tried, err := strconv.Atoi(strings.ReplaceAll(cells[2], ",", ""))
		if err != nil { // a row that was not run
			break
		}
		e := entry{row: row, tried: tried, notes: cells[4], took: cells[5], measured: cells[6], met: strings.TrimSpace(cells[7])}
		if tried < row.goal {
			e.met = "no"
		}
		return e
	}
	return entry{row: row, met: "not run"}
}

func (e entry) line() string {
	tried := number(e.tried)
	if e.met == "not run" {
		tried = "-"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s |\n", e.row.id, cell([]string{e.row.what}), tried, number(e.row.goal)+" "+e.row.unit, e.notes, e.took, e.measured, e.met)
}

// summary says how many of each unit were tried, and of which rows it cannot be said that they went well.
func summary(entries []entry) string {
	var units, open []string
	sums := map[string]int{}
	for _, e := range entries {
		if e.met != "yes" {
			open = append(open, e.row.id)
			continue
		}
		if !slices.Contains(units, e.row.unit) {
			units = append(units, e.row.unit)
		}
		sums[e.row.unit] += e.tried
	}
	var parts []string
	for _, unit := range units {
		parts = append(parts, number(sums[unit])+" "+unit)
	}
	if len(parts) == 0 {
		return "**No row is met.**\n"
	}
	tried := fmt.Sprintf("**%s tried: nothing was lost.**", strings.Join(parts, ", "))
	if len(open) > 0 {
		return fmt.Sprintf("%s That counts %d of %d rows; **not met or not run: %s.**\n", tried, len(entries)-len(open), len(entries), strings.Join(open, ", "))
	}
	return fmt.Sprintf("%s All %d rows are met.\n", tried, len(entries))
}

// render writes the document. Entries stand in the order of the areas.
func render(areas []area, entries []entry, facts string) string {
	var out strings.Builder
	out.WriteString("# What was tried, and what came of it\n\nWritten by `make reliability` (internal/tools/reliability); do not edit by hand. Each count was made by the tests themselves while they ran,\n" +
		"in their long form. A row is met when all of its tests passed and tried at least as many as its goal.\n\n")
	out.WriteString(summary(entries))
	out.WriteString("\n" + facts)
	next := 0
	for _, table := range areas {
		if len(table.rows) == 0 {
			continue
		}
		fmt.Fprintf(&out, "\n## %s\n\n| row | what was tried | tried | goal | notes | took | measured | met |\n|---|---|---|---|---|---|---|---|\n", table.title)
		for range table.rows {
			out.WriteString(entries[next].line())
			next++
		}
		out.WriteString("\n```console\n")
		for _, b := range batches([]area{table}, nil) {
			fmt.Fprintf(&out, "$ FEEDMIRROR_LONG=1 %s\n", b.command)
		}
		out.WriteString("```\n")
	}
	return out.String()
}

// number spells a count with commas.
func number(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// cell makes lines fit into a cell of a Markdown table.
func cell(lines []string) string {
	text := strings.NewReplacer("|", "&#124;", "\r", "", "<", "&lt;").Replace(strings.Join(lines, "; "))
	return strings.Join(strings.Fields(text), " ")
}

var port = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)

// anonymous takes out what differs on each machine: folders and ports.
func anonymous(text string, folders ...string) string {
	for _, folder := range folders {
		if folder != "" && folder != "/" {
			text = strings.ReplaceAll(text, folder, ".")
		}
	}
	return port.ReplaceAllString(text, "127.0.0.1:PORT")
}

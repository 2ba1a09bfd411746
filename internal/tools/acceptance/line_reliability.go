package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// reliabilityRow is a row of docs/reliability.md, which `make reliability` writes from the evidence of
// the tests.
type reliabilityRow struct {
	id, unit, took, measured, met string
	tried                         int
}

// tried wants rows of docs/reliability.md to be met, each with at least so many trials, or all together.
// An id that ends in * stands for all that begin like it.
func tried(least int, together bool, ids ...string) func(context.Context, *stage) error {
	return func(_ context.Context, s *stage) error {
		text, err := os.ReadFile(filepath.Join(s.root, "docs", "reliability.md"))
		if err != nil {
			return fmt.Errorf("read what was tried (type: make reliability): %w", err)
		}
		var named []string
		sum := 0
		for _, id := range ids {
			rows := rowsOf(string(text), id)
			if len(rows) == 0 {
				return fmt.Errorf("docs/reliability.md has no row %s", id)
			}
			for _, row := range rows {
				named = append(named, row.id)
				sum += row.tried
				s.want(row.met == "yes" && (together || row.tried >= least), "%s: %d %s in %s, met: %s (%s)", row.id, row.tried, row.unit, row.took, row.met, row.measured)
			}
		}
		s.command("make reliability ROWS=" + strings.Join(named, ","))
		if together {
			s.want(sum >= least, "%d in all", sum)
		}
		return nil
	}
}

// rowsOf returns the rows with an id, or with ids that begin with what stands before a *.
func rowsOf(text, id string) []reliabilityRow {
	start, several := strings.CutSuffix(id, "*")
	var rows []reliabilityRow
	for line := range strings.Lines(text) {
		row, err := readReliabilityRow(line)
		if err == nil && (row.id == id || several && strings.HasPrefix(row.id, start)) {
			rows = append(rows, row)
		}
	}
	return rows
}

// readReliabilityRow reads "| id | what | tried | goal and unit | notes | took | measured | met |". A row
// that was not run has none tried.
func readReliabilityRow(line string) (reliabilityRow, error) {
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "| "), " |"), " | ")
	if len(cells) != 8 {
		return reliabilityRow{}, errors.New("no row")
	}
	_, unit, hasUnit := strings.Cut(cells[3], " ")
	if !hasUnit {
		return reliabilityRow{}, errors.New("no unit")
	}
	row := reliabilityRow{id: cells[0], unit: unit, took: cells[5], measured: cells[6], met: cells[7]}
	if cells[2] == "-" {
		return row, nil
	}
	var err error
	row.tried, err = strconv.Atoi(strings.ReplaceAll(cells[2], ",", ""))
	return row, err
}

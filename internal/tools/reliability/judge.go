package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"feedmirror/internal/evidence"
)

// ran is how a command ended.
type ran struct {
	failure string // "" when it ended with 0 in time
	lines   []evidence.Line
}

// judged is what one row came to.
type judged struct {
	tried int
	took  time.Duration // of the row's tests
	notes []string
	wrong []string // why the row is not met; empty: it is
}

// decode reads the lines that one process of tests wrote. A line that cannot be read is an error: what
// it would have said may be a failure.
func decode(text []byte) ([]evidence.Line, error) {
	var lines []evidence.Line
	for raw := range bytes.Lines(text) {
		var line evidence.Line
		if err := json.Unmarshal(raw, &line); err != nil {
			return nil, fmt.Errorf("read a line of evidence: %w", err)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// judge decides about one row from how its command ended and what its tests said.
func judge(row row, ran ran, long bool) judged {
	var j judged
	said := 0
	for _, line := range ran.lines {
		if line.Row != row.id {
			continue
		}
		said++
		j.tried += line.Tried
		j.took += line.Took
		j.notes = append(j.notes, line.Notes...)
		if line.Failed {
			j.wrong = append(j.wrong, line.Test+" failed")
		}
		if long && !line.Long {
			j.wrong = append(j.wrong, line.Test+" ran its short form")
		}
	}
	if ran.failure != "" {
		j.wrong = append(j.wrong, ran.failure)
	}
	if said == 0 {
		j.wrong = append(j.wrong, "no test said what it tried")
	} else if long && j.tried < row.goal {
		j.wrong = append(j.wrong, fmt.Sprintf("%d tried, %d wanted", j.tried, row.goal))
	}
	return j
}

// met is false for a row of which nothing is known.
func (j judged) met() bool { return len(j.wrong) == 0 && j.tried > 0 }

// strangers are the rows that tests spoke of and that no table has.
func strangers(areas []area, lines []evidence.Line) []string {
	var ids []string
	for _, line := range lines {
		ids = append(ids, line.Row)
	}
	return unknown(areas, ids)
}

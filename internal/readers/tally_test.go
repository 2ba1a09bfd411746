//go:build readers

package readers_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// The questions that every engine is asked.
const (
	askCurrent      = "current"      // the published rows of each dataset
	askVersion      = "version"      // the rows of every version that the table ever showed
	askChanges      = "changes"      // all datasets' changes since a date
	askAttachments  = "attachments"  // the attachments of each dataset
	askJoin         = "join"         // rows with the objects of their documents
	askPublications = "publications" // every move of a pointer
	askGeometry     = "geometry"     // the WKB of one record
)

func questions() []string {
	return []string{askCurrent, askVersion, askChanges, askAttachments, askJoin, askPublications, askGeometry}
}

// required names each engine with the places that it must have read. An engine that is missing from a
// run fails it.
func required() map[string][]string {
	return map[string][]string{
		"duckdb":     {inFolder, onS3},
		"deltalake":  {inFolder, onS3},
		"polars":     {inFolder, onS3},
		"clickhouse": {onS3},
		"spark":      {inFolder},
		"trino":      {onS3},
	}
}

// answered is what one engine said to one question in one place.
type answered struct {
	answers, rows int
	seconds       float64
}

// tally counts answers that were found right.
type tally struct {
	mu    sync.Mutex
	heard map[[3]string]*answered // by engine, place and question
	notes []string
}

func newTally() *tally { return &tally{heard: map[[3]string]*answered{}} }

func (t *tally) add(engine, place string, a answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := [3]string{engine, place, a.Question}
	if t.heard[key] == nil {
		t.heard[key] = &answered{}
	}
	t.heard[key].answers++
	t.heard[key].rows += len(a.Rows)
	t.heard[key].seconds += a.Seconds
}

// note keeps a line for the end of the run.
func (t *tally) note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// missing names every engine and question that should have been answered rightly and was not.
func (t *tally) missing() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []string
	for engine, places := range required() {
		for _, place := range places {
			for _, question := range questions() {
				if t.heard[[3]string{engine, place, question}] == nil {
					list = append(list, strings.Join([]string{engine, place, question}, ", "))
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

// String tells what was answered, and the notes.
func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	const line = "%-11s %-10s %-13s %13v %7v %8.2f\n"
	var text strings.Builder
	if len(t.heard) > 0 {
		fmt.Fprintf(&text, "%-11s %-10s %-13s %13s %7s %8s\n", "engine", "place", "question", "right answers", "rows", "seconds")
	}
	keys := slices.SortedFunc(maps.Keys(t.heard), func(a, b [3]string) int { return slices.Compare(a[:], b[:]) })
	total := 0.0
	for i, key := range keys {
		a := t.heard[key]
		fmt.Fprintf(&text, line, key[0], key[1], key[2], a.answers, a.rows, a.seconds)
		total += a.seconds
		if i+1 == len(keys) || keys[i+1][0] != key[0] || keys[i+1][1] != key[1] {
			fmt.Fprintf(&text, line, key[0], key[1], "all", "", "", total)
			total = 0
		}
	}
	for _, note := range t.notes {
		text.WriteString(note + "\n")
	}
	return text.String()
}

package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Names of the environment variables that this package reads.
const (
	// FolderVariable names the folder that gets one JSON line a tally, in one file a process.
	FolderVariable = "FEEDMIRROR_EVIDENCE"
	// LongVariable asks for the long forms when it is "1".
	LongVariable = "FEEDMIRROR_LONG"
)

// Line is what one tally says at the end of its test.
type Line struct {
	Row    string        `json:"row"`    // the row of docs/reliability.md
	Test   string        `json:"test"`   // name of the test, with its parents
	Tried  int           `json:"tried"`  // interruptions, kills, rounds, inputs: the row names the unit
	Failed bool          `json:"failed"` // the test failed: something was lost, or it could not tell
	Long   bool          `json:"long"`
	Took   time.Duration `json:"tookNanoseconds"`
	Notes  []string      `json:"notes,omitempty"`
}

// Long reports whether the long forms are asked for.
func Long() bool { return os.Getenv(LongVariable) == "1" }

// Size returns how many to try: short in `make test`, long in `make reliability` and `make soak`.
func Size(short, long int) int {
	if Long() {
		return long
	}
	return short
}

// Tally counts what one test tried for one row. It is safe for several goroutines.
type Tally struct {
	mu    sync.Mutex
	line  Line
	began time.Time
}

// Count starts a tally of the row. What it counted is written when the test ends, failed or not. A test
// that tried nothing fails: it would otherwise count as a success.
func Count(t testing.TB, row string) *Tally {
	t.Helper()
	tally := &Tally{line: Line{Row: row, Test: t.Name(), Long: Long()}, began: time.Now()}
	t.Cleanup(func() {
		tally.mu.Lock()
		defer tally.mu.Unlock()
		if tally.line.Tried == 0 && !t.Failed() {
			t.Errorf("nothing was tried for row %q", row)
		}
		tally.line.Failed = t.Failed()
		tally.line.Took = time.Since(tally.began)
		if err := write(tally.line); err != nil {
			t.Errorf("write evidence: %v", err)
		}
	})
	return tally
}

// Add counts n more trials.
func (t *Tally) Add(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line.Tried += n
}

// Note adds a figure or a fact that the row shows beside the count, as in "2,113 states".
func (t *Tally) Note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line.Notes = append(t.line.Notes, fmt.Sprintf(format, args...))
}

func write(line Line) error {
	folder := os.Getenv(FolderVariable)
	if folder == "" {
		return nil
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	name := filepath.Join(folder, fmt.Sprintf("%d.jsonl", os.Getpid()))
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}

//go:build readers

package readers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// task is what a program below engines/ reads from its standard input. It holds questions and no answers.
type task struct {
	Mode     string        `json:"mode"`    // empty: every question; or watch, or open, or session
	Repeats  int           `json:"repeats"` // of opening
	Script   string        `json:"script"`  // what ddl printed for the engine; every statement is executed
	Database string        `json:"database"`
	Root     string        `json:"root"` // of the bucket
	S3       *s3Access     `json:"s3"`   // nil for a folder
	Scratch  string        `json:"scratch"`
	Since    string        `json:"since"`
	Datasets []taskDataset `json:"datasets"`
	Texts    []string      `json:"texts"` // of a session
}

// sessionMode lets an engine execute texts of SQL instead of asking its questions.
const sessionMode = "session"

type s3Access struct {
	Endpoint  string `json:"endpoint"`
	Region    string `json:"region"`
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
}

type taskDataset struct {
	Dataset     string   `json:"dataset"`
	Table       string   `json:"table"`    // its name in the script
	Location    string   `json:"location"` // its root in the bucket
	Commits     int      `json:"commits"`  // of its table: each is asked for as a version
	Attachments bool     `json:"attachments"`
	Documents   string   `json:"documents"` // column whose cells name attachments; empty: none
	Geometry    string   `json:"geometry"`  // column; empty: none
	Binary      []string `json:"binary"`    // columns of bytes, for engines that do not tell them from text
}

// answer is what an engine said to one question.
type answer struct {
	Question string   `json:"question"`
	Dataset  string   `json:"dataset"`
	Commit   int      `json:"commit"`
	Columns  []string `json:"columns"`
	Rows     [][]any  `json:"rows"`
	Seconds  float64  `json:"seconds"`
}

// report is all that an engine said.
type report struct {
	Engine     string   `json:"engine"` // with its version
	Statements int      `json:"statements"`
	Answers    []answer `json:"answers"`
}

// engineLimit bounds one engine's answers on a busy machine.
const engineLimit = 5 * time.Minute

// tableName is the name that ddl gives a dataset of the story.
func tableName(dataset string) string {
	return strings.ToLower(regexp.MustCompile(`[^A-Za-z0-9]`).ReplaceAllString(dataset, "_"))
}

// taskFor asks everything about a story.
func taskFor(t *testing.T, s *story, engine string) task {
	t.Helper()
	asked := task{Script: s.script(t, engine), Database: "ploti", Root: s.world.place.root, Scratch: t.TempDir(), Since: since, S3: s.world.place.access()}
	for _, d := range s.want.Datasets {
		asked.Datasets = append(asked.Datasets, taskDataset{
			Dataset: d.Dataset, Table: tableName(d.Dataset), Location: s.world.place.root + "/snapshot/ploti_dataset_id=" + d.Dataset,
			Commits: len(d.Versions), Attachments: d.Attachments.Columns != nil, Documents: d.Documents, Geometry: d.Geometry, Binary: d.Binary,
		})
	}
	return asked
}

func (p place) access() *s3Access {
	if p.server == nil {
		return nil
	}
	return &s3Access{Endpoint: p.server.Endpoint, Region: p.server.Region, AccessKey: p.server.AccessKey, SecretKey: p.server.SecretKey}
}

// python starts a program below engines/ in the environment that readers-tools made. Credentials are in
// its environment, where the statements of ddl expect them.
func python(ctx context.Context, t *testing.T, at place, name string, args ...string) *exec.Cmd {
	t.Helper()
	interpreter, err := filepath.Abs("../../.tools/readers/venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(interpreter); err != nil {
		t.Fatalf("the engines are not installed, type: make test-readers (%v)", err)
	}
	command := exec.CommandContext(ctx, interpreter, append([]string{filepath.Join("engines", name+".py")}, args...)...)
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + workshop, "TMPDIR=" + workshop, "PYTHONDONTWRITEBYTECODE=1", "NO_PROXY=127.0.0.1,localhost"}, at.env...)
	return command
}

// ask lets a program below engines/ answer a task.
func ask[Answer any](t *testing.T, at place, name string, asked task) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), engineLimit)
	defer cancel()
	command := python(ctx, t, at, name)
	var out, text bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(asked.line(t)), &out, &text
	if err := errors.Join(command.Run(), ctx.Err()); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, text.String())
	}
	var heard Answer
	decoder := json.NewDecoder(&out)
	decoder.UseNumber()
	if err := decoder.Decode(&heard); err != nil {
		t.Fatalf("%s answered no JSON: %v\n%s", name, err, text.String())
	}
	return heard
}

func (asked task) line(t *testing.T) []byte {
	t.Helper()
	line, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	return append(line, '\n')
}

// judge holds every answer of an engine against the story, and wants an answer to every question. can
// returns what the engine's types can say of rows; nil: everything.
func judge(t *testing.T, s *story, engine string, heard report, can func(table) table) {
	t.Helper()
	want := s.want.answers()
	for _, got := range heard.Answers {
		key := got.key()
		expected, asked := want[key]
		if !asked {
			t.Errorf("%s answered %s twice, or unasked", engine, key)
			continue
		}
		delete(want, key)
		if can != nil {
			expected = can(expected)
		}
		if difference := compare(table{got.Columns, got.Rows}, expected); difference != "" {
			t.Errorf("%s in a %s, %s: %s", engine, s.world.place.kind, key, difference)
			continue
		}
		seen.add(engine, s.world.place.kind, got)
		t.Logf("%s in a %s, %s: %d rows as they should be, %.2f s", engine, s.world.place.kind, key, len(got.Rows), got.Seconds)
	}
	for key := range want {
		t.Errorf("%s did not answer %s", engine, key)
	}
	executed := ""
	if heard.Statements > 0 {
		executed = fmt.Sprintf(", and executed %d statements of its script", heard.Statements)
	}
	seen.note("%s in a %s is %s%s", engine, s.world.place.kind, heard.Engine, executed)
}

func (a *answer) key() string {
	switch a.Question {
	case askVersion:
		return fmt.Sprintf("%s of %s at commit %d", a.Question, a.Dataset, a.Commit)
	case askChanges, askPublications:
		return a.Question
	}
	return a.Question + " of " + a.Dataset
}

// answers returns what each question must be answered with, by the answer's key.
func (e *expectations) answers() map[string]table {
	want := map[string]table{}
	put := func(a answer, rows table) { want[a.key()] = rows }
	for i := range e.Datasets {
		d := &e.Datasets[i]
		current := d.Shown[len(d.Shown)-1]
		put(answer{Question: askCurrent, Dataset: d.Dataset}, current)
		for n, shown := range d.Shown {
			put(answer{Question: askVersion, Dataset: d.Dataset, Commit: n}, shown)
		}
		if d.Attachments.Columns != nil {
			put(answer{Question: askAttachments, Dataset: d.Dataset}, d.Attachments)
		}
		if d.Documents != "" {
			put(answer{Question: askJoin, Dataset: d.Dataset}, d.Joined)
		}
		if d.Geometry != "" {
			put(answer{Question: askGeometry, Dataset: d.Dataset}, firstGeometry(current, d.Geometry))
		}
	}
	put(answer{Question: askChanges}, e.Changes)
	put(answer{Question: askPublications}, e.Publications)
	return want
}

// firstGeometry is the least record that has a geometry.
func firstGeometry(rows table, column string) table {
	cut := rows.only("_ploti_record_id", column)
	cut.Rows = slices.DeleteFunc(sorted(cut.Rows), func(row []any) bool { return row[1] == nil })
	cut.Rows = cut.Rows[:1]
	return cut
}

//go:build readers

package readers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
)

// session is what engines/duckdb_session.py reads: statements for one session, each of which may be
// several. Each is answered with what the last of them returned.
type session struct {
	Script     string    `json:"script"`
	Scratch    string    `json:"scratch"`
	S3         *s3Access `json:"s3"`
	Statements []string  `json:"statements"`
}

// duckdb executes statements in one session over a bucket, after those that ddl printed for it.
func duckdb(t *testing.T, at place, script string, statements []string) []table {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), engineLimit)
	defer cancel()
	input, err := json.Marshal(session{Script: script, Scratch: t.TempDir(), S3: at.access(), Statements: statements})
	if err != nil {
		t.Fatal(err)
	}
	command := python(ctx, t, at, "duckdb_session")
	var out, text bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &out, &text
	if err := errors.Join(command.Run(), ctx.Err()); err != nil {
		t.Fatalf("duckdb: %v\n%s", err, text.String())
	}
	var heard report
	decoder := json.NewDecoder(&out)
	decoder.UseNumber()
	if err := decoder.Decode(&heard); err != nil {
		t.Fatalf("duckdb answered no JSON: %v\n%s", err, text.String())
	}
	if len(heard.Answers) != len(statements) {
		t.Fatalf("duckdb answered %d of %d statements", len(heard.Answers), len(statements))
	}
	tables := make([]table, len(statements))
	for i, a := range heard.Answers {
		tables[i] = table{a.Columns, a.Rows}
	}
	return tables
}

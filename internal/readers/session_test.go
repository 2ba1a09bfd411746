//go:build readers

package readers_test

import "testing"

// converse lets an engine execute texts of one or more statements in one session over a bucket, after
// those that ddl printed for it. Each is answered with what its last statement returned.
func converse(t *testing.T, at place, engine, script string, texts []string) []table {
	t.Helper()
	heard := ask[report](t, at, engine+"_reader", task{Mode: sessionMode, Script: script, Database: "ploti", Root: at.root, Scratch: t.TempDir(), S3: at.access(), Texts: texts})
	if len(heard.Answers) != len(texts) {
		t.Fatalf("%s answered %d of %d texts", engine, len(heard.Answers), len(texts))
	}
	tables := make([]table, len(texts))
	for i, a := range heard.Answers {
		tables[i] = table{a.Columns, a.Rows}
	}
	return tables
}

// converseTrino does the same in Trino, which is a server of this test binary.
func converseTrino(t *testing.T, _ place, _, script string, texts []string) []table {
	t.Helper()
	e := newTrino(t)
	e.execute(t, script)
	var tables []table
	for _, text := range texts {
		var last table
		for _, statement := range statements(text) {
			last = e.rows(t, "%s", statement)
		}
		tables = append(tables, last)
	}
	return tables
}

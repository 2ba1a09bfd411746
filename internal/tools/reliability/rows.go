package main

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// defaultLimit is how long a command may take when its row does not say.
const defaultLimit = 20 * time.Minute

// row is one line of the table.
type row struct {
	id      string // what the tests hand to evidence.Count
	what    string // what was tried, in plain words
	unit    string // what is counted, in the plural: "kills"; rows of one unit are added up in the summary
	goal    int    // the least number that must have been tried
	command command
	limit   time.Duration // of the command; 0: defaultLimit
}

// command is what measures a row. Rows of one command share one run of it.
type command struct {
	program string
	args    []string
	short   []string // arguments of the short form; nil: the same, and the program looks at the environment
}

// goTest runs the tests of packages whose names match.
func goTest(run string, folders ...string) command {
	return command{program: "go", args: append([]string{"test", "-count=1", "-run", run}, folders...)}
}

// String spells the command for a shell.
func (c command) String() string {
	words := []string{c.program}
	for _, arg := range c.args {
		if strings.ContainsAny(arg, "^$|()*'\" ") {
			arg = "'" + arg + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

// area is one table of the document.
type area struct {
	title string
	rows  []row
}

// areas are the tables in their order. Each stands in a file of its own.
func areas() []area {
	return []area{
		{"Interruptions", interruptionRows()},
		{"Rivals", rivalRows()},
		{"Interleavings", interleavingRows()},
		{"The source", sourceRows()},
		{"The feed", feedRows()},
		{"The store", storeRows()},
		{"Prune, audit and repair", pruneAuditRows()},
		{"Tables", tableRows()},
		{"Contents", contentRows()},
		{"Security", securityRows()},
		{"Fuzzing and the soak", fuzzSoakRows()},
	}
}

// batch is one run of a command, and the rows that it measures.
type batch struct {
	command command
	limit   time.Duration
	rows    []row
}

// batches gathers the chosen rows by their command, in the order of the table; no ids: all rows.
func batches(areas []area, ids []string) []batch {
	var all []batch
	for _, area := range areas {
		for _, row := range area.rows {
			if len(ids) > 0 && !slices.Contains(ids, row.id) {
				continue
			}
			limit := cmp.Or(row.limit, defaultLimit)
			at := slices.IndexFunc(all, func(b batch) bool { return b.command.String() == row.command.String() })
			if at < 0 {
				all = append(all, batch{command: row.command})
				at = len(all) - 1
			}
			all[at].rows = append(all[at].rows, row)
			all[at].limit = max(all[at].limit, limit)
		}
	}
	return all
}

// unknown returns the ids that no row has.
func unknown(areas []area, ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return slices.ContainsFunc(areas, func(a area) bool {
			return slices.ContainsFunc(a.rows, func(r row) bool { return r.id == id })
		})
	})
}

// Package evidence is how a test says what it tried: how many interruptions, kills, races, faults or
// bad inputs, and whether all of them went well. `make reliability` collects what the tests said and
// writes docs/reliability.md from it (internal/tools/reliability owns the rows and their goals).
//
// It is imported by tests only. It never decides whether a test passes: a test that fails says so with
// t.Error, and its evidence then counts as failed. Without a folder in FEEDMIRROR_EVIDENCE nothing is
// written. FEEDMIRROR_LONG=1 asks for the long forms; `make test` runs the short ones.
package evidence

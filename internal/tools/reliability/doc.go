// Command reliability runs the long forms of the tests that interrupt, race and deceive the mirror, and
// writes docs/reliability.md from what those tests say they tried (internal/evidence). It owns the rows
// of that table, their goals, and the judgement whether a row is met:
//
//   - the tests of the row said what they tried, in their long form, and none of them failed;
//   - together they tried at least as many as the goal;
//   - the command ended with 0, within its time limit.
//
// No figure of the table is written by hand. A row that is not met stays in the table with "no" and
// makes the exit code 1; a row that was not run is named as such.
//
//	go run ./internal/tools/reliability                 all rows
//	go run ./internal/tools/reliability --only soak     these alone; the other rows stay as they were measured
//	go run ./internal/tools/reliability --short         the short forms: does each row get its evidence? Writes nothing
//
// The rows of an area stand in rows_<area>.go. Rows with the same command run it once.
package main

// Command acceptance runs the built program bin/mirror against simulated feeds and real servers on
// loopback, measures what the README promises, and writes docs/acceptance.md. It owns the list of
// those requirements, one for each line of the table, in our own words.
//
// Every figure of the table comes from the run that wrote it. A line that is not met stays in the
// table with "no", and makes the exit code 1; a line that was not run is named as such. It stops by
// itself after a time limit, and ends only processes that it started.
//
//	go run ./internal/tools/acceptance            all lines but those that need a fresh clone
//	go run ./internal/tools/acceptance --quick    the same with small sizes; the table says so
//	go run ./internal/tools/acceptance --only 2,5 --out /tmp/table.md
//	go run ./internal/tools/acceptance --clone --test
//
// It is a tool of the Makefile and must not be imported: it brings test servers with it.
package main

// Command testcheck reads the output of `go test -json` from standard input and
// decides whether a test run counts.
//
// It exists because `go test` is content with a test that was skipped: a server
// that did not start, or a tool that was not installed, would then look like
// success. Here every skipped test is a failure, as is a run without any test
// and a package whose result never came.
//
// It prints a line for each package as it finishes, the output of every failed or
// skipped test, the slowest packages, and closes with `N passed, N failed`. The exit
// code is 0 only if nothing failed and nothing was skipped; 1 otherwise.
//
// It is a tool of the Makefile and no part of the shipped program.
package main

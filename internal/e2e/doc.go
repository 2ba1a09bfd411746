// Package e2e holds end-to-end tests and nothing else: the real program, built once, as a process
// of its own, against the simulated feed and real object servers.
//
// A test sees what a user sees: exit codes, output, and the objects in the bucket, which are copied
// into a folder by the vendors' SDKs and judged by the invariant checker. Nothing here calls the
// program's own packages, but for the race of two writers, which needs thousands of swaps. Every run
// logs at level trace, and every output and every object is searched for secrets when its test ends.
package e2e

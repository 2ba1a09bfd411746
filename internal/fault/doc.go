// Package fault owns the errors that people see: operation, object, side, cause and hint, the
// kind that programs act on, and the exit code. It also takes secrets out of text that may hold
// a signed link. It knows nothing of stores or feeds and does no I/O.
package fault

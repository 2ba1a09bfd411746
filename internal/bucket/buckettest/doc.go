// Package buckettest is for tests only. It owns the conformance suite that every store has to
// pass, in named groups, and wrappers that make a good store misbehave in exactly one way.
package buckettest

// Package manifest holds what a Ploti Data Feed publishes as plain values: versions, files,
// attachments, the record the mirror keeps of each version, the keys they get in the bucket
// and the rules of the version chain.
//
// It is pure: no context, no I/O beyond the reader it is handed, no clock, no log. Everything
// that comes from the feed is checked here before any other package sees it, so a value of a
// type of this package is safe to build a key from.
package manifest

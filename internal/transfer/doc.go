// Package transfer moves one file from a signed link to a key: it asks for links just ahead of
// need, resumes broken connections, verifies while streaming and leaves the write itself to the
// bucket. It decides nothing about versions and never sees a record or a pointer.
package transfer

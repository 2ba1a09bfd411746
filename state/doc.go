// Package state owns the documents in the bucket: records and their chain, the pointer, leases,
// shard documents, layout and decisions, and the two rules that keep them true.
//
// The rule of conditional writes: anything but success proves nothing. What stands in the bucket
// is read again and the change is computed anew from it; nothing computed before is sent again.
// The monotonic rule: a pointer moves to a higher version only, but for an operator's rollback.
//
// The order of a commit is carried by types: Publish takes a Committed, which only Commit
// returns, which takes a Verified, which only Verify returns.
//
// It never fetches from the feed and never decides what to copy.
package state

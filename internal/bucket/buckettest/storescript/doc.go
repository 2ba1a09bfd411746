// Package storescript is a server of a store that misbehaves as a test says: a front that meets every
// request with rules before it goes on, and a small S3 service in memory and a folder that it can
// stand before. It is for tests only.
//
// The S3 service keeps its objects as plain files, so that the checker of invariants reads them as
// it reads a folder. It checks hashes and conditions, gives random ETags, and knows of no
// signatures: what needs a real service is tested against one (internal/testservers).
package storescript

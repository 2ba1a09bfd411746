// Package mirror owns the pass: it sequences the stages for each dataset (plan, copy, verify,
// commit, publish), decides what a refusal of the feed means for the rest of the work, and says at
// the end what was done and with which exit code.
//
// The rules themselves are elsewhere: what follows what and what may be published in package
// manifest, how documents are changed in package state, how bytes move in internal/transfer. No
// stage calls back into this package.
package mirror

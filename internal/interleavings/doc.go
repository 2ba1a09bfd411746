// Package interleavings holds tests that explore all interleavings of whole commands over one bucket:
// passes, approvals, rollbacks, retirements and prunes, as the program runs them. Those of the state
// code alone are with package state.
//
// It is a package of its own because its tests run in synctest bubbles. The Parquet library keeps
// decoders in a pool, and one that was made in a bubble must not be used outside of it: so the tests
// here that read indexes share one bubble, and no others run in their process.
package interleavings

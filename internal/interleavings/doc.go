// Package interleavings holds tests that explore all interleavings of whole commands over one bucket:
// passes, approvals, rollbacks, retirements and prunes, as the program runs them. Those of the state
// code alone are with package state.
//
// It is a package of its own because its tests run in synctest bubbles. The Parquet library keeps
// decoders in a pool, and one that was made in a bubble must not be used outside of it: each test here
// begins and ends with an empty pool, which it could not do beside others that read Parquet meanwhile.
package interleavings

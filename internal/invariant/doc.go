// Package invariant reads a bucket from its files alone and asserts what the design promises of
// it: invariants I1 to I4, as far as files can show them. It is a second reading of the bucket
// layout, for tests: it imports the standard library and parquet-go and none of our packages, so
// that a mistake in shared code cannot hide itself.
//
// Check looks at one state of a bucket, Compare at two of one bucket, Equal at two buckets that came
// to the same end on different ways. Unsettled says what a bucket leaves to the next run. It decodes
// what it needs and is strict about it; of what the layout leaves open it asserts nothing. Delta logs
// are known as keys only.
package invariant

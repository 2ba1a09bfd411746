// Package soak holds one long test and nothing else: `make soak`. Several processes of the real program
// work on one bucket, in a folder and on a real S3 server, while everything around them fails at random:
// the feed and its links, the bucket, and the processes themselves, which are killed, told to stop, and
// frozen past their leases. A person approves, rolls back, prunes and audits meanwhile, and a reader asks
// for the published pointers all the time and wants each of them to be true.
//
// A violation is what no accident excuses: a pointer that names what is not there or hashes wrong, that
// went back without a decision, a finding of an audit, a panic, a secret in an output. When the accidents
// end, one pass must bring everything to order.
//
// The accidents come from a seed, which is printed; FEEDMIRROR_SOAK_SEED repeats it, as far as the
// order in which processes run allows. FEEDMIRROR_SOAK is how long the long form lasts. Nothing here
// calls the program's own packages.
package soak

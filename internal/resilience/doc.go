// Package resilience holds tests and nothing else: whole passes, in process, over a feed and over networks
// that misbehave.
//
// A pass runs on the real clients, transfers and stores; what is replaced is the far side (the simulated
// feed with its catalogue of faults, proxies that spoil connections, servers that hang up) and the length
// of pauses. Every pass leaves a bucket that keeps its promises, and the next one without the fault
// finishes the work.
package resilience

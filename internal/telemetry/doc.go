// Package telemetry owns what people and log collectors see while the mirror works: the logger,
// the guard that keeps secrets out of everything that is written, and progress as bars on a
// terminal or as lines elsewhere.
//
// It decides nothing about a pass and reads nothing from the feed or the bucket. Results that
// programs read (standard output, run reports) are not its business.
package telemetry

package state

import (
	"slices"

	"feedmirror/manifest"
)

// Range is a run of version numbers, both ends included.
type Range struct {
	From manifest.Number `json:"from"`
	To   manifest.Number `json:"to"`
}

// Ranges are runs of version numbers in ascending order. They stay few where versions are taken
// one after the other, however many there are.
type Ranges []Range

// Has reports whether a number lies in one of the ranges.
func (r Ranges) Has(n manifest.Number) bool {
	at, found := slices.BinarySearchFunc(r, n, func(one Range, n manifest.Number) int { return int(one.From - n) })
	return found || at > 0 && r[at-1].To >= n
}

// RangesOf packs those versions of a dataset that are chosen among its committed ones. A range spans
// numbers that no committed version has, so that only what is committed may be asked of it.
func RangesOf(holding manifest.Holding, chosen func(manifest.Number) bool) Ranges {
	var ranges Ranges
	open := false
	for _, held := range holding {
		switch {
		case !held.Record:
		case !chosen(held.Number):
			open = false
		case open:
			ranges[len(ranges)-1].To = held.Number
		default:
			ranges, open = append(ranges, Range{From: held.Number, To: held.Number}), true
		}
	}
	return ranges
}

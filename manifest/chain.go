package manifest

import (
	"slices"
	"time"
)

// Retention is how long the feed keeps a version's files, counted from when it was built
// (versions-snapshots-and-changes.md, "Retention"). A version is built no later than it is
// published and no earlier than its source was fetched.
const Retention = 90 * 24 * time.Hour

// History says where a dataset's records begin.
type History string

// The choices of history.
const (
	HistoryAll     History = "all"     // with the oldest version that the feed still has
	HistoryCurrent History = "current" // with the version that is current at the first pass
)

// Held is what the bucket holds of one version.
type Held struct {
	Number    Number
	Claimed   bool      // its manifest stands; files may
	Record    bool      // it is committed
	Gone      bool      // noted as no longer to be had; a record beside the note wins
	GoneFor   GapReason // why, once the note was read; expired otherwise
	GoneSince time.Time // when the note was written, by the store's clock
	Withdrawn bool      // the feed released it again under another number
	Pruned    bool
	Rewritten bool // another manifest, which the feed later published under its number, is kept beside it
}

// Holding is what the bucket holds of a dataset, in version order.
type Holding []Held

// Find returns what is held of version n.
func (h Holding) Find(n Number) (Held, bool) {
	at, found := slices.BinarySearchFunc(h, n, func(v Held, n Number) int { return int(v.Number - n) })
	if !found {
		return Held{Number: n}, false
	}
	return h[at], true
}

// HasRecord reports whether version n is committed.
func (h Holding) HasRecord(n Number) bool {
	v, _ := h.Find(n)
	return v.Record
}

// NewestRecord returns the highest committed version below limit, or zero. Pass MaxNumber+1 for
// the highest of all.
func (h Holding) NewestRecord(limit Number) Number {
	for _, v := range slices.Backward(h) {
		if v.Record && v.Number < limit {
			return v.Number
		}
	}
	return 0
}

// OldestRecord returns the lowest committed version, or zero.
func (h Holding) OldestRecord() Number {
	for _, v := range h {
		if v.Record {
			return v.Number
		}
	}
	return 0
}

// With returns a holding in which version v replaces what was known of it.
func (h Holding) With(v Held) Holding {
	at, found := slices.BinarySearchFunc(h, v.Number, func(a Held, n Number) int { return int(a.Number - n) })
	next := slices.Clone(h)
	if found {
		next[at] = v
		return next
	}
	return slices.Insert(next, at, v)
}

// Follow returns which record a version's record names as its predecessor and, where that is not
// the one the feed names, the gap with its reason. failed tells versions that could not be copied
// in this pass or an earlier one.
func Follow(v Version, held Holding, failed func(Number) bool) (previous Number, gap *Gap) {
	previous = held.NewestRecord(v.Number)
	if v.Previous == previous {
		return previous, nil
	}
	return previous, &Gap{Expected: v.Previous, Reason: gapReason(v, previous, held, failed)}
}

func gapReason(v Version, previous Number, held Holding, failed func(Number) bool) GapReason {
	if v.Previous == 0 || held.HasRecord(v.Previous) {
		if v.Previous != 0 && allWithdrawn(held, v.Previous, v.Number) {
			return GapWithdrawn
		}
		return GapFork
	}
	expected, _ := held.Find(v.Previous)
	switch {
	case expected.Gone && expected.GoneFor != "":
		return expected.GoneFor
	case expected.Gone:
		return GapExpired
	case failed(v.Previous):
		return GapIncomplete
	case previous == 0 || v.Previous < held.OldestRecord():
		return GapHistoryCurrent
	default:
		return GapIncomplete
	}
}

// allWithdrawn reports whether every record between two versions was withdrawn by the feed, so
// that a version may rightly reach back over them.
func allWithdrawn(held Holding, above, below Number) bool {
	for _, v := range held {
		if v.Record && v.Number > above && v.Number < below && !v.Withdrawn {
			return false
		}
	}
	return true
}

// Work is what a pass has to ask the feed for, in the order in which it has to be committed.
type Work struct {
	Copy []Version // listed versions without a record
	// Ask are versions that a listed one names as previous, which are neither held, listed nor
	// noted gone. They are asked for before the version that names them.
	Ask []Number
}

// PlanOptions narrows what PlanWork plans.
type PlanOptions struct {
	History History
	Current Number // the feed's current version; zero when it did not say
	Full    bool   // a full pass: asks again for what was noted gone, and fills in below the first record
	FeedNow time.Time
}

// PlanWork compares a listed chain, in version order, with what is held.
func PlanWork(listed []Version, held Holding, o PlanOptions) Work {
	start := startOf(listed, held, o)
	work := Work{}
	for _, v := range listed {
		have, _ := held.Find(v.Number)
		if v.Number >= start && !have.Record && (!have.Gone || askAgain(v, o)) {
			work.Copy = append(work.Copy, v)
		}
	}
	known := make(map[Number]bool, len(listed))
	for _, v := range listed {
		known[v.Number] = true
	}
	for _, n := range unlisted(work.Copy, held, o) {
		if n >= start && !known[n] && !held.HasRecord(n) {
			known[n] = true
			work.Ask = append(work.Ask, n)
		}
	}
	slices.Sort(work.Ask)
	return work
}

// unlisted returns versions that are worth a question although the list may not name them: those
// that a version to be copied calls its previous, and, in a full pass, young ones noted gone.
func unlisted(copies []Version, held Holding, o PlanOptions) []Number {
	var list []Number
	for _, v := range copies {
		if before, _ := held.Find(v.Previous); v.Previous != 0 && !before.Gone {
			list = append(list, v.Previous)
		}
	}
	for _, have := range held {
		if o.Full && have.Gone && o.FeedNow.Sub(have.GoneSince) < Retention {
			list = append(list, have.Number)
		}
	}
	return list
}

// startOf returns the version below which none is wanted: history mode decides where records
// begin, and only a full pass fills in below the first one.
func startOf(listed []Version, held Holding, o PlanOptions) Number {
	first := held.OldestRecord()
	switch {
	case first == 0 && o.History == HistoryCurrent:
		return currentOf(listed, o.Current)
	case first != 0 && (o.History == HistoryCurrent || !o.Full):
		return first
	default:
		return 0
	}
}

// askAgain reports whether a version noted gone is asked for once more: by every full pass while
// the feed lists it and its own retention does not explain the refusal.
func askAgain(v Version, o PlanOptions) bool { return o.Full && !PastRetention(v, o.FeedNow) }

func currentOf(listed []Version, current Number) Number {
	if current != 0 {
		return current
	}
	if len(listed) == 0 {
		return 0
	}
	return listed[len(listed)-1].Number
}

// PastRetention reports whether the feed may have dropped a version by its own rules: it was
// published longer ago than the feed keeps files. A version can go sooner, since retention counts
// from when it was built.
func PastRetention(v Version, feedNow time.Time) bool {
	return !v.PublishedAt.IsZero() && !feedNow.IsZero() && feedNow.Sub(v.PublishedAt) > Retention
}

// MassRefusal reports whether so much of a chain answers 410 that it is an alarm and not
// retention: more than half of four or more versions that retention does not explain.
func MassRefusal(refused, asked int) bool { return asked >= 4 && 2*refused > asked }

// Refusal is a 410 for a version that the bucket holds.
type Refusal struct {
	Version       Number
	ReleasedAgain bool       // the feed's message says so
	FeedCurrent   Number     // zero when unknown
	FetchedAt     *time.Time // of the version; nil when unknown
	FeedNow       time.Time  // the feed's Date; zero when unknown
}

// Withdrawn reports whether the refusal means that the feed released the version again. Any other
// 410 only says that retention has passed.
func (r Refusal) Withdrawn() bool {
	switch {
	case r.ReleasedAgain:
		return true
	case r.FeedCurrent != 0 && r.Version > r.FeedCurrent:
		return true
	default:
		return r.FetchedAt != nil && !r.FeedNow.IsZero() && r.FeedNow.Before(r.FetchedAt.Add(Retention))
	}
}

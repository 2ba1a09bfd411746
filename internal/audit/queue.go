package audit

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"feedmirror/internal/bucket"
	"feedmirror/manifest"
)

// Object is an object of the bucket as a ledger knows it.
type Object struct {
	Key     string
	Dataset string // empty for an attachment
	SHA256  manifest.SHA256
	Tag     bucket.Tag // as it was listed, or as it was read
}

// Ledger keeps when objects were last checked. Its methods are called by many goroutines.
type Ledger interface {
	// Last returns when the object, under this very tag, was last found good at a level or a deeper
	// one (zero: never, as far as is known), and whether it is due again.
	Last(o Object, level Level) (last time.Time, due bool)
	// Good notes that it was found good at a level now.
	Good(o Object, level Level)
}

// queue holds what is due until all is known, so that the stalest can be taken first: 56 bytes for
// an attachment.
type queue struct {
	mu    sync.Mutex
	named []expected // objects that are no attachments
	units []*rowUnit
	due   []dueObject
}

type dueObject struct {
	sum   manifest.SHA256
	size  int64 // bytes
	last  int64 // unix nanoseconds; 0: never
	named int32 // in queue.named; -1 for an attachment; -2 and below for units, the first of them -2
}

// unitAt returns the place of a unit among queue.units; false: it is none.
func (d dueObject) unitAt() (int, bool) { return int(-2 - d.named), d.named <= -2 }

// addUnit puts a unit into the queue.
func (q *queue) addUnit(unit *rowUnit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	entry := dueObject{size: unit.size, named: int32(-2 - len(q.units))} //nolint:gosec // there are not so many versions
	if !unit.last.IsZero() {
		entry.last = unit.last.UnixNano()
	}
	q.units = append(q.units, unit)
	q.due = append(q.due, entry)
}

// level is what the audit finds out about an object by itself: rows are looked at together.
func (a *auditor) level() Level {
	if a.Level.includes(LevelBytes) {
		return LevelBytes
	}
	return a.Level
}

// wait puts an object that was found by its size into the queue, unless it is not due.
func (a *auditor) wait(want expected, info bucket.Info) {
	last, due := a.Ledger.Last(objectOf(want, info.Tag), a.level())
	if !due {
		a.count(func(_ *Checked, n *NotChecked) { n.Objects++; n.Fresh++ })
		return
	}
	entry := dueObject{sum: want.sum, size: want.size, named: -1}
	if !last.IsZero() {
		entry.last = last.UnixNano()
	}
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	if want.key != manifest.AttachmentKey(want.sum) {
		entry.named = int32(len(a.queue.named))
		a.queue.named = append(a.queue.named, want)
	}
	a.queue.due = append(a.queue.due, entry)
}

func objectOf(want expected, tag bucket.Tag) Object {
	return Object{Key: want.key, Dataset: want.dataset, SHA256: want.sum, Tag: tag}
}

// good tells the ledger of an object.
func (a *auditor) good(want expected, tag bucket.Tag) {
	if a.Ledger != nil && want.unit == nil { // of a unit when its rows are known
		a.Ledger.Good(objectOf(want, tag), a.level())
	}
}

// checkQueue checks what is due, the stalest first, until the budget is used up. The object that
// uses it up is still checked: else one greater than the budget never would be.
func (a *auditor) checkQueue(ctx context.Context) error {
	due := a.queue.due
	slices.SortFunc(due, func(x, y dueObject) int {
		switch {
		case x.last != y.last && x.last < y.last:
			return -1
		case x.last != y.last:
			return 1
		case x.named != y.named && x.named <= -2 && y.named <= -2:
			return int(y.named) - int(x.named) // versions in their order: the next one needs the snapshot of this
		case x.named != y.named:
			return int(x.named) - int(y.named)
		}
		return bytes.Compare(x.sum[:], y.sum[:])
	})
	a.Stage("the stalest objects")
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(a.Workers)
	left := a.Budget
	for at, entry := range due {
		if groupCtx.Err() != nil {
			break
		}
		if a.Budget > 0 && left <= 0 {
			beyond := a.queue.objects(due[at:])
			a.count(func(_ *Checked, n *NotChecked) { n.Objects += beyond; n.Budget += beyond })
			break
		}
		left -= entry.size
		if place, ok := entry.unitAt(); ok { // one at a time: each may take all the memory there is for rows
			if err := a.checkDueUnit(groupCtx, a.queue.units[place]); err != nil {
				_ = group.Wait() // this error ends the audit
				return err
			}
			continue
		}
		group.Go(func() error { return a.checkDue(groupCtx, entry) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// objects counts those of entries.
func (q *queue) objects(entries []dueObject) int64 {
	total := int64(0)
	for _, entry := range entries {
		if place, ok := entry.unitAt(); ok {
			total += int64(len(q.units[place].files))
		} else {
			total++
		}
	}
	return total
}

func (a *auditor) checkDue(ctx context.Context, entry dueObject) error {
	want := digest{entry.sum, entry.size}.expected()
	if entry.named >= 0 {
		want = a.queue.named[entry.named]
	}
	if !a.Level.includes(LevelBytes) {
		return a.checksum(ctx, want)
	}
	if err := a.bytes(ctx, want, bucket.Info{}); err != nil {
		return err
	}
	if want.dataset == "" || want.key != manifest.ManifestKey(want.dataset, want.version) {
		return nil
	}
	committed, err := a.recall(ctx, want.dataset, want.version)
	if err != nil {
		return a.tell(ctx, KindRecord, manifest.RecordKey(want.dataset, want.version), want.dataset, want.version, err)
	}
	return a.contents(ctx, committed.Record())
}

package audit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"feedmirror/internal/bucket"
	"feedmirror/manifest"
)

// rowUnit is a version whose rows are audited: its Parquet files and its schema are read together.
type rowUnit struct {
	dataset string
	version manifest.Number
	before  predecessor
	size    int64 // bytes that are read for it

	mu    sync.Mutex
	files []rowFile // those that the listing has as the record names them
	last  time.Time // when the stalest of them was last found good, zero: never
	due   bool
}

// rowFile is a file of a unit with what the listing says of it.
type rowFile struct {
	expected
	info bucket.Info
}

// predecessor is what the bucket holds right before a version.
type predecessor struct {
	version manifest.Number // zero: nothing
	pruned  bool
	unread  bool // its record cannot be used
}

// predecessorOf returns the version with a record before the one at a place.
func predecessorOf(versions []*version, at int) predecessor {
	for i := at - 1; i >= 0; i-- {
		if v := versions[i]; v.held.Record {
			return predecessor{version: v.held.Number, pruned: v.held.Pruned, unread: v.committed == nil}
		}
	}
	return predecessor{}
}

// previousOf returns the record of that version, nil when it cannot be used.
func previousOf(versions []*version, at int) *manifest.Record {
	for i := at - 1; i >= 0; i-- {
		if v := versions[i]; v.committed != nil {
			record := v.committed.Record()
			return &record
		} else if v.held.Record {
			return nil
		}
	}
	return nil
}

// rowUnit returns the unit of a version; nil where its rows are not looked at.
func (a *auditor) rowUnit(record manifest.Record, before predecessor, previous *manifest.Record) *rowUnit {
	if !a.Level.includes(LevelRows) || !a.deep(record.Dataset, record.Version) {
		return nil
	}
	unit := &rowUnit{dataset: record.Dataset, version: record.Version, before: before}
	for _, file := range record.Files {
		if isRowFile(file.Kind) {
			unit.size += file.Size
		}
	}
	if previous != nil && needsPrevious(record, before) {
		for _, file := range previous.Files {
			if file.Kind == manifest.KindSnapshot {
				unit.size += file.Size
			}
		}
	}
	return unit
}

// takes tells whether a file named by the unit's record belongs to it.
func (u *rowUnit) takes(record manifest.Record, key string) bool {
	if u == nil {
		return false
	}
	for _, file := range record.Files {
		if file.Key == key {
			return isRowFile(file.Kind)
		}
	}
	return false
}

// enter adds a file that is there as it is named.
func (a *auditor) enter(want expected, info bucket.Info) {
	unit := want.unit
	due, last := true, time.Time{}
	if a.Ledger != nil && !info.Archived {
		_, due = a.Ledger.Last(objectOf(want, info.Tag), LevelRows)
		// A version whose rows are wrong is due in every run. What counts for its turn is when its bytes
		// were last read: else it would keep all others from theirs.
		last, _ = a.Ledger.Last(objectOf(want, info.Tag), LevelBytes)
	}
	unit.mu.Lock()
	defer unit.mu.Unlock()
	if len(unit.files) == 0 || last.Before(unit.last) {
		unit.last = last
	}
	unit.files, unit.due = append(unit.files, rowFile{want, info}), unit.due || due
}

// settle is called when every file of a unit was looked for: it puts the unit into the queue, or reads it
// at once where there is no ledger.
func (a *auditor) settle(ctx context.Context, unit *rowUnit, record manifest.Record, previous *manifest.Record) error {
	switch {
	case a.Ledger == nil:
		return a.checkUnit(ctx, unit, record, previous)
	case unit.due:
		a.queue.addUnit(unit)
	default:
		fresh := int64(len(unit.files))
		a.count(func(_ *Checked, n *NotChecked) { n.Objects += fresh; n.Fresh += fresh })
	}
	return nil
}

// checkDueUnit reads a unit whose turn has come.
func (a *auditor) checkDueUnit(ctx context.Context, unit *rowUnit) error {
	committed, err := a.recall(ctx, unit.dataset, unit.version)
	if err != nil {
		return a.tell(ctx, KindRecord, manifest.RecordKey(unit.dataset, unit.version), unit.dataset, unit.version, err)
	}
	record := committed.Record()
	if !needsPrevious(record, unit.before) {
		return a.checkUnit(ctx, unit, record, nil)
	}
	before, err := a.recall(ctx, unit.dataset, unit.before.version)
	if err != nil { // told by the audit of the chain, unless it was lost since
		unit.before.unread = true
		return a.checkUnit(ctx, unit, record, nil)
	}
	previous := before.Record()
	return a.checkUnit(ctx, unit, record, &previous)
}

// checkUnit reads the files of a version, each once, hashes them, and looks at their rows.
func (a *auditor) checkUnit(ctx context.Context, unit *rowUnit, record manifest.Record, previous *manifest.Record) error {
	a.Stage(fmt.Sprintf("rows of %s, version %d", unit.dataset, unit.version))
	if !needsPrevious(record, unit.before) {
		previous = nil
	}
	if err := a.spools.keep(keysOf(record, previous)); err != nil {
		return err
	}
	if err := a.fetch(ctx, unit); err != nil {
		return err
	}
	if err := a.fetchSnapshot(ctx, previous); err != nil {
		return err
	}
	clean, err := a.rows(ctx, unit, record, previous)
	if err != nil || a.Ledger == nil {
		return err
	}
	level := LevelBytes
	if clean {
		level = LevelRows
	}
	for _, file := range unit.files {
		if one := a.spools.good(file.key); one != nil {
			a.Ledger.Good(objectOf(file.expected, one.tag), level)
		}
	}
	return nil
}

// keysOf returns the files that are needed for a version.
func keysOf(record manifest.Record, previous *manifest.Record) map[string]bool {
	wanted := map[string]bool{}
	for _, file := range record.Files {
		wanted[file.Key] = isRowFile(file.Kind)
	}
	if previous != nil {
		for _, file := range previous.Files {
			if file.Kind == manifest.KindSnapshot {
				wanted[file.Key] = true
			}
		}
	}
	return wanted
}

// fetch reads the unit's own files as level bytes does, each into a spool.
func (a *auditor) fetch(ctx context.Context, unit *rowUnit) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(a.Workers)
	for _, file := range unit.files {
		if a.spools.good(file.key) != nil {
			continue
		}
		one, err := a.spools.add(file.key)
		if err != nil {
			_ = group.Wait() // this error ends the audit
			return err
		}
		want := file.expected
		want.spool = one
		group.Go(func() error { return a.bytes(groupCtx, want, file.info) })
	}
	return group.Wait()
}

// fetchSnapshot reads the snapshot of the version before, unless it is there. What is wrong with it is told
// by its own version.
func (a *auditor) fetchSnapshot(ctx context.Context, previous *manifest.Record) error {
	if previous == nil {
		return nil
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(a.Workers)
	for _, file := range previous.Files {
		if file.Kind != manifest.KindSnapshot || a.spools.good(file.Key) != nil {
			continue
		}
		one, err := a.spools.add(file.Key)
		if err != nil {
			_ = group.Wait() // this error ends the audit
			return err
		}
		want := expected{key: file.Key, size: file.Size, sum: file.SHA256, dataset: previous.Dataset, version: previous.Version, spool: one}
		group.Go(func() error {
			if !a.read(groupCtx, want).good(want) && groupCtx.Err() == nil && one.failed == nil {
				a.read(groupCtx, want)
			}
			if groupCtx.Err() != nil {
				return groupCtx.Err()
			}
			return one.failed
		})
	}
	return group.Wait()
}

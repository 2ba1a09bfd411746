package rows

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"

	"feedmirror/internal/parquetinfo"
)

// Counts are the feed's counts of a version's changes.
type Counts struct{ Added, Changed, Removed int64 }

// Input is a version and what it is held against.
type Input struct {
	Snapshot Snapshot
	// Previous is the snapshot that the changes start from; nil: no replay, for the reason given.
	Previous  *Snapshot
	NoReplay  string
	Changes   []Part
	Counts    *Counts // nil: the feed gives none, or the changes are not held
	IDMap     []Part
	IDMapFrom *Snapshot // the previous snapshot, for the id map alone; nil where it is not held
	// Schema is schema.json; nil: columns and types are not checked.
	Schema []byte
}

// Options bound an audit.
type Options struct {
	// Memory is how many bytes of reduced rows are kept in memory; what is more goes to files.
	Memory int64
	Folder string // for temporary files; they have no name in it once they are open
	window int    // rows held at once; maxWindow when zero
}

// Result is what an audit of a version's rows found.
type Result struct {
	Read     bool  // the snapshot was, to its end
	Rows     int64 // of the snapshot
	Changes  int64 // rows of the changes
	Form     VersionForm
	Findings []Finding
	// Replayed tells that the changes were replayed; else NoReplay says why not.
	Replayed   bool
	NoReplay   string
	NotChecked []string // what else was not checked, and why
	Incomplete bool     // something could not be read that another audit may read
	Compared   []string // columns that the replay compared
	Partitions int
	Spilled    int64 // bytes of reduced rows that went to files
}

// auditor is one audit.
type auditor struct {
	Options
	ctx    context.Context
	hash   hasher
	result *Result
	sound  map[*os.File]soundness            // of every file
	infos  map[*os.File]parquetinfo.PartInfo // footers
	own    map[string]bool                   // the dataset's own columns by the first part of the snapshot

	partitions int
}

func (a *auditor) alive() error { return context.Cause(a.ctx) }

func (a *auditor) find(f Finding) { a.result.Findings = append(a.result.Findings, f) }

func (a *auditor) skip(format string, args ...any) {
	a.result.NotChecked = append(a.result.NotChecked, fmt.Sprintf(format, args...))
}

func (a *auditor) scan(id string) *scan { return &scan{auditor: a, id: id} }

// Check audits the rows of one version. An error is one of the machine or of ctx; what is wrong with the
// files is a finding.
func Check(ctx context.Context, in Input, o Options) (result Result, err error) {
	result = Result{NoReplay: in.NoReplay}
	if o.window == 0 {
		o.window = maxWindow
	}
	a := &auditor{Options: o, ctx: ctx, hash: newHasher(), result: &result, sound: map[*os.File]soundness{}, infos: map[*os.File]parquetinfo.PartInfo{}}
	if !a.inspect(TableSnapshot, in.Snapshot.Parts) {
		result.NoReplay = noReplay(in.NoReplay, "the snapshot cannot be read")
		a.skip("anything else: the snapshot cannot be read")
		return result, nil
	}
	if !a.inspect(TableChanges, in.Changes) {
		in.Changes, in.Counts, in.Previous, in.NoReplay = nil, nil, nil, noReplay(in.NoReplay, "the changes cannot be read")
	}
	if !a.inspect(TableIDMap, in.IDMap) {
		in.IDMap = nil
	}
	if in.Previous != nil && !a.readable(in.Previous.Parts) {
		in.Previous, in.NoReplay = nil, previousUnreadable
	}
	if in.IDMapFrom != nil && !a.readable(in.IDMapFrom.Parts) {
		in.IDMapFrom = nil
	}
	result.NoReplay = in.NoReplay
	a.partitions = partitionsFor(a.rowsOf(in), o.Memory)
	result.Partitions = a.partitions
	a.shape(in)
	if err := a.checkPages(in.Snapshot.Parts, in.Changes, in.IDMap, of(in.Previous), of(in.IDMapFrom)); err != nil {
		return result, err
	}
	return result, a.contents(in)
}

func of(s *Snapshot) []Part {
	if s == nil {
		return nil
	}
	return s.Parts
}

const previousUnreadable = "the previous snapshot cannot be read; its own version tells more"

// noReplay returns the reason that was given before, or else this one.
func noReplay(given, reason string) string {
	if given != "" {
		return given
	}
	return reason
}

// inspect reads the footers of a table; false: one cannot be read, which was told.
func (a *auditor) inspect(table Table, parts []Part) bool {
	whole := true
	for _, part := range parts {
		if _, known := a.infos[part.File]; known {
			continue
		}
		info, err := parquetinfo.Inspect(part.File, part.Size)
		if err != nil {
			whole = false
			a.find(Finding{Kind: KindUnreadable, Code: part.Name, Table: table, Part: part.Name, Detail: fmt.Sprintf("%s: %v", part.Name, err)})
			continue
		}
		a.infos[part.File] = info
	}
	return whole
}

// readable reads the footers of another version's snapshot: what is wrong with it is told there.
func (a *auditor) readable(parts []Part) bool {
	for _, part := range parts {
		if _, known := a.infos[part.File]; known {
			continue
		}
		info, err := parquetinfo.Inspect(part.File, part.Size)
		if err != nil {
			return false
		}
		a.infos[part.File] = info
	}
	return true
}

// rowsOf returns how many rows are reduced at the same time at most, by the footers.
func (a *auditor) rowsOf(in Input) int64 {
	count := func(parts []Part) int64 {
		sum := int64(0)
		for _, part := range parts {
			sum += a.infos[part.File].Rows
		}
		return sum
	}
	rows := count(in.Snapshot.Parts) + count(in.Changes)
	if in.Previous != nil {
		rows += count(in.Previous.Parts)
	}
	ids := count(in.IDMap)
	if in.IDMapFrom != nil {
		ids += count(in.IDMapFrom.Parts)
	}
	return max(rows, count(in.Snapshot.Parts)+ids)
}

// contents reads the rows.
func (a *auditor) contents(in Input) (err error) {
	columns := a.columns(in)
	compared := func(column string) bool { return columns[column] }
	this, before := a.readBoth(in, compared)
	var changes *changesFacts
	defer func() { err = errors.Join(err, a.closed(this.facts), a.closed(before.facts), a.closedChanges(changes)) }()
	if err := errors.Join(a.machine(this.err), a.machine(before.err)); err != nil {
		return err
	}
	if this.err != nil {
		a.result.NoReplay = noReplay(in.NoReplay, "the snapshot cannot be read")
		a.skip("what comes after the footers: the snapshot cannot be read")
		return a.unreadable(this.err, TableSnapshot)
	}
	a.result.Read, a.result.Rows, a.result.Form = true, this.facts.rows, this.facts.envelope.form
	a.snapshot(in.Snapshot, this.facts)
	if before.err != nil {
		in.Previous, a.result.NoReplay, a.result.Incomplete = nil, previousUnreadable, true
	}
	found := newDifferences()
	if in.Previous != nil {
		single := singleValued(before.facts, this.facts)
		maps.DeleteFunc(columns, func(column string, _ bool) bool { return single[column] })
		found.lessBefore, found.lessThis = before.facts.less(single), this.facts.less(single)
	}
	if in.Previous != nil || len(in.Changes) > 0 || in.Counts != nil {
		changes, err = a.readChanges(in, compared)
		if err != nil {
			in.Previous, a.result.NoReplay = nil, noReplay(a.result.NoReplay, "the changes cannot be read")
			err = a.unreadable(err, TableChanges)
		} else {
			a.counts(in, changes)
		}
		if err != nil {
			return err
		}
	}
	if err := a.judge(in, this.facts, before.facts, changes, found, columns); err != nil {
		return err
	}
	return a.idMap(in, this.facts)
}

// judge compares what was read, and names what does not fit.
func (a *auditor) judge(in Input, this, before *snapshotFacts, changes *changesFacts, found *differences, columns map[string]bool) error {
	if in.Previous == nil {
		before = nil
	}
	if err := a.compare(before, this, changes, found); err != nil {
		return err
	}
	if err := a.unique(in.Snapshot, found); err != nil || before == nil {
		return err
	}
	a.result.Replayed, a.result.Compared = true, sortedKeys(columns)
	return a.explain(in, found, columns)
}

// reading is what reading a snapshot gave.
type reading struct {
	facts *snapshotFacts
	err   error
}

// maxBeside is how large the pages of snapshots may be that are read side by side, in bytes.
const maxBeside = 16 << 20

// readBoth reads this snapshot and the one before it side by side: each takes about as long as the other.
// Where a page is large, one comes after the other.
func (a *auditor) readBoth(in Input, compared func(string) bool) (this, before reading) {
	var both sync.WaitGroup
	if in.Previous != nil {
		both.Go(func() { before.facts, before.err = a.readSnapshot(*in.Previous, compared, false) })
	}
	for _, sound := range a.sound {
		if sound.largestPage > maxBeside {
			both.Wait()
		}
	}
	this.facts, this.err = a.readSnapshot(in.Snapshot, compared, true)
	both.Wait()
	return this, before
}

func (a *auditor) closedChanges(changes *changesFacts) error {
	if changes == nil {
		return nil
	}
	a.result.Spilled += changes.heap.spilled()
	return changes.heap.close()
}

// closed gives back what a reading holds, after its size was noted.
func (a *auditor) closed(facts *snapshotFacts) error {
	if facts == nil {
		return nil
	}
	a.result.Spilled += facts.heap.spilled()
	return facts.heap.close()
}

// machine returns an error that says nothing about the files, nil when it does.
func (a *auditor) machine(err error) error {
	if err == nil {
		return nil
	}
	if cause := a.alive(); cause != nil {
		return cause
	}
	if machine := (*machineError)(nil); errors.As(err, &machine) {
		return err
	}
	return nil
}

// unreadable makes a finding of an error about a table's contents, or a reason not to check them; an
// error of the machine stays one.
func (a *auditor) unreadable(err error, table Table) error {
	if machine := a.machine(err); machine != nil {
		return machine
	}
	if errors.Is(err, errTooLarge) {
		a.result.Incomplete = true
		a.skip("rows of the %s: %v", table, err)
		return nil
	}
	a.find(Finding{Kind: KindUnreadable, Code: string(table), Table: table, Detail: err.Error()})
	return nil
}

// snapshot names what is wrong with a snapshot by itself.
func (a *auditor) snapshot(s Snapshot, facts *snapshotFacts) {
	if facts.rows != s.Rows {
		a.find(Finding{Kind: KindRowCount, Code: fmt.Sprint(facts.rows), Table: TableSnapshot, Rows: facts.rows, Detail: fmt.Sprintf("the snapshot has %d rows, the feed says %d", facts.rows, s.Rows)})
	}
	if facts.nullIDs > 0 {
		a.find(Finding{Kind: KindRecordID, Code: "null", Table: TableSnapshot, Rows: facts.nullIDs, Detail: fmt.Sprintf("%d rows have no record id", facts.nullIDs)})
	}
	a.result.Findings = append(a.result.Findings, facts.envelope.findings(TableSnapshot)...)
}

// unique names record ids that stand twice in a snapshot.
func (a *auditor) unique(s Snapshot, found *differences) error {
	if len(found.repeated) == 0 {
		return nil
	}
	twice, err := a.repeated(s.Parts, recordIDColumn, found.repeated)
	if err != nil {
		return a.unreadable(err, TableSnapshot)
	}
	if len(twice) > 0 {
		a.find(Finding{Kind: KindRecordID, Code: "twice", Table: TableSnapshot, Rows: int64(len(twice)), IDs: first(twice), Columns: []string{recordIDColumn},
			Detail: fmt.Sprintf("%s record ids stand in more than one row", atLeast(len(twice)))})
	}
	return nil
}

func atLeast(n int) string {
	if n >= maxSuspects {
		return fmt.Sprintf("at least %d", n)
	}
	return fmt.Sprint(n)
}

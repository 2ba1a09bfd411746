package rows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind is what a finding is about.
type Kind string

// The kinds of findings.
const (
	KindUnreadable Kind = "rows-unreadable" // a file's contents cannot be decoded
	KindRowCount   Kind = "rows-count"      // another number of rows than the feed says
	KindEnvelope   Kind = "rows-envelope"   // an envelope column is wrong
	KindRecordID   Kind = "rows-record-id"  // null, or not unique
	KindCounts     Kind = "rows-counts"     // the changes are not as many as the feed's counts
	KindIDMap      Kind = "rows-id-map"     // the id map names records that are not there, or one twice
	KindReplay     Kind = "rows-replay"     // the changes do not lead from the previous snapshot to this one
)

// maxNamed is how many record ids a finding names.
const maxNamed = 20

// Finding is one thing that is wrong with the contents of a version.
type Finding struct {
	Kind    Kind
	Detail  string
	Rows    int64    // how many rows it is about; 0 where that says nothing
	IDs     []string // record ids, the first twenty
	Columns []string
}

// Counts are the feed's counts of a version's changes.
type Counts struct{ Added, Changed, Removed int64 }

// Input is a version and what it is held against.
type Input struct {
	Snapshot Snapshot
	// Previous is the snapshot that the changes start from; nil: no replay, for the reason given.
	Previous  *Snapshot
	NoReplay  string
	Changes   []Part
	Counts    *Counts
	IDMap     []Part
	IDMapFrom *Snapshot // the previous snapshot, for the id map alone; nil where it is not held
}

// Options bound an audit.
type Options struct {
	// Memory is how many bytes of reduced rows are kept in memory; what is more goes to files.
	Memory int64
	Folder string // for temporary files
}

// Result is what an audit of a version's rows found.
type Result struct {
	Rows     int64
	Form     VersionForm
	Findings []Finding
	// Replayed tells that the changes were replayed; else NoReplay says why not.
	Replayed   bool
	NoReplay   string
	Compared   []string // columns that the replay compared
	Partitions int
}

// auditor is one audit.
type auditor struct {
	Options
	ctx        context.Context
	hash       hasher
	partitions int
	result     *Result
}

func (a *auditor) alive() error { return context.Cause(a.ctx) }

func (a *auditor) find(f Finding) { a.result.Findings = append(a.result.Findings, f) }

// Check audits the rows of one version. An error is one of the machine or of ctx; what is wrong with the
// files is a finding.
func Check(ctx context.Context, in Input, o Options) (result Result, err error) {
	rows := in.Snapshot.Rows
	if in.Previous != nil {
		rows += in.Previous.Rows
	}
	if in.Counts != nil {
		rows += in.Counts.Added + in.Counts.Changed + in.Counts.Removed
	}
	a := &auditor{Options: o, ctx: ctx, hash: newHasher(), partitions: partitionsFor(rows, o.Memory), result: &result}
	result = Result{NoReplay: in.NoReplay, Partitions: a.partitions}
	columns, err := a.columns(in)
	if err != nil {
		return result, err
	}
	if len(result.Findings) > 0 {
		return result, nil // a first part that cannot be read
	}
	compared := func(column string) bool { return columns[column] }
	this, err := a.readSnapshot(in.Snapshot, compared)
	if this != nil {
		defer func() { err = errors.Join(err, this.heap.close()) }()
	}
	if err != nil {
		return result, a.unreadable(err)
	}
	result.Rows, result.Form = this.rows, this.envelope.form()
	a.snapshot(in.Snapshot, this)
	if err := a.unique(in.Snapshot, this); err != nil {
		return result, err
	}
	if in.Previous != nil {
		err = a.replay(in, this, columns)
	} else {
		err = a.changesAlone(in)
	}
	if err != nil {
		return result, err
	}
	return result, a.idMap(in)
}

// unreadable makes a finding of an error about a file's contents; other errors stay errors.
func (a *auditor) unreadable(err error) error {
	if cause := a.alive(); cause != nil {
		return cause
	}
	a.find(Finding{Kind: KindUnreadable, Detail: err.Error()})
	return nil
}

// snapshot names what is wrong with a snapshot by itself.
func (a *auditor) snapshot(s Snapshot, facts *snapshotFacts) {
	if facts.rows != s.Rows {
		a.find(Finding{Kind: KindRowCount, Detail: fmt.Sprintf("the snapshot has %d rows, the feed says %d", facts.rows, s.Rows)})
	}
	if facts.nullIDs > 0 {
		a.find(Finding{Kind: KindRecordID, Rows: facts.nullIDs, Detail: fmt.Sprintf("%d rows have no record id", facts.nullIDs)})
	}
	a.result.Findings = append(a.result.Findings, facts.envelope.findings()...)
}

// unique finds record ids that stand twice in a snapshot.
func (a *auditor) unique(s Snapshot, facts *snapshotFacts) error {
	suspects := map[uint64]bool{}
	for i := range a.partitions {
		part, err := facts.heap.partition(i)
		if err != nil {
			return err
		}
		for at := 1; at < len(part); at++ {
			if part[at].id == part[at-1].id && len(suspects) < maxSuspects {
				suspects[part[at].id] = true
			}
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	twice, err := a.repeated(s.Parts, recordIDColumn, suspects)
	if err != nil {
		return a.unreadable(err)
	}
	if len(twice) > 0 {
		a.find(Finding{Kind: KindRecordID, Rows: int64(len(twice)), IDs: first(twice), Detail: fmt.Sprintf("%s record ids stand in more than one row", atLeast(len(twice)))})
	}
	return nil
}

func atLeast(n int) string {
	if n >= maxSuspects {
		return fmt.Sprintf("at least %d", n)
	}
	return fmt.Sprint(n)
}

func first(ids []string) []string {
	slices.Sort(ids)
	return ids[:min(len(ids), maxNamed)]
}

// columns returns the dataset's own columns that both snapshots have: columns that this version added
// are not compared (feed documentation, "Schemas").
func (a *auditor) columns(in Input) (map[string]bool, error) {
	if in.Previous == nil || len(in.Previous.Parts) == 0 || len(in.Snapshot.Parts) == 0 {
		return map[string]bool{}, nil
	}
	before, err := ownColumns(in.Previous.Parts[0])
	if err != nil {
		return nil, a.unreadable(err)
	}
	now, err := ownColumns(in.Snapshot.Parts[0])
	if err != nil {
		return nil, a.unreadable(err)
	}
	both := map[string]bool{}
	for column := range now {
		if before[column] {
			both[column] = true
		}
	}
	return both, nil
}

func ownColumns(p Part) (columns map[string]bool, err error) {
	defer recoverTo(p.Name, &err)
	file, err := p.open()
	if err != nil {
		return nil, err
	}
	columns = map[string]bool{}
	for _, field := range file.Root().Columns() {
		if !strings.HasPrefix(field.Name(), EnvelopePrefix) {
			columns[field.Name()] = true
		}
	}
	return columns, nil
}

package audit

import (
	"context"
	"fmt"
	"strings"

	"feedmirror/internal/audit/rows"
	"feedmirror/manifest"
)

// Rows is what an audit at level rows looked at.
type Rows struct {
	MemoryBytes int64         `json:"memoryBytes"` // for reduced rows; what was more went to temporary files
	DiskBytes   int64         `json:"diskBytes"`   // the greatest amount of temporary files
	Versions    []VersionRows `json:"versions"`
}

// VersionRows says of one version what was looked at, and what not.
type VersionRows struct {
	Dataset string `json:"dataset"`
	Version int64  `json:"version"`
	Read    bool   `json:"read"`
	Rows    int64  `json:"rows"`    // of the snapshot
	Changes int64  `json:"changes"` // rows of the changes
	// VersionColumn is which of its two meanings _ploti_version has: version (the same in every row) or
	// last-change (of the row). The feed documents neither.
	VersionColumn string `json:"versionColumn,omitempty"`
	Replayed      bool   `json:"replayed"`
	// ReplayedOn is the version whose snapshot the changes were replayed on.
	ReplayedOn int64    `json:"replayedOn,omitempty"`
	Compared   []string `json:"comparedColumns,omitempty"`
	NotChecked []string `json:"notChecked,omitempty"` // what was not, and why
	Findings   int      `json:"findings"`
	Seconds    float64  `json:"seconds"` // for decoding and comparing, without the reading from the bucket
}

// maxSchema bounds what is read of a schema.json, in bytes.
const maxSchema = 64 << 20

// needsPrevious tells whether the snapshot of the version before is of use.
func needsPrevious(record manifest.Record, before predecessor) bool {
	return heldReason(record, before) == "" && (noReplay(record, before) == "" || hasIDMap(record))
}

func hasIDMap(record manifest.Record) bool {
	for _, file := range record.Files {
		if file.Kind == manifest.KindIDMap {
			return true
		}
	}
	return false
}

// heldReason says why the snapshot that a version's changes start from is not at hand; "": it is.
func heldReason(record manifest.Record, before predecessor) string {
	switch {
	case record.PreviousVersion == 0:
		return "no version comes before it"
	case before.version == 0:
		return fmt.Sprintf("it follows version %d, and no version before it is held", record.PreviousVersion)
	case before.version != record.PreviousVersion:
		return fmt.Sprintf("it follows version %d, and the version held before it is %d", record.PreviousVersion, before.version)
	case before.unread:
		return fmt.Sprintf("the record of version %d, which it follows, cannot be used", before.version)
	case before.pruned:
		return fmt.Sprintf("version %d, which it follows, was pruned", before.version)
	}
	return ""
}

// noReplay says why a version's changes are not replayed; "": they are.
func noReplay(record manifest.Record, before predecessor) string {
	switch {
	case record.PreviousVersion == 0:
		return heldReason(record, before)
	case record.ResyncRequired:
		return "it is a reload (resyncRequired): the feed sends no changes"
	case record.Changes == manifest.ChangesExpired:
		return "its changes were lost to the feed's retention before they could be copied"
	case record.Changes != manifest.ChangesPresent && record.Changes != manifest.ChangesEmpty:
		return fmt.Sprintf("its changes are %s", record.Changes)
	}
	return heldReason(record, before)
}

// rows looks at the rows of a version whose files were read; clean: all of them were, and nothing is wrong.
func (a *auditor) rows(ctx context.Context, unit *rowUnit, record manifest.Record, previous *manifest.Record) (clean bool, err error) {
	out := VersionRows{Dataset: unit.dataset, Version: int64(unit.version)}
	in, err := a.rowsInput(record, previous, unit.before)
	if err != nil {
		return false, err
	}
	out.NotChecked = in.reasons
	if !in.readable {
		a.spools.measure(0)
		a.tellRows(out)
		return false, nil
	}
	began := a.Now()
	result, err := rows.Check(ctx, in.Input, rows.Options{Memory: a.RowsMemory, Folder: a.TempFolder})
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err != nil {
		return false, noRoom(a.TempFolder, err)
	}
	a.spools.measure(result.Spilled)
	out.Read, out.Rows, out.Changes, out.VersionColumn = result.Read, result.Rows, result.Changes, string(result.Form)
	out.Replayed, out.Compared, out.Findings = result.Replayed, result.Compared, len(result.Findings)
	if out.Seconds = a.Now().Sub(began).Seconds(); result.Replayed {
		out.ReplayedOn = int64(previous.Version)
	} else if result.NoReplay != "" {
		out.NotChecked = append(out.NotChecked, "replay: "+result.NoReplay)
	}
	out.NotChecked = append(out.NotChecked, result.NotChecked...)
	a.tellRows(out)
	for _, f := range result.Findings {
		a.find(rowFinding(record, f))
	}
	return len(result.Findings) == 0 && in.whole && !result.Incomplete, nil
}

func (a *auditor) tellRows(out VersionRows) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Rows.Versions = append(a.report.Rows.Versions, out)
	a.report.Rows.DiskBytes = a.spools.peak
	c, n := &a.report.Checked, &a.report.NotChecked
	switch {
	case !out.Read:
		n.Versions++
		return
	case out.Replayed:
		c.Replays++
	default:
		n.Replays++
	}
	c.Versions++
	c.Rows += out.Rows
}

// rowsInput is what is at hand of a version.
type rowsInput struct {
	rows.Input
	readable bool     // the snapshot is
	whole    bool     // everything is that the bucket should have
	reasons  []string // what is not looked at, and why
}

func (in *rowsInput) lack(format string, args ...any) {
	in.whole = false
	in.reasons = append(in.reasons, fmt.Sprintf(format, args...))
}

// parts returns the files of one kind; false: one of them was not read.
func (a *auditor) parts(of *manifest.Record, kind manifest.Kind) (list []rows.Part, whole bool) {
	whole = true
	for _, file := range of.Files {
		if file.Kind != kind {
			continue
		}
		if one := a.spools.good(file.Key); one != nil {
			list = append(list, rows.Part{Name: file.Path, File: one.file, Size: one.size})
		} else {
			whole = false
		}
	}
	return list, whole
}

// rowsInput collects what was read of a version.
func (a *auditor) rowsInput(record manifest.Record, previous *manifest.Record, before predecessor) (in rowsInput, err error) {
	in.whole, in.NoReplay = true, noReplay(record, before)
	in.Snapshot = rows.Snapshot{Rows: record.RowCount, Envelope: rows.Envelope{Dataset: record.Dataset, Version: int64(record.Version), SourceURL: record.SourceURL, FetchedAt: record.FetchedAt}}
	if in.Snapshot.Parts, in.readable = a.parts(&record, manifest.KindSnapshot); !in.readable {
		in.lack("rows: a file of the snapshot is missing or could not be read")
		return in, nil
	}
	var whole bool
	if in.IDMap, whole = a.parts(&record, manifest.KindIDMap); !whole {
		in.IDMap = nil
		in.lack("id map: a file of it is missing or could not be read")
	}
	if in.Changes, whole = a.parts(&record, manifest.KindChanges); !whole {
		in.Changes, in.NoReplay = nil, "a file of the changes is missing or could not be read"
		in.lack("counts: %s", in.NoReplay)
	} else if record.Counts != nil && (record.Changes == manifest.ChangesPresent || record.Changes == manifest.ChangesEmpty) {
		in.Counts = &rows.Counts{Added: record.Counts.Added, Changed: record.Counts.Changed, Removed: record.Counts.Removed}
	}
	if in.Schema, err = a.schemaOf(record, &in); err != nil {
		return in, err
	}
	if previous == nil {
		return in, nil
	}
	snapshot := rows.Snapshot{Rows: previous.RowCount, Envelope: rows.Envelope{Dataset: previous.Dataset, Version: int64(previous.Version)}}
	if snapshot.Parts, whole = a.parts(previous, manifest.KindSnapshot); !whole {
		in.whole = false
		if in.NoReplay == "" {
			in.NoReplay = fmt.Sprintf("a file of the snapshot of version %d, which it follows, is missing or could not be read", previous.Version)
		}
		return in, nil
	}
	in.IDMapFrom = &snapshot
	if in.NoReplay == "" {
		in.Previous = &snapshot
	}
	return in, nil
}

// schemaOf returns schema.json; nil where the version has none, or it was not read.
func (a *auditor) schemaOf(record manifest.Record, in *rowsInput) ([]byte, error) {
	for _, file := range record.Files {
		if file.Kind != manifest.KindSchema {
			continue
		}
		one := a.spools.good(file.Key)
		switch {
		case one == nil:
			in.whole = false // the reason is told with the columns
			return nil, nil
		case one.size > maxSchema:
			return nil, nil
		}
		return one.whole()
	}
	return nil, nil
}

// rowFinding makes a finding of the report. Its facts do not change from run to run, nor with its wording.
func rowFinding(record manifest.Record, f rows.Finding) Finding {
	return Finding{
		Kind: Kind(f.Kind), Key: keyOfTable(record, f), Dataset: record.Dataset, Version: int64(record.Version),
		Facts: strings.TrimSpace(fmt.Sprintf("%s: %s: %d rows", f.Table, f.Code, f.Rows)), Detail: f.Detail, RecordIDs: f.IDs, Columns: f.Columns,
		Hint: fmt.Sprintf("The bytes are those that the feed published: ask Ploti about this version. To lead readers back meanwhile: mirror rollback %s VERSION", record.Dataset),
	}
}

// keyOfTable returns the key that a finding is about: of its file, or of the first of its table.
func keyOfTable(record manifest.Record, f rows.Finding) string {
	kind := map[rows.Table]manifest.Kind{rows.TableSnapshot: manifest.KindSnapshot, rows.TableChanges: manifest.KindChanges,
		rows.TableIDMap: manifest.KindIDMap, rows.TableSchema: manifest.KindSchema}[f.Table]
	first := ""
	for _, file := range record.Files {
		switch {
		case f.Part != "" && file.Path == f.Part:
			return file.Key
		case first == "" && file.Kind == kind:
			first = file.Key
		}
	}
	if first == "" {
		return manifest.RecordKey(record.Dataset, record.Version)
	}
	return first
}

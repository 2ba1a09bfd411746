package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"feedmirror/internal/parquetinfo"
	"feedmirror/internal/tables"
	"feedmirror/manifest"
	"feedmirror/state"
)

// tableGrace is for how long a table may lag behind its pointer without being a finding: passes of a day
// write the tables of all datasets at their end, and one that died is made good by the next full pass.
const tableGrace = 48 * time.Hour

// ownTable is a table of one dataset.
type ownTable struct {
	root    string
	kind    string // for people
	filesOf func(manifest.Record) []tables.Listed
}

func ownTables(dataset string) []ownTable {
	return []ownTable{
		{tables.SnapshotRoot(dataset), "snapshot", func(r manifest.Record) []tables.Listed { return partsOf(r, manifest.KindSnapshot) }},
		{tables.AttachmentRoot(dataset), "attachments", indexOf},
	}
}

// partsOf returns the parts of one kind as a log must list them, in the order of their keys.
func partsOf(record manifest.Record, kind manifest.Kind) []tables.Listed {
	var list []tables.Listed
	for _, file := range record.Files {
		if file.Kind == kind {
			one := tables.Listed{Key: file.Key, Size: file.Size, Rows: unknownSize}
			if file.Rows != nil {
				one.Rows = *file.Rows
			}
			list = append(list, one)
		}
	}
	sortListed(list)
	return list
}

func indexOf(record manifest.Record) []tables.Listed {
	if record.Attachments.Index == nil {
		return nil
	}
	return []tables.Listed{{Key: record.Attachments.Index.Key, Size: unknownSize, Rows: record.Attachments.Count}}
}

func sortListed(list []tables.Listed) {
	slices.SortFunc(list, func(a, b tables.Listed) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
}

// logs reads the tables of a dataset and holds them against its pointer and its records.
func (a *auditor) logs(ctx context.Context, dataset string, pointer *state.Pointer, versions []*version) error {
	for _, t := range ownTables(dataset) {
		if err := a.ownLog(ctx, t, dataset, pointer, versions); err != nil {
			return err
		}
	}
	if err := a.datasetChanges(ctx, dataset, pointer, versions); err != nil {
		return err
	}
	return a.datasetPublications(ctx, dataset, pointer, versions)
}

// ownLog judges one table. What looks wrong is read once more, and not judged where the pointer moved
// meanwhile: what it names now was not looked at.
func (a *auditor) ownLog(ctx context.Context, t ownTable, dataset string, pointer *state.Pointer, versions []*version) error {
	var findings, notes []Finding
	for try := range 2 {
		var err error
		if findings, notes, err = a.judgeOwn(ctx, t, dataset, pointer, versions); err != nil {
			if try == 0 && ctx.Err() == nil {
				continue
			}
			key := t.root + "_delta_log/"
			if unreadable := (*unreadableError)(nil); errors.As(err, &unreadable) {
				key = unreadable.key
			}
			return a.tell(ctx, KindTable, key, dataset, 0, err)
		}
		if len(findings) == 0 {
			break
		}
	}
	a.count(func(c *Checked, _ *NotChecked) { c.Tables++ })
	if len(findings) > 0 {
		moved, err := a.moved(ctx, dataset, pointer)
		if err != nil || moved {
			return err
		}
	}
	for _, f := range findings {
		a.find(f)
	}
	for _, f := range notes {
		a.note(f)
	}
	return nil
}

// moved reports, with a note, whether a pointer was written since it was read.
func (a *auditor) moved(ctx context.Context, dataset string, pointer *state.Pointer) (bool, error) {
	again, err := readDocument[state.Pointer](ctx, a.Reader, manifest.PointerKey(dataset))
	if err != nil {
		return false, nil //nolint:nilerr // told where the pointer was judged
	}
	if again == nil || again.Revision == revision(pointer) {
		return false, nil
	}
	a.note(Finding{Kind: KindMoved, Key: manifest.PointerKey(dataset), Dataset: dataset, Version: int64(again.Version), Detail: "it was moved while the audit looked; its tables were not judged"})
	return true, ctx.Err()
}

func revision(pointer *state.Pointer) int64 {
	if pointer == nil {
		return 0
	}
	return pointer.Revision
}

// judgeOwn reads a table's log and says what is wrong with it, and what is worth knowing.
func (a *auditor) judgeOwn(ctx context.Context, t ownTable, dataset string, pointer *state.Pointer, versions []*version) (findings, notes []Finding, err error) {
	hint := "Engines read it in place of the records. Write it anew: mirror publish-tables --rebuild " + dataset
	byNumber := numbered(versions)
	var states []tables.Problem
	var head shownHead
	reading, err := tables.Read(ctx, a.Reader, t.root, func(s tables.State) {
		files := s.Files()
		if head = (shownHead{move: s.Move}); len(files) > 0 {
			head.version = s.Version
		}
		if problem := stateProblem(t, dataset, &s, files, byNumber[s.Version]); problem.Code != "" {
			states = append(states, problem)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	judged := reading.Whole
	for _, p := range append(reading.Problems, states...) {
		findings = append(findings, tableFinding(p, dataset, hint))
		judged = judged && p.Key != headKey(reading)
	}
	notes = foreignInLog(reading, dataset)
	if !judged {
		return findings, notes, nil // what it shows now is told as wrong already
	}
	more, err := a.judgeHead(ctx, t, dataset, pointer, byNumber, head, reading)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range more {
		if f.Kind == KindNoTable || f.Kind == KindTableBehind && pointer != nil && pointer.MovedAt.After(a.report.Started.Add(-tableGrace)) {
			notes = append(notes, f)
			continue
		}
		findings = append(findings, f)
	}
	return findings, notes, nil
}

// shownHead is what a table says that it shows now.
type shownHead struct {
	version manifest.Number // zero: nothing
	move    int64           // of the pointer, to which the table says to have come
}

func headKey(r tables.Reading) string { return fmt.Sprintf("%s_delta_log/%020d.json", r.Root, r.Head) }

func numbered(versions []*version) map[manifest.Number]*version {
	byNumber := map[manifest.Number]*version{}
	for _, v := range versions {
		byNumber[v.held.Number] = v
	}
	return byNumber
}

func tableFinding(p tables.Problem, dataset, hint string) Finding {
	return Finding{Kind: KindTable, Key: p.Key, Dataset: dataset, Facts: p.Code, Detail: p.Detail, Hint: hint}
}

func foreignInLog(r tables.Reading, dataset string) []Finding {
	var notes []Finding
	for _, key := range r.Foreign {
		notes = append(notes, Finding{Kind: KindForeign, Key: key, Dataset: dataset, Detail: "no file of a table's log; engines pass over it"})
	}
	return notes
}

// stateProblem says what is wrong with what a table shows after one of its commits: it must be one whole
// version, and the one that the commit names.
func stateProblem(t ownTable, dataset string, s *tables.State, files []tables.Listed, v *version) tables.Problem {
	problem := func(code, format string, args ...any) tables.Problem {
		return tables.Problem{Code: code, Key: s.Key, Detail: fmt.Sprintf(format, args...)}
	}
	switch {
	case s.Dataset == "":
		return tables.Problem{} // no mirror wrote it, which is told
	case s.Dataset != dataset:
		return problem("dataset", "it says that it is of dataset %s", manifest.Quote(s.Dataset))
	case v == nil || !v.held.Record:
		return problem("no-record", "it shows version %d, which has no record", s.Version)
	case v.committed == nil:
		return tables.Problem{} // told as a record
	case s.Record != "" && s.Record != v.committed.SHA256().String():
		return problem("record", "it shows version %d by record %s, the one that stands has sha256 %s", s.Version, manifest.Quote(s.Record), v.committed.SHA256())
	case len(files) == 0:
		return tables.Problem{} // judged at the head
	}
	if difference := differ(files, t.filesOf(v.committed.Record())); difference != "" {
		return problem("files", "as version %d %s", s.Version, difference)
	}
	for _, f := range files {
		if len(f.Partitions) > 0 {
			return problem("partition", "it gives %s a partition, and the table has none", f.Key)
		}
	}
	return tables.Problem{}
}

// differ names the first difference between what a log lists and what a record names.
func differ(listed, wanted []tables.Listed) string {
	for at, want := range wanted {
		switch {
		case at >= len(listed) || listed[at].Key > want.Key:
			return fmt.Sprintf("it lacks %s", want.Key)
		case listed[at].Key < want.Key:
			return fmt.Sprintf("it lists %s, which the record does not name", listed[at].Key)
		case want.Size != unknownSize && listed[at].Size != want.Size:
			return fmt.Sprintf("it lists %s with %d bytes, the record names %d", want.Key, listed[at].Size, want.Size)
		case want.Rows != unknownSize && listed[at].Rows != unknownSize && listed[at].Rows != want.Rows:
			return fmt.Sprintf("it lists %s with %d rows, it has %d", want.Key, listed[at].Rows, want.Rows)
		}
	}
	if len(listed) > len(wanted) {
		return fmt.Sprintf("it lists %s, which the record does not name", listed[len(wanted)].Key)
	}
	return ""
}

// judgeHead holds what a table shows now against the pointer.
func (a *auditor) judgeHead(ctx context.Context, t ownTable, dataset string, pointer *state.Pointer, byNumber map[manifest.Number]*version, head shownHead, reading tables.Reading) ([]Finding, error) {
	shown := head.version
	f := Finding{Kind: KindTable, Key: t.root, Dataset: dataset, Version: int64(shown), Facts: fmt.Sprint(shown),
		Hint: "Write it anew: mirror publish-tables --rebuild " + dataset}
	if pointer == nil {
		if f.Detail = "it shows a version, and nothing is published"; shown != 0 {
			return []Finding{f}, nil
		}
		return nil, nil
	}
	v := byNumber[pointer.Version]
	if v == nil || v.committed == nil {
		return nil, nil // told with the pointer
	}
	record := v.committed.Record()
	wanted := t.filesOf(record)
	switch {
	case shown == pointer.Version:
		return a.indexSize(ctx, t, dataset, reading)
	case shown == 0 && len(wanted) == 0:
		return nil, nil
	case shown > pointer.HighestPublished() && !pointer.Forgets():
		f.Detail = fmt.Sprintf("it shows version %d, ahead of the published %d: readers see what was not published", shown, pointer.Version)
		return []Finding{f}, nil
	}
	f.Kind, f.Version, f.Facts = KindTableBehind, int64(pointer.Version), fmt.Sprintf("shows %d", shown)
	f.Detail = fmt.Sprintf("it shows version %d, published is %d", shown, pointer.Version)
	f.Hint = behindHint
	if shown == 0 {
		reason, err := a.unmappable(ctx, t, record)
		if err != nil {
			return nil, err
		}
		if f.Detail = fmt.Sprintf("it shows nothing, published is version %d", pointer.Version); reason != "" {
			f.Kind, f.Detail, f.Hint = KindNoTable, reason, "The version is published all the same: read its files by the pointer."
			return []Finding{f}, nil
		}
	}
	if reading.Head >= 0 && head.move == pointer.Move {
		f.Kind, f.Hint = KindTable, "It says that it shows it: nothing but a rebuild writes it anew. mirror publish-tables --rebuild "+dataset
	}
	return []Finding{f}, nil
}

const behindHint = "The next full sync or mirror publish-tables writes it."

// unreadableError is an object beside the log that could not be read.
type unreadableError struct {
	key string
	err error
}

func (e *unreadableError) Error() string { return e.err.Error() }
func (e *unreadableError) Unwrap() error { return e.err }

// indexSize asks the store for the size of the index that a table of attachments shows: no record says it.
func (a *auditor) indexSize(ctx context.Context, t ownTable, dataset string, reading tables.Reading) ([]Finding, error) {
	if t.root != tables.AttachmentRoot(dataset) {
		return nil, nil
	}
	var findings []Finding
	for _, listed := range reading.Files {
		info, err := a.Reader.Stat(ctx, listed.Key)
		switch {
		case err != nil && (provesDamage(err) || a.Level.includes(LevelInventory)):
			continue // told by the inventory
		case err != nil:
			return nil, &unreadableError{listed.Key, err}
		}
		if info.Size >= 0 && info.Size != listed.Size {
			findings = append(findings, tableFinding(tables.Problem{Code: "size", Key: headKey(reading),
				Detail: fmt.Sprintf("it lists %s with %d bytes, it has %d", listed.Key, listed.Size, info.Size)}, dataset, "Write it anew: mirror publish-tables --rebuild "+dataset))
		}
	}
	return findings, nil
}

// unmappable says why a version has no table of this kind; empty when it could have one.
func (a *auditor) unmappable(ctx context.Context, t ownTable, record manifest.Record) (string, error) {
	if t.root != tables.SnapshotRoot(record.Dataset) {
		return "", nil
	}
	var parts []parquetinfo.PartInfo
	for _, file := range record.Files {
		if file.Kind != manifest.KindSnapshot {
			continue
		}
		part, err := (tables.StoredFooters{Reader: a.Reader}).Footer(ctx, file)
		if err != nil {
			return "", err
		}
		parts = append(parts, part)
	}
	return tables.WhyNot(parts)
}

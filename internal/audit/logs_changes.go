package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"feedmirror/internal/tables"
	"feedmirror/manifest"
	"feedmirror/state"
)

const (
	changesHint      = "Write it anew: mirror publish-tables --rebuild-shared changes"
	publicationsHint = "Write it anew: mirror publish-tables --rebuild-shared publications"
)

// sharedLogs are the tables of all datasets. They are read before any pointer is, so that they can be late
// and never early, and again where one is late.
type sharedLogs struct {
	changes      tables.Reading
	changesOf    map[string][]tables.Listed // by dataset; empty for what belongs to none
	publications tables.Reading
	rowsOf       map[string][]tables.Publication
	rowsUnknown  bool // some file could not be used: no row can be called missing
}

// readSharedLogs reads the tables of all datasets and tells what is wrong with their logs.
func (a *auditor) readSharedLogs(ctx context.Context) error {
	a.Stage("tables of all datasets")
	changes, err := a.sharedLog(ctx, tables.ChangesRoot, changesHint)
	if err != nil {
		return err
	}
	a.shared.takeChanges(changes)
	publications, err := a.sharedLog(ctx, tables.PublicationsRoot, publicationsHint)
	if err != nil {
		return err
	}
	return a.readPublications(ctx, publications)
}

func (s *sharedLogs) takeChanges(reading tables.Reading) {
	s.changes, s.changesOf = reading, map[string][]tables.Listed{}
	for _, listed := range reading.Files {
		key, ok := manifest.ParseDataKey(listed.Key)
		if !ok || key.Kind != manifest.KeyChanges {
			key.Dataset = ""
		}
		s.changesOf[key.Dataset] = append(s.changesOf[key.Dataset], listed)
	}
}

// sharedLog reads one log, once more where something is wrong with it, and tells what is.
func (a *auditor) sharedLog(ctx context.Context, root, hint string) (tables.Reading, error) {
	var reading tables.Reading
	var err error
	for range 2 {
		if reading, err = tables.Read(ctx, a.Reader, root, nil); err == nil && len(reading.Problems) == 0 {
			break
		}
	}
	if err != nil {
		return tables.Reading{Root: root, Head: -1}, a.tell(ctx, KindTable, root+"_delta_log/", "", 0, err)
	}
	a.count(func(c *Checked, _ *NotChecked) { c.Tables++ })
	for _, p := range reading.Problems {
		a.find(tableFinding(p, "", hint))
	}
	if !a.Partial { // told by an audit of everything
		for _, f := range foreignInLog(reading, "") {
			a.note(f)
		}
	}
	return reading, nil
}

// wentOn reads a log again that seems late, and reports whether somebody committed to it meanwhile.
func (a *auditor) wentOn(ctx context.Context, old tables.Reading) (tables.Reading, bool) {
	next := old
	next.Head++
	if _, err := a.Reader.Stat(ctx, headKey(next)); err != nil {
		return old, false
	}
	again, err := tables.Read(ctx, a.Reader, old.Root, nil)
	return again, err == nil && again.Whole && again.Head > old.Head
}

// foreignInShared tells what the tables of all datasets list of datasets that the bucket does not have.
func (a *auditor) foreignInShared(datasets []string) {
	if a.Partial { // told by an audit of everything
		return
	}
	for _, dataset := range slices.Sorted(maps.Keys(a.shared.changesOf)) {
		if !slices.Contains(datasets, dataset) && a.Select(dataset) {
			a.find(tableFinding(tables.Problem{Code: "foreign " + dataset, Key: tables.ChangesRoot,
				Detail: fmt.Sprintf("it lists %s, which belongs to no version of a dataset that the bucket has", a.shared.changesOf[dataset][0].Key)}, "", changesHint))
		}
	}
	for _, dataset := range slices.Sorted(maps.Keys(a.shared.rowsOf)) {
		if !slices.Contains(datasets, dataset) && a.Select(dataset) {
			a.find(tableFinding(tables.Problem{Code: "foreign " + dataset, Key: tables.PublicationsRoot,
				Detail: fmt.Sprintf("it has rows of dataset %s, which the bucket does not have", manifest.Quote(dataset))}, "", publicationsHint))
		}
	}
}

// datasetChanges holds what the table of changes lists of a dataset against its records: whole versions,
// none that was not published, and all that were.
func (a *auditor) datasetChanges(ctx context.Context, dataset string, pointer *state.Pointer, versions []*version) error {
	if !a.shared.changes.Whole {
		return nil
	}
	findings, late, err := a.judgeChanges(ctx, dataset, pointer, versions)
	if err != nil {
		return a.tell(ctx, KindTable, tables.ChangesRoot, dataset, 0, err)
	}
	if late.Kind != "" {
		if again, ok := a.wentOn(ctx, a.shared.changes); ok {
			a.shared.takeChanges(again)
			if findings, late, err = a.judgeChanges(ctx, dataset, pointer, versions); err != nil {
				return a.tell(ctx, KindTable, tables.ChangesRoot, dataset, 0, err)
			}
		}
	}
	for _, f := range findings {
		if f.Kind == KindNoTable {
			a.note(f)
		} else {
			a.find(f)
		}
	}
	a.findLate(late)
	return nil
}

// lateFinding is a table that is behind since some time; without a kind it is not.
type lateFinding struct {
	Finding
	since time.Time
}

// findLate tells of a table that is behind: a note while a pass may still be at it.
func (a *auditor) findLate(f lateFinding) {
	switch {
	case f.Kind == "":
	case f.since.After(a.report.Started.Add(-tableGrace)):
		a.note(f.Finding)
	default:
		a.find(f.Finding)
	}
}

func (a *auditor) judgeChanges(ctx context.Context, dataset string, pointer *state.Pointer, versions []*version) (findings []Finding, late lateFinding, err error) {
	listed := map[manifest.Number][]tables.Listed{}
	for _, one := range a.shared.changesOf[dataset] {
		key, _ := manifest.ParseDataKey(one.Key) // it was parsed when it was read
		listed[key.Version] = append(listed[key.Version], one)
	}
	reached, byNumber := manifest.Number(a.shared.changes.Reached[dataset]), numbered(versions)
	for _, n := range slices.Sorted(maps.Keys(listed)) {
		if p := a.changesProblem(dataset, n, byNumber[n], listed[n], reached); p.Code != "" {
			f := tableFinding(p, dataset, changesHint)
			f.Version = int64(n)
			findings = append(findings, f)
		}
	}
	if pointer == nil {
		return findings, late, nil
	}
	if reached > pointer.HighestPublished() && !pointer.Forgets() {
		return append(findings, tableFinding(tables.Problem{Code: fmt.Sprintf("ahead %d", reached), Key: tables.ChangesRoot,
			Detail: fmt.Sprintf("it reaches to version %d of %s, published were versions up to %d", reached, dataset, pointer.HighestPublished())}, dataset, changesHint)), late, nil
	}
	unlistable, late, err := a.unlistedChanges(ctx, dataset, pointer, versions, listed, reached)
	return append(findings, unlistable...), late, err
}

// changesProblem says what is wrong with the files that the table of changes lists of one version.
func (a *auditor) changesProblem(dataset string, n manifest.Number, v *version, listed []tables.Listed, reached manifest.Number) tables.Problem {
	problem := func(code, format string, args ...any) tables.Problem {
		return tables.Problem{Code: fmt.Sprintf("%s %d", code, n), Key: tables.ChangesRoot, Detail: fmt.Sprintf(format, args...)}
	}
	switch {
	case v == nil || !v.held.Record:
		return problem("no-record", "it lists changes of version %d, which has no record", n)
	case v.committed == nil:
		return tables.Problem{} // told as a record
	case v.held.Pruned && v.changed.Before(a.report.Started.Add(-tableGrace)):
		return problem("pruned", "it lists changes of version %d, whose files were pruned", n)
	case v.held.Pruned:
		return tables.Problem{}
	case n > reached:
		return problem("ahead", "it lists changes of version %d, and says that it reaches to %d", n, reached)
	}
	record := v.committed.Record()
	if difference := differ(listed, partsOf(record, manifest.KindChanges)); difference != "" {
		return problem("files", "of version %d %s", n, difference)
	}
	want := map[string]string{"ploti_dataset_id": dataset, "ploti_version": strconv.FormatInt(int64(n), 10), "released_date": record.PublishedAt.UTC().Format(time.DateOnly)}
	for _, one := range listed {
		if !maps.Equal(one.Partitions, want) {
			return problem("partition", "it gives %s the partition %v, want %v", one.Key, one.Partitions, want)
		}
	}
	return tables.Problem{}
}

// unlistedChanges returns what the table of changes lacks: versions that it cannot list, and those that it
// should.
func (a *auditor) unlistedChanges(ctx context.Context, dataset string, pointer *state.Pointer, versions []*version, listed map[manifest.Number][]tables.Listed, reached manifest.Number) (unlistable []Finding, late lateFinding, err error) {
	var lacks []manifest.Number
	for _, v := range versions {
		n := v.held.Number
		if v.committed == nil || v.held.Pruned || n > max(reached, pointer.HighestPublished()) || len(listed[n]) > 0 {
			continue
		}
		record := v.committed.Record()
		if len(partsOf(record, manifest.KindChanges)) == 0 {
			continue
		}
		reason, err := a.unlistable(ctx, record)
		if err != nil && !provesDamage(err) { // a missing file is told by the inventory
			return nil, late, err
		}
		if reason != "" {
			unlistable = append(unlistable, Finding{Kind: KindNoTable, Key: tables.ChangesRoot, Dataset: dataset, Version: int64(n), Detail: "its changes are not listed: " + reason, Facts: fmt.Sprint(n)})
			continue
		}
		due := record.CommittedAt
		if n > reached && pointer.MovedAt.After(due) {
			due = pointer.MovedAt
		}
		if lacks = append(lacks, n); late.since.IsZero() || due.Before(late.since) {
			late.since = due
		}
	}
	if len(lacks) == 0 {
		return unlistable, late, nil
	}
	late.Finding = Finding{Kind: KindTableBehind, Key: tables.ChangesRoot, Dataset: dataset, Version: int64(lacks[0]), Facts: fmt.Sprintf("lacks %d", lacks[0]),
		Detail: fmt.Sprintf("it lacks the changes of %d published versions, the first is %d", len(lacks), lacks[0]), Hint: behindHint + " Where it says that nothing is to be done: mirror publish-tables --rebuild-shared changes"}
	return unlistable, late, nil
}

func (a *auditor) unlistable(ctx context.Context, record manifest.Record) (string, error) {
	for _, file := range record.Files {
		if file.Kind != manifest.KindChanges {
			continue
		}
		info, err := (tables.StoredFooters{Reader: a.Reader}).Footer(ctx, file)
		if err != nil {
			return "", err
		}
		if reason := tables.Unlistable(&info); reason != "" {
			return file.Path + ": " + reason, nil
		}
	}
	return "", nil
}

package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"feedmirror/internal/fault"
	"feedmirror/internal/tables"
	"feedmirror/manifest"
	"feedmirror/state"
)

// readPublications reads the rows of the table of publications.
func (a *auditor) readPublications(ctx context.Context, reading tables.Reading) error {
	a.shared.publications, a.shared.rowsOf, a.shared.rowsUnknown = reading, map[string][]tables.Publication{}, !reading.Whole
	var mu sync.Mutex
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(a.Workers)
	for _, listed := range reading.Files {
		group.Go(func() error {
			rows, err := a.publicationsFile(groupCtx, listed)
			mu.Lock()
			defer mu.Unlock()
			for _, row := range rows {
				a.shared.rowsOf[row.Dataset] = append(a.shared.rowsOf[row.Dataset], row)
			}
			if rows == nil {
				a.shared.rowsUnknown = true
			}
			return err
		})
	}
	return group.Wait()
}

// publicationsFile reads one file; no rows where it was told as wrong.
func (a *auditor) publicationsFile(ctx context.Context, listed tables.Listed) ([]tables.Publication, error) {
	rows, err := twice(ctx, func() ([]tables.Publication, error) { return tables.ReadPublications(ctx, a.Reader, listed.Key) })
	if err == nil {
		info, statErr := a.Reader.Stat(ctx, listed.Key)
		switch err = statErr; {
		case err != nil:
		case info.Size >= 0 && info.Size != listed.Size:
			a.find(tableFinding(tables.Problem{Code: "size", Key: listed.Key, Detail: fmt.Sprintf("the log lists it with %d bytes, it has %d", listed.Size, info.Size)}, "", publicationsHint))
		case listed.Rows != unknownSize && int64(len(rows)) != listed.Rows:
			a.find(tableFinding(tables.Problem{Code: "rows", Key: listed.Key, Detail: fmt.Sprintf("the log lists it with %d rows, it has %d", listed.Rows, len(rows))}, "", publicationsHint))
		}
	}
	switch {
	case fault.Is(err, fault.NotFound):
		a.find(tableFinding(tables.Problem{Code: "missing", Key: listed.Key, Detail: "the log of publications lists it, the bucket does not have it"}, "",
			"Restore it from the bucket's own history, else write the table anew: mirror publish-tables --rebuild-shared publications"))
		return nil, nil
	case fault.Is(err, fault.Malformed):
		a.find(tableFinding(tables.Problem{Code: "unreadable", Key: listed.Key, Detail: err.Error()}, "", publicationsHint))
		return nil, nil
	case err != nil:
		return nil, a.tell(ctx, KindTable, listed.Key, "", 0, err)
	}
	return rows, nil
}

// datasetPublications holds the rows of a dataset against what its pointer remembers and what its records
// say.
func (a *auditor) datasetPublications(ctx context.Context, dataset string, pointer *state.Pointer, versions []*version) error {
	var remembered []tables.Publication
	if pointer != nil && !a.shared.rowsUnknown {
		byNumber := numbered(versions)
		var err error
		remembered, err = tables.PublicationsOf(pointer, func(n manifest.Number) (manifest.Record, error) {
			if v := byNumber[n]; v != nil && v.committed != nil {
				return v.committed.Record(), nil
			}
			return manifest.Record{}, errNoRecord
		})
		if err != nil {
			pointer = nil // a version that it led to has no record that can be used, which is told: its moves are not judged
		}
	}
	judge := func() ([]Finding, lateFinding) {
		findings, rows := a.judgeRows(dataset, versions)
		if pointer == nil || a.shared.rowsUnknown {
			return findings, lateFinding{}
		}
		more, late := a.judgeMoves(dataset, pointer, rows, remembered)
		return append(findings, more...), late
	}
	findings, late := judge()
	if late.Kind != "" {
		if again, ok := a.wentOn(ctx, a.shared.publications); ok {
			if err := a.readPublications(ctx, again); err != nil {
				return err
			}
			findings, late = judge()
		}
	}
	for _, f := range findings {
		if f.Kind == KindTableBehind { // moves that nobody remembers
			a.note(f)
		} else {
			a.find(f)
		}
	}
	a.findLate(late)
	return nil
}

var errNoRecord = errors.New("no record that can be used")

func publicationFinding(dataset, code, format string, args ...any) Finding {
	return tableFinding(tables.Problem{Code: code, Key: tables.PublicationsRoot, Detail: dataset + ": " + fmt.Sprintf(format, args...)}, dataset, publicationsHint)
}

// judgeRows holds the rows of a dataset against its records.
func (a *auditor) judgeRows(dataset string, versions []*version) (findings []Finding, rows map[int64]*tables.Publication) {
	reached, byNumber := a.shared.publications.Reached[dataset], numbered(versions)
	rows = map[int64]*tables.Publication{}
	tell := func(code string, move int64, format string, args ...any) {
		findings = append(findings, publicationFinding(dataset, fmt.Sprintf("%s %d", code, move), format, args...))
	}
	for i := range a.shared.rowsOf[dataset] {
		row := &a.shared.rowsOf[dataset][i]
		switch v := byNumber[manifest.Number(row.Version)]; {
		case rows[row.Move] != nil:
			tell("twice", row.Move, "it tells move %d twice", row.Move)
		case row.Move < 1 || row.Move > reached:
			tell("move", row.Move, "it tells move %d, and says that it reaches to %d", row.Move, reached)
		case v == nil || !v.held.Record:
			tell("no-record", row.Move, "its move %d leads to version %d, which has no record", row.Move, row.Version)
		case v.committed != nil && !agrees(row, v.committed.Record()):
			tell("facts", row.Move, "its move %d says of version %d what the record does not", row.Move, row.Version)
		}
		rows[row.Move] = row
	}
	return findings, rows
}

// agrees reports whether a row says of its version what the record says.
func agrees(row *tables.Publication, record manifest.Record) bool {
	gap := ""
	if record.Gap != nil {
		gap = string(record.Gap.Reason)
	}
	said := ""
	if row.Gap != nil {
		said = *row.Gap
	}
	return row.SchemaVersion == record.SchemaVersion.String() && row.ResyncRequired == record.ResyncRequired && row.RecordIDsChanged == record.RecordIDsChanged &&
		row.Changes == string(record.Changes) && said == gap && row.PublishedAt.UnixMicro() == record.PublishedAt.UnixMicro()
}

// judgeMoves holds the rows of a dataset against the moves that its pointer remembers.
func (a *auditor) judgeMoves(dataset string, pointer *state.Pointer, rows map[int64]*tables.Publication, remembered []tables.Publication) (findings []Finding, late lateFinding) {
	reached := a.shared.publications.Reached[dataset]
	if reached > pointer.Move {
		return []Finding{publicationFinding(dataset, fmt.Sprintf("ahead %d", reached), "it tells %d moves, the pointer made %d", reached, pointer.Move)}, late
	}
	for i := range remembered {
		want := &remembered[i]
		switch row := rows[want.Move]; {
		case want.Move > reached:
			if late.Kind == "" {
				late = lateFinding{since: want.MovedAt, Finding: Finding{Kind: KindTableBehind, Key: tables.PublicationsRoot, Dataset: dataset, Version: want.Version,
					Facts: fmt.Sprintf("reaches %d", reached), Detail: fmt.Sprintf("it tells %d moves, the pointer made %d", reached, pointer.Move), Hint: behindHint}}
			}
		case row == nil:
			findings = append(findings, publicationFinding(dataset, fmt.Sprintf("lacks %d", want.Move), "it lacks move %d, to version %d, and says that it reaches to %d", want.Move, want.Version, reached))
		case !row.Same(want):
			findings = append(findings, publicationFinding(dataset, fmt.Sprintf("other %d", want.Move), "its move %d says otherwise than the pointer, which came to version %d at %s",
				want.Move, want.Version, want.MovedAt.UTC().Format("2006-01-02 15:04:05 MST")))
		}
	}
	first := reached + 1 // of the moves that the pointer remembers
	if len(remembered) > 0 {
		first = min(first, remembered[0].Move)
	}
	known := []int64{first}
	for move := range rows {
		if move < first {
			known = append(known, move)
		}
	}
	if ranges := tables.MissingMoves(known); len(ranges) > 0 {
		findings = append(findings, Finding{Kind: KindTableBehind, Key: tables.PublicationsRoot, Dataset: dataset, Facts: "unknown " + strings.Join(ranges, " "),
			Detail: fmt.Sprintf("it does not tell moves %s, and the pointer does not remember them", strings.Join(ranges, ", "))})
	}
	return findings, late
}

package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"feedmirror/attachments"
	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// maxSums bounds what is read of a SHA256SUMS, in bytes: a line for each of 100,000 files.
const maxSums = 128 << 20

// contents compares what a version's documents say with each other. It belongs to the level that
// reads bytes: the documents' own hashes are checked beside it.
func (a *auditor) contents(ctx context.Context, record manifest.Record) error {
	if !a.Level.includes(LevelBytes) || !a.deep(record.Dataset, record.Version) {
		return nil
	}
	a.shapes.add(record.Dataset, record.Version)
	for _, look := range []func(context.Context, manifest.Record) ([]Finding, error){a.sums, a.manifestAndIndex} {
		findings, err := look(ctx, record)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(findings) > 0 || err != nil { // once more: a bad read accuses nobody
			findings, err = look(ctx, record)
		}
		var document *documentError
		if errors.As(err, &document) {
			err = a.tell(ctx, document.kind, document.key, record.Dataset, record.Version, document.err)
		}
		if err != nil {
			return err
		}
		for _, f := range findings {
			a.find(f)
		}
	}
	return nil
}

// documentError is what was wrong with reading a document.
type documentError struct {
	kind Kind
	key  string
	err  error
}

func (e *documentError) Error() string { return e.err.Error() }

// about fills in what all findings about a version have in common.
func about(record manifest.Record, kind Kind, key, facts, detail string) Finding {
	return Finding{Kind: kind, Key: key, Dataset: record.Dataset, Version: int64(record.Version), Facts: facts, Detail: detail, Hint: restoreHint}
}

func (a *auditor) sums(ctx context.Context, record manifest.Record) ([]Finding, error) {
	raw, _, err := bucket.ReadAll(ctx, a.Reader, record.Sums.Key, maxSums)
	if fault.Is(err, fault.NotFound) {
		return nil, nil // told by the inventory
	}
	if err != nil {
		return nil, &documentError{KindSums, record.Sums.Key, err}
	}
	lines, err := manifest.DecodeSums(bytes.NewReader(raw))
	if err != nil {
		return nil, &documentError{KindSums, record.Sums.Key, err}
	}
	var want bytes.Buffer
	if err := manifest.EncodeSums(&want, manifest.SumLines(record.Manifest, record.Files, record.Attachments.Index)); err != nil {
		return nil, &documentError{KindSums, record.Sums.Key, err}
	}
	wanted, err := manifest.DecodeSums(&want)
	if err != nil || slices.Equal(lines, wanted) {
		return nil, err
	}
	return []Finding{about(record, KindSums, record.Sums.Key, manifest.SumBytes(raw).String(), "it names other files or hashes than the record")}, nil
}

var errDiffers = errors.New("they differ")

// manifestAndIndex reads the manifest once: its files must be the record's, its attachments the
// index's, row by row.
func (a *auditor) manifestAndIndex(ctx context.Context, record manifest.Record) ([]Finding, error) {
	key := record.Manifest.Key
	rows, stop := a.indexRows(ctx, record)
	defer stop()
	body, _, err := a.Reader.Open(ctx, key, 0, -1)
	if fault.Is(err, fault.NotFound) {
		return nil, nil // told by the inventory
	}
	if err != nil {
		return nil, &documentError{KindManifest, key, err}
	}
	defer body.Close() // only read from: nothing can be lost
	var names int64
	indexGone := false // told by the inventory
	m, err := manifest.DecodeManifest(body, func(at manifest.Attachment) error {
		if names++; indexGone {
			return nil
		}
		row, err, more := rows()
		switch {
		case fault.Is(err, fault.NotFound):
			indexGone = true
			return nil
		case err != nil:
			return &documentError{KindIndex, indexKey(record), err}
		case !more || row.Attachment != at:
			return fmt.Errorf("%w on attachment %s", errDiffers, manifest.Quote(at.Name))
		}
		return nil
	})
	switch {
	case errors.Is(err, errDiffers):
		return []Finding{about(record, KindIndex, indexKey(record), fmt.Sprintf("differs at %d", names), "index and manifest: "+err.Error())}, nil
	case errors.As(err, new(*documentError)):
		return nil, err
	case err != nil:
		return nil, &documentError{KindManifest, key, err}
	}
	findings := sameFiles(record, m)
	if names != record.Attachments.Count {
		findings = append(findings, about(record, KindManifest, key, fmt.Sprintf("attachments %d", names),
			fmt.Sprintf("it lists %d attachments, the record counts %d", names, record.Attachments.Count)))
	}
	return findings, nil
}

func indexKey(record manifest.Record) string {
	if record.Attachments.Index != nil {
		return record.Attachments.Index.Key
	}
	return manifest.IndexKey(record.Dataset, record.Version)
}

// sameFiles compares the record's files with the manifest's. Changes that the feed lost before
// they were copied are missing from the record, which says so.
func sameFiles(record manifest.Record, m manifest.Manifest) []Finding {
	var problem string
	if err := m.CheckFor(record.Dataset, record.Version); err != nil {
		problem = err.Error()
	}
	place := 0 // among the record's files
	for _, file := range m.Files {
		if file.Kind == manifest.KindChanges && record.Changes == manifest.ChangesExpired {
			continue
		}
		if place >= len(record.Files) || record.Files[place].File() != file || record.Files[place].Key != manifest.FileKey(record.Dataset, record.Version, file) {
			problem = fmt.Sprintf("the record does not name %s as it does", manifest.Quote(file.Path))
			break
		}
		place++
	}
	if problem == "" && place != len(record.Files) {
		problem = fmt.Sprintf("the record names %s, which it does not", manifest.Quote(record.Files[place].Path))
	}
	if problem == "" {
		return nil
	}
	return []Finding{about(record, KindManifest, record.Manifest.Key, fmt.Sprintf("file %d", place), problem)}
}

// indexRows returns the rows of a version's index one by one.
func (a *auditor) indexRows(ctx context.Context, record manifest.Record) (next func() (attachments.IndexRow, error, bool), stop func()) {
	index := record.Attachments.Index
	if index == nil {
		return func() (attachments.IndexRow, error, bool) { return attachments.IndexRow{}, nil, false }, func() {}
	}
	return pull(func(yield func(attachments.IndexRow, error) bool) {
		err := a.readIndex(ctx, index.Key, func(row attachments.IndexRow) error {
			if !yield(row, nil) {
				return errDiffers
			}
			return nil
		})
		if err != nil && !errors.Is(err, errDiffers) {
			yield(attachments.IndexRow{}, err)
		}
	})
}

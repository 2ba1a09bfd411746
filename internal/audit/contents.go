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
	if err := a.sums(ctx, record); err != nil {
		return err
	}
	return a.manifestAndIndex(ctx, record)
}

func (a *auditor) sums(ctx context.Context, record manifest.Record) error {
	raw, _, err := bucket.ReadAll(ctx, a.Reader, record.Sums.Key, maxSums)
	if fault.Is(err, fault.NotFound) {
		return nil // told by the inventory
	}
	if err != nil {
		return a.tell(KindSums, record.Sums.Key, record.Dataset, record.Version, err)
	}
	lines, err := manifest.DecodeSums(bytes.NewReader(raw))
	if err != nil {
		return a.tell(KindSums, record.Sums.Key, record.Dataset, record.Version, err)
	}
	var want bytes.Buffer
	if err := manifest.EncodeSums(&want, manifest.SumLines(record.Manifest, record.Files, record.Attachments.Index)); err != nil {
		return a.tell(KindSums, record.Sums.Key, record.Dataset, record.Version, err)
	}
	wanted, err := manifest.DecodeSums(&want)
	if err != nil {
		return err
	}
	if !slices.Equal(lines, wanted) {
		a.find(Finding{Kind: KindSums, Key: record.Sums.Key, Dataset: record.Dataset, Version: int64(record.Version),
			Detail: "it names other files or hashes than the record", Hint: restoreHint})
	}
	return nil
}

var errDiffers = errors.New("they differ")

// manifestAndIndex reads the manifest once: its files must be the record's, its attachments the
// index's, row by row.
func (a *auditor) manifestAndIndex(ctx context.Context, record manifest.Record) error {
	key := record.Manifest.Key
	rows, stop := a.indexRows(ctx, record)
	defer stop()
	body, _, err := a.Reader.Open(ctx, key, 0, -1)
	if fault.Is(err, fault.NotFound) {
		return nil // told by the inventory
	}
	if err != nil {
		return a.tell(KindManifest, key, record.Dataset, record.Version, err)
	}
	defer body.Close() // only read from: nothing can be lost
	var names int64
	m, err := manifest.DecodeManifest(body, func(at manifest.Attachment) error {
		names++
		row, err, more := rows()
		switch {
		case err != nil:
			return err
		case !more || row.Attachment != at:
			return fmt.Errorf("%w on attachment %s", errDiffers, manifest.Quote(at.Name))
		}
		return nil
	})
	switch {
	case errors.Is(err, errDiffers):
		a.find(Finding{Kind: KindIndex, Key: indexKey(record), Dataset: record.Dataset, Version: int64(record.Version),
			Detail: "index and manifest: " + err.Error(), Hint: restoreHint})
		return nil
	case err != nil:
		return a.tell(KindManifest, key, record.Dataset, record.Version, err)
	}
	if names != record.Attachments.Count {
		a.find(Finding{Kind: KindManifest, Key: key, Dataset: record.Dataset, Version: int64(record.Version),
			Detail: fmt.Sprintf("it lists %d attachments, the record counts %d", names, record.Attachments.Count), Hint: restoreHint})
	}
	a.sameFiles(record, m)
	return nil
}

func indexKey(record manifest.Record) string {
	if record.Attachments.Index != nil {
		return record.Attachments.Index.Key
	}
	return manifest.IndexKey(record.Dataset, record.Version)
}

// sameFiles compares the record's files with the manifest's. Changes that the feed lost before
// they were copied are missing from the record, which says so.
func (a *auditor) sameFiles(record manifest.Record, m manifest.Manifest) {
	var problem string
	if err := m.CheckFor(record.Dataset, record.Version); err != nil {
		problem = err.Error()
	}
	at := 0
	for _, file := range m.Files {
		if file.Kind == manifest.KindChanges && record.Changes == manifest.ChangesExpired {
			continue
		}
		if at >= len(record.Files) || record.Files[at].File() != file || record.Files[at].Key != manifest.FileKey(record.Dataset, record.Version, file) {
			problem = fmt.Sprintf("the record does not name %s as it does", manifest.Quote(file.Path))
			break
		}
		at++
	}
	if problem == "" && at != len(record.Files) {
		problem = fmt.Sprintf("the record names %s, which it does not", manifest.Quote(record.Files[at].Path))
	}
	if problem != "" {
		a.find(Finding{Kind: KindManifest, Key: record.Manifest.Key, Dataset: record.Dataset, Version: int64(record.Version), Detail: problem, Hint: restoreHint})
	}
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

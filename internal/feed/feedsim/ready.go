package feedsim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"feedmirror/internal/feed/feedsim/records"
)

// ReadySpec describes a version whose Parquet files are on disk, however large. They must stay there as long as the
// feed is used.
type ReadySpec struct {
	Schema   records.Schema
	RowCount int64
	// Added, Changed and Removed are its counts; it is a reload when Changes is empty.
	Added, Changed, Removed int64
	Snapshot, Changes       []string // paths of files
}

// ReleaseReady builds and releases the next version of ready files and returns its number. A dataset whose versions
// are ready files has no others: they are compared with nothing.
func (d *Dataset) ReleaseReady(spec ReadySpec) (int64, error) {
	d.building.Lock()
	defer d.building.Unlock()
	v, before := d.draft(ReleaseSpec{})
	v.resync = len(spec.Changes) == 0
	v.rowCount = spec.RowCount
	if !v.resync {
		v.counts = &counts{Added: spec.Added, Changed: spec.Changed, Removed: spec.Removed}
	}
	d.numberSchema(v, before, spec.Schema)
	v.attachments = fileSlice(nil)
	for _, table := range []struct {
		kind  kind
		paths []string
	}{{kindSnapshot, spec.Snapshot}, {kindChanges, spec.Changes}} {
		for i, path := range table.paths {
			content, err := newDiskBlob(path)
			if err != nil {
				return 0, fmt.Errorf("release version %d of %q: %w", v.number, d.spec.ID, err)
			}
			v.files = append(v.files, newFile(table.kind, partName(string(table.kind), i), parquetType, content))
		}
	}
	if err := d.writeDocuments(v, false); err != nil {
		return 0, fmt.Errorf("release version %d of %q: %w", v.number, d.spec.ID, err)
	}
	d.publish(v)
	return v.number, nil
}

// newDiskBlob returns a blob that stays in its file.
func newDiskBlob(path string) (blob, error) {
	file, err := os.Open(path)
	if err != nil {
		return blob{}, err
	}
	defer file.Close() //nolint:errcheck // only read from
	hash := sha256.New()
	size, err := io.Copy(hash, file)
	if err != nil {
		return blob{}, err
	}
	write := func(w io.Writer, from, to int64) error {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close() //nolint:errcheck // only read from
		_, err = io.Copy(w, io.NewSectionReader(file, from, to-from))
		return err
	}
	return blob{size: size, sha256: hex.EncodeToString(hash.Sum(nil)), write: write}, nil
}

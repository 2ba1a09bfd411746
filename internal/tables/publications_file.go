package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/parquetinfo"
	"feedmirror/manifest"
	"feedmirror/state"
)

// storePublications writes the file of one pass and returns how the log lists it. Its name carries the
// hash of its bytes: the same rows go to the same file, and others never do.
func (p *Projector) storePublications(ctx context.Context, rows []Publication, run string) (*addFile, error) {
	var body bytes.Buffer
	writer := parquet.NewGenericWriter[Publication](&body, parquet.DataPageVersion(1), parquet.Compression(&parquet.Snappy), parquet.CreatedBy("feedmirror", "1", "publications"))
	if _, err := writer.Write(rows); err != nil {
		return nil, fmt.Errorf("write publications: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("write publications: %w", err)
	}
	now := p.Now()
	size, sum := int64(body.Len()), manifest.SumBytes(body.Bytes())
	path := now.UTC().Format(time.DateOnly) + "/" + run + "-" + sum.String()[:16] + ".parquet"
	content := bucket.Content{Size: size, SHA256: sum, Class: bucket.Document, Body: bytes.NewReader(body.Bytes())}
	_, err := p.Store.Create(ctx, PublicationsRoot+path, content)
	if err != nil { // its answer may be lost, or the file there already: what stands decides
		_, same, lookErr := bucket.Holds(ctx, p.Store, PublicationsRoot+path, size, sum)
		if lookErr != nil || !same {
			return nil, errors.Join(err, lookErr)
		}
	}
	info, err := parquetinfo.Inspect(bytes.NewReader(body.Bytes()), size)
	if err != nil {
		return nil, err
	}
	stats, err := statsOf(&info)
	if err != nil {
		return nil, err
	}
	f := file{path: path, size: size, modified: now, stats: stats}
	return f.add(), nil
}

// maxPublications bounds the rows that are read of one file: what a pass with 100,000 datasets writes.
const maxPublications = 1 << 20

// ReadPublications reads one file of the table of publications. What is no such file is a
// fault.Malformed; other errors are those of the store.
func ReadPublications(ctx context.Context, r bucket.Reader, key string) (rows []Publication, err error) {
	info, err := r.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	source := &watchedReaderAt{source: bucket.NewReaderAt(ctx, r, info)}
	defer func() {
		if cause := recover(); cause != nil { // the Parquet library panics on some broken pages
			err = fmt.Errorf("%v", cause)
		}
		switch {
		case source.err != nil:
			rows, err = nil, source.err
		case err != nil:
			rows, err = nil, &fault.Error{Op: "read publications", Object: key, Side: fault.SideBucket, Kind: fault.Malformed, Err: err}
		}
	}()
	if _, err := parquetinfo.CheckPages(source, info.Size); err != nil {
		return nil, err
	}
	file, err := parquetinfo.Open(source, info.Size, 64<<10)
	if err != nil {
		return nil, err
	}
	if file.NumRows() > maxPublications {
		return nil, fmt.Errorf("%d rows are more than a file of publications has", file.NumRows())
	}
	reader := parquet.NewGenericReader[Publication](file)
	defer func() { _ = reader.Close() }() // only read from: nothing can be lost
	rows = make([]Publication, file.NumRows())
	count, err := reader.Read(rows)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if count != len(rows) {
		return nil, fmt.Errorf("it has %d rows, its footer says %d", count, len(rows))
	}
	return rows, nil
}

// PublicationsOf returns the moves that a pointer remembers, oldest first, as the table tells them. recall
// returns the record of a version.
func PublicationsOf(pointer *state.Pointer, recall func(manifest.Number) (manifest.Record, error)) ([]Publication, error) {
	var rows []Publication
	for _, m := range movesOf(pointer) {
		record, err := recall(m.version)
		if err != nil {
			return nil, err
		}
		row, err := rowOf(record, m, recall)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Same reports whether two rows say the same, in the precision in which Parquet keeps times.
func (p *Publication) Same(other *Publication) bool {
	a, b := *p, *other
	switch {
	case !sameValue(a.PreviousVersion, b.PreviousVersion), !sameValue(a.Gap, b.Gap):
		return false
	case !sameTime(a.PublishedAt, b.PublishedAt), !sameTime(a.MovedAt, b.MovedAt):
		return false
	case !slices.Equal(a.ApplyVersions, b.ApplyVersions), !slices.Equal(a.RewriteVersions, b.RewriteVersions):
		return false
	}
	for _, row := range []*Publication{&a, &b} {
		row.PreviousVersion, row.Gap, row.PublishedAt, row.MovedAt = nil, nil, time.Time{}, time.Time{}
		row.ApplyVersions, row.RewriteVersions = nil, nil
	}
	return reflect.DeepEqual(a, b)
}

func sameTime(a, b time.Time) bool {
	return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond))
}

func sameValue[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

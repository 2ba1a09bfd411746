package tables

import (
	"context"
	"errors"
	"io"

	"feedmirror/internal/bucket"
	"feedmirror/internal/parquetinfo"
	"feedmirror/manifest"
)

// StoredFooters reads the footers of parts that stand in a bucket.
type StoredFooters struct{ Reader bucket.Reader }

// Footer implements Footers.
func (s StoredFooters) Footer(ctx context.Context, file manifest.RecordFile) (parquetinfo.PartInfo, error) {
	source := &watchedReaderAt{source: bucket.NewReaderAt(ctx, s.Reader, bucket.Info{Key: file.Key, Size: file.Size})}
	info, err := parquetinfo.Inspect(source, file.Size)
	if source.err != nil {
		return info, source.err
	}
	info.Path, info.Err = file.Path, err
	return info, nil
}

// watchedReaderAt keeps the error that a store answered with: to the Parquet library it looks like a
// broken file.
type watchedReaderAt struct {
	source io.ReaderAt
	err    error
}

// ReadAt implements io.ReaderAt.
func (w *watchedReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	n, err := w.source.ReadAt(p, offset)
	if err != nil && !errors.Is(err, io.EOF) && w.err == nil {
		w.err = err
	}
	return n, err
}

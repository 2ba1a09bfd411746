package attachments

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"

	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/bucket"
	"feedmirror/manifest"
)

const (
	// indexGroupRows bounds a row group, which the writer holds in memory compressed: about 3 MiB
	// with the names the feed gives.
	indexGroupRows = 16384
	// indexPageBytes bounds a page before compression, for each column.
	indexPageBytes = 256 << 10
	// indexBatchRows are handed to the Parquet writer at once.
	indexBatchRows = 256
	// indexInMemory is the greatest index that is kept in memory; a greater one is generated
	// twice, once for its hash and once for its bytes.
	indexInMemory = 8 << 20
)

// IndexStats say what an index holds.
type IndexStats struct {
	Rows int64
}

// WriteIndex writes the attachment index of a version: Parquet, one row for each attachment, in
// the order of the rows, which must be the manifest's. The same rows give the same bytes in every
// process: nothing of the host, the time or the library's version goes in, and zstd's encoder
// decides alike on all processors. Memory does not grow with the rows.
func WriteIndex(w io.Writer, rows iter.Seq2[manifest.Attachment, error]) (IndexStats, error) {
	writer := newIndexWriter(w)
	for a, err := range rows {
		if err != nil {
			return IndexStats{}, fmt.Errorf("write attachment index: %w", err)
		}
		if err := writer.add(a); err != nil {
			return IndexStats{}, err
		}
	}
	return writer.stats, writer.close()
}

type indexWriter struct {
	parquet *parquet.GenericWriter[indexLine]
	batch   []indexLine
	stats   IndexStats
}

func newIndexWriter(w io.Writer) *indexWriter {
	return &indexWriter{
		parquet: parquet.NewGenericWriter[indexLine](w,
			// Version 1 pages and plain or dictionary encoding are what every reader knows.
			parquet.DataPageVersion(1),
			parquet.Compression(new(pageCodec)),
			parquet.MaxRowsPerRowGroup(indexGroupRows),
			parquet.PageBufferSize(indexPageBytes),
			parquet.CreatedBy("feedmirror", "1", "attachment-index"),
		),
		batch: make([]indexLine, 0, indexBatchRows),
	}
}

func (w *indexWriter) add(a manifest.Attachment) error {
	w.stats.Rows++
	w.batch = append(w.batch, lineOf(a))
	if len(w.batch) < cap(w.batch) {
		return nil
	}
	return w.flush()
}

func (w *indexWriter) flush() error {
	_, err := w.parquet.Write(w.batch)
	clear(w.batch)
	w.batch = w.batch[:0]
	if err != nil {
		return fmt.Errorf("write attachment index: %w", err)
	}
	return nil
}

func (w *indexWriter) close() error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.parquet.Close(); err != nil {
		return fmt.Errorf("write attachment index: %w", err)
	}
	return nil
}

// Index is an attachment index whose size and hash are known before its bytes are written. Close
// it when it is written or given up.
type Index struct {
	// Content is ready for a Create. Its Body can seek, so that the write can be repeated.
	Content bucket.Content
	Stats   IndexStats
	close   func()
}

// Close gives back what an unfinished reading of Content.Body holds.
func (x *Index) Close() { x.close() }

// NewIndex generates the index of the attachments that rows yields, always the same and in the
// manifest's order. Up to 8 MiB are kept in memory; a greater index is generated again, from a
// new call of rows, each time its body is read.
func NewIndex(rows func() iter.Seq2[manifest.Attachment, error]) (*Index, error) {
	return newIndex(rows, indexInMemory)
}

func newIndex(rows func() iter.Seq2[manifest.Attachment, error], inMemory int64) (*Index, error) {
	sink := &indexSink{hash: sha256.New(), kept: new(bytes.Buffer), limit: inMemory}
	stats, err := WriteIndex(sink, rows())
	if err != nil {
		return nil, err
	}
	index := &Index{Stats: stats, close: func() {}}
	index.Content = bucket.Content{Size: sink.size, SHA256: manifest.SHA256(sink.hash.Sum(nil)), Class: bucket.Data}
	if sink.kept != nil {
		index.Content.Body = bytes.NewReader(sink.kept.Bytes())
		return index, nil
	}
	body := &indexBody{rows: rows, size: sink.size}
	index.Content.Body, index.close = body, body.stop
	return index, nil
}

// indexSink hashes and counts what is written, and keeps it while it is small.
type indexSink struct {
	hash hash.Hash
	size int64
	// kept is nil once it grew beyond limit bytes.
	kept  *bytes.Buffer
	limit int64
}

func (s *indexSink) Write(p []byte) (int, error) {
	s.hash.Write(p)
	s.size += int64(len(p))
	if s.kept != nil && s.size > s.limit {
		s.kept = nil
	}
	if s.kept != nil {
		s.kept.Write(p)
	}
	return len(p), nil
}

// indexBody generates an index while it is read, at most a row group ahead of the reader. Reading
// drives the writing, so that no goroutine is left behind by a reader that stops half way.
type indexBody struct {
	rows   func() iter.Seq2[manifest.Attachment, error]
	size   int64 // bytes in all
	wanted int64 // where the next Read begins
	at     int64 // where pending begins

	pending bytes.Buffer
	writer  *indexWriter // nil: not begun
	ended   bool         // the footer is in pending
	next    func() (manifest.Attachment, error, bool)
	cancel  func()
}

// Read implements io.Reader.
func (b *indexBody) Read(p []byte) (int, error) {
	if b.wanted >= b.size {
		return 0, io.EOF
	}
	if b.wanted < b.at {
		b.stop()
	}
	for {
		b.at += int64(len(b.pending.Next(int(min(b.wanted-b.at, int64(b.pending.Len()))))))
		if b.pending.Len() > 0 {
			n, err := b.pending.Read(p)
			b.at += int64(n)
			b.wanted = b.at
			return n, err
		}
		if b.ended {
			return 0, io.ErrUnexpectedEOF // the rows are not those that were measured
		}
		if err := b.fill(); err != nil {
			b.stop()
			return 0, err
		}
	}
}

// fill writes rows until there are bytes to read or the index is complete.
func (b *indexBody) fill() error {
	if b.writer == nil {
		b.writer = newIndexWriter(&b.pending)
		b.next, b.cancel = iter.Pull2(b.rows())
	}
	for b.pending.Len() == 0 {
		a, err, ok := b.next()
		switch {
		case !ok:
			b.ended = true
			return b.writer.close()
		case err != nil:
			return fmt.Errorf("write attachment index: %w", err)
		}
		if err := b.writer.add(a); err != nil {
			return err
		}
	}
	return nil
}

// stop drops what was generated; the next Read begins anew.
func (b *indexBody) stop() {
	if b.cancel != nil {
		b.cancel()
	}
	b.next, b.cancel, b.writer, b.ended, b.at = nil, nil, nil, false, 0
	b.pending.Reset()
}

// Seek implements io.Seeker. Going back generates the index anew.
func (b *indexBody) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += b.wanted
	case io.SeekEnd:
		offset += b.size
	}
	if offset < 0 || whence < io.SeekStart || whence > io.SeekEnd {
		return 0, errors.New("seek attachment index: position before its start")
	}
	b.wanted = offset
	return offset, nil
}

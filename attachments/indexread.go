package attachments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/parquet-go/parquet-go"

	"feedmirror/internal/fault"
	"feedmirror/internal/parquetinfo"
	"feedmirror/manifest"
)

// indexReadBytes is how much of a column is read at once: a ranged request each, where the index
// lies in a remote bucket.
const indexReadBytes = 1 << 20

// ReadIndex hands each row of an index of size bytes to visit, in the index's order, and holds a
// few pages of each column in memory. An index that is damaged, lacks a column or has rows that
// contradict themselves is a fault.Malformed; visit's errors are returned as they are.
func ReadIndex(ctx context.Context, r io.ReaderAt, size int64, visit func(IndexRow) error) (err error) {
	var file *parquet.File
	if file, err = openIndex(r, size); err != nil {
		return err
	}
	visiting := false
	defer func() { recoverReading(recover(), visiting, &err) }()
	reader := parquet.NewGenericReader[indexLine](file)
	defer closeAfter(reader, &err)
	lines := make([]indexLine, indexBatchRows)
	for read := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, readErr := reader.Read(lines)
		for i := range lines[:n] {
			row, err := lines[i].row()
			if err != nil {
				return damaged(err)
			}
			visiting = true
			if err := visit(row); err != nil {
				return err
			}
			visiting = false
		}
		read += int64(n)
		switch {
		case errors.Is(readErr, io.EOF) && read == file.NumRows():
			return nil
		case errors.Is(readErr, io.EOF), readErr == nil && n == 0:
			return damaged(fmt.Errorf("it ends after %d of %d rows", read, file.NumRows()))
		case readErr != nil:
			return readFailure(readErr)
		}
		clear(lines)
	}
}

// IndexDigests yields the hash of each row of an index of size bytes, reading that column alone.
// Errors are those of ReadIndex, and end the sequence.
func IndexDigests(ctx context.Context, r io.ReaderAt, size int64) iter.Seq2[manifest.SHA256, error] {
	return func(yield func(manifest.SHA256, error) bool) {
		file, err := openIndex(r, size)
		if err != nil {
			yield(manifest.SHA256{}, err)
			return
		}
		column, _ := file.Schema().Lookup("sha256")
		for _, group := range file.RowGroups() {
			pages := group.ColumnChunks()[column.ColumnIndex].Pages()
			digests := digestReader{pages: pages, left: group.NumRows(), sums: make([]manifest.SHA256, 0, indexBatchRows)}
			for digests.left > 0 && err == nil {
				if err = ctx.Err(); err == nil {
					err = digests.fill()
				}
				for _, sum := range digests.sums {
					if !yield(sum, nil) {
						_ = pages.Close() // nothing more is wanted of them
						return
					}
				}
			}
			closeAfter(pages, &err)
			if err != nil {
				yield(manifest.SHA256{}, err)
				return
			}
		}
	}
}

// digestReader reads the sha256 column of a row group, a batch at a time.
type digestReader struct {
	pages  parquet.Pages
	page   parquet.Page // the current one; nil between pages
	values parquet.ValueReader
	left   int64             // rows to come
	sums   []manifest.SHA256 // what the last fill read
}

// fill replaces sums by the next hashes. It is apart from the yielding, so that a panic of the
// caller's loop body is not taken for one of the Parquet library.
func (d *digestReader) fill() (err error) {
	defer func() { recoverReading(recover(), false, &err) }()
	d.sums = d.sums[:0]
	if d.page == nil {
		page, err := d.pages.ReadPage()
		switch {
		case errors.Is(err, io.EOF):
			return damaged(fmt.Errorf("its sha256 column lacks %d values", d.left))
		case err != nil:
			return readFailure(err)
		}
		d.page, d.values = page, page.Values()
	}
	var values [indexBatchRows]parquet.Value
	n, readErr := d.values.ReadValues(values[:])
	for _, value := range values[:n] {
		sum, err := manifest.ParseSHA256(string(value.ByteArray()))
		if err != nil {
			return damaged(err)
		}
		d.sums = append(d.sums, sum)
	}
	d.left -= int64(n)
	switch {
	case errors.Is(readErr, io.EOF):
		parquet.Release(d.page)
		d.page, d.values = nil, nil
	case readErr != nil:
		return readFailure(readErr)
	}
	return nil
}

func openIndex(r io.ReaderAt, size int64) (*parquet.File, error) {
	file, err := parquetinfo.Open(r, size, indexReadBytes)
	if err != nil {
		return nil, readFailure(err)
	}
	have := columnTypes(file.Schema())
	for _, want := range parquet.SchemaOf(new(indexLine)).Fields() {
		got, ok := have[want.Name()]
		if !ok || got != typeName(want) {
			return nil, damaged(fmt.Errorf("it is no attachment index: column %s is %q, want %q", want.Name(), got, typeName(want)))
		}
	}
	return file, nil
}

func columnTypes(schema *parquet.Schema) map[string]string {
	types := make(map[string]string)
	for _, field := range schema.Fields() {
		types[field.Name()] = typeName(field)
	}
	return types
}

// typeName spells a field's type and how often it stands in a row.
func typeName(field parquet.Field) string {
	switch {
	case !field.Leaf():
		return "group"
	case field.Repeated():
		return "repeated " + field.Type().String()
	case field.Optional():
		return "optional " + field.Type().String()
	default:
		return field.Type().String()
	}
}

// readFailure tells a store that could not be read, whose faults go through as they are, from an
// index that cannot be decoded.
func readFailure(err error) error {
	if fault.KindOf(err) != "" || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("read attachment index: %w", err)
	}
	return damaged(err)
}

func damaged(cause error) error {
	return &fault.Error{
		Op: "read attachment index", Side: fault.SideBucket, Kind: fault.Malformed, Err: cause,
		Hint: "The index is not what the mirror wrote; `mirror verify` shows what is damaged.",
	}
}

// recoverReading turns a panic of the Parquet library, which trusts what pages say of themselves,
// into an error. A panic of the visitor is a bug of ours and goes on.
func recoverReading(cause any, visiting bool, err *error) {
	switch {
	case cause == nil:
	case visiting:
		panic(cause)
	default:
		*err = damaged(fmt.Errorf("decoding it failed: %v", cause))
	}
}

// closeAfter closes what was read and keeps the first error.
func closeAfter(c io.Closer, err *error) {
	if closeErr := c.Close(); *err == nil && closeErr != nil {
		*err = readFailure(closeErr)
	}
}

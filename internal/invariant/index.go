package invariant

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// indexRow is a row of an attachment index, as readers see it.
type indexRow struct {
	File           string  `parquet:"file"`
	Filename       string  `parquet:"filename"`
	ContentType    string  `parquet:"content_type"`
	SizeBytes      int64   `parquet:"size_bytes"`
	SHA256         string  `parquet:"sha256"`
	Key            string  `parquet:"key"`
	Kind           string  `parquet:"kind"`
	DocumentSHA256 *string `parquet:"document_sha256,optional"`
}

var indexColumns = []string{"file", "filename", "content_type", "size_bytes", "sha256", "key", "kind", "document_sha256"}

// readIndex reads all rows of an index.
func (c *checker) readIndex(key string) (rows []indexRow, err error) {
	data, err := readAll(c.bucket, key)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cause := recover(); cause != nil { // the library panics on some damaged files
			err = fmt.Errorf("it cannot be decoded: %v", cause)
		}
	}()
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	var columns []string
	for _, field := range file.Schema().Fields() {
		columns = append(columns, field.Name())
	}
	if strings.Join(columns, ",") != strings.Join(indexColumns, ",") {
		return nil, fmt.Errorf("its columns are %v", columns)
	}
	reader := parquet.NewGenericReader[indexRow](file)
	rows = make([]indexRow, file.NumRows())
	for read := 0; read < len(rows); {
		n, err := reader.Read(rows[read:])
		read += n
		if read < len(rows) && (err != nil || n == 0) {
			return nil, fmt.Errorf("it ends after %d of %d rows: %w", read, len(rows), errors.Join(err, io.ErrUnexpectedEOF))
		}
	}
	return rows, reader.Close()
}

// problem says how a row disagrees with the manifest or with itself, or returns "".
func (r *indexRow) problem(attachments map[string]named) string {
	want, ok := attachments[r.File]
	kind, document := "other", ""
	switch name, id, _ := strings.Cut(r.File, ":"); {
	case r.File == "original":
		kind = "original"
	case name == "source" && id != "":
		kind = "source"
	case name == "document" && len(id) == 64:
		kind, document = "document", strings.ToLower(id)
	}
	switch {
	case !ok:
		return "the manifest does not name it"
	case r.SizeBytes != want.size || r.SHA256 != want.sha256:
		return fmt.Sprintf("size %d and sha256 %s, the manifest names %d and %s", r.SizeBytes, r.SHA256, want.size, want.sha256)
	case r.Key != attachmentKey(r.SHA256):
		return "its key is " + r.Key
	case r.Kind != kind:
		return fmt.Sprintf("its kind is %q, not %q", r.Kind, kind)
	case (r.DocumentSHA256 != nil) != (document != "") || r.DocumentSHA256 != nil && *r.DocumentSHA256 != document:
		return "document_sha256 is not the hash in its name"
	}
	return ""
}

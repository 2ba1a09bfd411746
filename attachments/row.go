package attachments

import (
	"errors"
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"

	"feedmirror/manifest"
)

// The kinds of attachments in an index, by the first part of the name.
const (
	KindSource   = "source"   // "source:<id>": a file the dataset was read from
	KindOriginal = "original" // "original": the source as a whole
	KindDocument = "document" // "document:<sha256>": a document that rows point to
	KindOther    = "other"    // a name the feed does not document
)

// IndexRow is one row of an attachment index: an attachment, and what readers would otherwise
// have to compute from it in SQL.
type IndexRow struct {
	manifest.Attachment
	Key  string // where its bytes lie
	Kind string // KindSource, KindOriginal, KindDocument or KindOther
	// Document is the hash in a document's name, by which rows point to it. It is the feed's own
	// and can differ from SHA256. Nil for other kinds.
	Document *manifest.SHA256
}

// RowOf returns the index row of an attachment.
func RowOf(a manifest.Attachment) IndexRow {
	row := IndexRow{Attachment: a, Key: manifest.AttachmentKey(a.SHA256), Kind: KindOther}
	kind, id, _ := strings.Cut(a.Name, ":")
	switch {
	case a.Name == KindOriginal, kind == KindSource && id != "":
		row.Kind = kind
	case kind == KindDocument:
		if sum, err := manifest.ParseSHA256(id); err == nil {
			row.Kind, row.Document = KindDocument, &sum
		}
	}
	return row
}

// indexLine is a row as Parquet stores it. The names and their order are what people write into
// SQL: never change them, only add.
type indexLine struct {
	File           string  `parquet:"file,plain"`
	Filename       string  `parquet:"filename,plain"`
	ContentType    string  `parquet:"content_type,dict"`
	SizeBytes      int64   `parquet:"size_bytes"`
	SHA256         string  `parquet:"sha256,plain"`
	Key            string  `parquet:"key,plain"`
	Kind           string  `parquet:"kind,dict"`
	DocumentSHA256 *string `parquet:"document_sha256,optional,plain"`
}

func lineOf(a manifest.Attachment) indexLine {
	row := RowOf(a)
	line := indexLine{
		File: a.Name, Filename: a.Filename, ContentType: a.ContentType, SizeBytes: a.Size,
		SHA256: a.SHA256.String(), Key: row.Key, Kind: row.Kind,
	}
	if row.Document != nil {
		text := row.Document.String()
		line.DocumentSHA256 = &text
	}
	return line
}

// row checks a stored line against what the attachment itself says, and returns it with strings
// of its own: the line's may live in a page that is about to be reused.
func (l *indexLine) row() (IndexRow, error) {
	sum, err := manifest.ParseSHA256(l.SHA256)
	if err != nil {
		return IndexRow{}, fmt.Errorf("attachment %q: %w", l.File, err)
	}
	if l.SizeBytes < 0 {
		return IndexRow{}, fmt.Errorf("attachment %q: size %d is negative", l.File, l.SizeBytes)
	}
	row := RowOf(manifest.Attachment{
		Name: strings.Clone(l.File), Filename: strings.Clone(l.Filename), ContentType: strings.Clone(l.ContentType),
		Size: l.SizeBytes, SHA256: sum,
	})
	document := ""
	if row.Document != nil {
		document = row.Document.String()
	}
	stored := ""
	if l.DocumentSHA256 != nil {
		stored = *l.DocumentSHA256
	}
	if l.Key != row.Key || l.Kind != row.Kind || stored != document {
		return IndexRow{}, fmt.Errorf("attachment %q: %w", l.File, errors.New("key, kind or document_sha256 do not follow from its name and sha256"))
	}
	return row, nil
}

// IndexColumns returns the names of an index's columns in the order of the file. size_bytes is a number
// of 64 bits, the others are text; document_sha256 may be null.
func IndexColumns() []string {
	var names []string
	for _, path := range parquet.SchemaOf(indexLine{}).Columns() {
		names = append(names, path[0])
	}
	return names
}

package manifest

import (
	"errors"
	"fmt"
	"strconv"

	"feedmirror/manifest/jsonstream"
)

// MaxEntryBytes is how long one entry may be in the feed's JSON, signed link and all.
const MaxEntryBytes = 64 << 10

// Entry is one file as every document of the feed lists it: manifest.json, a version's answer
// and an answer of signed links. What is absent, null or (for what the mirror can do without)
// of another type stays zero.
type Entry struct {
	File        string // attachment name, or the path where the document gives no path
	Path        string // manifest path
	Filename    string
	ContentType string
	Size        int64 // bytes; 0 to 2^53, -1 when the entry does not say
	SHA256      SHA256
	URL         string // signed: never to be logged, put into an error or stored
	ExpiresAt   string // RFC 3339, where an answer gives it with each entry
}

// Name returns by what /links is asked for the file: its path, or else its file.
func (e Entry) Name() string {
	if e.Path != "" {
		return e.Path
	}
	return e.File
}

// IsAttachment reports whether an entry of a list that mixes files and attachments is one of
// the latter: it has no path, and its file has the form of an attachment's name.
func (e Entry) IsAttachment() bool { return e.Path == "" && IsAttachmentName(e.File) }

// IsEmpty reports whether the object that was read says nothing that makes it an entry.
func (e Entry) IsEmpty() bool {
	return e.Path == "" && e.File == "" && e.SHA256.IsZero() && e.Size < 0 && e.URL == ""
}

// isWholeFile reports whether the entry says all that makes it a file.
func (e Entry) isWholeFile() bool { return e.Path != "" && e.Size >= 0 && !e.SHA256.IsZero() }

// AsFile returns the entry as a file of the kind that its path names. The name is checked, and
// size and sha256 must be there.
func (e Entry) AsFile() (File, error) {
	path := e.Name()
	if path == "" {
		return File{}, errors.New("neither a path nor a file")
	}
	if err := CheckPath(path); err != nil {
		return File{}, err
	}
	if err := e.checkFacts(); err != nil {
		return File{}, fmt.Errorf("%s: %w", Quote(path), err)
	}
	return File{Kind: KindOf(path), Path: path, Size: e.Size, SHA256: e.SHA256}, nil
}

// AsAttachment returns the entry as an attachment. Its name is checked, and size and sha256
// must be there.
func (e Entry) AsAttachment() (Attachment, error) {
	if e.File == "" {
		return Attachment{}, errors.New("no file, which names an attachment")
	}
	if err := CheckAttachmentName(e.File); err != nil {
		return Attachment{}, err
	}
	if err := e.checkFacts(); err != nil {
		return Attachment{}, fmt.Errorf("%s: %w", Quote(e.File), err)
	}
	return Attachment{Name: e.File, Filename: e.Filename, ContentType: e.ContentType, Size: e.Size, SHA256: e.SHA256}, nil
}

func (e Entry) checkFacts() error {
	switch {
	case e.Size < 0:
		return errors.New("no sizeBytes")
	case e.SHA256.IsZero():
		return errors.New("no sha256")
	}
	return nil
}

// ReadEntry reads one entry from a stream. A name, size or checksum that is there but cannot be
// used is an error, as is a field that stands twice; other fields are taken when they are
// strings and left out when not. Errors name the entry and never hold its link.
func ReadEntry(in *jsonstream.Reader) (Entry, error) {
	reader := entryReader{in: in, entry: Entry{Size: -1}}
	err := in.Bounded(MaxEntryBytes, func() error { return in.Object(reader.field) })
	switch {
	case err != nil:
	case reader.problem != nil:
		err = reader.problem
	default:
		return reader.entry, nil
	}
	if name := reader.entry.Name(); name != "" {
		return Entry{}, fmt.Errorf("%s: %w", Quote(name), err)
	}
	return Entry{}, err
}

// entryReader holds the first problem back until the whole entry is read, since the name that
// the error must give can stand after it.
type entryReader struct {
	in      *jsonstream.Reader
	entry   Entry
	seen    uint16
	problem error
}

func (r *entryReader) field(name string) error {
	switch name {
	case "path":
		return r.text(name, 0, &r.entry.Path, true)
	case "file":
		return r.text(name, 1, &r.entry.File, true)
	case "filename":
		return r.text(name, 2, &r.entry.Filename, false)
	case "contentType":
		return r.text(name, 3, &r.entry.ContentType, false)
	case "url":
		return r.text(name, 4, &r.entry.URL, false)
	case "expiresAt":
		return r.text(name, 5, &r.entry.ExpiresAt, false)
	case "sha256":
		return r.checksum()
	case "sizeBytes":
		r.once(name, 7)
		size, err := readInteger(r.in, MaxSize)
		if err == nil && size != nil {
			r.entry.Size = *size
		}
		return r.note(name, err)
	}
	return nil
}

func (r *entryReader) text(name string, bit int, into *string, needed bool) error {
	r.once(name, bit)
	text, err := readText(r.in)
	if !needed && isTypeError(err) {
		return nil
	}
	*into = text
	return r.note(name, err)
}

func (r *entryReader) checksum() error {
	var text string
	if err := r.text("sha256", 6, &text, true); err != nil || text == "" {
		return err
	}
	sum, err := ParseSHA256(text)
	switch {
	case err != nil:
		return r.note("sha256", &valueError{fmt.Sprintf("want 64 hex digits, got %s", Quote(text))})
	case sum.IsZero():
		return r.note("sha256", &valueError{"all zero"})
	}
	r.entry.SHA256 = sum
	return nil
}

func (r *entryReader) once(name string, bit int) {
	if r.seen&(1<<bit) != 0 && r.problem == nil {
		r.problem = fmt.Errorf("%s stands twice", name)
	}
	r.seen |= 1 << bit
}

// note keeps an error about a value for later and returns one about the text.
func (r *entryReader) note(name string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", name, err)
	if !isValueError(err) {
		return err
	}
	if r.problem == nil {
		r.problem = err
	}
	return nil
}

// valueError is well-formed JSON with a value that cannot be used.
type valueError struct{ msg string }

func (e *valueError) Error() string { return e.msg }

func isTypeError(err error) bool {
	var wrong *jsonstream.TypeError
	return errors.As(err, &wrong)
}

func isValueError(err error) bool {
	var value *valueError
	return errors.As(err, &value) || isTypeError(err)
}

// readText reads a string; null is the empty string.
func readText(in *jsonstream.Reader) (string, error) {
	if isNull, err := readNull(in); isNull || err != nil {
		return "", err
	}
	return in.String()
}

// readInteger reads a number between 0 and greatest in plain digits; null is nil.
func readInteger(in *jsonstream.Reader, greatest int64) (*int64, error) {
	if isNull, err := readNull(in); isNull || err != nil {
		return nil, err
	}
	text, err := in.Number()
	if err != nil {
		return nil, err
	}
	// JSON knows no leading zeros and no plus sign, so what ParseUint takes is plain digits.
	value, err := strconv.ParseUint(text, 10, 63)
	if err != nil || int64(value) > greatest {
		return nil, &valueError{fmt.Sprintf("want a whole number from 0 to %d, got %s", greatest, clip(text))}
	}
	number := int64(value)
	return &number, nil
}

func readNull(in *jsonstream.Reader) (bool, error) {
	kind, err := in.Peek()
	if err != nil || kind != jsonstream.Null {
		return false, err
	}
	return true, in.Null()
}

// clip cuts a number for an error; it is ASCII.
func clip(number string) string {
	if len(number) > 40 {
		return number[:40] + "..."
	}
	return number
}

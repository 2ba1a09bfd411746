package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"feedmirror/manifest/jsonstream"
)

// MaxVersionBytes is how long a version's own fields may be, without its files.
const MaxVersionBytes = 1 << 20

// VersionFields gathers the fields of a version that stand beside others in one object, such
// as the files of a version's answer. Call Read at each member, then Version. The zero value is
// ready.
type VersionFields struct {
	version Version
	seen    map[string]bool
}

// DecodeVersion reads a version that stands alone, such as an element of the list of versions.
// Members that it does not know are left alone.
func DecodeVersion(data []byte) (Version, error) {
	in := jsonstream.New(bytes.NewReader(data))
	version, err := ReadVersion(in)
	if err == nil {
		err = in.End()
	}
	if err != nil {
		return Version{}, fmt.Errorf("decode version: %w", err)
	}
	return version, nil
}

// ReadVersion reads one version's object from a stream.
func ReadVersion(in *jsonstream.Reader) (Version, error) {
	var fields VersionFields
	err := in.Bounded(MaxVersionBytes, func() error {
		return in.Object(func(name string) error {
			_, err := fields.Read(in, name)
			return err
		})
	})
	if err != nil {
		return Version{}, fmt.Errorf("%s%w", fields.place(), err)
	}
	return fields.Version()
}

// Read reads the value of the member called name when it is one of a version's fields, and
// says whether it is. The fields that the mirror decides by (datasetId, version,
// previousVersion, schemaVersion, publishedAt, rowCount, resyncRequired, recordIdsChanged) and
// the counts must have their documented form; sourceUrl and fetchedAt are left out when not.
func (v *VersionFields) Read(in *jsonstream.Reader, name string) (known bool, err error) {
	read := v.reader(name)
	if read == nil {
		return false, nil
	}
	if v.seen[name] {
		return true, fmt.Errorf("%s stands twice", name)
	}
	if v.seen == nil {
		v.seen = map[string]bool{}
	}
	isNull, err := readNull(in)
	if isNull || err != nil {
		return true, err
	}
	v.seen[name] = true
	if err := read(in); err != nil {
		return true, fmt.Errorf("%s: %w", name, err)
	}
	return true, nil
}

// reader returns what reads a field that is not null; nil when name is no field of a version.
func (v *VersionFields) reader(name string) func(*jsonstream.Reader) error {
	switch name {
	case "datasetId":
		return readInto(&v.version.Dataset, (*jsonstream.Reader).String)
	case "version":
		return readInto(&v.version.Number, readNumber)
	case "previousVersion":
		return readInto(&v.version.Previous, readNumber)
	case "schemaVersion":
		return readInto(&v.version.Schema, readSchemaVersion)
	case "publishedAt":
		return readInto(&v.version.PublishedAt, readTime)
	case "rowCount":
		return readInto(&v.version.RowCount, readCount)
	case "counts":
		return readInto(&v.version.Counts, readCounts)
	case "resyncRequired":
		return readInto(&v.version.ResyncRequired, (*jsonstream.Reader).Bool)
	case "recordIdsChanged":
		return readInto(&v.version.RecordIDsChanged, (*jsonstream.Reader).Bool)
	case "sourceUrl":
		return optional(readInto(&v.version.SourceURL, (*jsonstream.Reader).String))
	case "fetchedAt":
		return optional(readInto(&v.version.FetchedAt, func(in *jsonstream.Reader) (*time.Time, error) {
			at, err := readTime(in)
			if err != nil {
				return nil, err
			}
			return &at, nil
		}))
	}
	return nil
}

// Version returns what was read. It is an error when a field that the mirror decides by is
// missing or null (previousVersion and recordIdsChanged may be), or when previousVersion is not
// a lower number.
func (v *VersionFields) Version() (Version, error) {
	if err := v.check(); err != nil {
		return Version{}, fmt.Errorf("%s%w", v.place(), err)
	}
	return v.version, nil
}

func (v *VersionFields) check() error {
	for _, name := range []string{"datasetId", "version", "schemaVersion", "publishedAt", "rowCount", "resyncRequired"} {
		if !v.seen[name] {
			return fmt.Errorf("no %s", name)
		}
	}
	if err := CheckDataset(v.version.Dataset); err != nil {
		return err
	}
	if err := CheckNumber(v.version.Number); err != nil {
		return err
	}
	if v.version.Previous >= v.version.Number {
		return fmt.Errorf("previousVersion %d is not lower", v.version.Previous)
	}
	return nil
}

// place names the version for an error, as far as it is known.
func (v *VersionFields) place() string {
	place := ""
	if v.version.Dataset != "" {
		place = "dataset " + Quote(v.version.Dataset) + " "
	}
	if v.version.Number != 0 {
		place += fmt.Sprintf("version %d", v.version.Number)
	}
	if place == "" {
		return ""
	}
	return place + ": "
}

func readInto[T any](into *T, read func(*jsonstream.Reader) (T, error)) func(*jsonstream.Reader) error {
	return func(in *jsonstream.Reader) error {
		value, err := read(in)
		if err == nil {
			*into = value
		}
		return err
	}
}

// optional leaves a value out that cannot be used, and keeps errors about the text.
func optional(read func(*jsonstream.Reader) error) func(*jsonstream.Reader) error {
	return func(in *jsonstream.Reader) error {
		if err := read(in); !isValueError(err) {
			return err
		}
		return nil
	}
}

func readNumber(in *jsonstream.Reader) (Number, error) {
	number, err := required(readInteger(in, int64(MaxNumber)))
	return Number(number), err
}

func readCount(in *jsonstream.Reader) (int64, error) {
	return required(readInteger(in, MaxSize))
}

func required(number *int64, err error) (int64, error) {
	switch {
	case err != nil:
		return 0, err
	case number == nil:
		return 0, &valueError{"want a number, got null"}
	}
	return *number, nil
}

func readSchemaVersion(in *jsonstream.Reader) (SchemaVersion, error) {
	text, err := in.String()
	if err != nil {
		return SchemaVersion{}, err
	}
	version, err := ParseSchemaVersion(text)
	if err != nil {
		return SchemaVersion{}, &valueError{"want MAJOR.MINOR, got " + Quote(text)}
	}
	return version, nil
}

// readTime reads an RFC 3339 time and returns it in UTC.
func readTime(in *jsonstream.Reader) (time.Time, error) {
	text, err := in.String()
	if err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339, text)
	at = at.UTC()
	// A zone can carry the year out of what RFC 3339, and so our own documents, can hold.
	if err != nil || at.Year() < 1 || at.Year() > 9999 {
		return time.Time{}, &valueError{"want an RFC 3339 time, got " + Quote(text)}
	}
	return at, nil
}

// readCounts reads {added, changed, removed}. An object that lacks one says nothing: nil.
func readCounts(in *jsonstream.Reader) (*Counts, error) {
	var counts Counts
	seen := map[string]bool{}
	err := in.Object(func(name string) error {
		var into *int64
		switch name {
		case "added":
			into = &counts.Added
		case "changed":
			into = &counts.Changed
		case "removed":
			into = &counts.Removed
		default:
			return nil
		}
		number, err := readInteger(in, MaxSize)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case number == nil:
			return nil
		case seen[name]:
			return errors.New(name + " stands twice")
		}
		*into, seen[name] = *number, true
		return nil
	})
	if err != nil || len(seen) < 3 {
		return nil, err
	}
	return &counts, nil
}

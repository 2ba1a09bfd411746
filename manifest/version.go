package manifest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Number is a version number of a dataset: 1 to 9,999,999,999. Zero stands for "none".
// Numbers grow along a chain but skip; only Version.Previous says what came before.
type Number int64

// MaxNumber is the greatest version number that the bucket layout can hold (ten digits).
const MaxNumber Number = 9_999_999_999

// Padded returns the ten digits under which n stands in keys, so that listing order is version order.
func (n Number) Padded() string { return fmt.Sprintf("%010d", int64(n)) }

// Counts are the rows a version added, changed and removed against its previous version.
type Counts struct {
	Added   int64 `json:"added"`
	Changed int64 `json:"changed"`
	Removed int64 `json:"removed"`
}

// Version is what the feed says of one released version, without its files
// (versions-snapshots-and-changes.md, "The version chain").
type Version struct {
	Dataset          string
	Number           Number
	Previous         Number // zero on a dataset's first version
	Schema           SchemaVersion
	PublishedAt      time.Time  // when it was released
	SourceURL        string     // empty when the feed says null
	FetchedAt        *time.Time // when the source was read; nil when the feed says null
	RowCount         int64      // rows of the snapshot
	Counts           *Counts    // nil when ResyncRequired
	ResyncRequired   bool
	RecordIDsChanged bool
}

// SchemaVersion is the feed's MAJOR.MINOR (schemas.md, "Format").
type SchemaVersion struct {
	Major int
	Minor int
}

// ParseSchemaVersion reads "MAJOR.MINOR".
func ParseSchemaVersion(text string) (SchemaVersion, error) {
	major, minor, ok := strings.Cut(text, ".")
	if ok {
		a, errA := strconv.ParseUint(major, 10, 31)
		b, errB := strconv.ParseUint(minor, 10, 31)
		if errA == nil && errB == nil {
			return SchemaVersion{Major: int(a), Minor: int(b)}, nil
		}
	}
	return SchemaVersion{}, fmt.Errorf("parse schema version: want MAJOR.MINOR, got %q", text)
}

// String returns "MAJOR.MINOR".
func (v SchemaVersion) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// MarshalText implements encoding.TextMarshaler.
func (v SchemaVersion) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *SchemaVersion) UnmarshalText(text []byte) error {
	parsed, err := ParseSchemaVersion(string(text))
	if err != nil {
		return err
	}
	*v = parsed
	return nil
}

// Breaks reports whether a reader of old must be told before it reads v: the MAJOR differs.
func (v SchemaVersion) Breaks(old SchemaVersion) bool { return v.Major != old.Major }

package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// LayoutVersion is the bucket layout this program reads and writes. A bucket with a higher
// one is refused, since a newer mirror may rely on rules that this one does not know.
const LayoutVersion = 1

// ChangesState says what became of a version's changes files.
type ChangesState string

// The states of a version's changes.
const (
	ChangesPresent       ChangesState = "present"
	ChangesEmpty         ChangesState = "empty"
	ChangesNotApplicable ChangesState = "not-applicable" // resyncRequired: the feed sends none
	ChangesExpired       ChangesState = "expired"        // lost to the feed's retention before we asked
)

// GapReason says why a record does not follow the version that the feed calls its previous.
type GapReason string

// The reasons of a gap.
const (
	GapExpired        GapReason = "expired"
	GapWithdrawn      GapReason = "withdrawn"
	GapIncomplete     GapReason = "incomplete"
	GapHistoryCurrent GapReason = "history-current"
	GapFork           GapReason = "fork"
)

// Gap stands in a record whose feed predecessor is not the record before it.
type Gap struct {
	Expected Number    `json:"expected"`
	Reason   GapReason `json:"reason"`
}

// RecordRef names another record by version and by the hash of its stored bytes.
type RecordRef struct {
	Version Number `json:"version"`
	SHA256  SHA256 `json:"sha256"`
}

// RecordFile is one file of a version as the record names it.
type RecordFile struct {
	Kind   Kind   `json:"kind"`
	Path   string `json:"path"`
	Key    string `json:"key"`
	Size   int64  `json:"sizeBytes"`
	SHA256 SHA256 `json:"sha256"`
	Rows   *int64 `json:"rows,omitempty"` // rows by the Parquet footer; absent when there is none to read
}

// ObjectRef names an object by key and hash.
type ObjectRef struct {
	Key    string `json:"key"`
	SHA256 SHA256 `json:"sha256"`
}

// RecordAttachments sums up a version's attachments. New objects and bytes are those that the
// previous record's index does not name; carried names were taken over from it unlooked at.
type RecordAttachments struct {
	Count      int64      `json:"count"`
	Objects    int64      `json:"objects"`
	Bytes      int64      `json:"bytes"`
	NewObjects int64      `json:"newObjects"`
	NewBytes   int64      `json:"newBytes"`
	Carried    int64      `json:"carried"`
	Index      *ObjectRef `json:"index"` // nil when the version lists none
}

// Record is versions/<dataset>/<version>/record.json: the commit point of a version. It says
// what the feed published and under which keys it lies, and nothing about the store.
type Record struct {
	Layout           int               `json:"layout"`
	Dataset          string            `json:"dataset"`
	Version          Number            `json:"version"`
	PreviousVersion  Number            `json:"previousVersion"` // zero on a first version
	PreviousRecord   *RecordRef        `json:"previousRecord"`
	Gap              *Gap              `json:"gap,omitempty"`
	PublishedAt      time.Time         `json:"publishedAt"`
	SchemaVersion    SchemaVersion     `json:"schemaVersion"`
	RowCount         int64             `json:"rowCount"`
	Counts           *Counts           `json:"counts"`
	ResyncRequired   bool              `json:"resyncRequired"`
	RecordIDsChanged bool              `json:"recordIdsChanged"`
	SourceURL        *string           `json:"sourceUrl"`
	FetchedAt        *time.Time        `json:"fetchedAt"`
	Manifest         ObjectRef         `json:"manifest"`
	ManifestSize     int64             `json:"manifestSizeBytes"`
	Sums             ObjectRef         `json:"sha256sums"`
	Files            []RecordFile      `json:"files"`
	Changes          ChangesState      `json:"changes"`
	Attachments      RecordAttachments `json:"attachments"`
	Doubts           []string          `json:"doubts"`
	Run              string            `json:"run"`
	Tool             string            `json:"tool"`
	CommittedAt      time.Time         `json:"committedAt"`
}

// EncodeDocument returns v as the bucket's documents are written: two-space indented JSON with
// a final newline and no HTML escapes, so that people can read it and hashes are stable.
func EncodeDocument(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode document: %w", err)
	}
	return out.Bytes(), nil
}

// DecodeRecord reads a stored record. Unknown fields are kept out of the way, not refused: a
// newer patch of the same layout may add some. A record of a newer layout is refused.
func DecodeRecord(data []byte) (Record, error) {
	var record Record
	if err := json.Unmarshal(data, &record); err != nil {
		return Record{}, fmt.Errorf("decode record: %w", err)
	}
	switch {
	case record.Layout > LayoutVersion:
		return Record{}, fmt.Errorf("decode record: layout %d is newer than %d, which this mirror knows", record.Layout, LayoutVersion)
	case record.Layout < 1:
		return Record{}, fmt.Errorf("decode record: no layout number")
	case record.Version < 1 || record.Version > MaxNumber:
		return Record{}, fmt.Errorf("decode record: version %d out of range", record.Version)
	}
	return record, nil
}

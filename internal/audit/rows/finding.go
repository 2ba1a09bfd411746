package rows

import (
	"maps"
	"slices"
	"strings"
)

// Kind is what a finding is about.
type Kind string

// The kinds of findings.
const (
	KindUnreadable Kind = "rows-unreadable" // a file's contents cannot be decoded
	KindRowCount   Kind = "rows-count"      // another number of rows than the feed says
	KindEnvelope   Kind = "rows-envelope"   // an envelope column is wrong
	KindRecordID   Kind = "rows-record-id"  // null, or not unique
	KindCounts     Kind = "rows-counts"     // the changes are not as many as the feed's counts
	KindSchema     Kind = "rows-schema"     // columns or types are not those of schema.json
	KindIDMap      Kind = "rows-id-map"     // the id map names records that are not there, or one twice
	KindReplay     Kind = "rows-replay"     // the changes do not lead from the previous snapshot to this one
)

// Table is what of a version a finding is about.
type Table string

// The tables.
const (
	TableSnapshot Table = "snapshot"
	TableChanges  Table = "changes"
	TableIDMap    Table = "id map"
	TableSchema   Table = "schema"
)

// maxNamed is how many record ids a finding names.
const maxNamed = 20

// maxIDBytes is how much of a record id a finding keeps.
const maxIDBytes = 200

// Finding is one thing that is wrong with the contents of a version.
type Finding struct {
	Kind Kind
	// Code tells it from others of its kind, for programs: it does not change with its wording.
	Code    string
	Table   Table
	Part    string // the manifest path of the file, where it is about one
	Detail  string
	Rows    int64    // how many rows it is about; 0 where that says nothing
	IDs     []string // record ids, the first twenty
	Columns []string
}

// The envelope columns that an audit reads (feed documentation, "Versions, snapshots and changes").
const (
	recordIDColumn   = "_ploti_record_id"
	previousIDColumn = "_ploti_previous_record_id"
	datasetColumn    = "_ploti_dataset_id"
	placeColumn      = "_ploti_place_id"
	versionColumn    = "_ploti_version"
	sourceColumn     = "_ploti_source_url"
	fetchedColumn    = "_ploti_fetched_at"
	opColumn         = "_ploti_op"
	changeColumn     = "_ploti_change"
	reasonColumn     = "_ploti_delete_reason"
	changedColumn    = "_ploti_changed_columns"
	matchColumn      = "_ploti_match"
	scoreColumn      = "_ploti_match_score"
)

// first returns the first of many record ids, each cut to a bounded length.
func first(ids []string) []string {
	slices.Sort(ids)
	ids = slices.Clone(ids[:min(len(ids), maxNamed)])
	for i, id := range ids {
		if len(id) > maxIDBytes {
			ids[i] = strings.ToValidUTF8(id[:maxIDBytes], "") + "..."
		}
	}
	return ids
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

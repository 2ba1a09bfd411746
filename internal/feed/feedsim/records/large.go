package records

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
)

// Large is a pair of versions that are too large for a Table: their rows are made while they are written.
// Version 1 has Rows rows, of which version 2 changes, removes and adds some: one in a hundred is changed,
// one in two hundred removed, and as many are added. That is 2 % of the rows.
type Large struct {
	Dataset string
	Rows    int64
}

// largeRow is one row of either file. The envelope comes first, as everywhere.
type largeRow struct {
	RecordID  string  `parquet:"_ploti_record_id"`
	DatasetID string  `parquet:"_ploti_dataset_id,dict"`
	PlaceID   *string `parquet:"_ploti_place_id,optional,dict"`
	Version   int64   `parquet:"_ploti_version"`
	SourceURL *string `parquet:"_ploti_source_url,optional,dict"`
	FetchedAt *int64  `parquet:"_ploti_fetched_at,optional,timestamp(microsecond)"`
}

type largeMove struct {
	Op             string   `parquet:"_ploti_op,dict"`
	Change         string   `parquet:"_ploti_change,dict"`
	DeleteReason   *string  `parquet:"_ploti_delete_reason,optional,dict"`
	ChangedColumns []string `parquet:"_ploti_changed_columns,optional,list"`
	Match          *string  `parquet:"_ploti_match,optional,dict"`
	MatchScore     *float64 `parquet:"_ploti_match_score,optional"`
}

type largeValues struct {
	Permit    *string  `parquet:"permit_number,optional"`
	Status    *string  `parquet:"status,optional,dict"`
	Owner     *string  `parquet:"owner,optional"`
	Valuation *int64   `parquet:"valuation,optional,decimal(2:12)"`
	Area      *float64 `parquet:"area,optional"`
	Units     *int64   `parquet:"units,optional"`
	Issued    *int32   `parquet:"issued_date,optional,date"`
	Geometry  []byte   `parquet:"geometry,optional"`
}

type (
	largeSnapshotRow struct {
		largeRow
		largeValues
	}
	largeChangesRow struct {
		largeRow
		largeMove
		largeValues
	}
)

const (
	largeChangeEvery = 100
	largeRemoveEvery = 200
	largeRowsInGroup = 100_000
)

// Schema returns the columns of both versions.
func (Large) Schema() Schema {
	return Schema{Columns: []Column{
		{Name: "permit_number", Type: String}, {Name: "status", Type: String}, {Name: "owner", Type: String},
		{Name: "valuation", Type: Decimal, Precision: &Precision{Precision: 12, Scale: 2}}, {Name: "area", Type: Float},
		{Name: "units", Type: Integer}, {Name: "issued_date", Type: Date},
		{Name: "geometry", Type: Geometry, Geometry: &GeometryType{Type: "Point", SRID: 4326}},
	}}
}

// removed and changed say what version 2 does with a row of version 1.
func (Large) removed(row int64) bool { return row%largeRemoveEvery == 7 }
func (Large) changed(row int64) bool { return row%largeChangeEvery == 3 }

// added returns how many rows version 2 adds.
func (l Large) added() int64 { return l.Rows / largeRemoveEvery }

// Counts returns how many rows version 2 adds, changes and removes.
func (l Large) Counts() (added, changed, removed int64) {
	for row := range l.Rows {
		switch {
		case l.removed(row):
			removed++
		case l.changed(row):
			changed++
		}
	}
	return l.added(), changed, removed
}

// RowsOf returns how many rows a version's snapshot has.
func (l Large) RowsOf(version int64) int64 {
	if version == 1 {
		return l.Rows
	}
	added, _, removed := l.Counts()
	return l.Rows + added - removed
}

// WriteSnapshot writes one of several parts of a version's snapshot: the rows from a share of all row
// numbers to another.
func (l Large) WriteSnapshot(w io.Writer, envelope Envelope, part, parts int64) error {
	writer := parquet.NewGenericWriter[largeSnapshotRow](w, largeOptions()...)
	last := l.Rows
	if envelope.Version == 2 {
		last += l.added()
	}
	batch := make([]largeSnapshotRow, 0, 1024)
	flush := func() error {
		_, err := writer.Write(batch)
		batch = batch[:0]
		return err
	}
	for row := last * part / parts; row < last*(part+1)/parts; row++ {
		if envelope.Version == 2 && l.removed(row) && row < l.Rows {
			continue
		}
		state := int64(1)
		if envelope.Version == 2 && (row >= l.Rows || l.changed(row)) {
			state = 2
		}
		if batch = append(batch, largeSnapshotRow{largeEnvelope(envelope, row), valuesOf(row, state)}); len(batch) == cap(batch) {
			if err := flush(); err != nil {
				return fmt.Errorf("write large snapshot: %w", err)
			}
		}
	}
	if err := flush(); err != nil {
		return fmt.Errorf("write large snapshot: %w", err)
	}
	return writer.Close()
}

// WriteChanges writes the changes from version 1 to version 2.
func (l Large) WriteChanges(w io.Writer, envelope Envelope) error {
	writer := parquet.NewGenericWriter[largeChangesRow](w, largeOptions()...)
	reason, match := "removed_at_source", "key"
	for row := range l.Rows + l.added() {
		one := largeChangesRow{largeRow: largeEnvelope(envelope, row)}
		switch {
		case row >= l.Rows:
			one.largeMove, one.largeValues = largeMove{Op: "upsert", Change: Added}, valuesOf(row, 2)
		case l.removed(row):
			one.largeMove = largeMove{Op: "delete", Change: Removed, DeleteReason: &reason}
		case l.changed(row):
			one.largeMove = largeMove{Op: "upsert", Change: Changed, ChangedColumns: []string{"valuation", "area"}, Match: &match}
			one.largeValues = valuesOf(row, 2)
		default:
			continue
		}
		if _, err := writer.Write([]largeChangesRow{one}); err != nil {
			return fmt.Errorf("write large changes: %w", err)
		}
	}
	return writer.Close()
}

func largeOptions() []parquet.WriterOption {
	return []parquet.WriterOption{parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(largeRowsInGroup), parquet.CreatedBy("feedsim", "1.0.0", "simulated")}
}

func largeEnvelope(e Envelope, row int64) largeRow {
	out := largeRow{RecordID: fmt.Sprintf("rec_%016x", scramble(uint64(row))), DatasetID: e.Dataset, PlaceID: e.Place, Version: e.Version, SourceURL: e.SourceURL} //nolint:gosec // not negative
	if e.FetchedAt != nil {
		at := e.FetchedAt.UnixMicro()
		out.FetchedAt = &at
	}
	return out
}

// valuesOf makes the values of a row in one of its states. One in ten has no area.
func valuesOf(row, state int64) largeValues {
	r := scramble(uint64(row)) //nolint:gosec // not negative
	permit, owner, status := fmt.Sprintf("P-%09d", row), words[r%uint64(len(words))]+" "+words[r>>8%uint64(len(words))], words[r>>16%4]
	valuation, units, issued := int64(r>>20%10_000_000)+state, int64(r>>4%40), int32(15_000+r>>12%5_000) //nolint:gosec // small
	values := largeValues{Permit: &permit, Status: &status, Owner: &owner, Valuation: &valuation, Units: &units, Issued: &issued}
	if r%10 != 0 {
		area := float64(r>>30%1_000_000)/7 + float64(state)
		values.Area = &area
	}
	point := make([]byte, 21)
	point[0], point[1] = 1, 1
	binary.LittleEndian.PutUint64(point[5:], math.Float64bits(-81-float64(r>>40%1_000_000)/1e6))
	binary.LittleEndian.PutUint64(point[13:], math.Float64bits(28+float64(r>>44%1_000_000)/1e6))
	values.Geometry = point
	return values
}

// scramble spreads row numbers over all 64 bits, each to another.
func scramble(x uint64) uint64 {
	x = (x ^ x>>31) * 0x7fb5d329728ea185
	x = (x ^ x>>27) * 0x81dadef4bc2dd44d
	return x ^ x>>33
}

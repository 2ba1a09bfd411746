package records

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"
)

// rowsPerGroup keeps row groups small enough that even a small file has several pages to read.
const rowsPerGroup = 10_000

// orderedGroup is a parquet group whose fields keep their order: parquet.Group sorts them by name, and the envelope
// must come first.
type orderedGroup struct {
	parquet.Group
	fields []parquet.Field
}

// Fields returns the fields in the order they were added.
func (g orderedGroup) Fields() []parquet.Field { return g.fields }

// newOrderedGroup keeps the order of columns. It takes each parquet.Field that the map-based group made for its name.
func newOrderedGroup(columns []fileColumn) orderedGroup {
	group := parquet.Group{}
	for _, column := range columns {
		group[column.name] = column.node
	}
	byName := map[string]parquet.Field{}
	for _, field := range group.Fields() {
		byName[field.Name()] = field
	}
	ordered := orderedGroup{Group: group}
	for _, column := range columns {
		ordered.fields = append(ordered.fields, byName[column.name])
	}
	return ordered
}

// fileColumn is a column of a Parquet file: its node and how a record's value is taken.
type fileColumn struct {
	name  string
	node  parquet.Node
	value func(Change) any
}

// WriteSnapshot writes rows as one GeoParquet part. With lastChange each row's _ploti_version is the version of its
// last change, else it is the envelope's.
func WriteSnapshot(w io.Writer, schema Schema, envelope Envelope, rows []Row, lastChange bool) error {
	changes := make([]Change, len(rows))
	for i, row := range rows {
		changes[i] = Change{Row: row}
	}
	columns := append(envelopeColumns(envelope, lastChange), ownColumns(schema)...)
	return writeFile(w, columns, changes, geoMetadata(schema, rows))
}

// WriteChanges writes one part of a changes file.
func WriteChanges(w io.Writer, schema Schema, envelope Envelope, changes []Change) error {
	var rows []Row
	for _, change := range changes {
		rows = append(rows, change.Row)
	}
	columns := slices.Concat(envelopeColumns(envelope, false), changeColumns(), ownColumns(schema))
	return writeFile(w, columns, changes, geoMetadata(schema, rows))
}

// IDPair maps a record's previous id to its id.
type IDPair struct{ Previous, Current string }

// WriteIDMap writes an id map.
func WriteIDMap(w io.Writer, dataset string, pairs []IDPair) error {
	rows := make([]Change, len(pairs))
	previous := map[string]string{}
	for i, pair := range pairs {
		rows[i] = Change{Row: Row{ID: pair.Current}}
		previous[pair.Current] = pair.Previous
	}
	columns := []fileColumn{
		{"_ploti_previous_record_id", parquet.String(), func(c Change) any { return previous[c.Row.ID] }},
		{"_ploti_record_id", parquet.String(), func(c Change) any { return c.Row.ID }},
		{"_ploti_dataset_id", parquet.String(), func(Change) any { return dataset }},
	}
	return writeFile(w, columns, rows, "")
}

func envelopeColumns(envelope Envelope, lastChange bool) []fileColumn {
	version := func(c Change) any {
		if lastChange {
			return c.Row.LastChange
		}
		return envelope.Version
	}
	var fetchedAt any
	if envelope.FetchedAt != nil {
		fetchedAt = envelope.FetchedAt.UnixMicro()
	}
	fixed := func(v any) func(Change) any { return func(Change) any { return v } }
	return []fileColumn{
		{"_ploti_record_id", parquet.String(), func(c Change) any { return c.Row.ID }},
		{"_ploti_dataset_id", parquet.String(), fixed(envelope.Dataset)},
		{"_ploti_place_id", parquet.Optional(parquet.String()), fixed(orNil(envelope.Place))},
		{"_ploti_version", parquet.Int(64), version},
		{"_ploti_source_url", parquet.Optional(parquet.String()), fixed(orNil(envelope.SourceURL))},
		{"_ploti_fetched_at", parquet.Optional(parquet.Timestamp(parquet.Microsecond)), fixed(fetchedAt)},
	}
}

func orNil(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

func changeColumns() []fileColumn {
	text := parquet.Optional(parquet.String())
	optional := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return []fileColumn{
		{"_ploti_op", parquet.String(), func(c Change) any {
			if c.Kind == Removed {
				return "delete"
			}
			return "upsert"
		}},
		{"_ploti_change", parquet.String(), func(c Change) any { return c.Kind }},
		{"_ploti_delete_reason", text, func(c Change) any {
			if c.Kind == Removed {
				return "removed_at_source"
			}
			return nil
		}},
		{"_ploti_changed_columns", parquet.Optional(parquet.List(parquet.String())), func(c Change) any {
			if c.Kind != Changed {
				return nil
			}
			return c.Columns
		}},
		{"_ploti_match", text, func(c Change) any { return optional(c.Match) }},
		{"_ploti_match_score", parquet.Optional(parquet.Leaf(parquet.DoubleType)), func(c Change) any {
			if c.Score == nil {
				return nil
			}
			return *c.Score
		}},
	}
}

func ownColumns(schema Schema) []fileColumn {
	var columns []fileColumn
	for _, column := range schema.Columns {
		columns = append(columns, fileColumn{
			name:  column.Name,
			node:  parquet.Optional(columnNode(column)),
			value: func(c Change) any { return c.Row.Values[column.Name] },
		})
	}
	return columns
}

func columnNode(column Column) parquet.Node {
	switch column.Type {
	case Integer:
		return parquet.Int(64)
	case Float:
		return parquet.Leaf(parquet.DoubleType)
	case Boolean:
		return parquet.Leaf(parquet.BooleanType)
	case Date:
		return parquet.Date()
	case JSON:
		return parquet.JSON()
	case Decimal:
		return parquet.Decimal(column.Precision.Scale, column.Precision.Precision, parquet.Int64Type)
	case Timestamp:
		return parquet.TimestampAdjusted(parquet.Microsecond, false)
	case Timestamptz:
		return parquet.Timestamp(parquet.Microsecond)
	case Geometry:
		return parquet.Leaf(parquet.ByteArrayType)
	case Array:
		return parquet.List(parquet.String())
	default:
		return parquet.String()
	}
}

// geoMetadata returns the GeoParquet document for the schema's geometry column, or "" when it has none.
func geoMetadata(schema Schema, rows []Row) string {
	i := slices.IndexFunc(schema.Columns, func(c Column) bool { return c.Type == Geometry })
	if i < 0 {
		return ""
	}
	column := schema.Columns[i]
	var geometries [][]byte
	for _, row := range rows {
		if wkb, ok := row.Values[column.Name].([]byte); ok {
			geometries = append(geometries, wkb)
		}
	}
	types := []string{column.Geometry.Type}
	if column.Geometry.Type == "Geometry" {
		types = []string{} // GeoParquet's way to say that any type can occur
	}
	about := map[string]any{"encoding": "WKB", "geometry_types": types}
	if box, any := bounds(geometries); any {
		about["bbox"] = box
	}
	document, err := json.Marshal(map[string]any{
		"version": "1.1.0", "primary_column": column.Name, "columns": map[string]any{column.Name: about},
	})
	if err != nil {
		panic(fmt.Sprintf("encode geo metadata: %v", err)) // maps of strings and finite floats always encode
	}
	return string(document)
}

func writeFile(w io.Writer, columns []fileColumn, rows []Change, geo string) error {
	options := []parquet.WriterOption{
		parquet.NewSchema("record", newOrderedGroup(columns)),
		parquet.Compression(&parquet.Snappy),
		parquet.CreatedBy("feedsim", "1.0.0", "simulated"),
		parquet.MaxRowsPerRowGroup(rowsPerGroup),
	}
	if geo != "" {
		options = append(options, parquet.KeyValueMetadata("geo", geo))
	}
	writer := parquet.NewWriter(w, options...)
	for _, row := range rows {
		if _, err := writer.WriteRows([]parquet.Row{encodeRow(columns, row)}); err != nil {
			return fmt.Errorf("write row: %w", err)
		}
	}
	if err := writer.Close(); err != nil {
		return fmt.Errorf("close parquet writer: %w", err)
	}
	return nil
}

func encodeRow(columns []fileColumn, change Change) parquet.Row {
	row := make(parquet.Row, 0, len(columns))
	for i, column := range columns {
		value := column.value(change)
		switch typed := value.(type) {
		case nil:
			row = append(row, parquet.NullValue().Level(0, 0, i))
		case []string:
			row = appendList(row, typed, i)
		default:
			definition := 0
			if column.node.Optional() {
				definition = 1
			}
			row = append(row, parquet.ValueOf(typed).Level(0, definition, i))
		}
	}
	return row
}

// appendList encodes a list of required strings in an optional list: definition level 1 is an empty list.
func appendList(row parquet.Row, items []string, column int) parquet.Row {
	if len(items) == 0 {
		return append(row, parquet.NullValue().Level(0, 1, column))
	}
	for i, item := range items {
		repetition := 1
		if i == 0 {
			repetition = 0
		}
		row = append(row, parquet.ValueOf(item).Level(repetition, 2, column))
	}
	return row
}

// Days returns t as days since 1970, the form of date values.
func Days(t time.Time) int32 { return int32(t.Unix() / 86_400) }

package parquetinfo

import (
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// Kind is what a leaf's annotation makes of its physical type, the older and the newer spelling of
// one annotation being one kind.
type Kind string

// The kinds of leaves. A group has none but KindList or KindMap.
const (
	KindNone      Kind = "" // no annotation: the physical type is all there is
	KindString    Kind = "string"
	KindJSON      Kind = "json"
	KindBSON      Kind = "bson"
	KindEnum      Kind = "enum"
	KindUUID      Kind = "uuid"
	KindInteger   Kind = "integer"
	KindDecimal   Kind = "decimal"
	KindDate      Kind = "date"
	KindTime      Kind = "time"
	KindTimestamp Kind = "timestamp"
	KindInterval  Kind = "interval"
	KindList      Kind = "list"
	KindMap       Kind = "map"
	KindGeometry  Kind = "geometry"
	KindOther     Kind = "other" // an annotation that this program does not know
)

// Annotation is what a schema says of a field beside its physical type.
type Annotation struct {
	Kind             Kind
	Bits             int  // of a KindInteger
	Unsigned         bool // of a KindInteger
	Precision, Scale int  // of a KindDecimal
	UTC              bool // of a KindTimestamp: an instant, not a wall clock's reading
	Unit             string
}

// Units of times and timestamps.
const (
	Millis = "millis"
	Micros = "micros"
	Nanos  = "nanos"
)

// Field is a node of a file's schema below its root.
type Field struct {
	Name       string
	Physical   format.Type // of a leaf
	Annotation Annotation
	Repeated   bool
	Children   []Field // of a group
	// Bounds are those of all row groups together; nil for a group, below a list, and where a row
	// group tells none.
	Bounds *Bounds
}

// Leaf reports whether the field holds values itself.
func (f *Field) Leaf() bool { return len(f.Children) == 0 }

// Bounds are the smallest and the greatest values of a column in one file, one of each for every row
// group that has values, PLAIN-encoded without a length. Strings may be cut: still bounds, no longer
// values. How many values are null is left out: the Parquet library reads "not told" as none.
type Bounds struct {
	Lower, Upper [][]byte
}

// fieldsOf returns the schema of a footer that checkFooter accepted as a tree.
func fieldsOf(meta *format.FileMetaData) []Field {
	next, leaf := 1, 0
	var walk func(children int32, top bool) []Field
	walk = func(children int32, top bool) []Field {
		fields := make([]Field, 0, children)
		for range children {
			node := &meta.Schema[next]
			next++
			field := Field{Name: node.Name, Annotation: annotationOf(node), Repeated: node.RepetitionType.V == format.Repeated}
			if node.NumChildren.V > 0 {
				field.Children = walk(node.NumChildren.V, false)
			} else {
				field.Physical = node.Type.V
				if top && !field.Repeated {
					field.Bounds = boundsOf(meta, leaf)
				}
				leaf++
			}
			fields = append(fields, field)
		}
		return fields
	}
	return walk(meta.Schema[0].NumChildren.V, true)
}

// boundsOf collects what the row groups say of a column. One that says nothing makes all of it
// unknown: a reader that skips a file by half of its bounds loses rows.
func boundsOf(meta *format.FileMetaData, leaf int) *Bounds {
	if len(meta.ColumnOrders) == 0 {
		return nil // without it the order of minimum and maximum is not defined
	}
	bounds := &Bounds{}
	for at := range meta.RowGroups {
		chunk := &meta.RowGroups[at].Columns[leaf].MetaData
		stats := &chunk.Statistics
		if stats.NullCount < 0 || stats.NullCount > chunk.NumValues {
			return nil
		}
		if chunk.NumValues == stats.NullCount {
			continue // nothing but nulls, or no row at all
		}
		if len(stats.MinValue) == 0 && len(stats.MaxValue) == 0 {
			return nil
		}
		bounds.Lower, bounds.Upper = append(bounds.Lower, stats.MinValue), append(bounds.Upper, stats.MaxValue)
	}
	return bounds
}

func annotationOf(node *format.SchemaElement) Annotation {
	if node.LogicalType.Value == nil {
		return convertedAnnotation(node)
	}
	switch logical := node.LogicalType.Value.(type) {
	case *format.IntType:
		return Annotation{Kind: KindInteger, Bits: int(logical.BitWidth), Unsigned: !logical.IsSigned}
	case *format.DecimalType:
		return Annotation{Kind: KindDecimal, Precision: int(logical.Precision), Scale: int(logical.Scale)}
	case *format.TimeType:
		return Annotation{Kind: KindTime, UTC: logical.IsAdjustedToUTC, Unit: unitOf(logical.Unit)}
	case *format.TimestampType:
		return Annotation{Kind: KindTimestamp, UTC: logical.IsAdjustedToUTC, Unit: unitOf(logical.Unit)}
	}
	return Annotation{Kind: plainKind(node)}
}

// plainKind returns the kind of an annotation that says nothing else.
func plainKind(node *format.SchemaElement) Kind {
	switch node.LogicalType.Value.(type) {
	case *format.StringType:
		return KindString
	case *format.JsonType:
		return KindJSON
	case *format.BsonType:
		return KindBSON
	case *format.EnumType:
		return KindEnum
	case *format.UUIDType:
		return KindUUID
	case *format.DateType:
		return KindDate
	case *format.ListType:
		return KindList
	case *format.MapType:
		return KindMap
	case *format.GeometryType, *format.GeographyType:
		return KindGeometry
	}
	return KindOther
}

func unitOf(unit format.TimeUnit) string {
	switch unit.Value.(type) {
	case *format.MilliSeconds:
		return Millis
	case *format.MicroSeconds:
		return Micros
	case *format.NanoSeconds:
		return Nanos
	}
	return ""
}

// convertedAnnotation reads the older spelling. Its timestamps count from UTC (Parquet format,
// "Deprecated timestamp ConvertedTypes").
func convertedAnnotation(node *format.SchemaElement) Annotation {
	if !node.ConvertedType.Valid {
		return Annotation{}
	}
	integer := func(bits int, unsigned bool) Annotation {
		return Annotation{Kind: KindInteger, Bits: bits, Unsigned: unsigned}
	}
	known := map[deprecated.ConvertedType]Annotation{
		deprecated.UTF8: {Kind: KindString}, deprecated.Json: {Kind: KindJSON}, deprecated.Bson: {Kind: KindBSON},
		deprecated.Enum: {Kind: KindEnum}, deprecated.Date: {Kind: KindDate}, deprecated.Interval: {Kind: KindInterval},
		deprecated.List: {Kind: KindList}, deprecated.Map: {Kind: KindMap}, deprecated.MapKeyValue: {Kind: KindMap},
		deprecated.Decimal:         {Kind: KindDecimal, Precision: int(node.Precision.V), Scale: int(node.Scale.V)},
		deprecated.TimeMillis:      {Kind: KindTime, UTC: true, Unit: Millis},
		deprecated.TimeMicros:      {Kind: KindTime, UTC: true, Unit: Micros},
		deprecated.TimestampMillis: {Kind: KindTimestamp, UTC: true, Unit: Millis},
		deprecated.TimestampMicros: {Kind: KindTimestamp, UTC: true, Unit: Micros},
		deprecated.Int8:            integer(8, false), deprecated.Int16: integer(16, false), deprecated.Int32: integer(32, false), deprecated.Int64: integer(64, false),
		deprecated.Uint8: integer(8, true), deprecated.Uint16: integer(16, true), deprecated.Uint32: integer(32, true), deprecated.Uint64: integer(64, true),
	}
	if annotation, ok := known[node.ConvertedType.V]; ok {
		return annotation
	}
	return Annotation{Kind: KindOther}
}

// geoOf returns the value of the "geo" key of a footer, by which GeoParquet names geometry columns
// and their coordinate systems; empty when there is none.
func geoOf(meta *format.FileMetaData) string {
	for _, pair := range meta.KeyValueMetadata {
		if pair.Key == "geo" {
			return pair.Value
		}
	}
	return ""
}

package records

import "slices"

// The types of columns that a schema can name.
const (
	String      = "string"
	Integer     = "integer"
	Float       = "float"
	Boolean     = "boolean"
	Date        = "date"
	JSON        = "json"
	Decimal     = "decimal"
	Timestamp   = "timestamp"
	Timestamptz = "timestamptz"
	Geometry    = "geometry"
	Array       = "array"
)

// Precision of a decimal column.
type Precision struct {
	Precision int `json:"precision"`
	Scale     int `json:"scale"`
}

// GeometryType of a geometry column, spelled as GeoJSON spells it.
type GeometryType struct {
	Type string `json:"type"`
	SRID int    `json:"srid"`
}

// Column is one column of a dataset's own, as opposed to the envelope's.
type Column struct {
	Name      string
	Type      string
	Items     string        // element type of an array column, else empty
	Precision *Precision    // of a decimal column, else nil
	Geometry  *GeometryType // of a geometry column, else nil

	// Constant columns hold one value in every row of a version, such as the time the source was read.
	// They are never compared between versions.
	Constant bool
	// Unique columns hold another value in every row.
	Unique bool
	// Document columns hold the name of an attachment, or null.
	Document bool
}

// sameShape tells whether two columns of one name are the same to a reader.
func (c Column) sameShape(other Column) bool {
	return c.Type == other.Type && c.Items == other.Items && equalPointers(c.Precision, other.Precision) &&
		equalPointers(c.Geometry, other.Geometry)
}

func equalPointers[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// Schema is a dataset's own columns and its key.
type Schema struct {
	Columns []Column
	Key     []string // names of the key columns; empty for a dataset without a key
}

// Column returns the column of that name.
func (s Schema) Column(name string) (Column, bool) {
	i := slices.IndexFunc(s.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return Column{}, false
	}
	return s.Columns[i], true
}

// Clone returns a schema that shares no slice with s.
func (s Schema) Clone() Schema {
	return Schema{Columns: slices.Clone(s.Columns), Key: slices.Clone(s.Key)}
}

// Retyped is a column whose type differs between two schemas.
type Retyped struct {
	Name     string
	From, To Column
}

// SchemaChange is the difference between two schemas.
type SchemaChange struct {
	Added      []Column
	Removed    []Column
	Retyped    []Retyped
	KeyChanged bool
}

// Breaking tells whether the change is MAJOR: a column removed or retyped, or a key changed or dropped.
// A key pinned where there was none is not breaking.
func (c SchemaChange) Breaking(previousKey []string) bool {
	return len(c.Removed) > 0 || len(c.Retyped) > 0 || c.KeyChanged && len(previousKey) > 0
}

// None tells whether the two schemas are the same.
func (c SchemaChange) None() bool {
	return len(c.Added) == 0 && len(c.Removed) == 0 && len(c.Retyped) == 0 && !c.KeyChanged
}

// CompareSchemas returns what changed from one schema to the next.
func CompareSchemas(from, to Schema) SchemaChange {
	change := SchemaChange{KeyChanged: !slices.Equal(from.Key, to.Key)}
	for _, column := range to.Columns {
		before, ok := from.Column(column.Name)
		switch {
		case !ok:
			change.Added = append(change.Added, column)
		case !before.sameShape(column):
			change.Retyped = append(change.Retyped, Retyped{Name: column.Name, From: before, To: column})
		}
	}
	for _, column := range from.Columns {
		if _, ok := to.Column(column.Name); !ok {
			change.Removed = append(change.Removed, column)
		}
	}
	return change
}

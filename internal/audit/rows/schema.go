package rows

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/format"

	"feedmirror/internal/parquetinfo"
)

// schemaDocument is as much of schema.json as is checked (feed documentation, "Reading a schema").
type schemaDocument struct {
	Columns []schemaColumn `json:"columns"`
}

type schemaColumn struct {
	Name      string          `json:"name"`
	Type      string          `json:"type"`
	Items     *string         `json:"items"`
	Precision *schemaDecimal  `json:"precision"`
	Geometry  *schemaGeometry `json:"geometry"`
}

type schemaDecimal struct {
	Precision int `json:"precision"`
	Scale     int `json:"scale"`
}

type schemaGeometry struct {
	Type string `json:"type"`
}

// envelopeColumn is a column that every file of a table has.
type envelopeColumn struct {
	name string
	fits func(f *parquetinfo.Field) bool // nil: the feed's documentation names no type
	only Table                           // empty: snapshot and changes
}

func envelopeColumns() []envelopeColumn {
	return []envelopeColumn{
		{recordIDColumn, isText, ""}, {datasetColumn, isText, ""}, {placeColumn, isText, ""}, {versionColumn, isInteger, ""},
		{sourceColumn, isText, ""}, {fetchedColumn, isTime, ""},
		{opColumn, isText, TableChanges}, {changeColumn, isText, TableChanges}, {reasonColumn, isText, TableChanges},
		{changedColumn, nil, TableChanges}, {matchColumn, isText, TableChanges}, {scoreColumn, nil, TableChanges},
		{previousIDColumn, isText, TableIDMap}, {recordIDColumn, isText, TableIDMap}, {datasetColumn, isText, TableIDMap},
	}
}

func (c envelopeColumn) in(table Table) bool {
	return c.only == table || c.only == "" && table != TableIDMap
}

// shape holds the columns of every part against the envelope and schema.json.
func (a *auditor) shape(in Input) {
	a.own = map[string]bool{}
	if len(in.Snapshot.Parts) > 0 {
		a.own = a.ownColumns(in.Snapshot.Parts[0])
	}
	schema := a.schema(in.Schema)
	for _, table := range []struct {
		name  Table
		parts []Part
	}{{TableSnapshot, in.Snapshot.Parts}, {TableChanges, in.Changes}, {TableIDMap, in.IDMap}} {
		for _, part := range table.parts {
			info := a.infos[part.File]
			a.envelopeShape(table.name, part, &info)
			if schema != nil && table.name != TableIDMap {
				a.schemaShape(table.name, part, &info, schema)
			}
		}
	}
}

// schema decodes schema.json; nil: there is nothing to hold columns against.
func (a *auditor) schema(data []byte) []schemaColumn {
	if data == nil {
		a.skip("columns and types: schema.json is not there, or could not be read")
		return nil
	}
	var document schemaDocument
	if err := json.Unmarshal(data, &document); err != nil {
		a.skip("columns and types: schema.json has another form than the feed documents: %v", err)
		return nil
	}
	if document.Columns == nil {
		a.skip("columns and types: schema.json lists no columns")
		return nil
	}
	var unknown []string
	for _, column := range document.Columns {
		if !slices.Contains(knownTypes(), column.Type) {
			unknown = append(unknown, column.Name+" ("+column.Type+")")
		}
	}
	if len(unknown) > 0 {
		a.skip("types of columns that schema.json gives a type that is not known: %s", strings.Join(unknown[:min(len(unknown), maxNamed)], ", "))
	}
	return document.Columns
}

func fieldOf(info *parquetinfo.PartInfo, name string) *parquetinfo.Field {
	at := slices.IndexFunc(info.Fields, func(f parquetinfo.Field) bool { return f.Name == name })
	if at < 0 {
		return nil
	}
	return &info.Fields[at]
}

func (a *auditor) envelopeShape(table Table, part Part, info *parquetinfo.PartInfo) {
	for _, column := range envelopeColumns() {
		if !column.in(table) {
			continue
		}
		field := fieldOf(info, column.name)
		switch {
		case field == nil:
			a.misshapen(KindEnvelope, table, part, column.name, "it has no column "+column.name)
		case column.fits != nil && !column.fits(field):
			a.misshapen(KindEnvelope, table, part, column.name, fmt.Sprintf("its column %s is %s", column.name, typeName(field)))
		}
	}
}

func (a *auditor) misshapen(kind Kind, table Table, part Part, column, detail string) {
	a.find(Finding{Kind: kind, Code: part.Name + " " + column, Table: table, Part: part.Name, Columns: []string{column}, Detail: part.Name + ": " + detail})
}

// schemaShape holds the dataset's own columns against schema.json, in both directions.
func (a *auditor) schemaShape(table Table, part Part, info *parquetinfo.PartInfo, schema []schemaColumn) {
	geo := readGeo(info.Geo)
	for _, column := range schema {
		field := fieldOf(info, column.Name)
		if field == nil {
			a.misshapen(KindSchema, table, part, column.Name, fmt.Sprintf("it has no column %s, which schema.json names", quote(column.Name)))
			continue
		}
		if why := column.contradicts(field, geo); why != "" {
			a.misshapen(KindSchema, table, part, column.Name, fmt.Sprintf("column %s is %s; schema.json says %s", quote(column.Name), why, column.typeText()))
		}
	}
	for _, field := range info.Fields {
		name := field.Name
		known := slices.ContainsFunc(schema, func(c schemaColumn) bool { return c.Name == name })
		if !known && !strings.HasPrefix(name, EnvelopePrefix) && !geo.covering[name] {
			a.misshapen(KindSchema, table, part, name, fmt.Sprintf("it has a column %s, which schema.json does not name", quote(name)))
		}
	}
}

// geoDocument is as much of GeoParquet's metadata as is checked.
type geoDocument struct {
	types    map[string][]string // of geometries, by column
	covering map[string]bool     // columns that hold boxes around geometries: they are none of the dataset's
}

func readGeo(text string) geoDocument {
	geo := geoDocument{types: map[string][]string{}, covering: map[string]bool{}}
	var document struct {
		Columns map[string]struct {
			Types    []string                       `json:"geometry_types"`
			Covering map[string]map[string][]string `json:"covering"`
		} `json:"columns"`
	}
	if text == "" || json.Unmarshal([]byte(text), &document) != nil {
		return geo // what a reader of tables makes of it is another matter
	}
	for name, column := range document.Columns {
		geo.types[name] = column.Types
		for _, box := range column.Covering {
			for _, path := range box {
				if len(path) > 0 {
					geo.covering[path[0]] = true
				}
			}
		}
	}
	return geo
}

func knownTypes() []string {
	return []string{"string", "integer", "float", "boolean", "date", "json", "decimal", "timestamp", "timestamptz", "geometry", "array"}
}

func (c schemaColumn) typeText() string {
	switch {
	case c.Type == "decimal" && c.Precision != nil:
		return fmt.Sprintf("decimal(%d,%d)", c.Precision.Precision, c.Precision.Scale)
	case c.Type == "array" && c.Items != nil:
		return "array of " + *c.Items
	case c.Type == "geometry" && c.Geometry != nil:
		return "geometry " + c.Geometry.Type
	}
	return c.Type
}

// contradicts returns what a field is that is not what the schema says; "": it is that, or of a type that
// is not known.
func (c schemaColumn) contradicts(f *parquetinfo.Field, geo geoDocument) string {
	switch {
	case c.Type == "geometry":
		return c.geometryContradicts(f, geo)
	case c.Type == "array":
		item := element(f)
		if item == nil || c.Items != nil && slices.Contains(knownTypes(), *c.Items) && !scalarFits(schemaColumn{Type: *c.Items}, item) {
			return typeName(f)
		}
	case slices.Contains(knownTypes(), c.Type) && (f.Repeated || !scalarFits(c, f)):
		return typeName(f)
	}
	return ""
}

// geometryContradicts takes WKB in a column of bytes, or the groups of GeoParquet's own encodings. The
// types of geometries are those that the file's metadata lists.
func (c schemaColumn) geometryContradicts(f *parquetinfo.Field, geo geoDocument) string {
	if f.Leaf() && f.Physical != format.ByteArray && f.Physical != format.FixedLenByteArray || f.Annotation.Kind == parquetinfo.KindString {
		return typeName(f)
	}
	if c.Geometry == nil || c.Geometry.Type == "" || c.Geometry.Type == "Geometry" {
		return ""
	}
	for _, listed := range geo.types[c.Name] {
		if name, _, _ := strings.Cut(listed, " "); name != c.Geometry.Type {
			return "a geometry that can be " + listed
		}
	}
	return ""
}

// element returns the items of a list, in either of the forms that writers give it.
func element(f *parquetinfo.Field) *parquetinfo.Field {
	if f.Repeated && f.Leaf() {
		item := *f
		item.Repeated = false
		return &item
	}
	if f.Annotation.Kind != parquetinfo.KindList || len(f.Children) != 1 {
		return nil
	}
	item := &f.Children[0]
	if len(item.Children) == 1 {
		item = &item.Children[0]
	}
	return item
}

// scalarFits tells whether a leaf can hold a type of the schema.
func scalarFits(c schemaColumn, f *parquetinfo.Field) bool {
	if !f.Leaf() {
		return false
	}
	switch c.Type {
	case "string":
		return isText(f)
	case "json":
		return isText(f) || f.Annotation.Kind == parquetinfo.KindJSON
	case "integer":
		return isInteger(f)
	case "float":
		return isFloat(f)
	case "boolean":
		return f.Physical == format.Boolean
	case "date":
		return f.Annotation.Kind == parquetinfo.KindDate
	case "decimal":
		return f.Annotation.Kind == parquetinfo.KindDecimal && (c.Precision == nil || *c.Precision == schemaDecimal{f.Annotation.Precision, f.Annotation.Scale})
	case "timestamp", "timestamptz":
		return f.Physical == format.Int96 || isTime(f) && f.Annotation.UTC == (c.Type == "timestamptz")
	}
	return true
}

// isFloat takes the halves of newer files too, which the library knows by no name.
func isFloat(f *parquetinfo.Field) bool {
	return f.Physical == format.Float || f.Physical == format.Double ||
		f.Physical == format.FixedLenByteArray && f.Annotation.Kind == parquetinfo.KindOther
}

func isText(f *parquetinfo.Field) bool {
	switch f.Annotation.Kind {
	case parquetinfo.KindNone, parquetinfo.KindString, parquetinfo.KindEnum:
		return f.Leaf() && f.Physical == format.ByteArray && !f.Repeated
	}
	return false
}

func isInteger(f *parquetinfo.Field) bool {
	switch f.Annotation.Kind {
	case parquetinfo.KindNone, parquetinfo.KindInteger:
		return f.Leaf() && (f.Physical == format.Int32 || f.Physical == format.Int64) && !f.Repeated
	}
	return false
}

func isTime(f *parquetinfo.Field) bool {
	return f.Leaf() && !f.Repeated && (f.Physical == format.Int96 || f.Annotation.Kind == parquetinfo.KindTimestamp)
}

// typeName spells a field's type for people.
func typeName(f *parquetinfo.Field) string {
	annotation, text := f.Annotation, f.Physical.String()
	if item := element(f); !f.Leaf() && item != nil {
		return "a list of " + typeName(item)
	}
	if !f.Leaf() {
		return "a group"
	}
	switch annotation.Kind {
	case parquetinfo.KindNone:
	case parquetinfo.KindDecimal:
		text += fmt.Sprintf(" decimal(%d,%d)", annotation.Precision, annotation.Scale)
	case parquetinfo.KindTimestamp:
		text += fmt.Sprintf(" timestamp (UTC: %t)", annotation.UTC)
	default:
		text += " " + string(annotation.Kind)
	}
	if f.Repeated {
		text += " repeated"
	}
	return text
}

// columns returns the dataset's own columns that both snapshots have: columns that this version added
// are not compared (feed documentation, "Schemas").
func (a *auditor) columns(in Input) map[string]bool {
	both := map[string]bool{}
	if in.Previous == nil || len(in.Previous.Parts) == 0 || len(in.Snapshot.Parts) == 0 {
		return both
	}
	before := a.ownColumns(in.Previous.Parts[0])
	for column := range a.own {
		if before[column] {
			both[column] = true
		}
	}
	return both
}

func (a *auditor) ownColumns(p Part) map[string]bool {
	columns := map[string]bool{}
	for _, field := range a.infos[p.File].Fields {
		if !strings.HasPrefix(field.Name, EnvelopePrefix) {
			columns[field.Name] = true
		}
	}
	return columns
}

package feedsim

import "feedmirror/internal/feed/feedsim/records"

// schemaResource is one schema version of a dataset: what it is and the change that brought it.
type schemaResource struct {
	number       numbering
	firstVersion int64
	schema       records.Schema

	previous *numbering // nil for the first
	change   records.SchemaChange
	breaking bool
}

// numberSchema gives the version its schema: the one before it, or a new number when the columns or the key changed.
func (d *Dataset) numberSchema(v, before *version, schema records.Schema) {
	if before == nil {
		v.schema = schemaResource{number: d.schemas, firstVersion: v.number, schema: schema}
		return
	}
	change := records.CompareSchemas(before.schema.schema, schema)
	if change.None() {
		v.schema = before.schema
		return
	}
	previous := before.schema.number
	breaking := change.Breaking(before.schema.schema.Key)
	if breaking {
		d.schemas = numbering{major: d.schemas.major + 1}
	} else {
		d.schemas.minor++
	}
	v.schema = schemaResource{
		number: d.schemas, firstVersion: v.number, schema: schema, previous: &previous, change: change, breaking: breaking,
	}
}

// breaksSchema tells whether the version itself brought a MAJOR change.
func (v *version) breaksSchema() bool { return v.schema.breaking && v.schema.firstVersion == v.number }

// schemaObject is the schema resource, which is also the content of schema.json.
func (f *Feed) schemaObject(dataset string, s schemaResource) object {
	columns := make([]object, len(s.schema.Columns))
	for i, column := range s.schema.Columns {
		if f.options.Assume.UnknownColumnType && (column.Type == records.JSON || column.Type == records.Array) {
			column.Type, column.Items = "variant", ""
		}
		columns[i] = columnObject(column, f.options.Assume.SchemaKeys == PresenceNull)
	}
	o := object{
		{"datasetId", dataset},
		{"schemaVersion", s.number.String()},
		{"firstVersion", s.firstVersion},
	}
	if len(s.schema.Key) > 0 {
		o = append(o, member{"keyColumns", s.schema.Key})
	} else {
		o = o.appendPresent("keyColumns", f.options.Assume.KeyColumns, []string{}, []string{})
	}
	o = append(o, member{"columns", listOf(columns)})
	if s.previous == nil {
		return o.appendPresent("changeFromPrevious", f.options.Assume.FirstChange, nil, nil)
	}
	return append(o, member{"changeFromPrevious", f.changeObject(s)})
}

// columnObject describes a column. items, precision and geometry stand only where the type carries them, or always.
func columnObject(column records.Column, always bool) object {
	o := object{{"name", column.Name}, {"type", column.Type}}
	if column.Items != "" {
		o = append(o, member{"items", column.Items})
	} else if always {
		o = append(o, member{"items", nil})
	}
	if column.Precision != nil || always {
		o = append(o, member{"precision", column.Precision})
	}
	if column.Geometry != nil || always {
		o = append(o, member{"geometry", column.Geometry})
	}
	return o
}

func (f *Feed) changeObject(s schemaResource) object {
	kind := "additive"
	if s.breaking {
		kind = "breaking"
	}
	added, removed, retyped := []any{}, []any{}, []any{}
	for _, column := range s.change.Added {
		added = append(added, columnObject(column, true))
	}
	for _, column := range s.change.Removed {
		if f.options.Assume.RemovedAsObjects {
			removed = append(removed, columnObject(column, true))
		} else {
			removed = append(removed, column.Name)
		}
	}
	for _, r := range s.change.Retyped {
		retyped = append(retyped, object{
			{"name", r.Name}, {"from", typeObject(r.From)}, {"to", typeObject(r.To)},
		})
	}
	return object{
		{"kind", kind},
		{"previousSchemaVersion", s.previous.String()},
		{"added", listOf(added)},
		{"removed", listOf(removed)},
		{"retyped", listOf(retyped)},
		{"keyColumnsChanged", s.change.KeyChanged},
	}
}

// typeObject is a retyped entry's from or to: a column without its name.
func typeObject(column records.Column) object { return columnObject(column, true)[1:] }

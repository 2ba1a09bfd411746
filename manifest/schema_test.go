package manifest

import (
	"reflect"
	"strings"
	"testing"
)

// documentedSchema is that of schemas.md, "Reading a schema", and an array beside it.
const documentedSchema = `{
	"datasetId": "ds_orange_fl_building_permits", "schemaVersion": "2.1", "firstVersion": 39, "keyColumns": ["permit_number"],
	"columns": [
		{ "name": "permit_number", "type": "string" },
		{ "name": "valuation", "type": "decimal", "precision": { "precision": 12, "scale": 2 } },
		{ "name": "tags", "type": "array", "items": "string", "precision": null, "geometry": null },
		{ "name": "geometry", "type": "geometry", "geometry": { "type": "Point", "srid": 4326 }, "items": null }
	],
	"changeFromPrevious": {"kind": "additive", "added": [{"name": "contractor_name"}], "removed": []}
}`

func TestDocumentedSchema(t *testing.T) {
	got, err := DecodeSchema([]byte(documentedSchema))
	if err != nil {
		t.Fatal(err)
	}
	want := Schema{Dataset: "ds_orange_fl_building_permits", Version: SchemaVersion{2, 1}, KeyColumns: []string{"permit_number"}, Columns: []Column{
		{Name: "permit_number", Type: "string"}, {Name: "valuation", Type: "decimal", Precision: &Precision{12, 2}},
		{Name: "tags", Type: "array", Items: "string"}, {Name: "geometry", Type: "geometry", Geometry: &GeometryColumn{"Point", 4326}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestSchemasOfOtherShapesAreStillRead(t *testing.T) {
	got, err := DecodeSchema([]byte(`{"schemaVersion":3,"keyColumns":"id","datasetId":null,"columns":[
		{"name":"a","type":"hyperlink","nullable":false,"precision":12,"geometry":"Point"},{"name":"b"},{"type":null,"name":"c","precision":{"scale":"2"}}]}`))
	want := Schema{Columns: []Column{{Name: "a", Type: "hyperlink"}, {Name: "b"}, {Name: "c", Precision: &Precision{}}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestSchemasThatCannotBeUsed(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                    "no columns",
		`{"columns":{}}`:        "want an array",
		`{"columns":["a"]}`:     "want an object",
		`{"columns":[{}]}`:      "a column without a name",
		`{"columns":[]} x`:      "trailing data",
		`{"columns":[]`:         "truncated",
		`[]`:                    "want an object",
		`<html>`:                "HTML",
		`{"columns":[{"name":7`: "want a string",
	} {
		if _, err := DecodeSchema([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", text, want, err)
		}
	}
}

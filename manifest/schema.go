package manifest

import (
	"bytes"
	"errors"
	"fmt"

	"feedmirror/manifest/jsonstream"
)

// Schema is what the mirror reads of a schema.json (schemas.md, "Reading a schema").
type Schema struct {
	Dataset    string
	Version    SchemaVersion // zero when the document does not say
	KeyColumns []string
	Columns    []Column
}

// Column is one column of a schema. Type is the feed's word, known to us or not; what a type
// does not carry, or the document does not say, is zero.
type Column struct {
	Name      string
	Type      string
	Items     string          // element type of an array
	Precision *Precision      // of a decimal
	Geometry  *GeometryColumn // of a geometry
}

// Precision is a decimal's number of digits, and of those after the point.
type Precision struct {
	Precision int64
	Scale     int64
}

// GeometryColumn is a geometry's type as GeoJSON spells it and its reference system.
type GeometryColumn struct {
	Type string
	SRID int64
}

// DecodeSchema reads a schema.json. It needs columns with names; all else that is absent, null
// or of another form than documented is left out.
func DecodeSchema(data []byte) (Schema, error) {
	in := jsonstream.New(bytes.NewReader(data))
	var schema Schema
	found := false
	err := in.Object(func(name string) error {
		switch name {
		case "datasetId":
			return optional(readInto(&schema.Dataset, readText))(in)
		case "schemaVersion":
			return optional(readInto(&schema.Version, readSchemaVersion))(in)
		case "keyColumns":
			return optionalList(in, func() error {
				var column string
				err := optional(readInto(&column, readText))(in)
				if column != "" {
					schema.KeyColumns = append(schema.KeyColumns, column)
				}
				return err
			})
		case "columns":
			found = true
			return in.Array(func() error {
				column, err := readColumn(in)
				schema.Columns = append(schema.Columns, column)
				return err
			})
		}
		return nil
	})
	switch {
	case err != nil:
	case !found:
		err = errors.New("no columns")
	default:
		err = in.End()
	}
	if err != nil {
		return Schema{}, fmt.Errorf("decode schema: %w", err)
	}
	return schema, nil
}

func readColumn(in *jsonstream.Reader) (Column, error) {
	var column Column
	err := in.Object(func(name string) error {
		switch name {
		case "name":
			return readInto(&column.Name, readText)(in)
		case "type":
			return optional(readInto(&column.Type, readText))(in)
		case "items":
			return optional(readInto(&column.Items, readText))(in)
		case "precision":
			return readPrecision(in, &column)
		case "geometry":
			return readGeometry(in, &column)
		}
		return nil
	})
	if err == nil && column.Name == "" {
		err = errors.New("a column without a name")
	}
	return column, err
}

func readPrecision(in *jsonstream.Reader, column *Column) error {
	var precision Precision
	found, err := optionalObject(in, func(name string) error {
		switch name {
		case "precision":
			return optional(readInto(&precision.Precision, readCount))(in)
		case "scale":
			return optional(readInto(&precision.Scale, readCount))(in)
		}
		return nil
	})
	if found {
		column.Precision = &precision
	}
	return err
}

func readGeometry(in *jsonstream.Reader, column *Column) error {
	var geometry GeometryColumn
	found, err := optionalObject(in, func(name string) error {
		switch name {
		case "type":
			return optional(readInto(&geometry.Type, readText))(in)
		case "srid":
			return optional(readInto(&geometry.SRID, readCount))(in)
		}
		return nil
	})
	if found {
		column.Geometry = &geometry
	}
	return err
}

// optionalObject reads an object; a value of another kind is left out.
func optionalObject(in *jsonstream.Reader, visit func(name string) error) (found bool, err error) {
	kind, err := in.Peek()
	if err != nil || kind != jsonstream.Object {
		return false, err
	}
	return true, in.Object(visit)
}

// optionalList reads a list; a value of another kind is left out.
func optionalList(in *jsonstream.Reader, visit func() error) error {
	kind, err := in.Peek()
	if err != nil || kind != jsonstream.Array {
		return err
	}
	return in.Array(visit)
}

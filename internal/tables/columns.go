package tables

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"feedmirror/internal/parquetinfo"
)

// UnmappableError says why a version has no table. It is no failure of the mirror: the version is
// mirrored and published, and readers of its files are served.
type UnmappableError struct{ Reason string }

func (e *UnmappableError) Error() string { return "no table: " + e.Reason }

// ColumnsOf returns the columns of a table over the parts of one version, in the order of the first
// part. Types come from the footers alone, and all parts must agree in them. What cannot be mapped is
// an *UnmappableError.
func ColumnsOf(parts []parquetinfo.PartInfo) ([]Column, error) {
	if len(parts) == 0 {
		return nil, &UnmappableError{Reason: "it has no parts, so that its columns are not known"}
	}
	var columns []Column
	for i := range parts {
		part := &parts[i]
		if part.Err != nil {
			return nil, &UnmappableError{Reason: fmt.Sprintf("%s: its footer cannot be read: %v", part.Path, part.Err)}
		}
		these, err := columnsOf(part.Fields)
		if err != nil {
			return nil, &UnmappableError{Reason: fmt.Sprintf("%s: %v", part.Path, err)}
		}
		if i == 0 {
			columns = these
			continue
		}
		if difference := differ(columns, these); difference != "" {
			return nil, &UnmappableError{Reason: fmt.Sprintf("%s differs from %s: %s", part.Path, parts[0].Path, difference)}
		}
	}
	comment(columns, parts[0].Geo)
	return columns, nil
}

// differ names the first difference of two lists of columns, whatever their order.
func differ(a, b []Column) string {
	byName := make(map[string]Type, len(a))
	for _, column := range a {
		byName[column.Name] = column.Type
	}
	for _, column := range b {
		kind, known := byName[column.Name]
		switch {
		case !known:
			return fmt.Sprintf("only it has column %q", column.Name)
		case !reflect.DeepEqual(kind, column.Type):
			return fmt.Sprintf("column %q is %s, there %s", column.Name, column.Type, kind)
		}
		delete(byName, column.Name)
	}
	for _, column := range a {
		if _, left := byName[column.Name]; left {
			return fmt.Sprintf("it lacks column %q", column.Name)
		}
	}
	return ""
}

// comment writes the coordinate system of each geometry into its column's comment: engines keep
// comments, and nothing else of the footer's "geo" key reaches them.
func comment(columns []Column, geo string) {
	var meta struct {
		Columns map[string]struct {
			Encoding string          `json:"encoding"`
			CRS      json.RawMessage `json:"crs"`
		} `json:"columns"`
	}
	if geo == "" || json.Unmarshal([]byte(geo), &meta) != nil {
		return // without a readable key a geometry is just bytes
	}
	for i := range columns {
		about, ok := meta.Columns[columns[i].Name]
		if !ok {
			continue
		}
		columns[i].Comment = about.Encoding + ", " + systemOf(about.CRS)
	}
}

// systemOf names a coordinate system (GeoParquet, "crs"): absent means longitude and latitude on WGS 84,
// null that it is not known.
func systemOf(crs json.RawMessage) string {
	if crs == nil {
		return "OGC:CRS84"
	}
	var about *struct {
		Name string `json:"name"`
		ID   *struct {
			Authority string `json:"authority"`
			Code      any    `json:"code"`
		} `json:"id"`
	}
	switch err := json.Unmarshal(crs, &about); {
	case err != nil || about == nil:
		return "no coordinate system"
	case about.ID != nil:
		return fmt.Sprintf("%s:%v", about.ID.Authority, about.ID.Code)
	}
	return about.Name
}

// schemaString returns the schema as a log's metaData carries it.
func schemaString(columns []Column) (string, error) {
	text, err := json.Marshal(structJSON{typeStruct, columns})
	return string(text), err
}

// needsNTZ reports whether a column holds timestamps without a zone, which raise a table's protocol.
func needsNTZ(columns []Column) bool {
	for _, column := range columns {
		if hasNTZ(&column.Type) {
			return true
		}
	}
	return false
}

func hasNTZ(t *Type) bool {
	switch t.Name {
	case typeTimestampNTZ:
		return true
	case typeArray:
		return hasNTZ(t.Element)
	case typeStruct:
		return needsNTZ(t.Columns)
	}
	return false
}

// WhyNot says why parts of one version cannot be shown as a table; empty when they can.
func WhyNot(parts []parquetinfo.PartInfo) (string, error) {
	var unmappable *UnmappableError
	switch _, err := ColumnsOf(parts); {
	case errors.As(err, &unmappable):
		return unmappable.Reason, nil
	default:
		return "", err
	}
}

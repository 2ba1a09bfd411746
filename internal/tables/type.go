package tables

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/format"

	"feedmirror/internal/parquetinfo"
)

// The names of primitive types, as Delta spells them (Delta protocol, "Primitive Types").
const (
	typeString       = "string"
	typeLong         = "long"
	typeInteger      = "integer"
	typeShort        = "short"
	typeByte         = "byte"
	typeFloat        = "float"
	typeDouble       = "double"
	typeDecimal      = "decimal"
	typeBoolean      = "boolean"
	typeBinary       = "binary"
	typeDate         = "date"
	typeTimestamp    = "timestamp"
	typeTimestampNTZ = "timestamp_ntz"
	typeArray        = "array"
	typeStruct       = "struct"
)

// maxPrecision is the greatest precision of a decimal that engines agree on.
const maxPrecision = 38

// Type is the type of a column in a table, in Delta's words.
type Type struct {
	Name             string
	Precision, Scale int      // of a decimal
	Element          *Type    // of an array
	Columns          []Column // of a struct
}

// Column is a column of a table. All columns may be null: a part without nulls may say otherwise,
// and engines take what the log says for a promise.
type Column struct {
	Name    string
	Type    Type
	Comment string // for people: the coordinate system of a geometry
	// Annotated text is called JSON or an enumeration by its file, where most engines read text all the
	// same: DDL knows one that does not.
	Annotated bool
}

// MarshalJSON writes the type as Delta's schema serialization has it.
func (t Type) MarshalJSON() ([]byte, error) {
	switch t.Name {
	case typeArray:
		return json.Marshal(struct {
			Type         string `json:"type"`
			ElementType  *Type  `json:"elementType"`
			ContainsNull bool   `json:"containsNull"`
		}{t.Name, t.Element, true})
	case typeStruct:
		return json.Marshal(structJSON{t.Name, t.Columns})
	}
	return json.Marshal(t.String())
}

// MarshalJSON writes the column as a field of Delta's schema.
func (c Column) MarshalJSON() ([]byte, error) {
	metadata := map[string]string{}
	if c.Comment != "" {
		metadata["comment"] = c.Comment
	}
	return json.Marshal(struct {
		Name     string            `json:"name"`
		Type     Type              `json:"type"`
		Nullable bool              `json:"nullable"`
		Metadata map[string]string `json:"metadata"`
	}{c.Name, c.Type, true, metadata})
}

type structJSON struct {
	Type   string   `json:"type"`
	Fields []Column `json:"fields"`
}

// String spells the type for people and, where it is primitive, for Delta.
func (t Type) String() string {
	switch t.Name {
	case typeDecimal:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case typeArray:
		return fmt.Sprintf("array<%s>", t.Element)
	case typeStruct:
		names := make([]string, len(t.Columns))
		for i, c := range t.Columns {
			names[i] = c.Name + ":" + c.Type.String()
		}
		return "struct<" + strings.Join(names, ",") + ">"
	}
	return t.Name
}

// typeOf returns the type of a field of a Parquet file, or why no engine-neutral one exists.
func typeOf(field *parquetinfo.Field) (Type, error) {
	if field.Repeated {
		return Type{}, fmt.Errorf("it repeats without being a list")
	}
	if !field.Leaf() {
		return groupType(field)
	}
	switch field.Physical {
	case format.Boolean:
		return Type{Name: typeBoolean}, nil
	case format.Float:
		return Type{Name: typeFloat}, nil
	case format.Double:
		return Type{Name: typeDouble}, nil
	case format.Int32, format.Int64:
		return numberType(field)
	case format.ByteArray, format.FixedLenByteArray:
		return bytesType(field)
	case format.Int96:
		return Type{}, fmt.Errorf("INT96 timestamps carry no zone and are read differently by each engine")
	}
	return Type{}, fmt.Errorf("physical type %s is not known", field.Physical)
}

func numberType(field *parquetinfo.Field) (Type, error) {
	a := field.Annotation
	switch a.Kind {
	case parquetinfo.KindNone:
		if field.Physical == format.Int32 {
			return Type{Name: typeInteger}, nil
		}
		return Type{Name: typeLong}, nil
	case parquetinfo.KindInteger:
		if a.Unsigned {
			return Type{}, fmt.Errorf("unsigned integers have no type in Spark and Athena")
		}
		if name, ok := map[int]string{8: typeByte, 16: typeShort, 32: typeInteger, 64: typeLong}[a.Bits]; ok {
			return Type{Name: name}, nil
		}
		return Type{}, fmt.Errorf("integers of %d bits are not known", a.Bits)
	case parquetinfo.KindDecimal:
		return decimalType(a)
	case parquetinfo.KindDate:
		return Type{Name: typeDate}, nil
	case parquetinfo.KindTimestamp:
		return timestampType(a)
	case parquetinfo.KindTime:
		return Type{}, fmt.Errorf("times of day have no type in Spark and Athena")
	}
	return Type{}, fmt.Errorf("annotation %s on %s has no type in Spark and Athena", a.Kind, field.Physical)
}

func timestampType(a parquetinfo.Annotation) (Type, error) {
	switch {
	case a.Unit == parquetinfo.Nanos:
		return Type{}, fmt.Errorf("timestamps in nanoseconds cannot be read by Spark")
	case a.Unit == "":
		return Type{}, fmt.Errorf("the unit of its timestamps is not known")
	case a.UTC:
		return Type{Name: typeTimestamp}, nil
	}
	return Type{Name: typeTimestampNTZ}, nil
}

func bytesType(field *parquetinfo.Field) (Type, error) {
	a := field.Annotation
	switch a.Kind {
	case parquetinfo.KindNone, parquetinfo.KindBSON:
		return Type{Name: typeBinary}, nil
	case parquetinfo.KindString, parquetinfo.KindJSON, parquetinfo.KindEnum:
		return Type{Name: typeString}, nil
	case parquetinfo.KindDecimal:
		return decimalType(a)
	case parquetinfo.KindGeometry:
		return Type{}, fmt.Errorf("the GEOMETRY annotation makes Athena, Trino and older Sparks fail")
	}
	return Type{}, fmt.Errorf("annotation %s on %s has no type in Spark and Athena", a.Kind, field.Physical)
}

func decimalType(a parquetinfo.Annotation) (Type, error) {
	if a.Precision < 1 || a.Precision > maxPrecision || a.Scale < 0 || a.Scale > a.Precision {
		return Type{}, fmt.Errorf("decimal(%d,%d) is beyond what engines read", a.Precision, a.Scale)
	}
	return Type{Name: typeDecimal, Precision: a.Precision, Scale: a.Scale}, nil
}

// groupType reads a list of the three-level form, or a plain struct.
func groupType(field *parquetinfo.Field) (Type, error) {
	switch field.Annotation.Kind {
	case parquetinfo.KindList:
		if len(field.Children) != 1 || !field.Children[0].Repeated || len(field.Children[0].Children) != 1 {
			return Type{}, fmt.Errorf("its list is not of the three-level form")
		}
		element, err := typeOf(&field.Children[0].Children[0])
		if err != nil {
			return Type{}, err
		}
		return Type{Name: typeArray, Element: &element}, nil
	case parquetinfo.KindNone:
		columns, err := columnsOf(field.Children)
		return Type{Name: typeStruct, Columns: columns}, err
	}
	return Type{}, fmt.Errorf("a group annotated %s is not mapped", field.Annotation.Kind)
}

func columnsOf(fields []parquetinfo.Field) ([]Column, error) {
	columns := make([]Column, 0, len(fields))
	seen := map[string]string{}
	for i := range fields {
		field := &fields[i]
		if field.Name == "" {
			return nil, fmt.Errorf("a column has no name")
		}
		folded := strings.ToLower(field.Name)
		if other, taken := seen[folded]; taken {
			return nil, fmt.Errorf("columns %q and %q differ only in case", other, field.Name)
		}
		seen[folded] = field.Name
		kind, err := typeOf(field)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", field.Name, err)
		}
		columns = append(columns, Column{Name: field.Name, Type: kind, Annotated: isAnnotated(field)})
	}
	return columns, nil
}

// isAnnotated reports whether a field holds text that its file calls something else, at any depth.
func isAnnotated(field *parquetinfo.Field) bool {
	return field.Annotation.Kind == parquetinfo.KindJSON || field.Annotation.Kind == parquetinfo.KindEnum ||
		slices.ContainsFunc(field.Children, func(child parquetinfo.Field) bool { return isAnnotated(&child) })
}

package records

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Character says what kind of dataset to make.
type Character string

// The characters.
const (
	Points   Character = "points"   // permits: keyed, point geometry, a PDF per row
	Polygons Character = "polygons" // zoning: keyed, polygons, arrays and JSON
	Plain    Character = "plain"    // licences: no geometry, no key, a constant column that moves at every read
	Archive  Character = "archive"  // routes: keyed, lines, archived sources and an original beside the rows
)

// Document is a file that a row's cell names.
type Document struct {
	Name        string // document:<sha256>
	Filename    string
	ContentType string
	Data        []byte
}

// NewSchema returns the first schema of a character.
func NewSchema(character Character) (Schema, error) {
	geometry := func(kind string) Column {
		return Column{Name: "geometry", Type: Geometry, Geometry: &GeometryType{Type: kind, SRID: 4326}}
	}
	switch character {
	case Points:
		return Schema{Key: []string{"permit_number"}, Columns: []Column{
			{Name: "permit_number", Type: String, Unique: true},
			{Name: "issued_date", Type: Date},
			{Name: "valuation", Type: Decimal, Precision: &Precision{Precision: 12, Scale: 2}},
			{Name: "status", Type: String},
			{Name: "permit_pdf", Type: String, Document: true},
			geometry("Point"),
		}}, nil
	case Polygons:
		return Schema{Key: []string{"zone_id"}, Columns: []Column{
			{Name: "zone_id", Type: Integer, Unique: true},
			{Name: "zone_code", Type: String},
			{Name: "acres", Type: Float},
			{Name: "overlays", Type: Array, Items: String},
			{Name: "attributes", Type: JSON},
			geometry("Polygon"),
		}}, nil
	case Plain:
		return Schema{Columns: []Column{
			{Name: "licence", Type: String, Unique: true},
			{Name: "holder", Type: String},
			{Name: "active", Type: Boolean},
			{Name: "fee", Type: Integer},
			{Name: "updated_at", Type: Timestamp},
			{Name: "source_read_at", Type: Timestamptz, Constant: true},
		}}, nil
	case Archive:
		return Schema{Key: []string{"route"}, Columns: []Column{
			{Name: "route", Type: String, Unique: true},
			{Name: "name", Type: String},
			{Name: "lanes", Type: Integer},
			{Name: "surveyed_at", Type: Timestamptz},
			geometry("LineString"),
		}}, nil
	}
	return Schema{}, fmt.Errorf("make schema: unknown character %q", character)
}

// words are what text values are made of. Some are not ASCII, and one has a quote, to keep readers honest.
var words = []string{"oak", "río", "Größe", "cedar", "o'hara", "lake", "north", "日本", "mill", "ridge", "palm", "bay"}

// Maker edits a table towards one version and collects the documents its new rows name.
type Maker struct {
	Random       *rand.Rand
	Version      int64
	ReadAt       time.Time // the value of constant columns
	DocumentSize int       // bytes of a PDF, about; 0 for the smallest
	Documents    []Document
}

// value draws a value of the column. Text values carry a random number, so that two draws differ in practice.
func (m *Maker) value(column Column) any {
	switch column.Type {
	case Integer:
		return m.Random.Int64N(1_000_000_000)
	case Float:
		return float64(m.Random.Int64N(1_000_000_000)) / 1000
	case Boolean:
		return m.Random.IntN(2) == 0
	case Date:
		return int32(18_000 + m.Random.IntN(2_500))
	case Decimal:
		return m.Random.Int64N(1_000_000_000)
	case Timestamp, Timestamptz:
		return (1_700_000_000 + m.Random.Int64N(60_000_000)) * 1_000_000
	case JSON:
		return fmt.Sprintf(`{"height":%d,"note":"%s"}`, m.Random.IntN(1_000_000), m.word())
	case Geometry:
		return randomGeometry(m.Random, column.Geometry.Type)
	case Array:
		items := make([]string, m.Random.IntN(3))
		for i := range items {
			items[i] = fmt.Sprintf("%s-%d", m.word(), m.Random.IntN(1_000))
		}
		return items
	default:
		return fmt.Sprintf("%s %s %d", m.word(), m.word(), m.Random.IntN(1_000_000))
	}
}

func (m *Maker) word() string { return words[m.Random.IntN(len(words))] }

// AddRows appends n new rows.
func (m *Maker) AddRows(t *Table, n int) {
	for range n {
		row := Row{ID: recordID(m.Random), LastChange: m.Version, Values: map[string]any{}}
		for _, column := range t.Schema.Columns {
			switch {
			case column.Constant:
				row.Values[column.Name] = m.ReadAt.UnixMicro()
			case column.Document:
				row.Values[column.Name] = m.document(*t, column, row.ID)
			case column.Unique:
				row.Values[column.Name] = unique(column, row.ID)
			case m.Random.IntN(12) == 0:
				row.Values[column.Name] = nil
			default:
				row.Values[column.Name] = m.value(column)
			}
		}
		t.Rows = append(t.Rows, row)
	}
}

// unique derives a value from the record id, so that no two rows share it.
func unique(column Column, id string) any {
	if column.Type == String {
		return "K-" + id[4:]
	}
	var number int64
	for _, digit := range []byte(id[4:]) {
		number = number*31 + int64(digit)
	}
	return number & (1<<53 - 1)
}

// document makes a PDF for the row and returns its name. One row in nine shares the row before's, one in eleven has none.
func (m *Maker) document(t Table, column Column, id string) any {
	switch {
	case len(t.Rows)%11 == 10:
		return nil
	case len(t.Rows)%9 == 8:
		return t.Rows[len(t.Rows)-1].Values[column.Name]
	}
	data := PDF("Permit "+id, m.DocumentSize)
	name := "document:" + sha256Hex(data)
	m.Documents = append(m.Documents, Document{
		Name: name, Filename: "Permit " + id + ".pdf", ContentType: "application/pdf", Data: data,
	})
	return name
}

// ReadAgain moves the constant columns to the maker's time.
func (m *Maker) ReadAgain(t *Table) {
	for _, column := range t.Schema.Columns {
		if !column.Constant {
			continue
		}
		for _, row := range t.Rows {
			row.Values[column.Name] = m.ReadAt.UnixMicro()
		}
	}
}

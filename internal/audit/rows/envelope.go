package rows

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go/encoding"
)

// Envelope is what the envelope columns of a version's rows must say.
type Envelope struct {
	Dataset   string
	Version   int64
	SourceURL *string    // nil: null
	FetchedAt *time.Time // nil: null
}

// fetchedTolerance is how far a row's time may be from the version's: the feed tells one in
// milliseconds, the other as its writer keeps times.
const fetchedTolerance = time.Second

// complaint counts rows that are wrong in one way.
type complaint struct {
	rows  int64
	first string // what the first of them says
}

func (c *complaint) add(text func() string) {
	if c.rows == 0 {
		c.first = text()
	}
	c.rows++
}

// envelopeCheck looks at the envelope columns of a file, piece by piece.
type envelopeCheck struct {
	hash    hasher
	want    Envelope
	exact   bool // every row has the version's own number, as in changes
	older   []bool
	wrong   map[string]*complaint
	form    VersionForm
	place   uint64 // hash of the first row's place
	placed  bool
	dataset uint64
	source  uint64
}

func newEnvelopeCheck(hash hasher, want Envelope, exact bool) *envelopeCheck {
	e := &envelopeCheck{hash: hash, want: want, exact: exact, wrong: map[string]*complaint{}, form: FormVersion, dataset: hash.word(want.Dataset)}
	if want.SourceURL != nil {
		e.source = hash.word(*want.SourceURL)
	}
	return e
}

func (e *envelopeCheck) complain(column string, text func() string) {
	if e.wrong[column] == nil {
		e.wrong[column] = &complaint{}
	}
	e.wrong[column].add(text)
}

// looks returns who looks at which column, the version before what depends on it.
func (e *envelopeCheck) looks() []look {
	return []look{
		{versionColumn, integers, e.lookVersion}, {datasetColumn, texts, e.lookDataset}, {placeColumn, texts, e.lookPlace},
		{sourceColumn, texts, e.lookSource}, {fetchedColumn, integers, e.lookFetched},
	}
}

// begin forgets the piece before.
func (e *envelopeCheck) begin() { clear(e.older) }

func (e *envelopeCheck) isOlder(row int) bool { return row < len(e.older) && e.older[row] }

// quoted returns a value for a message.
func (r run) quoted(value int) string {
	if value < 0 {
		return "null"
	}
	return quote(string(r.text(value)))
}

// quote returns foreign text in quotes, cut after 100 bytes.
func quote(text string) string {
	if len(text) > 100 {
		return fmt.Sprintf("%q... (%d bytes)", strings.ToValidUTF8(text[:100], ""), len(text))
	}
	return fmt.Sprintf("%q", text)
}

func (e *envelopeCheck) lookDataset(r run) {
	hashes := r.hashesOfValues()
	r.each(func(_, value int) {
		if value < 0 || hashes[value] != e.dataset {
			e.complain(datasetColumn, func() string { return r.quoted(value) })
		}
	})
}

func (e *envelopeCheck) lookVersion(r run) {
	r.each(func(row, value int) {
		n := int64(0)
		if value >= 0 {
			n = r.number(value)
		}
		switch {
		case n < 1 || n > e.want.Version || e.exact && n != e.want.Version:
			e.complain(versionColumn, func() string { return fmt.Sprint(n) })
		case n < e.want.Version:
			e.form = FormLastChange
			for len(e.older) <= row {
				e.older = append(e.older, false)
			}
			e.older[row] = true
		}
	})
}

// lookPlace wants one place in all rows. Which one, the version does not say.
func (e *envelopeCheck) lookPlace(r run) {
	hashes := r.hashesOfValues()
	r.each(func(row, value int) {
		place := uint64(0)
		if value >= 0 {
			place = hashes[value]
		}
		switch {
		case e.isOlder(row):
		case !e.placed:
			e.place, e.placed = place, true
		case place != e.place:
			e.complain(placeColumn, func() string { return r.quoted(value) })
		}
	})
}

func (e *envelopeCheck) lookSource(r run) {
	hashes := r.hashesOfValues()
	r.each(func(row, value int) {
		right := value < 0 && e.want.SourceURL == nil || value >= 0 && e.want.SourceURL != nil && hashes[value] == e.source
		if !right && !e.isOlder(row) {
			e.complain(sourceColumn, func() string { return r.quoted(value) })
		}
	})
}

func (e *envelopeCheck) lookFetched(r run) {
	unit := r.unit
	if unit == 0 {
		return // told as a column of another type
	}
	r.each(func(row, value int) {
		right := value < 0 && e.want.FetchedAt == nil
		var at time.Time
		if value >= 0 {
			at = timeOf(r.number(value), unit)
			right = e.want.FetchedAt != nil && at.Sub(*e.want.FetchedAt).Abs() < fetchedTolerance
		}
		if !right && !e.isOlder(row) {
			e.complain(fetchedColumn, func() string {
				if value < 0 {
					return "null"
				}
				return at.UTC().Format(time.RFC3339Nano)
			})
		}
	})
}

func timeOf(n int64, unit time.Duration) time.Time {
	perSecond := int64(time.Second / unit)
	return time.Unix(n/perSecond, n%perSecond*int64(unit))
}

// findings names what is wrong with the envelope of a table.
func (e *envelopeCheck) findings(table Table) []Finding {
	var list []Finding
	for _, column := range sortedKeys(e.wrong) {
		wrong := e.wrong[column]
		list = append(list, Finding{Kind: KindEnvelope, Code: column, Table: table, Rows: wrong.rows, Columns: []string{column},
			Detail: fmt.Sprintf("%d rows of the %s have %s that %s; the first says %s", wrong.rows, table, column, e.rule(column), wrong.first)})
	}
	return list
}

// rule says what a column's values are not.
func (e *envelopeCheck) rule(column string) string {
	switch column {
	case datasetColumn:
		return "is not " + e.want.Dataset
	case versionColumn:
		if e.exact {
			return fmt.Sprintf("is not %d", e.want.Version)
		}
		return fmt.Sprintf("is no version up to %d", e.want.Version)
	case placeColumn:
		return "is another place than the first row's"
	case sourceColumn:
		if e.want.SourceURL == nil {
			return "is not null, as the version's source is"
		}
		return "is not the version's source"
	case fetchedColumn:
		if e.want.FetchedAt == nil {
			return "is not null, as the version's time of reading is"
		}
		return "is not when the version was read, " + e.want.FetchedAt.UTC().Format(time.RFC3339)
	}
	return ruleOfMove(column)
}

// float returns a value of a column of floating-point numbers.
func (c *cursor) float(place int) float64 {
	switch c.values.Kind() {
	case encoding.Float:
		return float64(c.values.Float()[place])
	case encoding.Double:
		return c.values.Double()[place]
	}
	return math.NaN()
}

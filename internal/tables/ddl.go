package tables

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"feedmirror/internal/fault"
)

// Engine is a query engine that DDL is written for.
type Engine string

// The engines.
const (
	Athena     Engine = "athena"
	Spark      Engine = "spark"
	Trino      Engine = "trino"
	DuckDB     Engine = "duckdb"
	ClickHouse Engine = "clickhouse"
	Snowflake  Engine = "snowflake"
	BigQuery   Engine = "bigquery"
	Polars     Engine = "polars"
)

// Engines returns all engines, in the order in which help names them.
func Engines() []Engine {
	return []Engine{Athena, Spark, Trino, DuckDB, ClickHouse, Snowflake, BigQuery, Polars}
}

// Major is the shape of a dataset under one MAJOR schema: that of its newest version.
type Major struct {
	Number  int
	Columns []Column
}

// Described is a dataset as DDL needs it.
type Described struct {
	Dataset     string
	Reason      string // why it has no table; empty when it has
	Majors      []Major
	Attachments bool // some version lists attachments
}

// Place is where a bucket lies, in the words of each engine.
type Place struct {
	Scheme    string // s3, gs, azblob or file
	Bucket    string // bucket or container; empty for file
	Prefix    string // with a slash at its end, or empty; for file the folder, absolute
	Endpoint  string // of an S3-compatible service: http://host:port; empty for AWS
	Region    string
	PathStyle bool
	Account   string // of Azure
}

// under returns the URI of a key for engines that say scheme for this kind of store.
func (p Place) under(s3 string, key string) string {
	switch p.Scheme {
	case "s3":
		return s3 + "://" + p.Bucket + "/" + p.Prefix + key
	case "gs":
		return "gs://" + p.Bucket + "/" + p.Prefix + key
	case "azblob":
		return "abfss://" + p.Bucket + "@" + p.Account + ".dfs.core.windows.net/" + p.Prefix + key
	}
	return "file://" + p.Prefix + key
}

// DDL is what a script is written from.
type DDL struct {
	Engine   Engine
	Place    Place
	Database string // schema or database of the tables; "ploti" when empty
	Datasets []Described
}

// Write writes a script that creates a table for each dataset's current version, and those of all
// changes, attachments and publications, ready to paste.
func (d DDL) Write(w io.Writer) error {
	if d.Database == "" {
		d.Database = "ploti"
	}
	if !databaseName.MatchString(d.Database) {
		return usage("the database %q is no plain name of letters, digits and underscores", d.Database)
	}
	for _, text := range []string{d.Place.Bucket, d.Place.Prefix, d.Place.Endpoint, d.Place.Region, d.Place.Account} {
		if strings.ContainsFunc(text, endsText) {
			return usage("the bucket's address %q has characters that engines take for the end of a text", text)
		}
	}
	var script strings.Builder
	dialect, err := dialectOf(d)
	if err != nil {
		return err
	}
	comment := dialect.comment()
	fmt.Fprintf(&script, "%s Tables over %s for %s.\n", comment, d.Place.under("s3", ""), d.Engine)
	for _, line := range dialect.notes() {
		fmt.Fprintf(&script, "%s %s\n", comment, line)
	}
	names := tableNames(d.Datasets)
	script.WriteString("\n" + dialect.begin())
	script.WriteString(dialect.table("changes", ChangesRoot) + dialect.table("publications", PublicationsRoot))
	for _, one := range d.Datasets {
		fmt.Fprintf(&script, "\n%s %s\n", comment, oneLine(one.Dataset))
		if one.Reason != "" {
			fmt.Fprintf(&script, "%s no table: %s\n", comment, oneLine(one.Reason))
			continue
		}
		name := names[one.Dataset]
		script.WriteString(snapshotTable(dialect, name, one))
		if one.Attachments {
			script.WriteString(dialect.table(name+"_attachments", AttachmentRoot(one.Dataset)))
		}
		traveller, ok := dialect.(timeTraveller)
		for _, major := range one.Majors {
			if ok {
				script.WriteString(traveller.versions(fmt.Sprintf("%s_versions_m%d", name, major.Number), one.Dataset, major))
			}
		}
	}
	_, err = io.WriteString(w, script.String())
	return err
}

func snapshotTable(d dialect, name string, one Described) string {
	if careful, ok := d.(columnReader); ok {
		return careful.tableOf(name, SnapshotRoot(one.Dataset), one.Majors)
	}
	return d.table(name, SnapshotRoot(one.Dataset))
}

// databaseName is what every engine takes without quotes.
var databaseName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// endsText reports whether a character could end a string or a comment in some engine, where scripts
// have the bucket's address.
func endsText(r rune) bool {
	return r < ' ' || r == 0x7f || strings.ContainsRune("\"`\\", r) || r == '\u2028' || r == '\u2029' || r == '\u0085'
}

func usage(format string, args ...any) error {
	return &fault.Error{Op: "write DDL", Side: fault.SideConfig, Kind: fault.Usage, Err: fmt.Errorf(format, args...)}
}

// dialect is how an engine spells what a script has.
type dialect interface {
	comment() string // what begins a comment's line
	notes() []string // what a reader of the script should know
	begin() string
	// table makes a table that follows the Delta log below a key.
	table(name, key string) string
}

// timeTraveller is a dialect of an engine that cannot name a version of the feed by itself.
type timeTraveller interface {
	versions(name, dataset string, major Major) string
}

// columnReader is a dialect whose statement depends on the columns of a snapshot.
type columnReader interface {
	tableOf(name, key string, majors []Major) string
}

func dialectOf(d DDL) (dialect, error) {
	switch d.Engine {
	case Athena:
		return athenaDialect{d}, nil
	case Spark:
		return sparkDialect{d}, nil
	case Trino:
		return trinoDialect{d}, nil
	case DuckDB:
		return duckDialect{d}, nil
	case ClickHouse:
		return clickhouseDialect{d}, nil
	case Snowflake:
		return snowflakeDialect{d}, nil
	case BigQuery:
		return bigQueryDialect{d}, nil
	case Polars:
		return polarsDialect{d}, nil
	}
	return nil, fmt.Errorf("engine %q is not known; choose one of %v", d.Engine, Engines())
}

// derivedName is a name that could belong to another dataset's attachments or versions.
var derivedName = regexp.MustCompile(`(_attachments|_versions_m[0-9]+(_files)?)$`)

// tableNames returns a name for each dataset that every engine takes unquoted: small letters, digits
// and underscores, beginning with a letter. Names that fall together get the number of their place.
func tableNames(datasets []Described) map[string]string {
	names, taken := map[string]string{}, map[string]bool{"changes": true, "publications": true}
	for _, d := range datasets {
		name := strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
				return r
			case r >= 'A' && r <= 'Z':
				return r + 'a' - 'A'
			}
			return '_'
		}, d.Dataset)
		if name[0] < 'a' {
			name = "d" + name
		}
		if derivedName.MatchString(name) {
			name += "_data"
		}
		free := name
		for n := 2; taken[free]; n++ {
			free = fmt.Sprintf("%s_%d", name, n)
		}
		taken[free], names[d.Dataset] = true, free
	}
	return names
}

// oneLine keeps a text from ending the comment that it stands in.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' || r == '\u0085' }), " ")
}

// literal spells a text as a string of standard SQL.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// quoted spells a name between quotes that are doubled inside.
func quoted(name, quote string) string {
	return quote + strings.ReplaceAll(name, quote, quote+quote) + quote
}

// typeNames maps Delta's types to those of an engine; types that are not named keep their name.
func spellType(t Type, names map[string]string, array, pair string) string {
	switch t.Name {
	case typeDecimal:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case typeArray:
		return fmt.Sprintf(array, spellType(*t.Element, names, array, pair))
	case typeStruct:
		fields := make([]string, len(t.Columns))
		for i, c := range t.Columns {
			fields[i] = fmt.Sprintf(pair, c.Name, spellType(c.Type, names, array, pair))
		}
		return fmt.Sprintf(names[typeStruct], strings.Join(fields, ","))
	}
	if name, ok := names[t.Name]; ok {
		return name
	}
	return t.Name
}

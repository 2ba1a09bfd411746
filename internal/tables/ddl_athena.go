package tables

import (
	"fmt"
	"regexp"
	"strings"
)

// athenaDialect is Athena's: tables in Glue by Hive's DDL, views by Trino's SQL.
type athenaDialect struct{ DDL }

func (athenaDialect) comment() string { return "--" }

func (d athenaDialect) notes() []string {
	notes := []string{
		"not executed: no Athena was at hand. Hive's own parser reads the tables; Trino executes the same tables and views.",
		"Athena runs one statement at a time. Current tables are Delta tables and follow the pointer by themselves.",
		"Athena has no time travel for Delta: *_versions_m<N> WHERE ploti_version = '0000000042' reads any version of one MAJOR",
		"schema that was published. There, times have no zone and are UTC.",
		"Run it again when a MINOR schema added columns: what is dropped is a name, not files; a Delta table says that it exists already.",
	}
	if d.Place.Scheme != "s3" {
		notes = append(notes, "Athena reads S3 alone: this bucket must be copied there first.")
	}
	return notes
}

// name spells a table for statements of Hive's DDL.
func (d athenaDialect) name(table string) string {
	return quoted(d.Database, "`") + "." + quoted(table, "`")
}

// viewName spells a table for statements of Trino's SQL.
func (d athenaDialect) viewName(table string) string {
	return quoted(d.Database, `"`) + "." + quoted(table, `"`)
}

func (d athenaDialect) begin() string {
	return fmt.Sprintf("CREATE DATABASE IF NOT EXISTS %s;\n", quoted(d.Database, "`"))
}

func (d athenaDialect) table(name, key string) string {
	return fmt.Sprintf("CREATE EXTERNAL TABLE %s\nLOCATION %s\nTBLPROPERTIES ('table_type'='DELTA');\n", d.name(name), hiveLiteral(d.Place.under("s3", key)))
}

// hiveLiteral spells a text as a string of Hive and Spark, which know backslashes.
func hiveLiteral(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

// plainName is what Athena takes for the name of a column or a field, folded.
var plainName = regexp.MustCompile(`^[a-z0-9_]{1,255}$`)

func fitsAthena(c Column) bool {
	plain := func(name string) bool { return plainName.MatchString(strings.ToLower(name)) }
	return namesFit(c, plain, plain)
}

func hiveTypes() map[string]string {
	return map[string]string{typeLong: "bigint", typeInteger: "int", typeShort: "smallint", typeByte: "tinyint",
		typeTimestampNTZ: "timestamp", typeStruct: "struct<%s>"}
}

func (d athenaDialect) versions(name, dataset string, major Major) string {
	columns, text := fitting(major.Columns, fitsAthena, "Athena takes only letters, digits and underscores in names")
	if len(columns) == 0 {
		return text
	}
	key := versionsKey(major.Columns)
	lines := make([]string, 0, len(columns))
	for _, c := range columns {
		lines = append(lines, fmt.Sprintf("  `%s` %s", strings.ToLower(c.Name), spellType(c.Type, hiveTypes(), "array<%s>", "`%s`:%s")))
	}
	files := name + "_files"
	return text + fmt.Sprintf("DROP TABLE IF EXISTS %s;\nCREATE EXTERNAL TABLE %s (\n%s\n)\nPARTITIONED BY (`%s` string)\nSTORED AS PARQUET\nLOCATION %s\n"+
		"TBLPROPERTIES ('projection.enabled'='true', 'projection.%s.type'='injected',\n  'storage.location.template'=%s);\n",
		d.name(files), d.name(files), strings.Join(lines, ",\n"), key, hiveLiteral(d.Place.under("s3", SnapshotRoot(dataset))),
		key, hiveLiteral(d.Place.versionPath(dataset, key))) +
		publishedView(d.viewName(name), d.viewName(files), d.viewName("publications"), key, dataset, major.Number)
}

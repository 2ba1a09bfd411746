package tables

import (
	"fmt"
	"regexp"
	"strings"
)

// trinoDialect is Trino with its Delta and its Hive connector.
type trinoDialect struct{ DDL }

func (trinoDialect) comment() string { return "--" }

func (d trinoDialect) notes() []string {
	notes := []string{
		"Catalogs over one metastore: delta (connector.name=delta_lake, delta.register-table-procedure.enabled=true) and hive",
		"(connector.name=hive, hive.partition-projection-enabled=true, hive.timestamp-precision=MICROSECONDS).",
		"Time travel: SELECT * FROM <table> FOR VERSION AS OF n, where <table>$history names commits; or by the feed's version:",
		"*_versions_m<N> WHERE ploti_version = '0000000042' reads any version of one MAJOR schema that was published.",
		"There, times have no zone and are UTC. Delta tables show times with a zone to the millisecond.",
		"Run it again when a MINOR schema added columns: what is dropped is a name, not files; register_table says that its table exists already.",
	}
	if d.Place.Scheme == "file" {
		notes = append(notes, "A folder needs fs.hadoop.enabled=true and, in hive, hive.ignore-absent-partitions=true: fs.native-local finds no files of a Hive table.")
	}
	return notes
}

func (d trinoDialect) name(catalog, table string) string {
	return catalog + "." + quoted(d.Database, `"`) + "." + quoted(table, `"`)
}

func (d trinoDialect) begin() string {
	return fmt.Sprintf("CREATE SCHEMA IF NOT EXISTS delta.%s;\n", quoted(d.Database, `"`))
}

func (d trinoDialect) table(name, key string) string {
	return fmt.Sprintf("CALL delta.system.register_table(schema_name => %s, table_name => %s, table_location => %s);\n",
		literal(strings.ToLower(d.Database)), literal(name), literal(d.Place.under("s3", strings.TrimSuffix(key, "/"))))
}

func trinoTypes() map[string]string {
	return map[string]string{typeString: "varchar", typeLong: "bigint", typeShort: "smallint", typeByte: "tinyint", typeFloat: "real",
		typeBinary: "varbinary", typeTimestamp: "timestamp(6)", typeTimestampNTZ: "timestamp(6)", typeStruct: "row(%s)"}
}

// fieldName is what Trino's Hive connector writes into a metastore and reads again as a field of a row:
// a table with another name cannot be opened any more.
var fieldName = regexp.MustCompile(`^[\pL\pN_]([\pL\pN_ ]*[\pL\pN_])?$`)

// fitsTrino reports whether Trino's Hive connector takes a column.
func fitsTrino(c Column) bool {
	return namesFit(c, func(name string) bool {
		return name != "" && name == strings.TrimSpace(name) && name == oneLine(name) && !strings.Contains(name, ",")
	}, fieldName.MatchString)
}

func (d trinoDialect) versions(name, dataset string, major Major) string {
	columns, text := fitting(major.Columns, fitsTrino, "Trino's Hive connector does not take their names")
	if len(columns) == 0 {
		return text
	}
	key := versionsKey(major.Columns)
	lines := make([]string, 0, len(columns)+1)
	for _, c := range columns {
		lines = append(lines, fmt.Sprintf("  %s %s", quoted(strings.ToLower(c.Name), `"`), spellType(c.Type, trinoTypes(), "array(%s)", `"%s" %s`)))
	}
	lines = append(lines, fmt.Sprintf("  %s varchar WITH (partition_projection_type = 'INJECTED')", key))
	files := d.name("hive", name+"_files")
	return text + fmt.Sprintf("DROP TABLE IF EXISTS %s;\nCREATE TABLE %s (\n%s\n) WITH (format = 'PARQUET', external_location = %s, partitioned_by = ARRAY['%s'],\n"+
		"  partition_projection_enabled = true, partition_projection_location_template = %s);\n",
		files, files, strings.Join(lines, ",\n"), literal(d.Place.under("s3", SnapshotRoot(dataset))), key, literal(d.Place.versionPath(dataset, key))) +
		publishedView(d.name("hive", name), files, d.name("delta", "publications"), key, dataset, major.Number)
}

package tables

import (
	"fmt"
	"regexp"
	"strings"
)

// athenaDialect is Hive's: tables in Glue, read by Athena.
type athenaDialect struct{ DDL }

func (athenaDialect) comment() string { return "--" }

func (athenaDialect) notes() []string {
	return []string{
		"Not executed by our tests: its syntax is checked by Hive's own parser, its projection in Trino.",
		"Athena runs one statement at a time. Current tables are Delta tables and follow the pointer by themselves.",
		"Athena has no time travel for Delta: *_versions_m<N> reads any mirrored version of one MAJOR schema,",
		"WHERE ploti_version = '0000000042', and shows only versions that were published.",
	}
}

func (d athenaDialect) begin() string {
	return fmt.Sprintf("CREATE DATABASE IF NOT EXISTS `%s`;\n", d.Database)
}

func (d athenaDialect) table(name, key string) string {
	return fmt.Sprintf("CREATE EXTERNAL TABLE `%s`.`%s`\nLOCATION '%s'\nTBLPROPERTIES ('table_type'='DELTA');\n", d.Database, name, d.Place.under("s3", key))
}

// plainName is what Athena takes for a column's name, folded.
var plainName = regexp.MustCompile(`^[a-z0-9_]{1,255}$`)

func hiveTypes() map[string]string {
	return map[string]string{typeLong: "bigint", typeInteger: "int", typeShort: "smallint", typeByte: "tinyint",
		typeTimestampNTZ: "timestamp", typeStruct: "struct<%s>"}
}

// versions reads any version of one MAJOR by its number. A path is a version only when it was
// published: the view says which were, also while a version is being copied.
func (d athenaDialect) versions(name, dataset string, major Major) string {
	var columns, left []string
	for _, c := range major.Columns {
		if strings.EqualFold(c.Name, versionColumn) {
			left = append(left, oneLine(c.Name)) // Hive takes no column that is named like a partition
			continue
		}
		if !plainName.MatchString(strings.ToLower(c.Name)) {
			left = append(left, oneLine(c.Name))
			continue
		}
		columns = append(columns, fmt.Sprintf("  `%s` %s", strings.ToLower(c.Name), spellType(c.Type, hiveTypes(), "array<%s>", "%s:%s")))
	}
	text := ""
	if len(left) > 0 {
		text = "-- left out, since Athena takes only letters, digits and underscores, and no column named like the partition: " + strings.Join(left, ", ") + "\n"
	}
	root := d.Place.under("s3", SnapshotRoot(dataset))
	text += fmt.Sprintf("CREATE EXTERNAL TABLE `%s`.`%s_files` (\n%s\n)\nPARTITIONED BY (`ploti_version` string)\nSTORED AS PARQUET\nLOCATION '%s'\n"+
		"TBLPROPERTIES ('projection.enabled'='true', 'projection.ploti_version.type'='injected',\n  'storage.location.template'='%sploti_version=${ploti_version}/');\n",
		d.Database, name, strings.Join(columns, ",\n"), root, root)
	return text + fmt.Sprintf("CREATE OR REPLACE VIEW \"%s\".\"%s\" AS\nSELECT f.* FROM \"%s\".\"%s_files\" f\nWHERE f.ploti_version IN (SELECT lpad(CAST(p.ploti_version AS varchar), 10, '0')\n"+
		"  FROM \"%s\".\"publications\" p WHERE p.ploti_dataset_id = %s AND p.schema_version LIKE '%d.%%');\n",
		d.Database, name, d.Database, name, d.Database, literal(dataset), major.Number)
}

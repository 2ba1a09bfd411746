package tables

import (
	"fmt"
	"strings"
)

// sparkDialect is Spark SQL with Delta.
type sparkDialect struct{ DDL }

func (sparkDialect) comment() string { return "--" }

func (sparkDialect) notes() []string {
	return []string{
		"Needs delta-spark and, for s3a://, hadoop-aws of Spark's own Hadoop version.",
		"Time travel: SELECT * FROM <table> VERSION AS OF n, where DESCRIBE HISTORY <table> names the feed's version in userMetadata.",
	}
}

func (d sparkDialect) begin() string {
	return fmt.Sprintf("CREATE DATABASE IF NOT EXISTS `%s`;\n", d.Database)
}

func (d sparkDialect) table(name, key string) string {
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS `%s`.`%s` USING delta LOCATION '%s';\n", d.Database, name, d.Place.under("s3a", key))
}

// trinoDialect is Trino with its Delta and its Hive connector.
type trinoDialect struct{ DDL }

func (trinoDialect) comment() string { return "--" }

func (trinoDialect) notes() []string {
	return []string{
		"Catalogs: delta (connector.name=delta_lake, delta.register-table-procedure.enabled=true) and hive (connector.name=hive,",
		"hive.partition-projection-enabled=true), over the same metastore.",
		"Time travel: SELECT * FROM <table> FOR VERSION AS OF n; or by the feed's version in *_versions_m<N>.",
	}
}

func (d trinoDialect) begin() string {
	return fmt.Sprintf("CREATE SCHEMA IF NOT EXISTS delta.%s;\n", d.Database)
}

func (d trinoDialect) table(name, key string) string {
	return fmt.Sprintf("CALL delta.system.register_table(schema_name => %s, table_name => %s, table_location => %s);\n",
		literal(d.Database), literal(name), literal(d.Place.under("s3", strings.TrimSuffix(key, "/"))))
}

func trinoTypes() map[string]string {
	return map[string]string{typeString: "varchar", typeLong: "bigint", typeShort: "smallint", typeByte: "tinyint", typeFloat: "real",
		typeBinary: "varbinary", typeTimestamp: "timestamp(6)", typeTimestampNTZ: "timestamp(6)", typeStruct: "row(%s)"}
}

func (d trinoDialect) versions(name, dataset string, major Major) string {
	var columns []string
	for _, c := range major.Columns {
		columns = append(columns, fmt.Sprintf("  %s %s", quoted(strings.ToLower(c.Name), `"`), spellType(c.Type, trinoTypes(), "array(%s)", `"%s" %s`)))
	}
	columns = append(columns, "  ploti_version varchar WITH (partition_projection_type = 'INJECTED')")
	root := d.Place.under("s3", SnapshotRoot(dataset))
	return fmt.Sprintf("CREATE TABLE hive.%s.%s_files (\n%s\n) WITH (format = 'PARQUET', external_location = %s, partitioned_by = ARRAY['ploti_version'],\n"+
		"  partition_projection_enabled = true, partition_projection_location_template = %s);\n"+
		"CREATE OR REPLACE VIEW hive.%s.%s AS\nSELECT f.* FROM hive.%s.%s_files f\nWHERE f.ploti_version IN (SELECT lpad(CAST(p.ploti_version AS varchar), 10, '0')\n"+
		"  FROM delta.%s.publications p WHERE p.ploti_dataset_id = %s AND p.schema_version LIKE '%d.%%');\n",
		d.Database, name, strings.Join(columns, ",\n"), literal(root), literal(root+"ploti_version=${ploti_version}/"),
		d.Database, name, d.Database, name, d.Database, literal(dataset), major.Number)
}

// duckDialect is DuckDB with its delta extension.
type duckDialect struct{ DDL }

func (duckDialect) comment() string { return "--" }

func (duckDialect) notes() []string {
	return []string{"Needs the delta extension, and for a bucket on S3 httpfs and aws.",
		"Time travel: SELECT * FROM delta_scan('<location>', version => n).",
		"Geometries are WKB: ST_GeomFromWKB(geometry), of the spatial extension. Each session needs the SET below: without it DuckDB",
		"takes them for its own type, which its delta extension cannot read."}
}

func (d duckDialect) begin() string {
	text := "INSTALL delta;\nLOAD delta;\nSET enable_geoparquet_conversion = false;\n"
	if d.Place.Scheme == "s3" {
		text += "CREATE OR REPLACE SECRET ploti (TYPE s3, PROVIDER credential_chain, SCOPE " + literal("s3://"+d.Place.Bucket)
		if d.Place.Region != "" {
			text += ", REGION " + literal(d.Place.Region)
		}
		if host := strings.TrimPrefix(strings.TrimPrefix(d.Place.Endpoint, "https://"), "http://"); host != "" {
			text += fmt.Sprintf(", ENDPOINT %s, USE_SSL %t", literal(host), strings.HasPrefix(d.Place.Endpoint, "https://"))
			if d.Place.PathStyle {
				text += ", URL_STYLE 'path'"
			}
		}
		text += ");\n"
	}
	return text + fmt.Sprintf("CREATE SCHEMA IF NOT EXISTS %s;\n", d.Database)
}

func (d duckDialect) table(name, key string) string {
	return fmt.Sprintf("CREATE OR REPLACE VIEW %s.%s AS SELECT * FROM delta_scan(%s);\n", d.Database, name, literal(d.Place.under("s3", key)))
}

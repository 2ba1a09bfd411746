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
	return fmt.Sprintf("CREATE DATABASE IF NOT EXISTS %s;\n", quoted(d.Database, "`"))
}

func (d sparkDialect) table(name, key string) string {
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s.%s USING delta LOCATION %s;\n",
		quoted(d.Database, "`"), quoted(name, "`"), hiveLiteral(d.Place.under("s3a", key)))
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

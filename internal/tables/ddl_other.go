package tables

import (
	"fmt"
	"slices"
	"strings"
)

// snowflakeDialect reads Delta through Snowflake's Iceberg tables over a catalog integration.
type snowflakeDialect struct{ DDL }

func (snowflakeDialect) comment() string { return "--" }

func (snowflakeDialect) notes() []string {
	return []string{"not executed: no Snowflake was at hand. The external volume ploti must lead to the bucket.",
		"Run ALTER ICEBERG TABLE ... REFRESH to see a new version, or set AUTO_REFRESH."}
}

func (d snowflakeDialect) begin() string {
	return fmt.Sprintf("CREATE SCHEMA IF NOT EXISTS %s;\nCREATE CATALOG INTEGRATION IF NOT EXISTS ploti_delta CATALOG_SOURCE = OBJECT_STORE TABLE_FORMAT = DELTA ENABLED = TRUE;\n", d.Database)
}

func (d snowflakeDialect) table(name, key string) string {
	return fmt.Sprintf("CREATE ICEBERG TABLE %s.%s CATALOG = 'ploti_delta' EXTERNAL_VOLUME = 'ploti' BASE_LOCATION = %s;\n",
		d.Database, name, literal(d.Place.Prefix+key))
}

// bigQueryDialect reads Delta through BigLake.
type bigQueryDialect struct{ DDL }

func (bigQueryDialect) comment() string { return "--" }

func (bigQueryDialect) notes() []string {
	return []string{"not executed: no BigQuery was at hand. Replace PROJECT.REGION.CONNECTION by a connection that may read the bucket."}
}

func (d bigQueryDialect) begin() string {
	return fmt.Sprintf("CREATE SCHEMA IF NOT EXISTS `%s`;\n", d.Database)
}

func (d bigQueryDialect) table(name, key string) string {
	return fmt.Sprintf("CREATE EXTERNAL TABLE `%s.%s` WITH CONNECTION `PROJECT.REGION.CONNECTION`\nOPTIONS (format = 'DELTA_LAKE', uris = [%s]);\n",
		d.Database, name, `"`+strings.ReplaceAll(strings.TrimSuffix(d.Place.under("s3", key), "/"), `"`, `\"`)+`"`)
}

// polarsDialect is Python.
type polarsDialect struct{ DDL }

func (polarsDialect) comment() string { return "#" }

func (polarsDialect) notes() []string {
	return []string{"Needs polars and deltalake. Time travel: the same call with version=n.",
		"Where it says use_pyarrow, pyarrow is needed too. Polars' own reader takes partitions from paths, where released_date of the changes",
		"does not stand, and shows null without a word; and it fails at text that is annotated as JSON."}
}

func (d polarsDialect) begin() string {
	text := "import polars as pl\n\noptions = {"
	if d.Place.Endpoint != "" {
		text += fmt.Sprintf("%q: %q, ", "AWS_ENDPOINT_URL", d.Place.Endpoint)
		if strings.HasPrefix(d.Place.Endpoint, "http://") {
			text += fmt.Sprintf("%q: %q, ", "AWS_ALLOW_HTTP", "true")
		}
	}
	if d.Place.Region != "" {
		text += fmt.Sprintf("%q: %q, ", "AWS_REGION", d.Place.Region)
	}
	return strings.TrimSuffix(text, ", ") + "}\n"
}

func (d polarsDialect) table(name, key string) string { return d.scan(name, key, key == ChangesRoot) }

func (d polarsDialect) tableOf(name, key string, majors []Major) string {
	for _, major := range majors {
		if slices.ContainsFunc(major.Columns, func(c Column) bool { return c.Annotated }) {
			return d.scan(name, key, true)
		}
	}
	return d.scan(name, key, false)
}

func (d polarsDialect) scan(name, key string, pyarrow bool) string {
	more := ""
	if pyarrow {
		more = ", use_pyarrow=True"
	}
	location := d.Place.under("s3", strings.TrimSuffix(key, "/"))
	if d.Place.Scheme == "file" {
		location = strings.TrimPrefix(location, "file://")
	}
	return fmt.Sprintf("%s = pl.scan_delta(%q, storage_options=options%s)\n", name, location, more)
}

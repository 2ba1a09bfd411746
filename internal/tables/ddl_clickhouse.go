package tables

import (
	"fmt"
	"strings"
)

// clickhouseDialect names the tables for ClickHouse's table functions. Views and tables of its own would
// keep the columns that they were made with, and show null where a MAJOR schema gave one another type
// (seen in 26.9); the functions read the columns anew each time.
type clickhouseDialect struct{ DDL }

func (clickhouseDialect) comment() string { return "--" }

func (d clickhouseDialect) notes() []string {
	call := fmt.Sprintf("%s(%s_<name>)", d.function(), d.Database)
	notes := []string{
		"Query SELECT ... FROM " + call + ". Make no view or table of it: they keep the columns of the day,",
		"and show null where a MAJOR schema gave a column another type.",
		"Time travel: SELECT ... FROM " + call + " SETTINGS delta_lake_snapshot_version = n.",
		"A list that is null reads as an empty one, and a timestamp without a zone as one in UTC: ClickHouse has no types for them.",
		"Needs the privilege NAMED COLLECTION ADMIN; without it give the functions what the collections say.",
	}
	if d.Place.Scheme != "s3" {
		return append(notes, "Not executed: only a bucket on S3 was at hand.")
	}
	notes = append(notes, "The server finds credentials in its environment; or give each collection access_key_id and secret_access_key instead.")
	if d.Place.Endpoint != "" && d.Place.Region != "" {
		notes = append(notes, "It cannot ask this service for its region. Name it in the server's configuration:",
			fmt.Sprintf("<clickhouse><s3><ploti><endpoint>%s/</endpoint><region>%s</region></ploti></s3></clickhouse>", d.address(), d.Place.Region))
	}
	return notes
}

// function is what reads a table in this kind of store.
func (d clickhouseDialect) function() string {
	switch d.Place.Scheme {
	case "azblob":
		return "deltaLakeAzure"
	case "file":
		return "deltaLakeLocal"
	}
	return "deltaLake"
}

// address is the bucket as ClickHouse names it.
func (d clickhouseDialect) address() string {
	endpoint := d.Place.Endpoint
	switch {
	case d.Place.Scheme == "gs":
		endpoint = "https://storage.googleapis.com"
	case endpoint == "" && d.Place.Region == "":
		endpoint = "https://s3.amazonaws.com"
	case endpoint == "":
		endpoint = "https://s3." + d.Place.Region + ".amazonaws.com"
	}
	return strings.TrimSuffix(endpoint, "/") + "/" + d.Place.Bucket
}

func (clickhouseDialect) begin() string { return "" }

func (d clickhouseDialect) table(name, key string) string {
	where := fmt.Sprintf("url = %s, use_environment_credentials = 1", literal(d.address()+"/"+d.Place.Prefix+key))
	switch d.Place.Scheme {
	case "azblob":
		where = fmt.Sprintf("storage_account_url = %s, container = %s, blob_path = %s",
			literal("https://"+d.Place.Account+".blob.core.windows.net"), literal(d.Place.Bucket), literal(d.Place.Prefix+key))
	case "file":
		where = "path = " + literal(d.Place.Prefix+key)
	}
	name = d.Database + "_" + name
	return fmt.Sprintf("DROP NAMED COLLECTION IF EXISTS %s;\nCREATE NAMED COLLECTION %s AS %s;\n", name, name, where)
}

package main

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"

	"feedmirror/internal/config"
	"feedmirror/internal/tables"
	"feedmirror/mirror"
	"feedmirror/state"
)

type ddlCommand struct {
	config.FileFlags
	config.BucketFlags
	Engine   string   `required:"" enum:"athena,spark,trino,duckdb,clickhouse,snowflake,bigquery,polars" help:"Query engine: ${enum}."`
	Datasets []string `name:"datasets" placeholder:"GLOB,..." help:"Only datasets whose id matches one of these globs."`
	Database string   `default:"ploti" help:"Database or schema that the tables are made in."`
}

// Help is printed below the flags' list.
func (ddlCommand) Help() string {
	return `Prints statements to paste into a query engine, for this bucket's real names and types: a table for each dataset's published
version, one for its attachments, one for all changes, one for all publications. Tables follow the pointer by themselves; paste
them again when a dataset is new or a schema has changed. Nothing is written to the bucket.

Examples:
  mirror ddl --engine duckdb --bucket file:///srv/feeds
  mirror ddl --engine athena --datasets 'ds_orange_*' --bucket 's3://my-bucket/feeds?region=us-east-1'`
}

// Run implements command.
func (c *ddlCommand) Run(ctx context.Context, env environment) (int, error) {
	a, err := newApp(c, env, false)
	if err != nil {
		return 0, err
	}
	defer a.close()
	store, err := a.openBucket(ctx, true)
	if err != nil {
		return 0, err
	}
	defer store.Close()                                     //nolint:errcheck // nothing is buffered in a store
	if _, err := state.LoadLayout(ctx, store); err != nil { // a newer one is refused
		return 0, err
	}
	described, err := mirror.Describe(ctx, store, func(dataset string) bool { return mirror.InFilter(dataset, c.Datasets) })
	if err != nil {
		return 0, err
	}
	script := tables.DDL{Engine: tables.Engine(c.Engine), Place: placeOf(a.settings.Bucket), Database: c.Database, Datasets: described}
	return mirror.ExitDone, script.Write(env.out)
}

// placeOf reads a bucket's URL, which open.Check accepted, for scripts.
func placeOf(raw string) tables.Place {
	address, err := url.Parse(raw)
	if err != nil {
		return tables.Place{}
	}
	query := address.Query()
	place := tables.Place{Scheme: address.Scheme, Bucket: address.Hostname(), Prefix: strings.Trim(address.Path, "/"),
		Endpoint: query.Get("endpoint"), Region: query.Get("region"), PathStyle: query.Get("path_style") == "true", Account: query.Get("account")}
	if address.Scheme == "file" {
		folder := address.Path
		if address.Opaque != "" {
			folder = address.Opaque
		}
		if absolute, err := filepath.Abs(folder); err == nil {
			folder = absolute
		}
		place.Bucket, place.Prefix = "", strings.TrimSuffix(folder, "/")
	}
	if place.Prefix != "" {
		place.Prefix += "/"
	}
	return place
}

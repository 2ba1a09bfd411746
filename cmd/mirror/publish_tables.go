package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"feedmirror/internal/config"
	"feedmirror/internal/telemetry"
	"feedmirror/mirror"
)

type publishTablesCommand struct {
	config.FileFlags
	config.BucketFlags
	config.OutputFlags
	Datasets      []string `name:"datasets" placeholder:"GLOB,..." help:"Only datasets whose id matches one of these globs."`
	Rebuild       []string `placeholder:"DATASET,..." help:"Write the tables of these datasets' snapshots and attachments anew, under new table ids. Their logs are deleted first."`
	RebuildShared []string `name:"rebuild-shared" placeholder:"TABLE,..." enum:"changes,publications" help:"Write tables of all datasets anew: ${enum}."`
}

// Help is printed below the flags' list.
func (publishTablesCommand) Help() string {
	return `Brings the Delta tables below snapshot/, attachment_index/, changes/ and publications/ up to date with the pointers, as sync does at
its end: after a pass that died, or in a bucket that was mirrored before there were tables. Where nothing is to be done it writes nothing.

A damaged log is left alone, since only a person can say that its readers may begin anew: mirror verify names it, --rebuild writes it
anew. It deletes the log from the newest commit down, so that a query that comes in between sees an older state of the table or
none, never a mixture. The new table begins with the published version; older ones are found by their records. Rows of publications
come from its own files and from what the pointers remember. What neither knows is told.

Examples:
  mirror publish-tables --bucket file:///srv/feeds
  mirror publish-tables --bucket s3://my-bucket/feeds --rebuild ds_orange_fl_zoning
  mirror publish-tables --bucket s3://my-bucket/feeds --rebuild-shared changes,publications

Exit code 1 says that a table is damaged or could not be written.`
}

// Run implements command.
func (c *publishTablesCommand) Run(ctx context.Context, env environment) (int, error) {
	a, err := newApp(c, env, true)
	if err != nil {
		return 0, err
	}
	defer a.close()
	store, err := a.openBucket(ctx, true)
	if err != nil {
		return 0, err
	}
	defer store.Close() //nolint:errcheck // nothing is buffered in a store
	if err := a.checkLayout(ctx, store); err != nil {
		return 0, err
	}
	options := mirror.PublishTablesOptions{Store: store, Tables: a.tables(store), Rebuild: c.Rebuild,
		RebuildChanges: slices.Contains(c.RebuildShared, "changes"), RebuildPublications: slices.Contains(c.RebuildShared, "publications"),
		Select:   func(dataset string) bool { return mirror.InFilter(dataset, c.Datasets) },
		LeaseTTL: a.settings.LeaseTTL, Run: a.run, Host: a.host, Tool: "mirror " + version, Now: a.now, Pause: pause,
		Stage: func(text string) { a.progress.Stage("publish-tables", text) }}
	report, err := mirror.PublishTables(ctx, options)
	a.close()
	if err != nil {
		return 0, err
	}
	if a.settings.Output == config.OutputJSON {
		return report.Exit, printJSON(env, report)
	}
	printTables(env.out, report)
	return report.Exit, nil
}

func printTables(out io.Writer, r mirror.PublishTablesReport) {
	for _, t := range r.Tables {
		switch {
		case t.Reason != "":
			telemetry.Linef(out, "none     %s: %s\n", t.Root, t.Reason)
		case t.Deleted > 0:
			telemetry.Linef(out, "rebuilt  %s: %d files of its log deleted, written anew\n", t.Root, t.Deleted)
		case t.Written:
			telemetry.Linef(out, "written  %s: commit %d\n", t.Root, t.Commit)
		}
	}
	for _, note := range r.Notes {
		subject := ""
		if note.Dataset != "" {
			subject = note.Dataset + ": "
		}
		telemetry.Linef(out, "note     %s%s (%s)\n", subject, note.Message, note.Kind)
	}
	for _, f := range r.Failures {
		telemetry.Linef(out, "failed   %s: %s\n", f.Object, f.Message)
		if f.Hint != "" {
			telemetry.Linef(out, "         %s\n", f.Hint)
		}
	}
	if r.Written == 0 && len(r.Failures) == 0 {
		fmt.Fprintf(out, "all %d tables show what is published\n", len(r.Tables))
		return
	}
	fmt.Fprintf(out, "%s: %d of %d tables written\n", r.Status, r.Written, len(r.Tables))
}

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"feedmirror/internal/config"
	"feedmirror/internal/telemetry"
	"feedmirror/mirror"
)

type syncCommand struct {
	config.Flags
}

// Help is printed below the flags' list.
func (syncCommand) Help() string {
	return `Examples:
  mirror sync --bucket file:///srv/feeds
  mirror sync --bucket 's3://my-bucket/feeds?region=us-east-1' --datasets 'ds_orange_*' --max-duration 50m
  mirror sync --bucket gs://my-bucket/feeds --shard 0/4 --output json

It can be stopped at any time and run again: finished files are kept, and nothing is fetched twice.
Two at once do no harm: the second leaves alone what the first works on, says "busy", and takes over only from a run that died.`
}

// Run implements command.
func (c *syncCommand) Run(ctx context.Context, env environment) (int, error) {
	a, err := newApp(c, env, true)
	if err != nil {
		return 0, err
	}
	defer a.close()
	if limit := a.settings.MaxDuration; limit > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, limit, mirror.ErrBudget)
		defer cancel()
		ctx = limited
	}
	options, err := a.passOptions(ctx)
	if err != nil {
		return 0, err
	}
	report := mirror.Run(ctx, options)
	a.close()
	if a.settings.Output == config.OutputJSON {
		return report.Exit, printJSON(env, report)
	}
	printReport(env.out, report)
	return report.Exit, nil
}

// printReport prints a pass for people: what happened, what waits, what went wrong, what to type.
func printReport(out io.Writer, r mirror.Report) {
	telemetry.Linef(out, "%s pass: %s in %s\n", r.Pass, r.Status, (time.Duration(r.Seconds * float64(time.Second))).Round(time.Millisecond))
	if r.Status != "refused" {
		printCounts(out, r)
	}
	for _, held := range r.Held {
		telemetry.Linef(out, "held    %s version %d (%s): %s\n", held.Dataset, held.Version, held.Reason, held.Next)
	}
	for _, note := range r.Notes {
		telemetry.Linef(out, "note    %s: %s\n", subject(note.Dataset, note.Version), note.Message)
	}
	for _, failure := range r.Failures {
		telemetry.Linef(out, "failed  %s: %s\n", subject(failure.Dataset, failure.Version), failure.Message)
		if failure.Hint != "" {
			telemetry.Linef(out, "        %s\n", failure.Hint)
		}
	}
}

func printCounts(out io.Writer, r mirror.Report) {
	telemetry.Linef(out, "  datasets  %d looked at, %d changed, %d failed, %d owed\n", r.Datasets.Seen, r.Datasets.Changed, r.Datasets.Failed, r.Datasets.Owed)
	telemetry.Linef(out, "  versions  %d committed, %d published, %d gone at the feed\n", r.Versions.Committed, r.Versions.Published, r.Versions.Gone)
	telemetry.Linef(out, "  files     %d copied (%s), %d there already, %d failed; %s saved by deduplication\n",
		r.Files.Copied, telemetry.FormatBytes(r.Bytes.Copied), r.Files.Present, r.Files.Failed, telemetry.FormatBytes(r.Bytes.Deduplicated))
	q := r.Requests
	telemetry.Linef(out, "  requests  feed %d, links %d, source %d, bucket %d read, %d write, %d list\n", q.Feed, q.Links, q.Source, q.BucketRead, q.BucketWrite, q.BucketList)
}

func subject(dataset string, version int64) string {
	switch {
	case dataset == "":
		return "pass"
	case version == 0:
		return dataset
	default:
		return fmt.Sprintf("%s version %d", dataset, version)
	}
}

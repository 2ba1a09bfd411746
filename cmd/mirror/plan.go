package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"

	"feedmirror/internal/config"
	"feedmirror/internal/telemetry"
	"feedmirror/mirror"
)

type planCommand struct {
	config.Flags
}

// Help is printed below the flags' list.
func (planCommand) Help() string {
	return `Reads the feed and the bucket and writes to neither.

Example:
  mirror plan --bucket file:///srv/feeds --datasets 'ds_orange_*'`
}

// Run implements command.
func (c *planCommand) Run(ctx context.Context, env environment) (int, error) {
	a, err := newApp(c, env, false)
	if err != nil {
		return 0, err
	}
	defer a.close()
	if err := a.standInForMissingFolder(); err != nil {
		return 0, err
	}
	options, err := a.passOptions(ctx)
	if err != nil {
		return 0, err
	}
	plan, err := mirror.MakePlan(ctx, options)
	a.close()
	if err != nil {
		return 0, err
	}
	if a.settings.Output == config.OutputJSON {
		err = printJSON(env, plan)
	} else {
		err = printPlan(env.out, plan)
	}
	if len(plan.Failures) > 0 {
		return mirror.ExitFailed, err
	}
	return mirror.ExitDone, err
}

func printPlan(out io.Writer, plan mirror.Plan) error {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	if len(plan.Datasets) > 0 {
		fmt.Fprintln(table, "DATASET\tVERSION\tACTION\tSCHEMA\tFILES\tSIZE")
	}
	for _, dataset := range plan.Datasets {
		for _, v := range dataset.Versions {
			size := telemetry.FormatBytes(v.Bytes)
			if !v.AttachmentsCounted {
				size += " and its attachments"
			}
			if v.Action != "copy" {
				size = "the feed no longer has it"
			}
			telemetry.Linef(table, "%s\t%d\t%s\t%s\t%d\t%s\n", dataset.Dataset, v.Version, v.Action, v.Schema, v.Files, size)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print plan: %w", err)
	}
	for _, failure := range plan.Failures {
		telemetry.Linef(out, "failed  %s: %s\n", subject(failure.Dataset, failure.Version), failure.Message)
	}
	telemetry.Linef(out, "%s pass: %d datasets to change, %d files, %s; %d attachments need no copy of their own\n",
		plan.Pass, len(plan.Datasets), plan.Total.Files, telemetry.FormatBytes(plan.Total.Bytes), plan.Total.Deduplicated)
	telemetry.Linef(out, "requests for it: %d for links, %d downloads, %d bucket writes\n", plan.Requests.Links, plan.Requests.Source, plan.Requests.BucketWrite)
	return nil
}

// standInForMissingFolder plans for a folder that is not there yet over an empty one: a plan writes
// nothing, not even the folder.
func (a *app) standInForMissingFolder() error {
	path, isFolder := strings.CutPrefix(a.settings.Bucket, "file://")
	if !isFolder {
		return nil
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	empty, err := os.MkdirTemp("", "mirror-plan-")
	if err != nil {
		return fmt.Errorf("plan for a new folder: %w", err)
	}
	a.stop = append(a.stop, func() { _ = os.RemoveAll(empty) }) // it holds nothing
	a.settings.Bucket = "file://" + empty
	return nil
}

package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"feedmirror/internal/config"
	"feedmirror/internal/report"
	"feedmirror/mirror"
	"feedmirror/state"
)

type statusCommand struct {
	config.FileFlags
	config.BucketFlags
	config.OutputFlags
	Datasets []string `name:"datasets" placeholder:"GLOB,..." help:"Show only datasets whose id matches one of these globs."`
}

// Help is printed below the flags' list.
func (statusCommand) Help() string {
	return `Reads the bucket only; what the feed had is what the last pass saw.

Example:
  mirror status --bucket file:///srv/feeds`
}

// Run implements command.
func (c *statusCommand) Run(ctx context.Context, env environment) (int, error) {
	a, err := newApp(c, env, false)
	if err != nil {
		return 0, err
	}
	defer a.close()
	store, err := a.openBucket(ctx, true)
	if err != nil {
		return 0, err
	}
	defer store.Close() //nolint:errcheck // only read from
	if _, err := state.LoadLayout(ctx, store); err != nil {
		return 0, err
	}
	selected := func(dataset string) bool { return mirror.InFilter(dataset, c.Datasets) }
	status, err := report.BuildStatus(ctx, store, selected, a.now())
	if err != nil {
		return 0, err
	}
	a.close()
	if a.settings.Output == config.OutputJSON {
		return mirror.ExitDone, printJSON(env, status)
	}
	return mirror.ExitDone, printStatus(env.out, status)
}

func printStatus(out io.Writer, status report.Status) error {
	if len(status.Shards) == 0 {
		_, err := fmt.Fprintln(out, "no pass was made over this bucket yet; type: mirror sync --bucket ...")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "DATASET\tSTATE\tPUBLISHED\tMIRRORED\tFEED\tSCHEMA\tLAG\tWHAT\tNEXT")
	for _, d := range status.Datasets {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Dataset, d.State, number(int64(d.Published)), number(int64(d.Newest)),
			number(int64(d.FeedCurrent)), d.Schema, lagText(d.Lag), d.Message, d.Next)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	for _, shard := range status.Shards {
		success := "never"
		if shard.LastSuccess != nil {
			success = ago(status.At, *shard.LastSuccess)
		}
		fmt.Fprintf(out, "last pass %s (exit %d), last success %s, %d datasets owed\n", ago(status.At, shard.LastAttempt), shard.LastExit, success, shard.Owed)
	}
	for _, dataset := range status.LeftOut {
		fmt.Fprintf(out, "subscribed, but left out by --datasets: %s\n", dataset)
	}
	return nil
}

func number(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func lagText(lag report.Lag) string {
	if lag.Versions == 0 {
		return "-"
	}
	text := fmt.Sprintf("%d+ versions", lag.Versions)
	if lag.Seconds > 0 {
		text += ", " + shortDuration(time.Duration(lag.Seconds*float64(time.Second)))
	}
	return text
}

func ago(now, then time.Time) string { return shortDuration(now.Sub(then)) + " ago" }

func shortDuration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return d.Round(time.Minute).String()
	default:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"feedmirror/internal/config"
	"feedmirror/internal/report"
	"feedmirror/internal/telemetry"
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
	if len(status.Datasets) == 0 {
		_, err := fmt.Fprintln(out, "no dataset is selected; mirror status without --datasets lists them all")
		return err
	}
	if err := printDatasets(out, status); err != nil {
		return err
	}
	for _, d := range status.Datasets {
		if d.Next != "" {
			telemetry.Linef(out, "next: %s    (%s)\n", d.Next, d.State)
		}
	}
	for _, d := range status.Datasets {
		if d.Table != "" {
			telemetry.Linef(out, "no table, or a stale one: %s: %s\n", d.Dataset, d.Table)
		}
	}
	printNotices(out, status)
	for _, shard := range status.Shards {
		printShard(out, status, shard)
	}
	for _, dataset := range status.LeftOut {
		telemetry.Linef(out, "subscribed, but left out by --datasets: %s\n", dataset)
	}
	return nil
}

func printNotices(out io.Writer, status report.Status) {
	for _, d := range status.Datasets {
		for _, notice := range d.Notices {
			others := ""
			if notice.Versions > 1 {
				others = fmt.Sprintf(" and %d below it", notice.Versions-1)
			}
			telemetry.Linef(out, "note: %s version %d%s: %s: %s\n", d.Dataset, notice.Version, others, notice.Kind, notice.Message)
		}
	}
	if p := status.Prune; p != nil {
		telemetry.Linef(out, "prune %s: %d versions, by run %s on %s, last sign of life %s; if it died: %s\n",
			p.State, p.Versions, p.Run, p.Host, ago(status.At, p.At), p.Next)
	}
}

func printShard(out io.Writer, status report.Status, shard report.ShardStatus) {
	if shard.Idle {
		telemetry.Linef(out, "not used for %s: %s (--datasets %s, --history %s); the %d datasets that it owes do not count\n",
			shortDuration(status.At.Sub(shard.LastAttempt)), shard.Key, cmp.Or(strings.Join(shard.Filter, ","), "all"), shard.History, shard.Owed)
		return
	}
	success := "never"
	if shard.LastSuccess != nil {
		success = ago(status.At, *shard.LastSuccess)
	}
	telemetry.Linef(out, "last pass %s (exit %d), last success %s\n", ago(status.At, shard.LastAttempt), shard.LastExit, success)
	if shard.Owed > 0 {
		telemetry.Linef(out, "the next pass looks again at: %s\n", listOf(shard.OwedSome, shard.Owed))
	}
}

func printDatasets(out io.Writer, status report.Status) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "DATASET\tSTATE\tPUBLISHED\tMIRRORED\tFEED\tSCHEMA\tLAG\tWHAT")
	for _, d := range status.Datasets {
		telemetry.Linef(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Dataset, d.State, number(int64(d.Published)), number(int64(d.Newest)),
			number(int64(d.FeedCurrent)), d.Schema, lagText(d.Lag), d.Message)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// listOf joins some of all.
func listOf(some []string, all int) string {
	text := strings.Join(some, ", ")
	if more := all - len(some); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
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
	text := strconv.Itoa(lag.Versions)
	if lag.AtLeast {
		text += "+"
	}
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

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"feedmirror/internal/audit"
	"feedmirror/internal/config"
	"feedmirror/internal/fault"
	"feedmirror/internal/telemetry"
	"feedmirror/mirror"
)

type verifyCommand struct {
	config.FileFlags
	config.BucketFlags
	config.OutputFlags
	Level    string   `default:"bytes" enum:"chain,inventory,checksum,bytes" help:"How deep to look: chain (documents and hashes of records), inventory (+ every object and its size), checksum (+ what the store itself keeps), bytes (+ reads and hashes everything)."`
	Datasets []string `name:"datasets" placeholder:"GLOB,..." help:"Audit only datasets whose id matches one of these globs."`
	Workers  int      `default:"8" help:"Objects read at the same time."`
}

// Help is printed below the flags' list.
func (verifyCommand) Help() string {
	return `Examples:
  mirror verify --bucket file:///srv/feeds
  mirror verify --bucket s3://my-bucket/feeds --level inventory --output json

Exit code 3 says that something was found. What could not be checked is counted as not checked. An object whose tag at the
store is another one than when it was committed is read at the levels below bytes too: of a bucket that was copied, all are.`
}

// Run implements command.
func (c *verifyCommand) Run(ctx context.Context, env environment) (int, error) {
	if c.Workers < 1 {
		return 0, &fault.Error{Op: "read setting", Object: "workers", Side: fault.SideConfig, Kind: fault.Usage, Err: fmt.Errorf("%d from --workers: want at least 1", c.Workers)}
	}
	a, err := newApp(c, env, true)
	if err != nil {
		return 0, err
	}
	defer a.close()
	store, err := a.openBucket(ctx, true)
	if err != nil {
		return 0, err
	}
	defer store.Close() //nolint:errcheck // only read from
	report, err := audit.Run(ctx, audit.Options{
		Reader: store, Level: audit.Level(c.Level), Workers: c.Workers, Now: a.now, Partial: len(c.Datasets) > 0,
		Select:  func(dataset string) bool { return mirror.InFilter(dataset, c.Datasets) },
		Planned: func(objects, bytes int64) { a.progress.Planned("", objects, bytes) },
		Checked: func() { a.progress.Finished("") },
		Read:    func(bytes int64) { a.progress.Bytes("", int(bytes)) },
		Stage:   func(text string) { a.progress.Stage("verify", text) },
	})
	a.close()
	if err != nil {
		return 0, err
	}
	if a.settings.Output == config.OutputJSON {
		return report.Exit, printJSON(env, report)
	}
	printAudit(env.out, report)
	return report.Exit, nil
}

func printAudit(out io.Writer, r audit.Report) {
	for _, note := range r.Notes {
		fmt.Fprintf(out, "note     %-14s %s: %s\n", note.Kind, note.Key, note.Detail)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(out, "finding  %-14s %s: %s (%s)\n", f.Kind, f.Key, f.Detail, subjectOf(f))
		if f.Hint != "" {
			fmt.Fprintf(out, "         %s\n", f.Hint)
		}
	}
	c, n := r.Checked, r.NotChecked
	fmt.Fprintf(out, "%s at level %s in %s: %d datasets, %d records, %d objects (%d attachments), %s read\n",
		r.Status, r.Level, (time.Duration(r.Seconds * float64(time.Second))).Round(time.Millisecond), c.Datasets, c.Records, c.Objects, c.Attachments, telemetry.FormatBytes(c.Bytes))
	if n.Objects > 0 || n.Pruned > 0 {
		fmt.Fprintf(out, "not checked: %d objects (%d without a checksum at the store, %d archived, %d unreadable), %d pruned versions\n",
			n.Objects, n.NoChecksum, n.Archived, n.Unreadable, n.Pruned)
	}
	if found := len(r.Findings); found == 1 {
		fmt.Fprintln(out, "1 finding")
	} else if found > 1 {
		fmt.Fprintf(out, "%d findings\n", found)
	}
}

func subjectOf(f audit.Finding) string {
	if f.Dataset == "" {
		return "no dataset"
	}
	return subject(f.Dataset, f.Version)
}

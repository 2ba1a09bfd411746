package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/config"
	"feedmirror/internal/fault"
	"feedmirror/internal/telemetry"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

type pruneCommand struct {
	config.FileFlags
	config.BucketFlags
	config.OutputFlags
	KeepVersions int      `placeholder:"N" help:"Keep the N newest versions, counted from the published one."`
	KeepDays     int      `placeholder:"D" help:"Keep versions that readers were led to in the last D days."`
	KeepMajors   int      `placeholder:"N" help:"Keep the newest version of each of the N newest MAJOR schemas."`
	Grace        string   `default:"24h" help:"Keep versions for this long after readers were led elsewhere, whatever the rules say."`
	Datasets     []string `name:"datasets" placeholder:"GLOB,..." help:"Prune only datasets whose id matches one of these globs."`
	Apply        bool     `help:"Delete. Without it the plan is printed, and nothing is written."`
	Resume       bool     `help:"Finish a prune that died. Make sure first that its process is gone."`
	Uncommitted  bool     `help:"Clear what was copied of one version that was never committed: DATASET VERSION. Deletes at once."`
	Dataset      string   `arg:"" optional:"" help:"With --uncommitted: the dataset's id."`
	Number       int64    `arg:"" optional:"" name:"version" help:"With --uncommitted: the version."`
}

// Help is printed below the flags' list.
func (pruneCommand) Help() string {
	return `What any rule keeps is kept; so are the published version and all above it. Prints the plan; --apply carries it out.

Examples:
  mirror prune --bucket file:///srv/feeds --keep-versions 30
  mirror prune --bucket file:///srv/feeds --keep-days 365 --keep-majors 2 --apply
  mirror prune --bucket file:///srv/feeds --resume
  mirror prune --bucket file:///srv/feeds --uncommitted ds_orange_fl_zoning 43

Records stay, and say what was published. Exit code 1 says that deletes were refused, 5 that the right to delete is missing, 6 that the prune is unfinished.`
}

// Run implements command.
func (c *pruneCommand) Run(ctx context.Context, env environment) (int, error) {
	grace, err := c.check()
	if err != nil {
		return 0, err
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
	defer store.Close() //nolint:errcheck // nothing is buffered in a store
	report, err := c.carryOut(ctx, c.options(a, store, grace))
	a.close()
	if err != nil {
		return 0, err
	}
	if a.settings.Output == config.OutputJSON {
		return report.Exit, printJSON(env, report)
	}
	printPrune(env.out, report)
	return report.Exit, nil
}

// check refuses flags that contradict each other, and reads the grace.
func (c *pruneCommand) check() (time.Duration, error) {
	if problem := c.problem(); problem != "" {
		return 0, &fault.Error{Op: "prune", Side: fault.SideConfig, Kind: fault.Usage, Err: errors.New(problem), Hint: "mirror prune --help shows examples."}
	}
	grace, err := config.ParseDuration(c.Grace)
	if err != nil {
		return 0, &fault.Error{Op: "prune", Object: "--grace", Side: fault.SideConfig, Kind: fault.Usage,
			Err: fmt.Errorf("want a time such as 24h or 7d, got %q", c.Grace)}
	}
	return grace, nil
}

func (c *pruneCommand) problem() string {
	narrowed := c.KeepVersions != 0 || c.KeepDays != 0 || c.KeepMajors != 0 || len(c.Datasets) > 0
	named := c.Dataset != "" && c.Number != 0
	switch {
	case c.Resume && c.Uncommitted:
		return "--resume and --uncommitted exclude each other"
	case (c.Resume || c.Uncommitted) && narrowed:
		return "--resume and --uncommitted take no rules and no --datasets"
	case c.Uncommitted && !named:
		return "--uncommitted needs DATASET and VERSION"
	case !c.Uncommitted && c.Dataset != "":
		return "DATASET and VERSION belong to --uncommitted; rules take --datasets"
	}
	return ""
}

func (c *pruneCommand) options(a *app, store bucket.Store, grace time.Duration) mirror.PruneOptions {
	return mirror.PruneOptions{
		Store: store, Filter: c.Datasets, Apply: c.Apply, AcceptWeakLocking: a.settings.AcceptWeakLocking, LeaseTTL: a.settings.LeaseTTL, Run: a.run, Host: a.host, Tool: "mirror " + version,
		Rules: manifest.KeepRules{Versions: c.KeepVersions, Days: c.KeepDays, Majors: c.KeepMajors, Grace: grace},
		Now:   a.now, Pause: pause, Stage: func(text string) { a.progress.Stage("prune", text) }, Tables: a.tables(store),
	}
}

func (c *pruneCommand) carryOut(ctx context.Context, o mirror.PruneOptions) (mirror.PruneReport, error) {
	switch {
	case c.Resume:
		return mirror.ResumePrune(ctx, o)
	case c.Uncommitted:
		return mirror.ClearUncommitted(ctx, o, c.Dataset, manifest.Number(c.Number))
	default:
		return mirror.Prune(ctx, o)
	}
}

func printPrune(out io.Writer, r mirror.PruneReport) {
	for _, v := range r.Versions {
		telemetry.Linef(out, "prune   %s version %d: %d files, %s; %s\n", v.Dataset, v.Version, v.Objects, telemetry.FormatBytes(v.Bytes), v.Why)
	}
	for _, v := range r.Kept {
		telemetry.Linef(out, "keep    %s version %d: %s\n", v.Dataset, v.Version, v.Why)
	}
	for _, note := range r.Notes {
		telemetry.Linef(out, "note    %s: %s\n", pruneSubject(note), note.Message)
	}
	for _, f := range r.Refused {
		telemetry.Linef(out, "refused %s: %s\n", f.Object, f.Message)
	}
	if more := r.RefusedCount - int64(len(r.Refused)); more > 0 {
		telemetry.Linef(out, "refused %d more\n", more)
	}
	total := r.Total()
	telemetry.Linef(out, "%s: %d versions, %d attachments (%s), %d old reports; %d objects, %s in all\n", r.Status, len(r.Versions),
		r.Attachments.Objects, telemetry.FormatBytes(r.Attachments.Bytes), r.Reports.Objects, total.Objects, telemetry.FormatBytes(total.Bytes))
	if r.More {
		fmt.Fprintln(out, "there are more attachments to delete than one prune takes; the next one goes on")
	}
	if !r.Applied {
		fmt.Fprintln(out, "nothing was deleted; --apply does it")
		return
	}
	telemetry.Linef(out, "deleted %d objects, %s; %d deletes were refused\n", r.Deleted.Objects, telemetry.FormatBytes(r.Deleted.Bytes), r.RefusedCount)
}

func pruneSubject(note mirror.Note) string {
	if note.Dataset == "" {
		return "prune"
	}
	return subject(note.Dataset, note.Version)
}

package main

import (
	"context"
	"fmt"

	"feedmirror/internal/config"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

type routeCommand struct {
	config.FileFlags
	config.BucketFlags
	config.OutputFlags
	Dataset string `arg:"" help:"The dataset's id, as mirror status shows it."`
	From    int64  `required:"" placeholder:"VERSION" help:"The version that the consumer holds; 0 for none."`
	To      int64  `placeholder:"VERSION" help:"The version it wants; the published one if left away."`
}

// Help is printed below the flags' list.
func (routeCommand) Help() string {
	return `The shortest correct way for a consumer from the version that it holds: which changes to apply in which order, or which
snapshot to reload from, and which id maps rewrite ids that it keeps elsewhere. It needs the bucket alone.

Examples:
  mirror route ds_orange_fl_building_permits --from 41 --bucket file:///srv/feeds
  mirror route ds_orange_fl_building_permits --from 41 --to 45 --bucket file:///srv/feeds --output json`
}

// Run implements command.
func (c *routeCommand) Run(ctx context.Context, env environment) (int, error) {
	if c.From < 0 || c.To < 0 {
		return 0, &fault.Error{Op: "find a route", Object: c.Dataset, Side: fault.SideConfig, Kind: fault.Usage,
			Err: fmt.Errorf("--from %d --to %d: a version is no negative number", c.From, c.To)}
	}
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
	report, err := mirror.Route(ctx, store, c.Dataset, manifest.Number(c.From), manifest.Number(c.To))
	if err != nil {
		return 0, err
	}
	if a.settings.Output == config.OutputJSON {
		return mirror.ExitDone, printJSON(env, report)
	}
	printRoute(env, report)
	return mirror.ExitDone, nil
}

func printRoute(env environment, report mirror.RouteReport) {
	fmt.Fprintf(env.out, "%s from version %d to %d\n", report.Dataset, report.From, report.To)
	if len(report.Steps) == 0 {
		fmt.Fprintln(env.out, "  nothing to do")
	}
	for _, step := range report.Steps {
		switch step.Do {
		case mirror.RouteReload:
			fmt.Fprintf(env.out, "  reload from the snapshot of %d (%s)\n", step.Version, step.Why)
		case mirror.RouteApply:
			fmt.Fprintf(env.out, "  apply the changes of %d\n", step.Version)
		case mirror.RouteRewrite:
			fmt.Fprintf(env.out, "  rewrite ids that you keep elsewhere with the map of %d\n", step.Version)
		case mirror.RouteRewriteBack:
			fmt.Fprintf(env.out, "  rewrite ids that you keep elsewhere with the map of %d, from new to previous\n", step.Version)
		}
		for _, file := range step.Files {
			fmt.Fprintf(env.out, "    %s  %s\n", file.SHA256, file.Key)
		}
	}
	for _, note := range report.Notes {
		fmt.Fprintf(env.out, "  note: %s\n", note)
	}
}

package main

import (
	"context"
	"fmt"
	"io"
	"os/user"

	"feedmirror/internal/config"
	"feedmirror/internal/telemetry"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

// decisionFlags are what approve and rollback have in common.
type decisionFlags struct {
	config.FileFlags
	config.BucketFlags
	config.PublishFlags
	config.OutputFlags
	Reason string `placeholder:"TEXT" help:"Why, for the record that stays in the bucket."`
}

type approveCommand struct {
	decisionFlags
	Dataset string `arg:"" help:"The dataset's id, as mirror status shows it."`
}

// Help is printed below the flags' list.
func (approveCommand) Help() string {
	return `Accepts what mirror status names as held (a MAJOR schema, content that contradicts the feed's own facts, a fork),
or lifts the pin of a rollback; where a version is held besides, it is accepted too. A further MAJOR is a new hold.

Example:
  mirror approve ds_orange_fl_building_permits --bucket file:///srv/feeds --reason 'loader takes schema 3'`
}

// Run implements command.
func (c *approveCommand) Run(ctx context.Context, env environment) (int, error) {
	return decide(ctx, env, c, c.Reason, c.Dataset, mirror.Approve)
}

type rollbackCommand struct {
	decisionFlags
	Dataset string `arg:"" help:"The dataset's id, as mirror status shows it."`
	To      int64  `arg:"" name:"version" help:"A version that is mirrored whole."`
}

// Help is printed below the flags' list.
func (rollbackCommand) Help() string {
	return `Readers are moved to VERSION at once and stay there, while newer versions are still copied. mirror approve moves them on.
A version above theirs that they never had, and that waits for an approval, is refused.

Example:
  mirror rollback ds_orange_fl_building_permits 42 --bucket file:///srv/feeds --reason 'wrong geometry in 43'`
}

// Run implements command.
func (c *rollbackCommand) Run(ctx context.Context, env environment) (int, error) {
	return decide(ctx, env, c, c.Reason, c.Dataset, func(ctx context.Context, o mirror.DecideOptions, dataset string) (state.Change, error) {
		return mirror.Rollback(ctx, o, dataset, manifest.Number(c.To))
	})
}

type retireCommand struct {
	decisionFlags
	Dataset string `arg:"" help:"The dataset's id, as mirror status shows it."`
}

// Help is printed below the flags' list.
func (retireCommand) Help() string {
	return `For a dataset that is no longer subscribed or wanted: no pass asks the feed about it, and its absence there is no failure.
Everything that is mirrored stays, its readers too, and mirror verify goes on to check it. mirror approve takes it up again.

Example:
  mirror retire ds_orange_fl_building_permits --bucket file:///srv/feeds --reason 'contract ended'`
}

// Run implements command.
func (c *retireCommand) Run(ctx context.Context, env environment) (int, error) {
	return decide(ctx, env, c, c.Reason, c.Dataset, mirror.Retire)
}

func decide(ctx context.Context, env environment, flags any, reason, dataset string,
	carryOut func(context.Context, mirror.DecideOptions, string) (state.Change, error)) (int, error) {
	a, err := newApp(flags, env, false)
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
	change, err := carryOut(ctx, mirror.DecideOptions{
		Docs: store, Pause: pause, OnMajor: manifest.OnMajor(a.settings.PublishOnMajor), Now: a.now, Run: a.run, Who: who(a.host), Reason: reason, Tables: a.tables(store), Log: a.log,
	}, dataset)
	a.close()
	if err != nil {
		return 0, err
	}
	after := change.After
	if after == nil { // nothing is published: the decision alone says it
		after = &state.Pointer{Dataset: dataset, Retired: carriesRetirement(flags)}
	}
	if a.settings.Output == config.OutputJSON {
		return mirror.ExitDone, printJSON(env, after)
	}
	if change.After == nil {
		printUnpublished(env.out, dataset, after.Retired)
		return mirror.ExitDone, nil
	}
	telemetry.Linef(env.out, "%s now reads version %d (schema %s)", dataset, after.Version, after.SchemaVersion)
	if change.Before != nil && change.Before.Version != after.Version {
		telemetry.Linef(env.out, ", before it was %d", change.Before.Version)
	}
	fmt.Fprintln(env.out)
	if after.Held != nil {
		telemetry.Linef(env.out, "version %d is held (%s)\n", after.Held.Version, after.Held.Reason)
	}
	if after.Retired {
		telemetry.Linef(env.out, "it is retired: no pass asks the feed about it until: mirror approve %s\n", dataset)
	}
	if after.Pinned {
		telemetry.Linef(env.out, "it stays there until: mirror approve %s\n", dataset)
	}
	return mirror.ExitDone, nil
}

func carriesRetirement(flags any) bool { _, ok := flags.(*retireCommand); return ok }

func printUnpublished(out io.Writer, dataset string, retired bool) {
	if retired {
		telemetry.Linef(out, "%s is retired; nothing of it was published. No pass asks the feed about it until: mirror approve %s\n", dataset, dataset)
		return
	}
	telemetry.Linef(out, "%s is taken up again; the next pass publishes what it can\n", dataset)
}

func who(host string) string {
	if current, err := user.Current(); err == nil {
		return current.Username + "@" + host
	}
	return "unknown@" + host
}

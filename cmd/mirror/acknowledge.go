package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"feedmirror/internal/config"
	"feedmirror/internal/fault"
	"feedmirror/internal/telemetry"
	"feedmirror/mirror"
)

type acknowledgeCommand struct {
	config.FileFlags
	config.BucketFlags
	config.OutputFlags
	Finding string `arg:"" help:"The finding's id, as mirror verify prints it."`
	Reason  string `required:"" placeholder:"TEXT" help:"Why, for the record that stays in the bucket."`
	Report  string `placeholder:"FILE" help:"Take the finding from this output of mirror verify --output json, where the bucket does not keep the audit."`
}

// Help is printed below the flags' list.
func (acknowledgeCommand) Help() string {
	return `The finding stays visible in every audit, with who took note of it and why. It decides no exit code until its facts
change: then it is another finding, with another id.

Example:
  mirror acknowledge 3f9c2e71ab04 --bucket file:///srv/feeds --reason 'lost before 2026, the source has it'`
}

// Run implements command.
func (c *acknowledgeCommand) Run(ctx context.Context, env environment) (int, error) {
	a, err := newApp(c, env, false)
	if err != nil {
		return 0, err
	}
	defer a.close()
	if strings.TrimSpace(c.Reason) == "" {
		return 0, &fault.Error{Op: "acknowledge", Object: c.Finding, Side: fault.SideConfig, Kind: fault.Usage, Err: errors.New("the reason is empty"), Hint: "Say why with --reason TEXT."}
	}
	report, err := c.report()
	if err != nil {
		return 0, err
	}
	store, err := a.openBucket(ctx, true)
	if err != nil {
		return 0, err
	}
	defer store.Close() //nolint:errcheck // nothing is buffered in a store
	if err := a.checkLayout(ctx, store); err != nil {
		return 0, err
	}
	decision, err := mirror.Acknowledge(ctx, mirror.DecideOptions{
		Docs: store, Pause: pause, Now: a.now, Run: a.run, Who: who(a.host), Reason: c.Reason}, c.Finding, report)
	a.close()
	if err != nil {
		return 0, err
	}
	if a.settings.Output == config.OutputJSON {
		return mirror.ExitDone, printJSON(env, decision)
	}
	telemetry.Linef(env.out, "acknowledged  %s  %s %s\n", decision.Finding.ID, decision.Finding.Kind, decision.Finding.Key)
	return mirror.ExitDone, nil
}

func (c *acknowledgeCommand) report() ([]byte, error) {
	if c.Report == "" {
		return nil, nil
	}
	report, err := os.ReadFile(c.Report)
	if err != nil {
		return nil, &fault.Error{Op: "read report", Object: c.Report, Side: fault.SideConfig, Kind: fault.Usage, Err: err, Hint: "Give the file that mirror verify --output json printed."}
	}
	return report, nil
}

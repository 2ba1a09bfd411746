package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"feedmirror/internal/bucket"
	"feedmirror/internal/config"
	"feedmirror/internal/report"
	"feedmirror/mirror"
)

type doctorCommand struct {
	config.FileFlags
	config.BucketFlags
	config.OutputFlags
}

// Help is printed below the flags' list.
func (doctorCommand) Help() string {
	return `Writes objects only below _mirror/doctor/ and deletes them again: races writers for creates and for swaps, sends wrong bytes
on purpose, looks whether what was written is listed, and compares clocks.

Example:
  mirror doctor --bucket 's3://my-bucket/feeds?region=us-east-1'`
}

type diagnosis struct {
	Fit    bool               `json:"fit"`
	Exit   int                `json:"exit"`
	Probe  bucket.ProbeReport `json:"probe"`
	Policy string             `json:"leastPolicy"`
	More   []report.Role      `json:"moreRights,omitempty"`
}

// Run implements command.
func (c *doctorCommand) Run(ctx context.Context, env environment) (int, error) {
	a, err := newApp(c, env, false)
	if err != nil {
		return 0, err
	}
	defer a.close()
	probe, err := a.probe(ctx)
	a.close()
	if err != nil {
		return 0, err
	}
	d := diagnosis{Fit: true, Probe: probe}
	unfit := probe.Unfit(a.settings.AcceptWeakLocking)
	if unfit != nil {
		d.Fit, d.Exit = false, mirror.ExitBucket
	}
	if d.Policy, err = report.LeastPolicy(a.settings.Bucket); err != nil {
		return 0, err
	}
	if d.More, err = report.MoreRights(a.settings.Bucket); err != nil {
		return 0, err
	}
	if a.settings.Output == config.OutputJSON {
		return d.Exit, printJSON(env, d)
	}
	if err := printDiagnosis(env.out, d); err != nil {
		return 0, err
	}
	if unfit != nil {
		return fail(env, unfit), nil
	}
	return mirror.ExitDone, nil
}

func printDiagnosis(out io.Writer, d diagnosis) error {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, finding := range d.Probe.Findings {
		fmt.Fprintf(table, "%s\t%s\t%s\n", finding.Verdict, finding.Name, finding.Text)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print findings: %w", err)
	}
	for _, key := range d.Probe.Leftovers {
		fmt.Fprintf(out, "left behind: %s\n", key)
	}
	switch {
	case d.Fit && d.Probe.Observed.WeakLocking():
		fmt.Fprintf(out, "\nnote: %s.\n", mirror.WeakLockingRules)
	case d.Fit:
		fmt.Fprintln(out, "\nThis bucket keeps the promises that the mirror rests on.")
	}
	_, err := fmt.Fprintf(out, "\nThe least rights that the mirror needs here:\n%s\n", d.Policy)
	for _, role := range d.More {
		fmt.Fprintf(out, "beside them, for %s: %s\n", role.Command, role.Rights)
	}
	return err
}

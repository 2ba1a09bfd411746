package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"feedmirror/internal/config"
	"feedmirror/internal/fault"
	"feedmirror/internal/telemetry"
	"feedmirror/mirror"
)

// commands are what mirror can do. Each has its own file.
type commands struct {
	Sync          syncCommand          `cmd:"" help:"Make one pass: copy every released version that the bucket lacks, verify it, move the pointers."`
	Plan          planCommand          `cmd:"" help:"Show what sync would do now and what it would cost. Writes nothing."`
	Status        statusCommand        `cmd:"" help:"Show each dataset at a glance: what is published, how far behind, what waits for a person."`
	Verify        verifyCommand        `cmd:"" help:"Audit the bucket, which needs neither the feed nor anybody's word, and repair it if told to."`
	Route         routeCommand         `cmd:"" help:"Print what a consumer at a version must apply, reload or rewrite to reach the published one."`
	Ddl           ddlCommand           `cmd:"" name:"ddl" help:"Print the statements that make tables over this bucket in a query engine."`
	PublishTables publishTablesCommand `cmd:"" name:"publish-tables" help:"Bring the tables that query engines read up to date with the pointers, or write damaged ones anew."`
	Approve       approveCommand       `cmd:"" help:"Accept what holds a dataset back, and move its pointer."`
	Rollback      rollbackCommand      `cmd:"" help:"Move a dataset's readers back to an earlier version, until approve."`
	Acknowledge   acknowledgeCommand   `cmd:"" help:"Take note of a finding of verify: it stays visible and decides no exit code until its facts change."`
	Retire        retireCommand        `cmd:"" help:"Stop mirroring a dataset; what is mirrored stays."`
	Prune         pruneCommand         `cmd:"" help:"Show what no rule keeps and nobody needs any more; with --apply, delete it."`
	Doctor        doctorCommand        `cmd:"" help:"Find out whether a bucket keeps the promises that a mirror rests on."`
	Demo          demoCommand          `cmd:"" help:"See it work: a simulated feed, a folder, no key, no cloud."`
	Version       versionCommand       `cmd:"" help:"Print the version."`
}

const description = `Mirror the versions of a Ploti Data Feed into your own bucket, verified, with a pointer that moves last.

Start with:
  mirror demo
  export PLOTI_API_KEY=...
  mirror doctor --bucket 's3://my-bucket/feeds?region=us-east-1'
  mirror sync   --bucket 's3://my-bucket/feeds?region=us-east-1' --datasets 'ds_orange_*'
  mirror status --bucket 's3://my-bucket/feeds?region=us-east-1'

Every setting can also stand in the environment (--transfer-concurrency is MIRROR_TRANSFER_CONCURRENCY)
or in a YAML file named by --config (transfer.concurrency).

Exit codes, the first that applies:
  2 usage or configuration    5 the bucket refused, or lacks a guarantee that is needed
  4 the feed refused          130, 143 interrupted, state saved
  1 some dataset failed       3 the audit found something
  6 stopped by a budget, by an unfinished prune or while the feed rebuilds a version; run again    0 done`

// environment is everything of the world that a command touches.
type environment struct {
	out, err io.Writer
	environ  []string
	now      func() time.Time
	terminal bool // whether err is one
	host     string
	program  string // how it was called
}

func system() environment {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return environment{out: os.Stdout, err: os.Stderr, environ: os.Environ(), now: time.Now,
		terminal: term.IsTerminal(int(os.Stderr.Fd())), host: host, program: os.Args[0]}
}

// command is one of commands, ready to run. It returns an exit code, or an error that decides it.
type command interface {
	Run(ctx context.Context, env environment) (int, error)
}

// run parses a command line, runs its command and returns the exit code.
func run(ctx context.Context, args []string, env environment) int {
	exit := -1
	env.out = telemetry.NewPlain(env.out) // nothing that is printed steers a terminal, whoever wrote it
	cli := new(commands)
	parser, err := kong.New(cli, kong.Name("mirror"), kong.Description(description), kong.Writers(env.out, env.err),
		kong.Exit(func(code int) { exit = code }), kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}))
	if err != nil {
		return fail(env, err)
	}
	switch {
	case len(args) == 0 || args[0] == "help":
		args = append([]string{"--help"}, args[min(len(args), 1):]...)
	case args[0] == "--version":
		args = []string{"version"}
	}
	parsed, err := config.ParseArgs(parser, args)
	if exit >= 0 { // --help was printed
		return exit
	}
	if parsed == nil {
		return fail(env, err)
	}
	chosen, ok := parsed.Selected().Target.Addr().Interface().(command)
	if !ok {
		return fail(env, fmt.Errorf("command %s cannot run", parsed.Command()))
	}
	if err != nil {
		return fail(env, errors.Join(err, settingsProblems(chosen, env)))
	}
	code, err := chosen.Run(ctx, env)
	if err != nil {
		return fail(env, causeOf(ctx, err))
	}
	return code
}

// settingsProblems returns what is wrong with a command's settings beside its unknown flags, so
// that all problems are told at once.
func settingsProblems(chosen command, env environment) error {
	_, err := config.Load(chosen, config.Source{Environ: env.environ})
	return err
}

// causeOf returns the signal or budget that ended a command instead of the error it ended with.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return context.Cause(ctx)
	}
	return err
}

// fail prints each problem with what to do about it, and returns the exit code.
func fail(env environment, err error) int {
	for _, problem := range problemsOf(err) {
		telemetry.Linef(env.err, "mirror: %s\n", fault.RedactText(problem.Error()))
		if hint := hintOf(problem); hint != "" {
			telemetry.Linef(env.err, "        %s\n", hint)
		}
	}
	return exitCode(err)
}

// hintOf returns what to do about an error that ended a command.
func hintOf(err error) string {
	if hint := fault.HintOf(err); hint != "" || !fault.Is(err, fault.Transient) || fault.SideOf(err) != fault.SideBucket {
		return hint
	}
	return "The bucket could not be reached: check the endpoint in --bucket and the way out to the network, then try again."
}

func problemsOf(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		var list []error
		for _, one := range joined.Unwrap() {
			list = append(list, problemsOf(one)...)
		}
		return list
	}
	return []error{err}
}

// exitCode returns the exit code that an error stands for.
func exitCode(err error) int {
	switch {
	case errors.Is(err, mirror.ErrInterrupted):
		return mirror.ExitInterrupted
	case errors.Is(err, mirror.ErrTerminated):
		return mirror.ExitTerminated
	case errors.Is(err, mirror.ErrBudget):
		return mirror.ExitStopped
	}
	switch fault.KindOf(err) {
	case fault.Usage:
		return mirror.ExitUsage
	case fault.FeedUnfit:
		return mirror.ExitFeed
	case fault.BucketUnfit, fault.Denied:
		return mirror.ExitBucket
	case fault.Budget, fault.Rebuilding:
		return mirror.ExitStopped
	case fault.Transient: // still, after all tries
		switch fault.SideOf(err) {
		case fault.SideBucket:
			return mirror.ExitBucket
		case fault.SideFeed:
			return mirror.ExitFeed
		}
	}
	return mirror.ExitFailed
}

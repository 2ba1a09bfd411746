package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"feedmirror/internal/audit"
	"feedmirror/internal/bucket"
	"feedmirror/internal/config"
	"feedmirror/internal/fault"
	"feedmirror/internal/telemetry"
	"feedmirror/mirror"
)

type verifyCommand struct {
	config.FileFlags
	config.FeedFlags
	config.BucketFlags
	config.ShardFlags
	config.TransferFlags
	config.OutputFlags
	Level       string   `default:"bytes" enum:"chain,inventory,checksum,bytes,rows" help:"How deep to look: chain (documents and hashes of records), inventory (+ every object and its size), checksum (+ what the store itself keeps), bytes (+ reads and hashes everything), rows (+ what the Parquet files say, and whether the changes lead from each snapshot to the next)."`
	Datasets    []string `name:"datasets" placeholder:"GLOB,..." help:"Audit only datasets whose id matches one of these globs."`
	Workers     int      `default:"8" help:"Objects read at the same time."`
	Repair      bool     `help:"Restore what is missing or wrong: from older versions that the store keeps, else from the feed while it has the version. What is lost is named."`
	AgainstFeed bool     `help:"Compare every version that the feed still has with the one that was committed. Writes nothing."`
	Budget      string   `placeholder:"SIZE" help:"Read about so many bytes, such as 50GiB, the objects first whose last check is longest ago. Repeated runs read everything."`
	RowsMemory  string   `default:"128MiB" placeholder:"SIZE" help:"Level rows: memory for rows in reduced form. What is more goes to temporary files (TMPDIR), beside two snapshots of a dataset and the changes between them."`
	MaxAge      string   `placeholder:"30d" help:"With a budget or without: an object that was found good within this time is not read again."`
}

// Help is printed below the flags' list.
func (verifyCommand) Help() string {
	return `Examples:
  mirror verify --bucket file:///srv/feeds
  mirror verify --bucket s3://my-bucket/feeds --level inventory --output json
  mirror verify --bucket s3://my-bucket/feeds --budget 50GiB --max-age 30d
  mirror verify --bucket s3://my-bucket/feeds --level rows --datasets ds_permits
  mirror verify --bucket s3://my-bucket/feeds --repair

Exit code 3 says that something was found, 6 that the budget ended before everything that was due was read: run it
again. What could not be checked is counted as not checked. An object whose tag at the
store is another one than when it was committed is read at the levels below bytes too: of a bucket that was copied, all are.

Level rows decodes each snapshot, its changes and its id map: number of rows, envelope columns, record ids that are
there and unique, the feed's counts, columns and types of schema.json, and the previous snapshot with the changes
applied, which must be this snapshot. With --rows-memory 128MiB the process stays below 512 MiB. It needs room for two
snapshots of a dataset and the changes in TMPDIR, and 17 bytes a row where the memory does not suffice.`
}

// defaultMaxAge is how long a check lasts where only a budget is given.
const defaultMaxAge = 30 * 24 * time.Hour

// memoryBesideRows is what level rows may take beside reduced rows, in bytes: a page of the greatest size that is
// read, packed and unpacked. Beyond that the collector of garbage works harder.
const memoryBesideRows = 256 << 20

// minRowsMemory keeps the number of temporary files small.
const minRowsMemory = 16 << 20

// Run implements command.
func (c *verifyCommand) Run(ctx context.Context, env environment) (int, error) {
	a, err := newApp(c, env, true)
	if err != nil {
		return 0, err
	}
	defer a.close()
	options, err := c.options(a)
	if err != nil {
		return 0, err
	}
	if options.Audit.Level == audit.LevelRows {
		debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), options.Audit.RowsMemory+memoryBesideRows))
	}
	store, err := a.openBucket(ctx, true)
	if err != nil {
		return 0, err
	}
	defer store.Close() //nolint:errcheck // nothing is buffered in a store
	options.Store, options.Audit.Reader = store, store
	if c.Repair {
		if err := a.checkLayout(ctx, store); err != nil {
			return 0, err
		}
		options.Repair = a.repairOptions(store, options.Audit.Select)
	}
	if c.AgainstFeed {
		if options.Against, err = a.newFeed(); err != nil {
			return 0, err
		}
	}
	report, err := mirror.Verify(ctx, options)
	a.close()
	if err != nil && report.Repair == nil {
		return 0, err
	}
	if a.settings.Output == config.OutputJSON {
		err = errors.Join(err, printJSON(env, report))
	} else {
		printAudit(env.out, report)
	}
	return report.Exit, err
}

// options returns what the flags say, without the bucket.
func (c *verifyCommand) options(a *app) (mirror.VerifyOptions, error) {
	s := a.settings
	o := mirror.VerifyOptions{Pause: pause, Log: a.log, Run: a.run, Tool: "mirror " + version}
	o.Audit = audit.Options{
		Level: audit.Level(c.Level), Workers: c.Workers, Now: a.now, Partial: len(c.Datasets) > 0 || s.ShardOf > 1, Sharded: s.ShardOf > 1,
		Select: func(dataset string) bool {
			return mirror.InFilter(dataset, c.Datasets) && mirror.InShard(dataset, s.ShardIndex, s.ShardOf)
		},
		Planned: func(objects, bytes int64) { a.progress.Planned("", objects, bytes) },
		Checked: func() { a.progress.Finished("") },
		Read:    func(bytes int64) { a.progress.Bytes("", int(bytes)) },
		Stage:   func(text string) { a.progress.Stage("verify", text) },
	}
	var problems []error
	if c.Budget != "" {
		var err error
		if o.Audit.Budget, err = config.ParseSize(c.Budget); err != nil || o.Audit.Budget == 0 {
			problems = append(problems, badFlag("--budget", c.Budget, "a size above 0, such as 50GiB"))
		}
		o.MaxAge = defaultMaxAge
	}
	if c.MaxAge != "" {
		var err error
		if o.MaxAge, err = config.ParseDuration(c.MaxAge); err != nil || o.MaxAge == 0 {
			problems = append(problems, badFlag("--max-age", c.MaxAge, "a time above 0, such as 30d"))
		}
	}
	var err error
	if o.Audit.RowsMemory, err = config.ParseSize(c.RowsMemory); err != nil || o.Audit.RowsMemory < minRowsMemory {
		problems = append(problems, badFlag("--rows-memory", c.RowsMemory, "a size of at least 16MiB, such as 128MiB"))
	}
	if c.Workers < 1 || c.Workers > 256 {
		problems = append(problems, badFlag("--workers", fmt.Sprint(c.Workers), "a whole number from 1 to 256"))
	}
	return o, errors.Join(problems...)
}

func badFlag(flag, given, want string) error {
	return &fault.Error{Op: "read command line", Object: flag, Side: fault.SideConfig, Kind: fault.Usage, Err: fmt.Errorf("%q: want %s", given, want)}
}

// repairOptions returns what a repair works with. The feed is not asked before it is needed.
func (a *app) repairOptions(store bucket.Store, selected func(string) bool) *mirror.RepairOptions {
	return &mirror.RepairOptions{
		Store: store, Versions: bucket.VersionsOf(store), FeedURL: a.settings.FeedURL, Select: selected, Pause: pause, Now: a.now,
		Feed: func() (mirror.RepairFeed, error) {
			client, err := a.newFeed()
			if err != nil {
				return mirror.RepairFeed{}, err
			}
			moving, err := a.transferOptions(store, client)
			return mirror.RepairFeed{Signer: client, Transfer: moving}, err
		},
	}
}

func printAudit(out io.Writer, r mirror.VerifyReport) {
	for _, note := range r.Notes {
		telemetry.Linef(out, "note     %-14s %s: %s\n", note.Kind, note.Key, note.Detail)
	}
	printRepair(out, r.Repair)
	for _, f := range r.Findings {
		word := "finding"
		if f.Acknowledged != nil {
			word = "known  "
		}
		telemetry.Linef(out, "%s  %-14s %s: %s (%s)\n", word, f.Kind, f.Key, f.Detail, subjectOf(f))
		printRecords(out, f)
		switch {
		case f.Acknowledged != nil:
			telemetry.Linef(out, "         acknowledged by %s at %s: %s\n", f.Acknowledged.Who, f.Acknowledged.At.UTC().Format("2006-01-02 15:04 MST"), f.Acknowledged.Reason)
		case f.Hint != "":
			telemetry.Linef(out, "         %s  id %s\n", f.Hint, f.ID)
		default:
			telemetry.Linef(out, "         id %s\n", f.ID)
		}
	}
	c, n := r.Checked, r.NotChecked
	telemetry.Linef(out, "%s at level %s in %s: %d datasets, %d tables, %d records, %d objects (%d attachments), %s read\n",
		r.Status, r.Level, (time.Duration(r.Seconds * float64(time.Second))).Round(time.Millisecond), c.Datasets, c.Tables, c.Records, c.Objects, c.Attachments, telemetry.FormatBytes(c.Bytes))
	printRows(out, r.Rows)
	if r.Compared > 0 {
		telemetry.Linef(out, "compared with the feed: %d versions\n", r.Compared)
	}
	if n.Objects > 0 || n.Pruned > 0 {
		telemetry.Linef(out, "not checked: %d objects (%d checked not long ago, %d beyond the budget, %d without a checksum at the store, %d archived, %d unreadable, %d whose record or index cannot be used), %d pruned versions\n",
			n.Objects, n.Fresh, n.Budget, n.NoChecksum, n.Archived, n.Unreadable, n.NoRecord, n.Pruned)
	}
	word := "findings"
	if len(r.Findings) == 1 {
		word = "finding"
	}
	if known := len(r.Findings) - r.Open(); len(r.Findings) > 0 {
		telemetry.Linef(out, "%d %s, %d acknowledged\n", len(r.Findings), word, known)
	}
}

// printRecords names the records and columns that a finding is about.
func printRecords(out io.Writer, f audit.Finding) {
	if len(f.Columns) > 0 {
		telemetry.Linef(out, "         columns: %s\n", strings.Join(f.Columns, ", "))
	}
	if len(f.RecordIDs) > 0 {
		telemetry.Linef(out, "         records: %s\n", strings.Join(f.RecordIDs, ", "))
	}
}

// printRows says of each version what level rows looked at, and what not.
func printRows(out io.Writer, r *audit.Rows) {
	if r == nil {
		return
	}
	read, replayed := 0, 0
	for _, v := range r.Versions {
		text := "not read"
		if v.Read {
			read++
			text = fmt.Sprintf("%d rows", v.Rows)
		}
		if v.Replayed {
			replayed++
			text += fmt.Sprintf(", %d changes replayed on version %d", v.Changes, v.ReplayedOn)
		}
		telemetry.Linef(out, "rows     %s: %s\n", subject(v.Dataset, v.Version), text)
		for _, reason := range v.NotChecked {
			telemetry.Linef(out, "         not checked: %s\n", reason)
		}
	}
	telemetry.Linef(out, "rows: %d of %d versions read, %d replayed; %s of memory for reduced rows, at most %s in temporary files\n",
		read, len(r.Versions), replayed, telemetry.FormatBytes(r.MemoryBytes), telemetry.FormatBytes(r.DiskBytes))
}

func printRepair(out io.Writer, r *mirror.RepairReport) {
	if r == nil {
		return
	}
	for _, one := range r.Restored {
		telemetry.Linef(out, "restored %-14s %s (%s)\n", one.From, one.Key, telemetry.FormatBytes(one.Bytes))
	}
	for _, one := range r.Lost {
		telemetry.Linef(out, "lost     %s: %s\n", one.Key, one.Reason)
	}
	for _, one := range r.Unresolved {
		telemetry.Linef(out, "open     %s: %s\n", one.Key, one.Reason)
	}
	telemetry.Linef(out, "repair: %d restored, %d lost, %d to be tried again\n", len(r.Restored), len(r.Lost), len(r.Unresolved))
}

func subjectOf(f audit.Finding) string {
	if f.Dataset == "" {
		return "no dataset"
	}
	return subject(f.Dataset, f.Version)
}

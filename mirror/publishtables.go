package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/tables"
	"feedmirror/state"
)

// PublishTablesOptions are what tables are brought up to date with.
type PublishTablesOptions struct {
	Store  bucket.Store
	Select func(dataset string) bool // nil: all
	// Rebuild names datasets whose tables are written anew, log by log.
	Rebuild []string
	// RebuildChanges and RebuildPublications write the logs of several datasets anew, always for all.
	RebuildChanges      bool
	RebuildPublications bool
	Tables              *tables.Projector // what writes the bucket's tables
	LeaseTTL            time.Duration
	Run                 string
	Host                string
	Tool                string
	Now                 func() time.Time
	Pause               state.Pause
	Stage               func(text string)
}

// TableReport is what became of one table.
type TableReport struct {
	Root    string `json:"root"`
	Commit  int64  `json:"commit"` // number of the newest commit; -1 when there is no log
	Written bool   `json:"written"`
	Deleted int    `json:"deleted,omitempty"` // files of the log that a rebuild deleted
	Reason  string `json:"reason,omitempty"`  // why there is no table
}

// PublishTablesReport says what became of all tables.
type PublishTablesReport struct {
	Run      string        `json:"run"`
	Tool     string        `json:"tool"`
	Status   string        `json:"status"` // ok, failed
	Exit     int           `json:"exit"`
	Started  time.Time     `json:"started"`
	Seconds  float64       `json:"seconds"`
	Tables   []TableReport `json:"tables"`
	Written  int           `json:"written"` // of the tables
	Failures []Failure     `json:"failures"`
	Notes    []Note        `json:"notes"`
}

// PublishTables brings the tables up to date with the pointers, as a pass does at its end, and writes
// those anew that it is told to. Where nothing is to be done it writes nothing. An error means that it
// could not be tried; what failed is in the report.
func PublishTables(ctx context.Context, o PublishTablesOptions) (PublishTablesReport, error) {
	if o.Select == nil {
		o.Select = func(string) bool { return true }
	}
	if o.Stage == nil {
		o.Stage = func(string) {}
	}
	p := &tablePublisher{PublishTablesOptions: o, report: PublishTablesReport{Run: o.Run, Tool: o.Tool, Started: o.Now(),
		Tables: []TableReport{}, Failures: []Failure{}, Notes: []Note{}}}
	err := p.publish(ctx)
	p.report.Status, p.report.Exit = "ok", ExitDone
	if len(p.report.Failures) > 0 {
		p.report.Status, p.report.Exit = "failed", ExitFailed
	}
	p.report.Seconds = o.Now().Sub(p.report.Started).Seconds()
	return p.report, err
}

type tablePublisher struct {
	PublishTablesOptions
	report PublishTablesReport
}

func (p *tablePublisher) publish(ctx context.Context) error {
	all, err := state.Datasets(ctx, p.Store)
	if err != nil {
		return unfitBucket(err)
	}
	for _, dataset := range p.Rebuild {
		if !slices.Contains(all, dataset) {
			return &fault.Error{Op: "rebuild table", Object: dataset, Side: fault.SideConfig, Kind: fault.Usage,
				Err: errors.New("the bucket has no such dataset"), Hint: "mirror status lists the datasets."}
		}
	}
	var selected []string
	for _, dataset := range all {
		if !p.Select(dataset) && !slices.Contains(p.Rebuild, dataset) {
			continue
		}
		selected = append(selected, dataset)
		p.Stage("tables of " + dataset)
		if err := p.dataset(ctx, dataset); err != nil {
			return err
		}
	}
	p.Stage("tables of all datasets")
	if err := p.changes(ctx, selected); err != nil {
		return err
	}
	return p.publications(ctx, all, selected)
}

// dataset brings the tables of one dataset up to date.
func (p *tablePublisher) dataset(ctx context.Context, dataset string) error {
	if !slices.Contains(p.Rebuild, dataset) {
		return p.show(ctx, dataset, map[string]int{})
	}
	// The lease only keeps a pass from writing into a log that is being cleared: what it would leave
	// behind is a gap, which is found below.
	leases := &state.Leases{Docs: p.Store, Owner: p.Run, Host: p.Host, TTL: p.LeaseTTL, Now: p.Now, Pause: p.Pause}
	holder, err := leases.Acquire(ctx, dataset)
	var busy *state.BusyError
	if errors.As(err, &busy) {
		return p.fail(ctx, dataset, &fault.Error{Op: "rebuild table", Object: dataset, Side: fault.SideBucket, Kind: fault.Budget, Err: busy,
			Hint: "Nothing was deleted. Run it again when that run is over."})
	}
	if err != nil {
		return p.fail(ctx, dataset, err)
	}
	leased, stop := holder.Keep(ctx)
	err = p.rebuild(leased, dataset)
	stop()
	release, cancel := lasting(ctx, 3*time.Second)
	defer cancel()
	_ = holder.Release(release) // it expires by itself
	return err
}

func (p *tablePublisher) rebuild(ctx context.Context, dataset string) error {
	deleted := map[string]int{}
	for _, root := range []string{tables.SnapshotRoot(dataset), tables.AttachmentRoot(dataset)} {
		var err error
		if deleted[root], err = tables.Clear(ctx, p.Store, root); err != nil {
			return p.fail(ctx, dataset, err)
		}
	}
	if err := p.show(ctx, dataset, deleted); err != nil {
		return err
	}
	for root := range deleted {
		if err := p.wantWhole(ctx, dataset, root); err != nil {
			return err
		}
	}
	return nil
}

// show writes the dataset's own tables, and its line of status.
func (p *tablePublisher) show(ctx context.Context, dataset string, deleted map[string]int) error {
	told := ""
	for _, table := range []func(context.Context, string) (tables.Outcome, error){p.Tables.Snapshot, p.Tables.Attachments} {
		outcome, err := table(ctx, dataset)
		if err != nil {
			var damaged *tables.DamagedError
			if errors.As(err, &damaged) {
				told = damagedText(damaged)
				err = damagedTable(err, damaged)
			}
			if err := p.fail(ctx, dataset, err); err != nil {
				return err
			}
			continue
		}
		p.add(outcome, deleted[outcome.Root])
		if outcome.Reason != "" {
			told = outcome.Reason
		}
	}
	if err := state.NoteTable(ctx, p.Store, p.Pause, dataset, told); err != nil {
		return p.fail(ctx, dataset, err)
	}
	return nil
}

func damagedTable(err error, damaged *tables.DamagedError) error {
	return &fault.Error{Op: "publish table", Object: damaged.Root, Side: fault.SideBucket, Kind: fault.Malformed, Err: err,
		Hint: "Write it anew from pointers and records: " + damaged.Remedy()}
}

// damagedText is what status and the notes of a pass say of a damaged table.
func damagedText(damaged *tables.DamagedError) string {
	return damaged.Error() + "; " + damaged.Remedy() + " writes it anew"
}

// add reports what became of a table. Where there is none and nobody asked for one there is nothing to
// say: most datasets have no attachments.
func (p *tablePublisher) add(outcome tables.Outcome, deleted int) {
	if outcome.Commit < 0 && outcome.Reason == "" && deleted == 0 {
		return
	}
	p.report.Tables = append(p.report.Tables, TableReport{Root: outcome.Root, Commit: outcome.Commit, Written: outcome.Written, Deleted: deleted, Reason: outcome.Reason})
	if outcome.Written {
		p.report.Written++
	}
	if outcome.Warning != nil {
		p.report.Notes = append(p.report.Notes, Note{Kind: "no-checkpoint", Message: fmt.Sprintf("%s opens more slowly until its next commit: %v", outcome.Root, outcome.Warning)})
	}
}

func (p *tablePublisher) changes(ctx context.Context, selected []string) error {
	deleted := 0
	if p.RebuildChanges {
		var err error
		if deleted, err = tables.Clear(ctx, p.Store, tables.ChangesRoot); err != nil {
			return p.fail(ctx, "", err)
		}
		if selected, err = state.Datasets(ctx, p.Store); err != nil { // as they are now: a pass may have written into the log that went
			return p.fail(ctx, "", err)
		}
	}
	progress, err := p.progress(ctx, selected)
	if err != nil {
		return p.fail(ctx, "", err)
	}
	outcome, err := p.Tables.Changes(ctx, progress)
	for dataset, left := range outcome.Left {
		p.report.Notes = append(p.report.Notes, Note{Dataset: dataset, Kind: "changes-not-listed", Message: strings.Join(left, "; ")})
	}
	slices.SortFunc(p.report.Notes, func(a, b Note) int { return strings.Compare(a.Dataset, b.Dataset) })
	return p.shared(ctx, outcome.Outcome, deleted, p.RebuildChanges, err)
}

func (p *tablePublisher) publications(ctx context.Context, all, selected []string) error {
	if !p.RebuildPublications {
		progress, err := p.progress(ctx, selected)
		if err != nil {
			return p.fail(ctx, "", err)
		}
		outcome, err := p.Tables.Publications(ctx, progress, p.Run)
		return p.shared(ctx, outcome, 0, false, err)
	}
	rebuilt, err := p.Tables.RebuildPublications(ctx, p.Store, all, p.Run)
	for _, dataset := range all {
		if ranges := rebuilt.Unknown[dataset]; len(ranges) > 0 {
			p.report.Notes = append(p.report.Notes, Note{Dataset: dataset, Kind: "moves-unknown",
				Message: fmt.Sprintf("moves %s of its pointer are not in the table: neither the pointer nor a file of publications/ remembers them", strings.Join(ranges, ", "))})
		}
	}
	for key, why := range rebuilt.Unusable {
		p.report.Notes = append(p.report.Notes, Note{Kind: "file-unusable", Message: key + ": " + why})
	}
	if err == nil {
		rebuilt.Commit, err = p.catchUp(ctx)
	}
	return p.shared(ctx, rebuilt.Outcome, rebuilt.Deleted, true, err)
}

// catchUp adds the moves of pointers since they were read: their rows may have stood in the log that was
// deleted. It returns the number of the newest commit.
func (p *tablePublisher) catchUp(ctx context.Context) (int64, error) {
	datasets, err := state.Datasets(ctx, p.Store)
	if err != nil {
		return 0, err
	}
	progress, err := p.progress(ctx, datasets)
	if err != nil {
		return 0, err
	}
	outcome, err := p.Tables.Publications(ctx, progress, p.Run)
	return outcome.Commit, err
}

// progress reads how far datasets have come.
func (p *tablePublisher) progress(ctx context.Context, datasets []string) ([]tables.Progress, error) {
	var all []tables.Progress
	for _, dataset := range datasets {
		one, err := progressOf(ctx, p.Store, dataset)
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

// shared reports what became of a table of several datasets.
func (p *tablePublisher) shared(ctx context.Context, outcome tables.Outcome, deleted int, rebuilt bool, err error) error {
	var damaged *tables.DamagedError
	if errors.As(err, &damaged) {
		err = damagedTable(err, damaged)
	}
	if err != nil {
		return p.fail(ctx, "", err)
	}
	p.add(outcome, deleted)
	if !rebuilt {
		return nil
	}
	return p.wantWhole(ctx, "", outcome.Root)
}

// wantWhole reads a log that was written anew: a pass that wrote into it while it was cleared has left a
// gap or a commit that does not fit.
func (p *tablePublisher) wantWhole(ctx context.Context, dataset, root string) error {
	reading, err := tables.Read(ctx, p.Store, root, nil)
	if err == nil && len(reading.Problems) > 0 {
		problem := reading.Problems[0]
		err = &fault.Error{Op: "rebuild table", Object: problem.Key, Side: fault.SideBucket, Kind: fault.Conflict,
			Err: fmt.Errorf("somebody wrote into the log meanwhile: %s", problem.Detail), Hint: "Run it again when no pass is under way."}
	}
	if err != nil {
		return p.fail(ctx, dataset, err)
	}
	return nil
}

// fail reports what went wrong with one table; it returns what ends the command.
func (p *tablePublisher) fail(ctx context.Context, dataset string, err error) error {
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	switch fault.KindOf(err) {
	case fault.BucketUnfit, fault.Usage:
		return err
	}
	p.report.Failures = append(p.report.Failures, failureOf(dataset, 0, err))
	return nil
}

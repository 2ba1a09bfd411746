package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// Options say what is audited.
type Options struct {
	Reader  bucket.Reader
	Level   Level
	Select  func(dataset string) bool // nil: all
	Partial bool                      // Select leaves datasets out: attachments of others are no orphans
	Sharded bool                      // other processes take the datasets that Select leaves out; none may be left for this one
	Workers int                       // objects read at the same time; 8 when zero
	Now     func() time.Time
	// Ledger says when objects were last checked; nil: all are to be checked now. It is asked from
	// level checksum on.
	Ledger Ledger
	// Budget ends the checking with the object that uses up so many bytes, the stalest first; zero:
	// none. It needs a Ledger.
	Budget int64
	// RowsMemory is how many bytes of reduced rows level rows keeps in memory, TempFolder where it puts the
	// rest and the files that it decodes; 128 MiB and the system's folder when empty.
	RowsMemory int64
	TempFolder string
	// Deep says of which versions contents are looked at, as deep as the level goes; of the others
	// only documents and the inventory are, and no attachments. Nil: all.
	Deep func(dataset string, n manifest.Number) bool
	// Planned is told of objects and bytes that lie ahead, Checked of each object that is through,
	// Read of bytes as they are read; nil: nobody is.
	Planned func(objects, bytes int64)
	Checked func()
	Read    func(bytes int64)
	// Stage names what is looked at; nil: nobody is told.
	Stage func(text string)
}

// Exit codes of an audit that found something, and of one that a budget ended.
const (
	ExitFindings = 3
	ExitStopped  = 6
)

// DefaultRowsMemory is how many bytes of reduced rows are kept in memory.
const DefaultRowsMemory = 128 << 20

// inProgressFor is how long files without a record are taken for a copy that is under way.
const inProgressFor = 24 * time.Hour

// Run audits a bucket. An error means that the audit could not be made; what it found wrong is in
// the report.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Select == nil {
		o.Select = func(string) bool { return true }
	}
	if o.Planned == nil {
		o.Planned = func(int64, int64) {}
	}
	if o.Checked == nil {
		o.Checked = func() {}
	}
	if o.Read == nil {
		o.Read = func(int64) {}
	}
	if o.Stage == nil {
		o.Stage = func(string) {}
	}
	if o.Workers <= 0 {
		o.Workers = 8
	}
	if o.RowsMemory <= 0 {
		o.RowsMemory = DefaultRowsMemory
	}
	if o.TempFolder == "" {
		o.TempFolder = os.TempDir()
	}
	a := &auditor{Options: o, loose: map[Kind]*looseAttachments{KindInProgress: {}, KindOrphan: {}}}
	a.report = Report{Level: o.Level, Started: o.Now(), Findings: []Finding{}, Notes: []Finding{}}
	if o.Level.includes(LevelRows) {
		a.spools.folder = o.TempFolder
		a.report.Rows = &Rows{MemoryBytes: o.RowsMemory, Versions: []VersionRows{}}
	}
	err := errors.Join(a.run(ctx), a.spools.keep(nil))
	report := a.finish()
	report.Seconds = o.Now().Sub(report.Started).Seconds()
	if err != nil {
		report.Status = "incomplete"
	}
	return report, err
}

type auditor struct {
	Options
	collector
	owed        map[string]bool // datasets that some shard still owes
	attachments digestTable
	shared      sharedLogs
	shapes      shapeQueue   // versions whose columns are looked at when all else is through
	queue       queue        // what the ledger lets wait until the stalest is known
	spools      spools       // of level rows
	indexes     []namedIndex // in the order of the audit
	loose       map[Kind]*looseAttachments
	// namesUnknown: what some version names could not be read, so that no attachment can be called an
	// orphan.
	namesUnknown bool
}

func (a *auditor) run(ctx context.Context) error {
	if err := a.documents(ctx); err != nil {
		return err
	}
	if err := a.readSharedLogs(ctx); err != nil {
		return err
	}
	datasets, err := a.datasets(ctx)
	if err != nil {
		return err
	}
	a.foreignInShared(datasets)
	for _, dataset := range datasets {
		if err := a.dataset(ctx, dataset); err != nil {
			return fmt.Errorf("audit %s: %w", dataset, err)
		}
		a.count(func(c *Checked, _ *NotChecked) { c.Datasets++ })
	}
	if a.Level.includes(LevelInventory) && a.Deep == nil {
		a.Stage("attachments")
		if err := a.checkAttachments(ctx); err != nil {
			return err
		}
	}
	if err := a.checkQueue(ctx); err != nil {
		return err
	}
	if a.Level.includes(LevelInventory) && a.Deep == nil {
		a.Stage("what belongs to nothing")
		if err := a.strays(ctx, datasets); err != nil {
			return err
		}
	}
	if err := a.checkShapes(ctx); err != nil {
		return err
	}
	a.nameAttachments(ctx)
	if err := a.forgetPruned(ctx); err != nil {
		return err
	}
	return a.acknowledged(ctx)
}

// documents reads the mirror's own documents: the layout, and what the shards owe.
func (a *auditor) documents(ctx context.Context) error {
	layout, err := readDocument[state.Layout](ctx, a.Reader, manifest.LayoutKey)
	switch {
	case fault.Is(err, fault.Malformed):
		if err := a.tell(ctx, KindDocument, manifest.LayoutKey, "", 0, err); err != nil {
			return err
		}
	case err != nil:
		return err
	case layout == nil:
		a.note(Finding{Kind: KindDocument, Key: manifest.LayoutKey, Detail: "there is none: no mirror has finished a pass here"})
	case layout.Layout > manifest.LayoutVersion:
		return &fault.Error{Op: "read layout", Object: manifest.LayoutKey, Side: fault.SideBucket, Kind: fault.Usage,
			Err: fmt.Errorf("the bucket has layout %d, this mirror knows %d", layout.Layout, manifest.LayoutVersion), Hint: "Upgrade this mirror."}
	}
	var shards []*state.Shard
	for info, err := range a.Reader.List(ctx, manifest.ShardsPrefix, "") {
		if err != nil {
			return err
		}
		shard, err := readDocument[state.Shard](ctx, a.Reader, info.Key)
		switch {
		case err != nil:
			if err := a.tell(ctx, KindDocument, info.Key, "", 0, err); err != nil {
				return err
			}
		case shard != nil:
			shards = append(shards, shard)
		}
	}
	a.owed = owedOf(shards)
	return nil
}

// owedOf returns the datasets that a shard in use owes.
func owedOf(shards []*state.Shard) map[string]bool {
	var newest time.Time
	for _, shard := range shards {
		if shard.LastAttempt.After(newest) {
			newest = shard.LastAttempt
		}
	}
	list := map[string]bool{}
	for _, shard := range shards {
		for _, owed := range shard.Owed {
			if !shard.Idle(newest) {
				list[owed.Dataset] = true
			}
		}
	}
	return list
}

// datasets returns the datasets that the bucket has: those with a version, and those with a
// pointer, which might lead nowhere.
func (a *auditor) datasets(ctx context.Context) ([]string, error) {
	var list []string
	after := ""
	for {
		next, err := a.nextDataset(ctx, after)
		if err != nil {
			return nil, err
		}
		if next == "" {
			break
		}
		list = append(list, next)
		// A 0 follows the slash in byte order, so that this is behind every key of the dataset. It is
		// text: SeaweedFS and azurite answer 500 to a start that is no UTF-8.
		after = strings.TrimSuffix(manifest.RecordsPrefix(next), "/") + "0"
	}
	for info, err := range a.Reader.List(ctx, "current/", "") {
		if err != nil {
			return nil, err
		}
		if dataset := state.DatasetOfKey(info.Key); dataset != "" {
			list = append(list, dataset)
		} else {
			a.note(Finding{Kind: KindForeign, Key: info.Key, Detail: "no pointer of a dataset"})
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	if len(list) == 0 {
		return nil, nothingHere("the bucket holds no mirrored dataset", "Check --bucket and its prefix; mirror sync fills it.")
	}
	selected := slices.DeleteFunc(slices.Clone(list), func(dataset string) bool { return !a.Select(dataset) })
	if len(selected) == 0 && !a.Sharded {
		return nil, nothingHere(fmt.Sprintf("none of the bucket's %d datasets is selected", len(list)), "Check --datasets; mirror status lists the ids.")
	}
	return selected, nil
}

// nothingHere is an audit that would look at nothing: that must not read as clean.
func nothingHere(what, hint string) error {
	return &fault.Error{Op: "audit", Side: fault.SideConfig, Kind: fault.Usage, Err: errors.New(what), Hint: hint}
}

// nextDataset returns the first dataset with a key behind after: one short listing a dataset,
// instead of one of every version's documents.
func (a *auditor) nextDataset(ctx context.Context, after string) (string, error) {
	for info, err := range a.Reader.List(ctx, "versions/", after) {
		if err != nil {
			return "", err
		}
		dataset, _, ok := strings.Cut(strings.TrimPrefix(info.Key, "versions/"), "/")
		if ok && manifest.CheckDataset(dataset) == nil {
			return dataset, nil
		}
		a.note(Finding{Kind: KindForeign, Key: info.Key, Detail: "no document of a version"})
	}
	return "", nil
}

// tell turns an error of one document into a finding: one that could not be read is unreadable,
// whatever it would have been found to be, and counted. It returns the errors that end the audit.
func (a *auditor) tell(ctx context.Context, kind Kind, key, dataset string, n manifest.Number, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || fault.Is(err, fault.BucketUnfit) {
		return err
	}
	f := Finding{Kind: kind, Key: key, Dataset: dataset, Version: int64(n), Detail: err.Error(), Hint: fault.HintOf(err)}
	if !provesDamage(err) {
		f.Kind, f.Facts, f.Hint = KindUnreadable, string(fault.KindOf(err)), unreadableHint
		a.count(func(_ *Checked, n *NotChecked) { n.Objects++; n.Unreadable++ })
	} else if body, _, err := a.Reader.Open(ctx, key, 0, -1); err == nil {
		defer body.Close() // only read from: nothing can be lost
		if sum, _, err := manifest.SumReader(body); err == nil {
			f.Facts = sum.String()
		}
	}
	a.find(f)
	return nil
}

// provesDamage reports whether an error says something about an object, and not about the way to it.
func provesDamage(err error) bool {
	switch fault.KindOf(err) {
	case fault.Malformed, fault.WrongBytes, fault.NotFound, fault.Conflict, fault.History:
		return true
	}
	return false
}

package tables

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"feedmirror/internal/parquetinfo"
	"feedmirror/manifest"
	"feedmirror/state"
)

// The columns by which the table of changes is partitioned. The first two stand in its paths, the third
// in the log alone. The envelope columns of a file begin with an underscore; a dataset's own column may
// have one of these names all the same. Readers take a partition's value from the log and never look at
// a file's column of that name (Delta protocol, "Partition Value Serialization"), so that it neither
// keeps a version out of the table nor counts for statistics.
const (
	datasetColumn  = "ploti_dataset_id"
	versionColumn  = "ploti_version"
	releasedColumn = "released_date"
)

func changesPartitions() []string { return []string{datasetColumn, versionColumn, releasedColumn} }

// changesColumns are the envelope columns of a changes file and the partitions.
func changesColumns() []Column {
	return append(envelopeColumns(), Column{Name: datasetColumn, Type: Type{Name: typeString}},
		Column{Name: versionColumn, Type: Type{Name: typeLong}}, Column{Name: releasedColumn, Type: Type{Name: typeDate}})
}

// envelopeColumns are those of every changes file (feed documentation, "Versions, snapshots and
// changes"). A dataset's own columns are left out: they differ from dataset to dataset, and engines pass
// over columns of a file that the table does not name.
func envelopeColumns() []Column {
	text, long := Type{Name: typeString}, Type{Name: typeLong}
	return []Column{
		{Name: "_ploti_record_id", Type: text}, {Name: "_ploti_dataset_id", Type: text}, {Name: "_ploti_place_id", Type: text},
		{Name: "_ploti_version", Type: long}, {Name: "_ploti_source_url", Type: text},
		{Name: "_ploti_fetched_at", Type: Type{Name: typeTimestamp}},
		{Name: "_ploti_op", Type: text}, {Name: "_ploti_change", Type: text}, {Name: "_ploti_delete_reason", Type: text},
		{Name: "_ploti_changed_columns", Type: Type{Name: typeArray, Element: &text}},
		{Name: "_ploti_match", Type: text}, {Name: "_ploti_match_score", Type: Type{Name: typeDouble}},
	}
}

// ChangesOutcome is what became of the table of changes.
type ChangesOutcome struct {
	Outcome
	// Left are the versions whose changes cannot be listed, with the reason, by dataset.
	Left map[string][]string
}

// Changes makes the table of all changes list those of the given datasets: of every record that stands
// and was not pruned, up to the highest version that was ever published. Below the version that the
// log has reached it looks only when all is true, since records appear there only by a back-fill.
// One call makes at most one commit.
func (p *Projector) Changes(ctx context.Context, datasets []string, all bool) (ChangesOutcome, error) {
	l := log{store: p.Store, root: ChangesRoot}
	outcome := ChangesOutcome{Outcome: Outcome{Root: ChangesRoot, Commit: -1}}
	found, err := l.commit(ctx, func(ctx context.Context, found listing) ([]action, error) {
		outcome.Left = map[string][]string{}
		standing, before, err := p.shared(ctx, l, found, datasets)
		if err != nil {
			return nil, err
		}
		var changes []action
		for _, dataset := range slices.Sorted(slices.Values(datasets)) {
			these, left, err := p.changesOf(ctx, standing, dataset, all)
			if err != nil {
				return nil, err
			}
			changes = append(changes, these...)
			if len(left) > 0 {
				outcome.Left[dataset] = left
			}
		}
		actions, err := p.sharedCommit(found, before, "changes", changesColumns(), changesPartitions(), changes)
		outcome.Written = len(actions) > 0
		return actions, err
	})
	if err != nil {
		return outcome, fmt.Errorf("project table %s: %w", ChangesRoot, err)
	}
	outcome.Commit = found.head
	if outcome.Written {
		outcome.Warning = l.checkpointIfDue(ctx, found)
	}
	return outcome, nil
}

// shared reads what a table of several datasets says of some of them, and the stamp of its head.
func (p *Projector) shared(ctx context.Context, l log, found listing, datasets []string) (*contents, stamp, error) {
	if found.head < 0 {
		return newContents(), stamp{}, nil
	}
	head, err := l.read(ctx, found.head)
	if err != nil {
		return nil, stamp{}, err
	}
	before, err := readStamp(head)
	if err != nil {
		return nil, stamp{}, l.damaged(err)
	}
	wanted := map[string]bool{}
	for _, dataset := range datasets {
		wanted[dataset] = true
	}
	all := newContents()
	all.keep = func(f *addFile) bool { return wanted[f.PartitionValues[datasetColumn]] }
	return all, before, l.readInto(ctx, found, all)
}

// sharedCommit puts a head onto what changed in a table of several datasets; nothing when nothing did.
func (p *Projector) sharedCommit(found listing, before stamp, name string, columns []Column, partitions []string, changes []action) ([]action, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	after, meta, err := p.stampOf(before, name, &view{columns: columns}, partitions)
	if err != nil {
		return nil, err
	}
	actions := []action{{CommitInfo: p.info(p.Now(), found.head < 0, after)}}
	if found.head < 0 {
		protocol := protocolFor(columns, false)
		actions = append(actions, action{Protocol: &protocol})
	}
	if found.head < 0 || after.Columns != before.Columns {
		actions = append(actions, action{MetaData: meta})
	}
	return append(actions, changes...), nil
}

// changesOf returns the actions that bring one dataset's changes up to date, and what cannot be listed.
func (p *Projector) changesOf(ctx context.Context, standing *contents, dataset string, all bool) (actions []action, left []string, err error) {
	pointer, _, err := state.Read[state.Pointer](ctx, p.Store, manifest.PointerKey(dataset))
	if err != nil || pointer == nil {
		return nil, nil, err
	}
	holding, err := state.LoadHolding(ctx, p.Store, dataset)
	if err != nil {
		return nil, nil, err
	}
	listed := map[manifest.Number][]addFile{}
	for _, f := range standing.files {
		if f.PartitionValues[datasetColumn] == dataset {
			n, err := strconv.ParseInt(f.PartitionValues[versionColumn], 10, 64)
			if err != nil {
				return nil, nil, &DamagedError{Root: ChangesRoot, Err: fmt.Errorf("version of %s: %w", f.Path, err)}
			}
			listed[manifest.Number(n)] = append(listed[manifest.Number(n)], f)
		}
	}
	reached := manifest.Number(standing.txns[appID(dataset)].Version)
	highest := max(pointer.HighestPublished(), reached)
	now := p.Now()
	for _, held := range holding {
		n := held.Number
		switch {
		case !held.Record || n > highest:
		case held.Pruned:
			for _, f := range listed[n] {
				actions = append(actions, action{Remove: removal(&f, now)})
			}
		case len(listed[n]) == 0 && (all || n > reached):
			adds, reason, err := p.changesFiles(ctx, dataset, n)
			if err != nil {
				return nil, nil, err
			}
			actions = append(actions, adds...)
			if reason != "" {
				left = append(left, fmt.Sprintf("version %d: %s", n, reason))
			}
		}
	}
	if len(actions) > 0 || highest > reached {
		actions = append([]action{{Txn: &txn{AppID: appID(dataset), Version: int64(highest), LastUpdated: millis(now)}}}, actions...)
	}
	return actions, left, nil
}

// changesFiles returns the adds of one version's changes, or why they cannot be listed.
func (p *Projector) changesFiles(ctx context.Context, dataset string, n manifest.Number) (adds []action, reason string, err error) {
	committed, err := state.Recall(ctx, p.Store, dataset, n)
	if err != nil {
		return nil, "", err
	}
	record := committed.Record()
	for _, part := range record.Files {
		if part.Kind != manifest.KindChanges {
			continue
		}
		info, err := p.Footers.Footer(ctx, part)
		if err != nil {
			return nil, "", err
		}
		if reason := envelopeDiffers(&info); reason != "" {
			return nil, part.Path + ": " + reason, nil
		}
		f, err := fileOf(ChangesRoot, part, envelopeOf(&info), &record)
		if err != nil {
			return nil, "", err
		}
		f.partitions = map[string]string{datasetColumn: dataset, versionColumn: strconv.FormatInt(int64(n), 10),
			releasedColumn: record.PublishedAt.UTC().Format(time.DateOnly)}
		adds = append(adds, action{Add: f.add()})
	}
	return adds, "", nil
}

// envelopeDiffers says how a file's envelope columns differ from the table's: an engine would fail in
// the middle of a query over all datasets. A column that is absent reads as null.
func envelopeDiffers(info *parquetinfo.PartInfo) string {
	if info.Err != nil {
		return fmt.Sprintf("its footer cannot be read: %v", info.Err)
	}
	wanted := map[string]Type{}
	for _, column := range envelopeColumns() {
		wanted[column.Name] = column.Type
	}
	for i := range info.Fields {
		field := &info.Fields[i]
		want, ours := wanted[field.Name]
		if !ours {
			for name := range maps.Keys(wanted) {
				if strings.EqualFold(name, field.Name) {
					return fmt.Sprintf("column %q differs from %q in case only", field.Name, name)
				}
			}
			continue
		}
		kind, err := typeOf(field)
		switch {
		case err != nil:
			return fmt.Sprintf("column %q: %v", field.Name, err)
		case kind.String() != want.String():
			return fmt.Sprintf("column %q is %s, not %s", field.Name, kind, want)
		}
	}
	return ""
}

// envelopeOf leaves a footer's envelope columns only, so that statistics name no column that the table
// lacks.
func envelopeOf(info *parquetinfo.PartInfo) *parquetinfo.PartInfo {
	names := map[string]bool{}
	for _, column := range envelopeColumns() {
		names[column.Name] = true
	}
	rest := *info
	rest.Fields = slices.DeleteFunc(slices.Clone(info.Fields), func(f parquetinfo.Field) bool { return !names[f.Name] })
	return &rest
}

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

// Progress is how far a dataset's pointer and records have come, as far as the caller knows. The tables
// of all datasets remember it for each: only datasets that have come further are looked at.
type Progress struct {
	Dataset string
	Highest manifest.Number // highest version that readers were ever led to
	Records int             // records up to that version, pruned ones included
	Moves   int64           // of the pointer
}

// ProgressOf returns the progress that a pointer and the versions of its dataset show.
func ProgressOf(pointer *state.Pointer, holding manifest.Holding) Progress {
	known := Progress{Dataset: pointer.Dataset, Highest: pointer.HighestPublished(), Moves: pointer.Move}
	known.Records = recordsUpTo(holding, known.Highest)
	return known
}

func recordsUpTo(holding manifest.Holding, highest manifest.Number) int {
	count := 0
	for _, held := range holding {
		if held.Record && held.Number <= highest {
			count++
		}
	}
	return count
}

// ChangesOutcome is what became of the table of changes.
type ChangesOutcome struct {
	Outcome
	// Left are the versions whose changes cannot be listed, with the reason, by dataset.
	Left map[string][]string
}

// Changes makes the table of all changes list those of the given datasets: of every record that stands
// and was not pruned, up to the highest version that was ever published. One call makes at most one
// commit.
func (p *Projector) Changes(ctx context.Context, datasets []Progress) (ChangesOutcome, error) {
	outcome := ChangesOutcome{Left: map[string][]string{}}
	var err error
	outcome.Outcome, err = p.shared(ctx, changesTable(), func(ctx context.Context, l log, found listing) ([]action, error) {
		clear(outcome.Left)
		reached, err := l.txns(ctx, found)
		if err != nil {
			return nil, err
		}
		listed := &listedChanges{log: l, found: found}
		var actions []action
		for _, one := range datasets {
			if reached[appID(one.Dataset)] >= int64(one.Highest) && reached[recordsID(one.Dataset)] == int64(one.Records) {
				continue
			}
			these, left, err := p.newChanges(ctx, listed, reached, one.Dataset)
			if err != nil {
				return nil, err
			}
			actions = append(actions, these...)
			if len(left) > 0 {
				outcome.Left[one.Dataset] = left
			}
		}
		return actions, nil
	})
	return outcome, err
}

// newChanges returns the actions that bring one dataset's changes up to date, and what cannot be listed.
func (p *Projector) newChanges(ctx context.Context, standing *listedChanges, reached map[string]int64, dataset string) (actions []action, left []string, err error) {
	pointer, _, err := state.Read[state.Pointer](ctx, p.Store, manifest.PointerKey(dataset))
	if err != nil || pointer == nil {
		return nil, nil, err
	}
	holding, err := state.LoadHolding(ctx, p.Store, dataset)
	if err != nil {
		return nil, nil, err
	}
	from := manifest.Number(reached[appID(dataset)])
	highest := max(pointer.HighestPublished(), from)
	records := recordsUpTo(holding, highest)
	if highest == from && reached[recordsID(dataset)] == int64(records) {
		return nil, nil, nil
	}
	var listed map[manifest.Number][]addFile
	if int64(recordsUpTo(holding, from)) != reached[recordsID(dataset)] { // a back-fill, or one that failed and was copied later
		if listed, err = standing.of(ctx, dataset); err != nil {
			return nil, nil, err
		}
		from = 0
	}
	var unlisted []manifest.Number
	for _, held := range holding {
		if n := held.Number; held.Record && !held.Pruned && n > from && n <= highest && len(listed[n]) == 0 {
			unlisted = append(unlisted, n)
		}
	}
	adds, left, err := p.changesOfVersions(ctx, dataset, unlisted)
	return append(p.txns(dataset, int64(highest), int64(records)), adds...), left, err
}

// changesOfVersions returns the adds of versions' changes, and why some cannot be listed.
func (p *Projector) changesOfVersions(ctx context.Context, dataset string, versions []manifest.Number) (adds []action, left []string, err error) {
	for _, n := range versions {
		these, reason, err := p.changesFiles(ctx, dataset, n)
		if err != nil {
			return nil, nil, err
		}
		adds = append(adds, these...)
		if reason != "" {
			left = append(left, fmt.Sprintf("version %d: %s", n, reason))
		}
	}
	return adds, left, nil
}

// Unlist takes the versions of the given datasets that were pruned off the table of changes, before
// their files go. It makes a commit even when it finds none listed: whoever computed a listing of such a
// version before it was noted as pruned is refused by it, and computes anew.
func (p *Projector) Unlist(ctx context.Context, datasets []string) (Outcome, error) {
	return p.shared(ctx, changesTable(), func(ctx context.Context, l log, found listing) ([]action, error) {
		now := p.Now()
		standing := &listedChanges{log: l, found: found}
		var actions []action
		for _, dataset := range datasets {
			holding, err := state.LoadHolding(ctx, p.Store, dataset)
			if err != nil {
				return nil, err
			}
			listed, err := standing.of(ctx, dataset)
			if err != nil {
				return nil, err
			}
			for _, held := range holding {
				if !held.Pruned {
					continue
				}
				for _, f := range listed[held.Number] {
					actions = append(actions, action{Remove: removal(&f, now)})
				}
			}
		}
		return append([]action{{Txn: &txn{AppID: "ploti-prune", Version: millis(now), LastUpdated: millis(now)}}}, actions...), nil
	})
}

// listedChanges is what the table of changes lists. It is read once, and only when somebody asks: of most
// commits nobody does.
type listedChanges struct {
	log   log
	found listing
	files map[string]map[manifest.Number][]addFile // by dataset and version; nil: not read yet
}

// of returns what is listed of a dataset, by version.
func (c *listedChanges) of(ctx context.Context, dataset string) (map[manifest.Number][]addFile, error) {
	if c.files != nil {
		return c.files[dataset], nil
	}
	all, err := c.log.contents(ctx, c.found)
	if err != nil {
		return nil, err
	}
	files := map[string]map[manifest.Number][]addFile{}
	for _, f := range all.files {
		n, err := strconv.ParseInt(f.PartitionValues[versionColumn], 10, 64)
		if err != nil {
			return nil, c.log.damaged(fmt.Errorf("version of %s: %w", f.Path, err))
		}
		of := f.PartitionValues[datasetColumn]
		if files[of] == nil {
			files[of] = map[manifest.Number][]addFile{}
		}
		files[of][manifest.Number(n)] = append(files[of][manifest.Number(n)], f)
	}
	c.files = files
	return files[dataset], nil
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

// Unlistable says why the table of changes cannot list a file, by its footer; empty when it can.
func Unlistable(info *parquetinfo.PartInfo) string { return envelopeDiffers(info) }

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

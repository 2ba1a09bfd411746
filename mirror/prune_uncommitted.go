package mirror

import (
	"context"
	"fmt"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// ClearUncommitted deletes what earlier tries left of a version that was never committed, and the
// attachments that only it names: the way out where the feed rebuilt a version between two tries.
// The next pass copies the version anew.
func ClearUncommitted(ctx context.Context, o PruneOptions, dataset string, n manifest.Number) (PruneReport, error) {
	o.Apply, o.Rules = true, manifest.KeepRules{}
	p := newPruner(o)
	err := p.clear(ctx, dataset, n)
	return p.finish(ctx), err
}

func (p *pruner) clear(ctx context.Context, dataset string, n manifest.Number) error {
	if err := p.load(ctx); err != nil {
		return err
	}
	if p.doc.Running() {
		if err := p.finishOther(ctx); err != nil {
			return err
		}
	}
	victim := state.PruneVersion{Dataset: dataset, Version: n, Why: "asked for: it was never committed", Uncommitted: true}
	if err := p.checkUncommitted(ctx, &victim); err != nil {
		return err
	}
	marks, err := p.onlyNamedBy(ctx, victim)
	if err != nil {
		return err
	}
	owed := state.Owed{Dataset: dataset, Reason: "cleared", Full: true, Since: p.Now(), Run: p.Run}
	if err := state.Owe(ctx, p.Store, p.Pause, owed); err != nil {
		return err
	}
	p.report.Versions = append(p.report.Versions, victim)
	return p.carryOut(ctx, []state.PruneVersion{victim}, marks)
}

// checkUncommitted refuses a version that is committed or of which nothing stands, and counts what
// does.
func (p *pruner) checkUncommitted(ctx context.Context, v *state.PruneVersion) error {
	refuse := func(why, hint string) error {
		return &fault.Error{Op: "clear version", Object: v.Dataset, Side: fault.SideConfig, Kind: fault.Usage,
			Dataset: v.Dataset, Version: int64(v.Version), Err: fmt.Errorf("version %d %s", v.Version, why), Hint: hint}
	}
	if manifest.CheckDataset(v.Dataset) != nil || manifest.CheckNumber(v.Version) != nil {
		return refuse("is no version of a dataset", "Give the dataset's id and the version's number.")
	}
	holding, err := state.LoadHolding(ctx, p.Store, v.Dataset)
	if err != nil {
		return err
	}
	held, _ := holding.Find(v.Version)
	if held.Record {
		return refuse("is committed", "Committed versions go by rules: mirror prune --keep-versions N")
	}
	for info, err := range p.files(ctx, []state.PruneVersion{*v}) {
		if err != nil {
			return err
		}
		v.Objects++
		v.Bytes += max(info.Size, 0)
	}
	if held.Claimed {
		v.Objects++
	}
	if v.Objects == 0 {
		return refuse("has no files in the bucket", "mirror verify --level inventory lists what was never committed.")
	}
	return nil
}

// onlyNamedBy marks the attachments that no other version names.
func (p *pruner) onlyNamedBy(ctx context.Context, v state.PruneVersion) ([]state.HashStart, error) {
	goes := map[versionID]bool{{v.Dataset, v.Version}: true}
	names, err := p.readNames(ctx, goes, func(string) bool { return false })
	if err != nil {
		return nil, err
	}
	if err := p.readLeaving(ctx, v.Dataset, v.Version, names.leave); err != nil {
		return nil, err
	}
	return p.markUnnamed(ctx, names)
}

package mirror

import (
	"context"
	"errors"
	"iter"
	"slices"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/tables"
	"feedmirror/manifest"
	"feedmirror/state"
)

// delete does what prune.json says, as far as it still may. The order is what keeps a bucket whole
// that others write to meanwhile:
//
//  1. prune.json stands: a version that names what it lists waits from now on,
//  2. pointers are fenced, and versions that somebody came to need are left out,
//  3. what every version names is read anew: a version that did not wait was claimed before,
//  4. prune.json is narrowed to what goes for certain,
//  5. pruned.json is put beside each record,
//  6. tables list them no longer,
//  7. files go, then attachments, then the manifests of uncommitted versions.
//
// Who takes over before 4 decides anew, and who was taken over fails at 4. Who takes over after it
// deletes the same.
func (p *pruner) delete(ctx context.Context) error {
	release, err := p.takeLeases(ctx)
	if err != nil {
		return err
	}
	defer release()
	if p.doc.State == state.PruneDeciding {
		if err := p.decide(ctx); err != nil {
			return err
		}
	}
	taken := p.doc.Versions
	if err := p.notePruned(ctx, taken); err != nil {
		return err
	}
	if err := p.unlist(ctx, taken); err != nil {
		return err
	}
	p.Stage("deleting files")
	if err := p.remove(ctx, p.files(ctx, taken)); err != nil {
		return err
	}
	p.Stage("deleting attachments")
	if err := p.remove(ctx, p.attachments(ctx)); err != nil {
		return err
	}
	return p.removeClaims(ctx, taken)
}

// decide narrows prune.json to what nobody needs or names.
func (p *pruner) decide(ctx context.Context) error {
	p.Stage("fencing pointers")
	taken, err := p.stillTaken(ctx)
	if err != nil {
		return err
	}
	p.Stage("reading what versions name")
	names, err := p.readNames(ctx, takenVersions(taken), nil)
	if err != nil {
		return err
	}
	next := *p.doc
	next.State, next.Versions, next.Attachments = state.PruneDeleting, taken, []state.HashStart{}
	for found, err := range p.unnamed(ctx, names, p.doc.Rules.Grace) {
		if err != nil {
			return err
		}
		start := state.StartOf(found.sum)
		if p.doc.TakesAttachment(found.sum) && !names.stay.hasStart(start) {
			next.Attachments = append(next.Attachments, start)
		}
	}
	return p.write(ctx, next)
}

// takeLeases takes the datasets of uncommitted versions, so that nobody copies what is cleared. The
// lease of a dataset whose versions are committed is not needed: a pass touches none of them.
func (p *pruner) takeLeases(ctx context.Context) (release func(), err error) {
	leases := &state.Leases{Docs: p.Store, Owner: p.Run, Host: p.Host, TTL: p.LeaseTTL, Now: p.Now, Pause: p.Pause}
	var holders []*state.Holder
	release = func() {
		for _, holder := range holders {
			_ = holder.Release(context.WithoutCancel(ctx)) // it expires by itself
		}
	}
	for _, v := range p.doc.Versions {
		if !v.Uncommitted {
			continue
		}
		holder, err := leases.Acquire(ctx, v.Dataset)
		var busy *state.BusyError
		if errors.As(err, &busy) {
			release()
			return nil, &fault.Error{Op: "prune", Object: v.Dataset, Side: fault.SideBucket, Kind: fault.Budget, Dataset: v.Dataset, Version: int64(v.Version),
				Err: busy, Hint: "Run it again when that run is over."}
		}
		if err != nil {
			release()
			return nil, err
		}
		holders = append(holders, holder)
	}
	return release, nil
}

// stillTaken fences the pointers and returns the versions that may still go.
func (p *pruner) stillTaken(ctx context.Context) ([]state.PruneVersion, error) {
	taken := []state.PruneVersion{}
	for at := 0; at < len(p.doc.Versions); {
		dataset := p.doc.Versions[at].Dataset
		end := at
		for end < len(p.doc.Versions) && p.doc.Versions[end].Dataset == dataset {
			end++
		}
		group := p.doc.Versions[at:end]
		at = end
		holding, err := state.LoadHolding(ctx, p.Store, dataset)
		if err != nil {
			return nil, err
		}
		needed, err := p.fence(ctx, dataset, group)
		if err != nil {
			return nil, err
		}
		for _, v := range group {
			held, _ := holding.Find(v.Version)
			switch {
			case held.Record == v.Uncommitted:
				p.note(dataset, v.Version, "kept", "it was committed, or its record is gone, since this was planned")
			case !v.Uncommitted && needed(v.Version):
				p.note(dataset, v.Version, "kept", "a pointer or a decision came to need it since this was planned")
			default:
				taken = append(taken, v)
			}
		}
	}
	return taken, nil
}

// fence swaps a dataset's pointer where committed versions of it go. needed tells which versions the
// pointer that was swapped, or a decision, needs.
func (p *pruner) fence(ctx context.Context, dataset string, group []state.PruneVersion) (needed func(manifest.Number) bool, err error) {
	if !slices.ContainsFunc(group, func(v state.PruneVersion) bool { return !v.Uncommitted }) {
		return func(manifest.Number) bool { return false }, nil
	}
	published, decided := manifest.Number(0), map[manifest.Number]bool{}
	err = state.Fence(ctx, p.Store, p.Pause, dataset, func(pointer *state.Pointer) error {
		var err error
		published = pointer.Version
		decided, err = p.decided(ctx, dataset, pointer)
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return func(manifest.Number) bool { return true }, nil
	}
	return func(n manifest.Number) bool { return n >= published || decided[n] }, err
}

func (p *pruner) notePruned(ctx context.Context, taken []state.PruneVersion) error {
	for _, v := range taken {
		if v.Uncommitted {
			continue
		}
		err := state.NotePruned(ctx, p.Store, state.Pruned{Dataset: v.Dataset, Version: v.Version, Why: v.Why, Rules: p.doc.Rules,
			Objects: v.Objects, Bytes: v.Bytes, Run: p.Run, Tool: p.Tool, At: p.Now()})
		if err != nil {
			return err
		}
	}
	return nil
}

// unlist takes the versions that go off the tables: those of the datasets follow their pointers, the
// table of changes drops them. A damaged table stops nothing: engines do not read it.
func (p *pruner) unlist(ctx context.Context, taken []state.PruneVersion) error {
	var datasets []string
	for _, v := range taken {
		if !v.Uncommitted && !slices.Contains(datasets, v.Dataset) {
			datasets = append(datasets, v.Dataset)
		}
	}
	if p.Tables == nil || len(datasets) == 0 {
		return nil
	}
	p.Stage("writing tables")
	for _, dataset := range datasets {
		own, err := showOwn(ctx, p.Tables, dataset)
		if err != nil {
			return err
		}
		if own.damaged {
			p.note(dataset, 0, "table-damaged", own.reason)
		}
	}
	_, err := p.Tables.Unlist(ctx, datasets)
	var damaged *tables.DamagedError
	if errors.As(err, &damaged) {
		p.note("", 0, "table-damaged", damaged.Error())
		return nil
	}
	return err
}

// files lists the files of the versions that go, as they are now.
func (p *pruner) files(ctx context.Context, taken []state.PruneVersion) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		for _, v := range taken {
			for _, prefix := range versionPrefixes(v.Dataset, v.Version) {
				for info, err := range p.Store.List(ctx, prefix, "") {
					if err == nil {
						if _, ok := fileOf(v.Dataset, info.Key, v.Uncommitted); !ok {
							continue
						}
					}
					if !yield(info, err) || err != nil {
						return
					}
				}
			}
		}
	}
}

// attachments lists the attachments that prune.json lists, as they are now.
func (p *pruner) attachments(ctx context.Context) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		doc := p.doc // replaced at each sign of life, which lists the same
		if len(doc.Attachments) == 0 {
			return
		}
		for info, err := range p.Store.List(ctx, manifest.AttachmentPrefix, "") {
			if err == nil {
				key, ok := manifest.ParseDataKey(info.Key)
				if !ok || key.Kind != manifest.KeyAttachment || !doc.TakesAttachment(key.SHA256) {
					continue
				}
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// removeClaims deletes the manifests of uncommitted versions. While something is left that they
// name they stay: they are how the next prune finds it.
func (p *pruner) removeClaims(ctx context.Context, taken []state.PruneVersion) error {
	for _, v := range taken {
		if !v.Uncommitted {
			continue
		}
		if p.tally.refusedCount > 0 {
			p.note(v.Dataset, v.Version, "kept", "its manifest stays, since not all that it names could be deleted")
			continue
		}
		info, err := p.Store.Stat(ctx, manifest.ManifestKey(v.Dataset, v.Version))
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err == nil {
			err = p.remove(ctx, oneInfo(info))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func oneInfo(info bucket.Info) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) { yield(info, nil) }
}

package mirror

import (
	"context"
	"strings"

	"golang.org/x/sync/errgroup"

	"feedmirror/internal/bucket"
	"feedmirror/manifest"
	"feedmirror/state"
)

// maxMarks bounds the attachments of one prune: they are listed in prune.json, 24 bytes each.
const maxMarks = 1_000_000

// plan finds out what goes: versions into the report, and the starts of the attachments' hashes.
func (p *pruner) plan(ctx context.Context) ([]state.HashStart, error) {
	datasets, err := state.Datasets(ctx, p.Store)
	if err != nil {
		return nil, unfitBucket(err)
	}
	matched := false
	for _, dataset := range datasets {
		if !InFilter(dataset, p.Filter) {
			continue
		}
		matched = true
		p.Stage("judging the versions of " + dataset)
		if err := p.planDataset(ctx, dataset); err != nil {
			return nil, err
		}
	}
	if !matched && len(p.Filter) > 0 {
		p.note("", 0, "no-match", "no dataset of the bucket matches "+strings.Join(p.Filter, ", "))
	}
	marks, err := p.planAttachments(ctx)
	if err != nil {
		return nil, err
	}
	old, err := p.oldReports(ctx)
	for _, info := range old {
		p.report.Reports.add(info.Size)
	}
	return marks, err
}

// planDataset judges a dataset's versions and measures those that go.
func (p *pruner) planDataset(ctx context.Context, dataset string) error {
	holding, err := state.LoadHolding(ctx, p.Store, dataset)
	if err != nil {
		return err
	}
	pointer, _, err := state.Read[state.Pointer](ctx, p.Store, manifest.PointerKey(dataset))
	if err != nil {
		return err
	}
	if pointer == nil {
		p.note(dataset, 0, "unpublished", "nothing of it is published: all of it stays")
		return nil
	}
	aged, err := p.age(ctx, dataset, holding, pointer)
	if err != nil {
		return err
	}
	goes := map[manifest.Number]*state.PruneVersion{}
	for _, v := range manifest.JudgeVersions(pointer.Version, aged, p.Rules, p.Now()) {
		if !v.Prune {
			p.report.Kept = append(p.report.Kept, KeptVersion{Dataset: dataset, Version: v.Version, Why: v.Why})
			continue
		}
		goes[v.Version] = &state.PruneVersion{Dataset: dataset, Version: v.Version, Why: v.Why}
	}
	return p.measure(ctx, dataset, holding, goes)
}

// age collects what the rules want to know of each committed version.
func (p *pruner) age(ctx context.Context, dataset string, holding manifest.Holding, pointer *state.Pointer) ([]manifest.Aged, error) {
	if err := state.ReadNotes(ctx, p.Store, dataset, holding, 0); err != nil {
		return nil, err
	}
	decided, err := p.decided(ctx, dataset, pointer)
	if err != nil {
		return nil, err
	}
	var list []manifest.Aged
	for _, held := range holding {
		if held.Record {
			list = append(list, manifest.Aged{Version: held.Number, Withdrawn: held.Withdrawn, Pruned: held.Pruned,
				LeftAt: pointer.LeftAt(held.Number), Decided: decided[held.Number]})
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deletesAtOnce)
	for at := range list {
		group.Go(func() error {
			committed, err := state.Recall(ctx, p.Store, dataset, list[at].Version)
			if err == nil {
				list[at].Schema, list[at].CommittedAt = committed.Record().SchemaVersion, committed.Record().CommittedAt
			}
			return err
		})
	}
	return list, group.Wait()
}

// decided returns the versions that decisions lead to which no pointer obeys yet.
func (p *pruner) decided(ctx context.Context, dataset string, pointer *state.Pointer) (map[manifest.Number]bool, error) {
	pending, err := state.PendingDecisions(ctx, p.Store, dataset, pointer)
	if err != nil {
		return nil, err
	}
	decided := map[manifest.Number]bool{}
	for _, decision := range pending {
		if decision.Action == state.ActionRollback {
			decided[decision.Version] = true
		}
	}
	return decided, nil
}

// measure counts the objects of the versions that go. A version that was pruned before and still
// has files, since their deletes were refused or came too late, goes again.
func (p *pruner) measure(ctx context.Context, dataset string, holding manifest.Holding, goes map[manifest.Number]*state.PruneVersion) error {
	for _, prefix := range filePrefixes(dataset) {
		for info, err := range p.Store.List(ctx, prefix, "") {
			if err != nil {
				return err
			}
			n, ok := fileOf(dataset, info.Key, false)
			if !ok {
				continue
			}
			if held, _ := holding.Find(n); held.Pruned && held.Record && goes[n] == nil {
				goes[n] = &state.PruneVersion{Dataset: dataset, Version: n, Why: "pruned before, and something is left of it"}
			}
			if v := goes[n]; v != nil {
				v.Objects++
				v.Bytes += max(info.Size, 0)
			}
		}
	}
	for _, held := range holding {
		if v := goes[held.Number]; v != nil {
			p.report.Versions = append(p.report.Versions, *v)
		}
	}
	return nil
}

// filePrefixes are where the files of a dataset's versions lie, the documents' first: SHA256SUMS
// goes before what it names.
func filePrefixes(dataset string) []string {
	part := "ploti_dataset_id=" + dataset + "/"
	return []string{manifest.RecordsPrefix(dataset), "snapshot/" + part, "changes/" + part, "id_map/" + part, "attachment_index/" + part}
}

// versionPrefixes are where the files of one version lie, in the order of filePrefixes.
func versionPrefixes(dataset string, n manifest.Number) []string {
	part := manifest.Partition(dataset, n)
	return []string{manifest.VersionPrefix(dataset, n), "snapshot/" + part, "changes/" + part, "id_map/" + part, "attachment_index/" + part}
}

// fileOf returns the version that a prune deletes a key with. Of a committed version the record, the
// manifest, the schema and the mirror's notes stay: they say what was published. Of an uncommitted
// one the manifest goes last of all, apart from the others.
func fileOf(dataset, key string, uncommitted bool) (manifest.Number, bool) {
	parsed, ok := manifest.ParseDataKey(key)
	if !ok || parsed.Dataset != dataset {
		return 0, false
	}
	switch parsed.Kind {
	case manifest.KeySnapshot, manifest.KeyChanges, manifest.KeyIDMap, manifest.KeyAttachmentIndex:
		return parsed.Version, true
	case manifest.KeyDocument:
		own := parsed.Rest == "schema.json" || parsed.Rest == "stored.json"
		return parsed.Version, parsed.Rest == "SHA256SUMS" || strings.HasPrefix(parsed.Rest, "files/") || uncommitted && own
	}
	return 0, false
}

// planAttachments finds the attachments that go with the versions of the report.
func (p *pruner) planAttachments(ctx context.Context) ([]state.HashStart, error) {
	p.Stage("reading what versions name")
	goes := takenVersions(p.report.Versions)
	var pick func(string) bool
	if len(p.Filter) > 0 {
		pick = func(dataset string) bool { return InFilter(dataset, p.Filter) }
	}
	names, err := p.readNames(ctx, goes, pick)
	if err != nil {
		return nil, err
	}
	return p.markUnnamed(ctx, names)
}

// markUnnamed lists the attachments and marks those that go.
func (p *pruner) markUnnamed(ctx context.Context, names *attachmentNames) ([]state.HashStart, error) {
	p.Stage("listing attachments")
	marks := []state.HashStart{}
	for found, err := range p.unnamed(ctx, names, p.Rules.Grace) {
		if err != nil {
			return nil, err
		}
		if len(marks) == maxMarks {
			p.report.More = true
			break
		}
		marks = append(marks, state.StartOf(found.sum))
		p.report.Attachments.add(found.info.Size)
	}
	return marks, nil
}

func takenVersions(versions []state.PruneVersion) map[versionID]bool {
	taken := make(map[versionID]bool, len(versions))
	for _, v := range versions {
		taken[versionID{v.Dataset, v.Version}] = true
	}
	return taken
}

type versionID struct {
	dataset string
	number  manifest.Number
}

// attachment is an object among the attachments.
type attachment struct {
	sum  manifest.SHA256
	info bucket.Info
}

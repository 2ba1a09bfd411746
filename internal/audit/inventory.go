package audit

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"feedmirror/attachments"
	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// expected is an object that a record names.
type expected struct {
	key     string
	size    int64 // bytes; unknownSize where the record does not say
	sum     manifest.SHA256
	dataset string
	version manifest.Number
	etag    string // by stored.json; empty when it does not say
	// unit is the version that it is read together with, spool where its bytes are kept meanwhile; level
	// rows only.
	unit  *rowUnit
	spool *spool
}

const unknownSize = -1

// inventory checks the objects of a dataset's versions, attachments apart.
func (a *auditor) inventory(ctx context.Context, dataset string, versions []*version) error {
	listed, err := a.listDataset(ctx, dataset)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(a.Workers)
	units := make([]*rowUnit, len(versions))
	for at, v := range versions {
		switch {
		case v.committed == nil:
			continue
		case v.held.Pruned:
			a.count(func(_ *Checked, n *NotChecked) { n.Pruned++ })
			takeNamed(listed, a.named(v.committed.Record(), nil))
			continue
		}
		units[at] = a.rowUnit(v.committed.Record(), predecessorOf(versions, at), previousOf(versions, at))
		if err := a.wholeVersion(groupCtx, group, v.committed.Record(), listed, units[at]); err != nil {
			_ = group.Wait() // its error ends the audit too; this one came first
			return err
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	a.leftovers(dataset, versions, listed)
	for at, unit := range units {
		if unit == nil {
			continue
		}
		if err := a.settle(ctx, unit, versions[at].committed.Record(), previousOf(versions, at)); err != nil {
			return err
		}
	}
	return nil
}

// listDataset lists everything below the dataset's own prefixes.
func (a *auditor) listDataset(ctx context.Context, dataset string) (map[string]bucket.Info, error) {
	listed := map[string]bucket.Info{}
	part := "ploti_dataset_id=" + dataset + "/"
	for _, prefix := range []string{"snapshot/" + part, "changes/" + part, "id_map/" + part, "attachment_index/" + part, manifest.RecordsPrefix(dataset)} {
		for info, err := range a.Reader.List(ctx, prefix, "") {
			if err != nil {
				return nil, err
			}
			if !strings.HasPrefix(strings.TrimPrefix(info.Key, prefix), "_delta_log/") {
				listed[info.Key] = info
			}
		}
	}
	return listed, nil
}

// wholeVersion checks every object that a record names, and enters its attachments.
func (a *auditor) wholeVersion(ctx context.Context, group *errgroup.Group, record manifest.Record, listed map[string]bucket.Info, unit *rowUnit) error {
	stored, err := readDocument[state.StoredDocument](ctx, a.Reader, manifest.StoredKey(record.Dataset, record.Version))
	if err != nil {
		if err := a.tell(ctx, KindDocument, manifest.StoredKey(record.Dataset, record.Version), record.Dataset, record.Version, err); err != nil {
			return err
		}
	}
	named := a.named(record, stored)
	a.plan(named, listed)
	for _, object := range named {
		info, there := listed[object.key]
		delete(listed, object.key)
		if unit.takes(record, object.key) {
			object.unit = unit
		}
		if !there {
			group.Go(func() error { return a.absent(ctx, object) })
			continue
		}
		group.Go(func() error { return a.object(ctx, object, info) })
	}
	if a.Ledger == nil { // else with the manifest, when its turn comes
		if err := a.contents(ctx, record); err != nil {
			return err
		}
	}
	return a.enterAttachments(ctx, record)
}

// plan tells what lies ahead: bytes only where the level reads them.
func (a *auditor) plan(named []expected, listed map[string]bucket.Info) {
	var bytes int64
	for _, object := range named {
		if a.Level.includes(LevelBytes) {
			bytes += max(listed[object.key].Size, 0)
		}
	}
	a.Planned(int64(len(named)), bytes)
}

// named returns the objects that a record names, attachments apart.
func (a *auditor) named(record manifest.Record, stored *state.StoredDocument) []expected {
	etags := map[string]string{}
	if stored != nil {
		for _, object := range stored.Objects {
			etags[object.Key] = object.ETag
		}
	}
	list := []expected{
		{key: record.Manifest.Key, size: record.ManifestSize, sum: record.Manifest.SHA256},
		{key: record.Sums.Key, size: unknownSize, sum: record.Sums.SHA256},
	}
	if index := record.Attachments.Index; index != nil {
		list = append(list, expected{key: index.Key, size: unknownSize, sum: index.SHA256})
	}
	for _, file := range record.Files {
		list = append(list, expected{key: file.Key, size: file.Size, sum: file.SHA256})
	}
	for at := range list {
		list[at].dataset, list[at].version, list[at].etag = record.Dataset, record.Version, etags[list[at].key]
	}
	return list
}

func takeNamed(listed map[string]bucket.Info, named []expected) {
	for _, object := range named {
		delete(listed, object.key)
	}
}

func (a *auditor) missing(object expected) {
	a.find(Finding{Kind: KindMissing, Key: object.key, Dataset: object.dataset, Version: int64(object.version),
		Detail: "the record names it, the bucket does not have it", Hint: restoreHint})
}

const restoreHint = "mirror verify --repair restores it: from an older version in the bucket (S3), else from the feed while it has it. The record stays valid."

// enterAttachments adds the objects that a version's index names to those that are checked at the
// end, each once however many versions name it.
func (a *auditor) enterAttachments(ctx context.Context, record manifest.Record) error {
	index := record.Attachments.Index
	if index == nil {
		return nil
	}
	a.indexes = append(a.indexes, namedIndex{record.Dataset, record.Version, index.Key})
	_, err := twice(ctx, func() (struct{}, error) {
		return struct{}{}, a.readIndex(ctx, index.Key, func(row attachments.IndexRow) error {
			a.attachments.add(row.SHA256, row.Size)
			return nil
		})
	})
	if err == nil {
		return nil
	}
	if fault.Is(err, fault.NotFound) { // told as missing, unless a prune took it meanwhile
		_, pruned := a.Reader.Stat(ctx, manifest.PrunedKey(record.Dataset, record.Version))
		a.namesUnknown = a.namesUnknown || pruned != nil
		return nil
	}
	a.namesUnknown = true
	return a.tell(ctx, KindIndex, index.Key, record.Dataset, record.Version, err)
}

func (a *auditor) readIndex(ctx context.Context, key string, visit func(attachments.IndexRow) error) error {
	info, err := a.Reader.Stat(ctx, key)
	if err != nil {
		return err
	}
	return attachments.ReadIndex(ctx, bucket.NewReaderAt(ctx, a.Reader, info), info.Size, visit)
}

// leftovers tells about what lies below the dataset's prefixes and no record names.
func (a *auditor) leftovers(dataset string, versions []*version, listed map[string]bucket.Info) {
	byNumber := numbered(versions)
	for key, info := range listed {
		if v := folderOf(byNumber, key); v != nil && visible(key) {
			a.find(misread(key, dataset, int64(v.held.Number), fmt.Sprintf("its version %d is whole without it: no record names it (%d bytes)", v.held.Number, info.Size)))
			continue
		}
		parsed, ok := manifest.ParseDataKey(key)
		if !ok {
			a.foreign(key, dataset)
			continue
		}
		n, document, isDocument := manifest.ParseVersionKey(dataset, key)
		if isDocument && ownDocument(document) {
			continue
		}
		if !isDocument {
			n = parsed.Version
		}
		if v := byNumber[n]; v != nil && v.held.Record && v.committed == nil {
			// Its record is told as a finding. Whether it names this object is not known.
			a.count(func(_ *Checked, n *NotChecked) { n.Objects++; n.NoRecord++ })
			continue
		}
		kind, detail := a.leftover(dataset, parsed.Table, byNumber[n], info)
		a.note(Finding{Kind: kind, Key: key, Dataset: dataset, Version: int64(n), Detail: fmt.Sprintf("%s (%d bytes)", detail, info.Size)})
	}
}

// leftover says what an object is that no record names; v is its version, nil when there is none.
func (a *auditor) leftover(dataset, table string, v *version, info bucket.Info) (Kind, string) {
	switch {
	case v == nil && a.Now().Sub(info.Modified) < inProgressFor:
		return KindInProgress, "its version was begun while the audit was under way"
	case v == nil:
		return KindOrphan, "no version of this number is known"
	case v.committed == nil && (a.owed[dataset] || a.Now().Sub(v.changed) < inProgressFor):
		return KindInProgress, "its version is being copied"
	case v.held.Claimed && !v.held.Record:
		return KindUncommittedOld, "its version was never committed"
	case table == string(manifest.KindChanges) && v.committed != nil && v.committed.Record().Changes == manifest.ChangesExpired:
		return KindOrphan, "the feed lost the other changes of its version before they were copied"
	default:
		return KindOrphan, "no record names it"
	}
}

// ownDocument reports whether a version's document is one of the mirror's own status documents,
// which no record names.
func ownDocument(document string) bool {
	switch document {
	case "record.json", "stored.json", "gone.json", "withdrawn.json", "pruned.json":
		return true
	}
	return isOtherManifest(document)
}

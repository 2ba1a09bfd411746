package audit

import (
	"context"
	"fmt"

	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
	"feedmirror/manifest"
)

// Catalog is the feed as an audit asks it.
type Catalog interface {
	Versions(ctx context.Context, id string, after manifest.Number, visit func(manifest.Version) error) error
	Version(ctx context.Context, id string, n manifest.Number, visit func(feed.Entry) error) (feed.Answer, error)
}

// AgainstFeed compares every version that the feed still has with the record of the same number: the
// manifest must be the one that was committed. It writes nothing. An error is the feed's, and what
// was compared until then is in the report.
func AgainstFeed(ctx context.Context, o Options, catalog Catalog) (Report, error) {
	if o.Select == nil {
		o.Select = func(string) bool { return true }
	}
	if o.Stage == nil {
		o.Stage = func(string) {}
	}
	a := &auditor{Options: o}
	a.report = Report{Level: o.Level, Started: o.Now(), Findings: []Finding{}, Notes: []Finding{}}
	datasets, err := a.datasets(ctx)
	if err != nil {
		return a.finish(), err
	}
	for _, dataset := range datasets {
		a.Stage(dataset + " against the feed")
		if err := a.compareDataset(ctx, catalog, dataset); err != nil {
			return a.finish(), fmt.Errorf("compare %s with the feed: %w", dataset, err)
		}
	}
	if err := a.acknowledged(ctx); err != nil {
		return a.finish(), err
	}
	return a.finish(), nil
}

func (a *auditor) compareDataset(ctx context.Context, catalog Catalog, dataset string) error {
	var listed []manifest.Number
	err := catalog.Versions(ctx, dataset, 0, func(v manifest.Version) error {
		listed = append(listed, v.Number)
		return nil
	})
	switch fault.KindOf(err) {
	case fault.NotFound, fault.NotSubscribed:
		a.note(Finding{Kind: KindNotAtFeed, Key: manifest.RecordsPrefix(dataset), Dataset: dataset, Detail: "the feed does not deliver this dataset: nothing could be compared"})
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range listed {
		if err := a.compareVersion(ctx, catalog, dataset, n); err != nil {
			return err
		}
	}
	return nil
}

func (a *auditor) compareVersion(ctx context.Context, catalog Catalog, dataset string, n manifest.Number) error {
	key := manifest.ManifestKey(dataset, n)
	committed, err := a.recall(ctx, dataset, n)
	switch {
	case fault.Is(err, fault.NotFound):
		a.note(Finding{Kind: KindNotMirrored, Key: key, Dataset: dataset, Version: int64(n), Detail: "the feed has this version, the bucket has no record of it"})
		return nil
	case fault.Is(err, fault.Malformed):
		return nil // told by the audit of the chain
	case err != nil:
		return a.tell(ctx, KindRecord, manifest.RecordKey(dataset, n), dataset, n, err)
	}
	answer, err := catalog.Version(ctx, dataset, n, func(feed.Entry) error { return nil })
	switch fault.KindOf(err) {
	case fault.Gone, fault.NotFound, fault.Rebuilding:
		a.note(Finding{Kind: KindNotAtFeed, Key: key, Dataset: dataset, Version: int64(n), Detail: "the feed lists this version and does not have it: it could not be compared"})
		return nil
	case fault.Malformed:
		a.find(Finding{Kind: KindHistoryChanged, Key: key, Dataset: dataset, Version: int64(n), Facts: "unusable", Detail: "the feed's answer cannot be used: " + err.Error(), Hint: fault.HintOf(err)})
		return nil
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.report.Compared++
	a.mu.Unlock()
	if want := committed.Record().Manifest.SHA256; answer.Manifest.SHA256 != want {
		a.find(Finding{Kind: KindHistoryChanged, Key: key, Dataset: dataset, Version: int64(n), Facts: answer.Manifest.SHA256.String(),
			Detail: fmt.Sprintf("the feed now serves manifest %s under this number, the one that was committed is %s", answer.Manifest.SHA256, want),
			Hint:   "The bucket keeps what was published first. Ask Ploti why a published version changed."})
	}
	return nil
}

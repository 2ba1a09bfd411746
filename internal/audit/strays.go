package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"feedmirror/internal/bucket"
	"feedmirror/manifest"
)

// tableFolders are the top-level prefixes that hold one folder a dataset.
var tableFolders = [...]string{"snapshot/", "changes/", "id_map/", "attachment_index/"}

// maxStrays bounds the notes about keys at the top level that no mirror writes.
const maxStrays = 100

// strays notes what belongs to no version of any dataset: folders of datasets that the bucket has no
// document of, and keys at the top level that no mirror writes. It costs one short listing a folder.
func (a *auditor) strays(ctx context.Context, datasets []string) error {
	for _, table := range tableFolders {
		if err := a.strayDatasets(ctx, table, datasets); err != nil {
			return err
		}
	}
	if a.Partial { // told by an audit of everything
		return nil
	}
	if err := a.strayPublications(ctx); err != nil {
		return err
	}
	return a.foreignFolders(ctx)
}

// strayDatasets walks the folders of one table.
func (a *auditor) strayDatasets(ctx context.Context, table string, datasets []string) error {
	folders := table + "ploti_dataset_id="
	for after := ""; ; {
		info, err := a.firstBehind(ctx, table, after)
		if err != nil || info.Key == "" {
			return err
		}
		dataset, _, inside := strings.Cut(strings.TrimPrefix(info.Key, folders), "/")
		ofDataset := inside && strings.HasPrefix(info.Key, folders) && manifest.CheckDataset(dataset) == nil
		switch {
		case !ofDataset:
			after = info.Key
			if table+"_delta_log/" <= info.Key && strings.HasPrefix(info.Key, table+"_delta_log/") {
				after = table + "_delta_log0" // the one log of a table of all datasets
				continue
			}
			if !a.Partial {
				a.foreign(info.Key, "")
			}
			continue
		case !slices.Contains(datasets, dataset) && a.Select(dataset):
			if err := a.strayDataset(ctx, folders+dataset+"/", dataset); err != nil {
				return err
			}
		}
		after = folders + dataset + "0" // behind every key of the folder: a 0 follows the slash
	}
}

// firstBehind returns the first object below prefix and behind after; without a key there is none.
func (a *auditor) firstBehind(ctx context.Context, prefix, after string) (bucket.Info, error) {
	for info, err := range a.Reader.List(ctx, prefix, after) {
		return info, err
	}
	return bucket.Info{}, nil
}

// strayDataset notes the files of a dataset that had no version when the audit began. One that was
// begun since has one now.
func (a *auditor) strayDataset(ctx context.Context, folder, dataset string) error {
	begun, err := a.firstBehind(ctx, manifest.RecordsPrefix(dataset), "")
	if err != nil || begun.Key != "" {
		return err
	}
	var loose looseAttachments
	kind, detail := KindOrphan, "no version of this dataset is known"
	for info, err := range a.Reader.List(ctx, folder, "") {
		if err != nil {
			return err
		}
		loose.add(info)
		if a.owed[dataset] || a.Now().Sub(info.Modified) < inProgressFor {
			kind, detail = KindInProgress, "no version of this dataset is known yet"
		}
	}
	if loose.count > 0 {
		a.note(Finding{Kind: kind, Key: loose.example, Dataset: dataset, Detail: fmt.Sprintf("%d objects like this one (%d bytes): %s", loose.count, loose.bytes, detail)})
	}
	return nil
}

// foreignFolders notes the first key of each folder at the top level that is none of the layout.
func (a *auditor) foreignFolders(ctx context.Context) error {
	own := []string{"_mirror", "attachment_index", "attachments", "changes", "current", "id_map", "publications", "snapshot", "versions"}
	after := ""
	for told := 0; told < maxStrays; {
		info, err := a.firstBehind(ctx, "", after)
		if err != nil || info.Key == "" {
			return err
		}
		folder, _, inside := strings.Cut(info.Key, "/")
		if !inside || !slices.Contains(own, folder) {
			told++
			what := "this key belongs"
			if inside {
				what = "keys below " + folder + "/ belong"
			}
			a.note(Finding{Kind: KindForeign, Key: info.Key, Detail: what + " to no mirror"})
		}
		if after = info.Key; inside {
			after = folder + "0" // a 0 follows the slash
		}
	}
	a.note(Finding{Kind: KindForeign, Key: after, Detail: "there may be more at the top level that belongs to no mirror"})
	return nil
}

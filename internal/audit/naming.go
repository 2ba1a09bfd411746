package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"feedmirror/attachments"
	"feedmirror/manifest"
)

// namedIndex is the attachment index of one version.
type namedIndex struct {
	dataset string
	version manifest.Number
	key     string
}

var errAllNamed = errors.New("all are named")

// nameAttachments tells for each finding about an attachment which version names it, and by which
// name: a hash alone says little to a person. The newest version that names it is told. What only
// versions name that a prune took meanwhile is no finding.
func (a *auditor) nameAttachments(ctx context.Context) {
	unnamed := map[manifest.SHA256][]int{}
	for at, finding := range a.report.Findings {
		key, ok := manifest.ParseDataKey(finding.Key)
		if ok && finding.Dataset == "" && !key.SHA256.IsZero() {
			unnamed[key.SHA256] = append(unnamed[key.SHA256], at)
		}
	}
	pruned, unread := false, false
	for at := len(a.indexes) - 1; at >= 0 && len(unnamed) > 0; at-- {
		index := a.indexes[at]
		if _, err := a.Reader.Stat(ctx, manifest.PrunedKey(index.dataset, index.version)); err == nil {
			pruned = true
			continue
		}
		// An index that cannot be read is a finding already; the next one may name them too.
		if err := a.nameBy(ctx, index, unnamed); err != nil && !errors.Is(err, errAllNamed) {
			unread = true
		}
	}
	if pruned && !unread {
		a.report.Findings = slices.DeleteFunc(a.report.Findings, func(f Finding) bool {
			key, ok := manifest.ParseDataKey(f.Key)
			return ok && f.Dataset == "" && f.Kind == KindMissing && len(unnamed[key.SHA256]) > 0
		})
	}
}

// nameBy names the findings about attachments that one index names, and takes them out of unnamed.
func (a *auditor) nameBy(ctx context.Context, index namedIndex, unnamed map[manifest.SHA256][]int) error {
	return a.readIndex(ctx, index.key, func(row attachments.IndexRow) error {
		for _, finding := range unnamed[row.SHA256] {
			f := &a.report.Findings[finding]
			f.Dataset, f.Version = index.dataset, int64(index.version)
			f.Detail += fmt.Sprintf("; it is %s, named %s", manifest.Quote(row.Filename), manifest.Quote(row.Name))
		}
		delete(unnamed, row.SHA256)
		if len(unnamed) == 0 {
			return errAllNamed
		}
		return nil
	})
}

package audit

import (
	"context"
	"slices"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// forgetPruned takes back what was found missing of versions that a prune took while the audit went
// on. A prune writes its note before the first delete, so that the note stands by now. Attachments
// were given a version that names them and was not pruned, else they are no findings any more.
func (a *auditor) forgetPruned(ctx context.Context) error {
	type ref struct {
		dataset string
		version manifest.Number
	}
	pruned := map[ref]bool{}
	for _, f := range a.report.Findings {
		of := ref{f.Dataset, manifest.Number(f.Version)}
		if _, known := pruned[of]; known || f.Kind != KindMissing || of.version == 0 {
			continue
		}
		_, err := a.Reader.Stat(ctx, manifest.PrunedKey(of.dataset, of.version))
		if err != nil && !fault.Is(err, fault.NotFound) {
			if err := a.tell(ctx, KindDocument, manifest.PrunedKey(of.dataset, of.version), of.dataset, of.version, err); err != nil {
				return err
			}
		}
		if pruned[of] = err == nil; err == nil {
			a.count(func(_ *Checked, n *NotChecked) { n.Pruned++ })
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Findings = slices.DeleteFunc(a.report.Findings, func(f Finding) bool {
		return f.Kind == KindMissing && pruned[ref{f.Dataset, manifest.Number(f.Version)}]
	})
	return nil
}

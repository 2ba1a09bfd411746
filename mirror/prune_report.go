package mirror

import (
	"context"
	"errors"
	"time"

	"feedmirror/manifest"
	"feedmirror/state"
)

// PruneReport is the result of a prune, or its plan.
type PruneReport struct {
	Status      string               `json:"status"` // planned, done, refused (some deletes were), unfinished
	Exit        int                  `json:"exit"`
	Run         string               `json:"run"`
	Tool        string               `json:"tool"`
	Applied     bool                 `json:"applied"`
	Started     time.Time            `json:"started"`
	Seconds     float64              `json:"seconds"`
	Rules       manifest.KeepRules   `json:"rules"`
	Versions    []state.PruneVersion `json:"versions"` // that go
	Kept        []KeptVersion        `json:"kept"`     // of the datasets looked at
	Attachments ObjectCounts         `json:"attachments"`
	Reports     ObjectCounts         `json:"reports"` // of runs and audits
	// More tells that further attachments could go, which the next prune takes: one prune takes at
	// most a million.
	More         bool         `json:"more"`
	Deleted      ObjectCounts `json:"deleted"`
	RefusedCount int64        `json:"refusedCount"`
	Refused      []Failure    `json:"refused"` // at most maxRefusals
	Notes        []Note       `json:"notes"`
}

// ObjectCounts count objects and their bytes.
type ObjectCounts struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

func (c *ObjectCounts) add(size int64) {
	c.Objects++
	c.Bytes += max(size, 0)
}

// KeptVersion is a version that stays, with the first reason found.
type KeptVersion struct {
	Dataset string          `json:"dataset"`
	Version manifest.Number `json:"version"`
	Why     string          `json:"why"`
}

// Total returns what the plan would delete.
func (r PruneReport) Total() ObjectCounts {
	total := r.Attachments
	total.Objects += r.Reports.Objects
	total.Bytes += r.Reports.Bytes
	for _, v := range r.Versions {
		total.Objects += v.Objects
		total.Bytes += v.Bytes
	}
	return total
}

// finish settles status and exit code, and keeps the report of a prune that changed something.
func (p *pruner) finish(ctx context.Context) PruneReport {
	r := p.report
	r.Seconds = p.Now().Sub(r.Started).Seconds()
	r.Deleted, r.Refused, r.RefusedCount = p.tally.deleted, append(r.Refused, p.tally.refused...), p.tally.refusedCount
	switch {
	case p.doc.Running() && p.doc.Run == p.Run:
		r.Status, r.Exit = "unfinished", ExitStopped
	case r.RefusedCount > 0 && r.Deleted.Objects == 0 && p.tally.allDenied():
		r.Status, r.Exit = "refused", ExitBucket
	case r.RefusedCount > 0:
		r.Status, r.Exit = "refused", ExitFailed
	case !p.Apply:
		r.Status = "planned"
	default:
		r.Status = "done"
	}
	if r.Deleted.Objects > 0 || r.RefusedCount > 0 {
		p.keepReport(ctx)
	}
	return *r
}

func (p *pruner) keepReport(ctx context.Context) {
	ctx, cancel := lasting(ctx, 3*time.Second)
	defer cancel()
	body, err := manifest.EncodeDocument(p.report)
	if err == nil {
		_, _, err = state.CreateOnce(ctx, p.Store, reportKey(p.report.Started, p.Run), body)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		p.note("", 0, "report", "this report could not be kept in the bucket: "+err.Error())
	}
}

func reportKey(started time.Time, run string) string {
	return manifest.RunsPrefix + started.UTC().Format("20060102T150405Z") + "-" + run + ".json"
}

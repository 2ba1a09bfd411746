package mirror

import (
	"context"
	"iter"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// Plan is what a pass would do now, and what it would cost. Nothing is written to find out.
type Plan struct {
	Pass     string        `json:"pass"` // full or incremental
	Started  time.Time     `json:"started"`
	Datasets []DatasetPlan `json:"datasets"`
	Total    Volume        `json:"total"`
	Requests PlanRequests  `json:"requests"` // that the pass would make, without retries
	Failures []Failure     `json:"failures"`
	Notes    []Note        `json:"notes"`
}

// DatasetPlan is what a pass would do for one dataset.
type DatasetPlan struct {
	Dataset   string          `json:"dataset"`
	Published manifest.Number `json:"published"` // zero while nothing is
	Newest    manifest.Number `json:"newest"`    // highest committed; zero while none is
	Current   manifest.Number `json:"current"`   // at the feed
	Versions  []VersionPlan   `json:"versions"`  // to be copied, in order
}

// VersionPlan is what one version would need.
type VersionPlan struct {
	Version manifest.Number `json:"version"`
	Action  string          `json:"action"` // copy, or gone when the feed refuses it
	Schema  string          `json:"schemaVersion,omitempty"`
	Volume
}

// Volume counts files and bytes to copy. Deduplicated attachments are named by the version and
// held already.
type Volume struct {
	Files              int64 `json:"files"`
	Bytes              int64 `json:"bytes"`
	Attachments        int64 `json:"attachments"`        // of the files
	Deduplicated       int64 `json:"deduplicated"`       // distinct attachments that need no copy
	AttachmentsCounted bool  `json:"attachmentsCounted"` // false: too many to size without storing the manifest; their bytes are not in Bytes
}

// PlanRequests are requests that a pass would make for its files.
type PlanRequests struct {
	Links       int64 `json:"links"`
	Source      int64 `json:"source"`
	BucketWrite int64 `json:"bucketWrite"`
}

// ownWrites are the bucket writes that a version costs beside its files: manifest, sums, stored,
// record, pointer. An attachment index is one more.
const ownWrites = 5

// MakePlan finds out what a pass would do. An error is one that would refuse the pass.
func MakePlan(ctx context.Context, o Options) (Plan, error) {
	p := newPass(o)
	plan := Plan{Started: p.tally.report.Started, Datasets: []DatasetPlan{}}
	layout, err := state.LoadLayout(ctx, p.Store)
	if err != nil {
		return plan, unfitBucket(err)
	}
	if err := p.checkLayout(layout); err != nil {
		return plan, err
	}
	if p.seen, p.seenTag, err = state.LoadShard(ctx, p.Store, p.shard()); err != nil {
		return plan, unfitBucket(err)
	}
	p.full = p.Full || p.seen == nil || p.Now().Sub(p.seen.LastFull) >= p.FullEvery
	plan.Pass = "incremental"
	if p.full {
		plan.Pass = "full"
	}
	targets, err := p.selectTargets(ctx)
	if err != nil {
		return plan, err
	}
	for _, t := range targets {
		dataset, err := p.planDataset(ctx, t)
		if ctx.Err() != nil {
			return plan, context.Cause(ctx)
		}
		if err != nil && !fault.Is(err, fault.NotSubscribed) {
			p.tally.fail(failureOf(t.dataset, 0, err))
		}
		if len(dataset.Versions) > 0 {
			plan.Datasets = append(plan.Datasets, dataset)
			plan.add(dataset)
		}
	}
	plan.Failures, plan.Notes = p.tally.report.Failures, p.tally.report.Notes
	return plan, nil
}

func (plan *Plan) add(dataset DatasetPlan) {
	for _, v := range dataset.Versions {
		plan.Total.Files += v.Files
		plan.Total.Bytes += v.Bytes
		plan.Total.Attachments += v.Attachments
		plan.Total.Deduplicated += v.Deduplicated
		if v.Action == "copy" {
			plan.Requests.Links += (v.Files + 199) / 200
			plan.Requests.Source += v.Files + 1
			plan.Requests.BucketWrite += v.Files + ownWrites
		}
	}
}

func (p *pass) planDataset(ctx context.Context, t target) (DatasetPlan, error) {
	w := &worker{pass: p, target: t, current: t.current, line: p.lineOf(t.dataset), log: p.Log,
		failed: map[manifest.Number]bool{}}
	result := DatasetPlan{Dataset: t.dataset, Versions: []VersionPlan{}}
	if err := w.read(ctx); err != nil {
		return result, err
	}
	if err := w.list(ctx); err != nil {
		return result, err
	}
	result.Current, result.Newest = w.current, w.holding.NewestRecord(manifest.MaxNumber+1)
	if w.pointer != nil {
		result.Published = w.pointer.Version
	}
	work := manifest.PlanWork(w.listed, w.holding, manifest.PlanOptions{
		History: w.History, Current: w.current, Full: t.full, FeedNow: w.feedNow})
	var before *versionCopy
	defer func() {
		if before != nil {
			before.release()
		}
	}()
	for _, s := range steps(work) {
		c := newVersionCopy(w, s)
		v, err := c.volume(ctx, before)
		if err != nil {
			c.release()
			return result, err
		}
		result.Versions = append(result.Versions, v)
		if v.Action == "copy" {
			if before != nil {
				before.release()
			}
			before = c
		}
	}
	return result, nil
}

// volume reads a version and its manifest and counts what the bucket lacks. What the version
// before it in the plan brings counts as held.
func (c *versionCopy) volume(ctx context.Context, before *versionCopy) (VersionPlan, error) {
	plan := VersionPlan{Version: c.number, Action: "copy"}
	err := c.readAnswer(ctx)
	if fault.Is(err, fault.Gone) {
		plan.Action = "gone"
		return plan, nil
	}
	if err == nil {
		err = c.readManifest(ctx)
	}
	if err == nil {
		err = c.crossCheck(ctx)
	}
	if err == nil && before != nil && before.body != nil { // first: what it will hold need not be looked up
		err = c.wanted.MarkHeld(hashesOf(before.attachments(ctx)))
	}
	if err == nil {
		err = c.lookUpAttachments(ctx)
	}
	if err != nil {
		return plan, err
	}
	plan.Schema = c.answer.Version.Schema.String()
	for _, f := range c.manifest.Files {
		plan.Files++
		plan.Bytes += f.Size
	}
	counts := c.wanted.Counts()
	plan.Attachments = int64(counts.Objects - counts.Held - counts.Present)
	plan.Files += plan.Attachments
	plan.Deduplicated = int64(counts.Held + counts.Present)
	plan.AttachmentsCounted = c.body != nil || plan.Attachments == 0
	if !plan.AttachmentsCounted {
		return plan, nil
	}
	for a, err := range c.wanted.Missing(c.attachments(ctx)) {
		if err != nil {
			return plan, err
		}
		plan.Bytes += a.Size
	}
	return plan, nil
}

func hashesOf(list iter.Seq2[manifest.Attachment, error]) iter.Seq2[manifest.SHA256, error] {
	return func(yield func(manifest.SHA256, error) bool) {
		for a, err := range list {
			if !yield(a.SHA256, err) || err != nil {
				return
			}
		}
	}
}

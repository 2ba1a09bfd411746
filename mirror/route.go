package mirror

import (
	"context"
	"fmt"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// RouteReport says what a consumer does, in this order, to get from one version of a dataset to another.
type RouteReport struct {
	Dataset string          `json:"dataset"`
	From    manifest.Number `json:"from"`
	To      manifest.Number `json:"to"`
	Steps   []RouteStep     `json:"steps"`
	Notes   []string        `json:"notes"` // what a person should know besides
}

// The things to do at a step.
const (
	RouteReload      = "reload"           // replace all rows with this snapshot
	RouteApply       = "apply"            // upserts and deletes, by _ploti_record_id
	RouteRewrite     = "rewrite-ids"      // ids that the consumer keeps elsewhere, by this id map: previous to new
	RouteRewriteBack = "rewrite-ids-back" // the same from new to previous
)

// RouteStep is one thing to do, with the files to do it with.
type RouteStep struct {
	Do      string                `json:"do"`
	Version manifest.Number       `json:"version"`
	Why     string                `json:"why,omitempty"`
	Files   []manifest.RecordFile `json:"files"`
}

// Route finds the shortest correct way for a consumer at a version of a dataset to another one; to zero
// means the published one. It reads the pointer and the records, and nothing of the feed.
func Route(ctx context.Context, r bucket.Reader, dataset string, from, to manifest.Number) (RouteReport, error) {
	report := RouteReport{Dataset: dataset, From: from, To: to, Steps: []RouteStep{}, Notes: []string{}}
	pointer, _, err := state.Read[state.Pointer](ctx, r, manifest.PointerKey(dataset))
	if err != nil {
		return report, err
	}
	if report.To == 0 {
		if pointer == nil {
			return report, routeRefused(dataset, fmt.Errorf("nothing of it is published"), "mirror status shows the datasets; --to names a version that is mirrored.")
		}
		report.To = pointer.Version
	}
	records, versions, err := routeVersions(ctx, r, dataset)
	if err != nil {
		return report, err
	}
	route, found := manifest.PlanRoute(versions, from, report.To)
	if !found {
		return report, routeRefused(dataset, fmt.Errorf("version %d is not mirrored whole", report.To), "mirror status shows the datasets; leave --to away for the published version.")
	}
	report.fill(route, records)
	return report, nil
}

func routeRefused(dataset string, err error, hint string) error {
	return &fault.Error{Op: "find a route", Object: dataset, Side: fault.SideConfig, Kind: fault.Usage, Err: err, Hint: hint}
}

func routeVersions(ctx context.Context, r bucket.Reader, dataset string) (map[manifest.Number]manifest.Record, []manifest.RouteVersion, error) {
	holding, err := state.LoadHolding(ctx, r, dataset)
	if err != nil {
		return nil, nil, err
	}
	records := map[manifest.Number]manifest.Record{}
	var versions []manifest.RouteVersion
	for _, held := range holding {
		if !held.Record {
			continue
		}
		committed, err := state.Recall(ctx, r, dataset, held.Number)
		if err != nil {
			return nil, nil, err
		}
		records[held.Number] = committed.Record()
		versions = append(versions, manifest.RouteVersionOf(committed.Record(), held.Pruned))
	}
	return records, versions, nil
}

func (r *RouteReport) fill(route manifest.Route, records map[manifest.Number]manifest.Record) {
	step := func(do string, n manifest.Number, kind manifest.Kind, why string) {
		files := []manifest.RecordFile{}
		for _, file := range records[n].Files {
			if file.Kind == kind {
				files = append(files, file)
			}
		}
		r.Steps = append(r.Steps, RouteStep{Do: do, Version: n, Why: why, Files: files})
	}
	if route.Reload != 0 {
		step(RouteReload, route.Reload, manifest.KindSnapshot, route.Reason)
	}
	for _, n := range route.Rewrite {
		step(RouteRewrite, n, manifest.KindIDMap, "")
	}
	for _, n := range route.RewriteBack {
		step(RouteRewriteBack, n, manifest.KindIDMap, "")
	}
	for _, n := range route.Apply {
		step(RouteApply, n, manifest.KindChanges, "")
	}
	for _, n := range route.Empty {
		r.Notes = append(r.Notes, fmt.Sprintf("version %d changed nothing", n))
	}
	for _, n := range route.Fill {
		r.Notes = append(r.Notes, fmt.Sprintf("version %d added columns: rows that did not change have null there until you reload from a snapshot, which is optional", n))
	}
	if route.Unmapped {
		r.Notes = append(r.Notes, "not every id map of the way is here: ids that you keep elsewhere may lead nowhere")
	}
}

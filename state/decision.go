package state

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// NamedDecision is a decision with its key.
type NamedDecision struct {
	Key string
	Decision
}

// WriteDecision puts a decision under a name that sorts behind every one that stands, also when
// clocks differ, and returns its key.
func WriteDecision(ctx context.Context, docs Documents, decision Decision) (string, error) {
	last, err := lastDecision(ctx, docs, decision.Dataset)
	if err != nil {
		return "", err
	}
	body, err := manifest.EncodeDocument(decision)
	if err != nil {
		return "", err
	}
	key := decisionKey(decision, decision.At)
	if key <= last {
		at, err := decisionTime(decision.Dataset, last)
		if err != nil {
			return "", err
		}
		key = decisionKey(decision, at.Add(time.Millisecond))
	}
	_, ours, err := CreateOnce(ctx, docs, key, body)
	if err != nil {
		return "", err
	}
	if !ours {
		return "", &fault.Error{Op: "write decision", Object: key, Side: fault.SideBucket, Kind: fault.Exists, Hint: "Run the command again."}
	}
	return key, nil
}

const decisionTimeLayout = "20060102T150405.000Z"

func decisionKey(d Decision, at time.Time) string {
	return manifest.DecisionsPrefix(d.Dataset) + at.UTC().Format(decisionTimeLayout) + "-" + d.Run + ".json"
}

func decisionTime(dataset, key string) (time.Time, error) {
	name := key[len(manifest.DecisionsPrefix(dataset)):]
	if len(name) < len(decisionTimeLayout) {
		return time.Time{}, fmt.Errorf("read decision name %s: too short", key)
	}
	return time.Parse(decisionTimeLayout, name[:len(decisionTimeLayout)])
}

func lastDecision(ctx context.Context, r bucket.Reader, dataset string) (string, error) {
	last := ""
	for info, err := range r.List(ctx, manifest.DecisionsPrefix(dataset), "") {
		if err != nil {
			return "", err
		}
		last = info.Key
	}
	return last, nil
}

// HasDecision reports whether a run has written its decision about a dataset. Who then lists the
// pending ones finds it, unless the pointer obeys it already.
func HasDecision(ctx context.Context, r bucket.Reader, dataset, run string) (bool, error) {
	for info, err := range r.List(ctx, manifest.DecisionsPrefix(dataset), "") {
		if err != nil {
			return false, err
		}
		if strings.HasSuffix(info.Key, "Z-"+run+".json") {
			return true, nil
		}
	}
	return false, nil
}

// PendingDecisions returns the decisions about a dataset that its pointer does not obey yet, in
// the order in which they were made. One older than the newest that the pointer obeys was overtaken.
func PendingDecisions(ctx context.Context, r bucket.Reader, dataset string, pointer *Pointer) ([]NamedDecision, error) {
	after := ""
	if pointer != nil && len(pointer.Decisions) > 0 {
		after = slices.Max(pointer.Decisions)
	}
	var pending []NamedDecision
	for info, err := range r.List(ctx, manifest.DecisionsPrefix(dataset), after) {
		if err != nil {
			return nil, err
		}
		decision, _, err := Read[Decision](ctx, r, info.Key)
		if err != nil {
			return nil, err
		}
		if decision != nil && decision.moves() {
			pending = append(pending, NamedDecision{Key: info.Key, Decision: *decision})
		}
	}
	return pending, nil
}

// Retires reports whether the last of the decisions that no pointer obeys leaves the dataset alone.
// Only where nothing is published do decisions say so by themselves: a pointer says it else.
func Retires(pending []NamedDecision) bool {
	return len(pending) > 0 && pending[len(pending)-1].Action == ActionRetire
}

// moves reports whether a pointer has to obey a decision; others only say something.
func (d Decision) moves() bool {
	return d.Action == ActionApprove || d.Action == ActionRollback || d.Action == ActionRetire
}

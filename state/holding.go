package state

import (
	"context"
	"strings"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// LoadHolding lists what the bucket holds of a dataset: one listing, no reads.
func LoadHolding(ctx context.Context, r bucket.Reader, dataset string) (manifest.Holding, error) {
	var holding manifest.Holding
	for info, err := range r.List(ctx, manifest.RecordsPrefix(dataset), "") {
		if err != nil {
			return nil, err
		}
		number, document, ok := manifest.ParseVersionKey(dataset, info.Key)
		if !ok {
			continue // reported by the audit's layout check, of no use here
		}
		if len(holding) == 0 || holding[len(holding)-1].Number != number {
			holding = append(holding, manifest.Held{Number: number})
		}
		note(&holding[len(holding)-1], document, info.Modified)
	}
	return holding, nil
}

func note(held *manifest.Held, document string, modified time.Time) {
	switch document {
	case "manifest.json":
		held.Claimed = true
	case "record.json":
		held.Record = true
	case "gone.json":
		held.Gone, held.GoneSince = true, modified
	case "withdrawn.json":
		held.Withdrawn = true // until the document was read and says otherwise
	case "pruned.json":
		held.Pruned = true
	default:
		held.Rewritten = held.Rewritten || manifest.IsOtherManifest(document)
	}
}

// Datasets returns the datasets that have a version in the bucket, in order: one short listing each.
func Datasets(ctx context.Context, r bucket.Reader) ([]string, error) {
	var list []string
	for after := ""; ; {
		next, err := nextDataset(ctx, r, after)
		if err != nil || next == "" {
			return list, err
		}
		list = append(list, next)
		after = "versions/" + next + "0" // 0 follows the slash: behind every key of the dataset
	}
}

func nextDataset(ctx context.Context, r bucket.Reader, after string) (string, error) {
	for info, err := range r.List(ctx, "versions/", after) {
		if err != nil {
			return "", err
		}
		dataset, _, ok := strings.Cut(strings.TrimPrefix(info.Key, "versions/"), "/")
		if ok && manifest.CheckDataset(dataset) == nil {
			return dataset, nil
		}
	}
	return "", nil
}

// ReadNotes completes what a listing cannot tell: whether a withdrawal was closed, and why versions
// from the given one on are noted gone, since older notes of that decide nothing any more.
func ReadNotes(ctx context.Context, r bucket.Reader, dataset string, holding manifest.Holding, from manifest.Number) error {
	for at := range holding {
		held := &holding[at]
		if held.Withdrawn {
			doc, _, err := Read[Withdrawn](ctx, r, manifest.WithdrawnKey(dataset, held.Number))
			if err != nil {
				return err
			}
			held.Withdrawn = doc != nil && doc.Until == nil
		}
		if held.Gone && !held.Record && held.Number >= from {
			doc, _, err := Read[Gone](ctx, r, manifest.GoneKey(dataset, held.Number))
			if err != nil {
				return err
			}
			if doc != nil {
				held.GoneFor = doc.Reason
			}
		}
	}
	return nil
}

// NoteGone writes gone.json, or leaves the one that stands.
func NoteGone(ctx context.Context, docs Documents, pause Pause, gone Gone) error {
	_, err := Update(ctx, docs, pause, manifest.GoneKey(gone.Dataset, gone.Version), func(standing *Gone) (*Gone, error) {
		if standing != nil && standing.Reason == gone.Reason {
			return nil, nil //nolint:nilnil // leave it
		}
		return &gone, nil
	})
	return err
}

// NoteWithdrawn writes withdrawn.json beside a record, opening or (until set) closing it.
func NoteWithdrawn(ctx context.Context, docs Documents, pause Pause, note Withdrawn) error {
	_, err := Update(ctx, docs, pause, manifest.WithdrawnKey(note.Dataset, note.Version), func(standing *Withdrawn) (*Withdrawn, error) {
		switch {
		case standing == nil && note.Until != nil:
			return nil, nil //nolint:nilnil // nothing was open
		case standing == nil:
			next := note
			return &next, nil
		case (standing.Until == nil) == (note.Until == nil):
			return nil, nil //nolint:nilnil // it says so already
		}
		next := *standing
		next.Until = note.Until
		if note.Until == nil {
			next.From, next.Message = note.From, note.Message
		}
		return &next, nil
	})
	return err
}

// KeepOtherManifest keeps a manifest that the feed published under a number whose record names
// another one. It reports whether it was kept already, and so was told before.
func KeepOtherManifest(ctx context.Context, docs Documents, dataset string, n manifest.Number, body []byte) (before bool, err error) {
	key := manifest.OtherManifestKey(dataset, n, manifest.SumBytes(body))
	_, ours, err := CreateOnce(ctx, docs, key, body)
	if fault.Is(err, fault.Exists) {
		return true, nil
	}
	return !ours, err
}

// DatasetOfKey returns the dataset of a key like current/<dataset>.json, or "".
func DatasetOfKey(key string) string {
	rest, ok := strings.CutPrefix(key, "current/")
	if !ok {
		return ""
	}
	dataset, ok := strings.CutSuffix(rest, ".json")
	if !ok || manifest.CheckDataset(dataset) != nil {
		return ""
	}
	return dataset
}

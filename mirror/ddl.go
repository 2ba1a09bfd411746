package mirror

import (
	"context"
	"errors"
	"slices"

	"feedmirror/internal/bucket"
	"feedmirror/internal/parquetinfo"
	"feedmirror/internal/tables"
	"feedmirror/manifest"
	"feedmirror/state"
)

// Describe reads from a bucket what DDL needs of the datasets that are published: the shape of each
// MAJOR schema, taken from the footers of its newest version that still has its files. chosen says which
// datasets are wanted.
func Describe(ctx context.Context, r bucket.Reader, chosen func(dataset string) bool) ([]tables.Described, error) {
	datasets, err := state.Datasets(ctx, r)
	if err != nil {
		return nil, err
	}
	var list []tables.Described
	for _, dataset := range datasets {
		if !chosen(dataset) {
			continue
		}
		pointer, _, err := state.Read[state.Pointer](ctx, r, manifest.PointerKey(dataset))
		if err != nil {
			return nil, err
		}
		if pointer == nil {
			continue // nobody reads it yet
		}
		one, err := describe(ctx, r, pointer)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

func describe(ctx context.Context, r bucket.Reader, pointer *state.Pointer) (tables.Described, error) {
	one := tables.Described{Dataset: pointer.Dataset}
	holding, err := state.LoadHolding(ctx, r, pointer.Dataset)
	if err != nil {
		return one, err
	}
	known := map[int]bool{}
	for _, held := range slices.Backward(holding) {
		if !held.Record || held.Pruned || held.Number > pointer.HighestPublished() {
			continue
		}
		committed, err := state.Recall(ctx, r, pointer.Dataset, held.Number)
		if err != nil {
			return one, err
		}
		record := committed.Record()
		one.Attachments = one.Attachments || record.Attachments.Index != nil
		if known[record.SchemaVersion.Major] {
			continue
		}
		known[record.SchemaVersion.Major] = true
		columns, err := columnsOf(ctx, r, record)
		var unmappable *tables.UnmappableError
		switch {
		case errors.As(err, &unmappable):
			if record.Version == pointer.Version {
				one.Reason = unmappable.Reason
			}
		case err != nil:
			return one, err
		default:
			one.Majors = append(one.Majors, tables.Major{Number: record.SchemaVersion.Major, Columns: columns})
		}
	}
	slices.Reverse(one.Majors)
	return one, nil
}

func columnsOf(ctx context.Context, r bucket.Reader, record manifest.Record) ([]tables.Column, error) {
	var parts []parquetinfo.PartInfo
	for _, file := range record.Files {
		if file.Kind != manifest.KindSnapshot {
			continue
		}
		part, err := tables.StoredFooters{Reader: r}.Footer(ctx, file)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return tables.ColumnsOf(parts)
}

package tables

import (
	"context"
	"errors"
	"fmt"

	"feedmirror/attachments"
	"feedmirror/internal/fault"
	"feedmirror/internal/parquetinfo"
	"feedmirror/manifest"
	"feedmirror/state"
)

// Snapshot makes the table of a dataset's snapshot show the version that its pointer names.
func (p *Projector) Snapshot(ctx context.Context, dataset string) (Outcome, error) {
	return p.show(ctx, SnapshotRoot(dataset), dataset, func(ctx context.Context) (*view, error) {
		return p.published(ctx, dataset, p.describeSnapshot)
	})
}

// Attachments makes the table of a dataset's attachments show those of the version that its pointer
// names: none when it lists none.
func (p *Projector) Attachments(ctx context.Context, dataset string) (Outcome, error) {
	return p.show(ctx, AttachmentRoot(dataset), dataset+"_attachments", func(ctx context.Context) (*view, error) {
		return p.published(ctx, dataset, p.describeAttachments)
	})
}

// published returns the version that the dataset's pointer names; nil when nothing is published.
func (p *Projector) published(ctx context.Context, dataset string, describe func(context.Context, *manifest.Record) (description, error)) (*view, error) {
	pointer, _, err := state.Read[state.Pointer](ctx, p.Store, manifest.PointerKey(dataset))
	if err != nil || pointer == nil {
		return nil, err
	}
	return &view{dataset: dataset, version: pointer.Version, record: pointer.Record.SHA256.String(), move: pointer.Move, describe: func(ctx context.Context) (description, error) {
		committed, err := state.Recall(ctx, p.Store, dataset, pointer.Version)
		if err != nil {
			return description{}, err
		}
		record := committed.Record()
		return describe(ctx, &record)
	}}, nil
}

func (p *Projector) describeSnapshot(ctx context.Context, record *manifest.Record) (description, error) {
	var shown description
	root := SnapshotRoot(record.Dataset)
	var parts []parquetinfo.PartInfo
	for _, part := range record.Files {
		if part.Kind != manifest.KindSnapshot {
			continue
		}
		info, err := p.Footers.Footer(ctx, part)
		if err != nil {
			return shown, err
		}
		parts = append(parts, info)
		if info.Err != nil {
			continue // ColumnsOf tells
		}
		one, err := fileOf(root, part, &info, record)
		if err != nil {
			return shown, err
		}
		shown.files = append(shown.files, one)
	}
	columns, err := ColumnsOf(parts)
	var unmappable *UnmappableError
	if errors.As(err, &unmappable) {
		return description{reason: unmappable.Reason}, nil
	}
	shown.columns = columns
	return shown, err
}

func fileOf(root string, part manifest.RecordFile, info *parquetinfo.PartInfo, record *manifest.Record) (file, error) {
	path, err := relativePath(root, part.Key)
	if err != nil {
		return file{}, err
	}
	stats, err := statsOf(info)
	if err != nil {
		return file{}, fmt.Errorf("statistics of %s: %w", part.Key, err)
	}
	return file{path: path, size: part.Size, modified: record.CommittedAt, stats: stats}, nil
}

func (p *Projector) describeAttachments(ctx context.Context, record *manifest.Record) (description, error) {
	shown := description{columns: attachmentColumns()}
	index := record.Attachments.Index
	if index == nil {
		return shown, nil
	}
	info, err := p.Store.Stat(ctx, index.Key)
	if err != nil {
		return shown, err
	}
	if info.Size < 0 {
		return shown, &fault.Error{Op: "project table", Object: index.Key, Side: fault.SideBucket, Kind: fault.Malformed, Err: errors.New("the store does not say its size")}
	}
	path, err := relativePath(AttachmentRoot(record.Dataset), index.Key)
	if err != nil {
		return shown, err
	}
	shown.files = []file{{path: path, size: info.Size, modified: record.CommittedAt, stats: fmt.Sprintf(`{"numRecords":%d}`, record.Attachments.Count)}}
	return shown, nil
}

// attachmentColumns are the columns of every attachment index, in the order it has them.
func attachmentColumns() []Column {
	columns := make([]Column, 0, 8)
	for _, column := range attachments.IndexColumns() {
		kind := Type{Name: typeString}
		if column == "size_bytes" {
			kind.Name = typeLong
		}
		columns = append(columns, Column{Name: column, Type: kind})
	}
	return columns
}

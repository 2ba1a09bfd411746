package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"feedmirror/attachments"
	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/parquetinfo"
	"feedmirror/manifest"
	"feedmirror/state"
)

// commit writes what only the mirror can write of a version (index, sums), verifies all of it and
// puts the record.
func (c *versionCopy) commit(ctx context.Context) (*state.Committed, error) {
	record, objects, err := c.draft(ctx)
	if err != nil {
		return nil, err
	}
	c.Observer.Stage(c.target.dataset, fmt.Sprintf("version %d: verifying", c.number))
	verified, err := state.Verify(ctx, c.Store, c.target.dataset, c.number, objects, c)
	if err != nil {
		return nil, err
	}
	if err := c.inspect(ctx, &record); err != nil {
		return nil, err
	}
	if err := record.Validate(); err != nil {
		return nil, fmt.Errorf("commit version %d: %w", c.number, err)
	}
	if err := c.noteStored(ctx, verified); err != nil {
		return nil, err
	}
	committed, err := state.Commit(ctx, c.Store, verified, record)
	if err != nil {
		return nil, err
	}
	return &committed, nil
}

// draft builds the record, with the index and the sums stored on the way.
func (c *versionCopy) draft(ctx context.Context) (manifest.Record, []state.Object, error) {
	v, entry := c.answer.Version, c.answer.Manifest
	record := manifest.Record{
		Layout: manifest.LayoutVersion, Dataset: v.Dataset, Version: v.Number, PreviousVersion: v.Previous,
		PublishedAt: v.PublishedAt, SchemaVersion: v.Schema, RowCount: v.RowCount, Counts: v.Counts,
		ResyncRequired: v.ResyncRequired, RecordIDsChanged: v.RecordIDsChanged, FetchedAt: v.FetchedAt,
		Manifest:     manifest.ObjectRef{Key: manifest.ManifestKey(v.Dataset, v.Number), SHA256: entry.SHA256},
		ManifestSize: entry.Size, Doubts: []string{}, Files: []manifest.RecordFile{},
		Run: c.Run, Tool: c.Tool, CommittedAt: c.Now(),
	}
	if v.SourceURL != "" {
		record.SourceURL = &v.SourceURL
	}
	if err := c.link(ctx, &record); err != nil {
		return record, nil, err
	}
	objects := []state.Object{{Key: record.Manifest.Key, Size: entry.Size, SHA256: entry.SHA256, Streamed: c.streamed[record.Manifest.Key]}}
	for _, f := range c.manifest.Files {
		if f.Kind == manifest.KindChanges && c.lostChanges {
			continue
		}
		key := manifest.FileKey(v.Dataset, v.Number, f)
		record.Files = append(record.Files, manifest.RecordFile{Kind: f.Kind, Path: f.Path, Key: key, Size: f.Size, SHA256: f.SHA256})
		objects = append(objects, state.Object{Key: key, Size: f.Size, SHA256: f.SHA256, Streamed: c.streamed[key]})
	}
	record.Changes = c.changes()
	index, err := c.storeIndex(ctx, &record)
	if err != nil {
		return record, nil, err
	}
	objects = append(objects, index...)
	sums, err := c.storeSums(ctx, &record)
	if err != nil {
		return record, nil, err
	}
	return record, append(objects, sums), nil
}

// link names the record before this one, and the gap where the feed names another.
func (c *versionCopy) link(ctx context.Context, record *manifest.Record) error {
	previous, gap := manifest.Follow(c.answer.Version, c.holding, func(n manifest.Number) bool { return c.failed[n] })
	record.Gap = gap
	if previous == 0 {
		return nil
	}
	before, err := c.recall(ctx, previous)
	if err != nil {
		return err
	}
	record.PreviousRecord = &manifest.RecordRef{Version: previous, SHA256: before.SHA256()}
	return nil
}

func (c *versionCopy) changes() manifest.ChangesState {
	has := slices.ContainsFunc(c.manifest.Files, func(f manifest.File) bool { return f.Kind == manifest.KindChanges })
	switch {
	case c.lostChanges:
		return manifest.ChangesExpired
	case has:
		return manifest.ChangesPresent
	case c.answer.Version.ResyncRequired:
		return manifest.ChangesNotApplicable
	default:
		return manifest.ChangesEmpty
	}
}

// storeIndex writes the attachment index and sums up the attachments in the record.
func (c *versionCopy) storeIndex(ctx context.Context, record *manifest.Record) ([]state.Object, error) {
	if c.wanted.Counts().Objects == 0 {
		return nil, nil
	}
	sum, err := c.wanted.Summarize(c.attachments(ctx))
	if err != nil {
		return nil, err
	}
	rows := func() iter.Seq2[manifest.Attachment, error] { return c.attachments(ctx) }
	index, err := attachments.NewIndex(rows)
	if err != nil {
		return nil, err
	}
	defer index.Close()
	key := manifest.IndexKey(record.Dataset, record.Version)
	object, err := c.storeOwn(ctx, key, index.Content, func(standing state.Object) (bool, error) {
		return c.sameIndex(ctx, standing)
	})
	if err != nil {
		return nil, err
	}
	record.Attachments = sum
	record.Attachments.Index = &manifest.ObjectRef{Key: key, SHA256: object.SHA256}
	c.tally.update(func(r *Report) { r.Bytes.Deduplicated += sum.Bytes - sum.NewBytes })
	return []state.Object{object}, nil
}

// storeSums writes SHA256SUMS.
func (c *versionCopy) storeSums(ctx context.Context, record *manifest.Record) (state.Object, error) {
	lines := manifest.SumLines(record.Manifest, record.Files, record.Attachments.Index)
	var text bytes.Buffer
	if err := manifest.EncodeSums(&text, lines); err != nil {
		return state.Object{}, err
	}
	content := bucket.Content{Size: int64(text.Len()), SHA256: manifest.SumBytes(text.Bytes()), Class: bucket.Document, Body: bytes.NewReader(text.Bytes())}
	object, err := c.storeOwn(ctx, manifest.SumsKey(record.Dataset, record.Version), content, func(state.Object) (bool, error) { return false, nil })
	record.Sums = manifest.ObjectRef{Key: object.Key, SHA256: object.SHA256}
	return object, err
}

// storeOwn puts a file that the mirror made itself. One that stands already is kept as it is when
// it has the same bytes, or says the same.
func (c *versionCopy) storeOwn(ctx context.Context, key string, content bucket.Content, same func(state.Object) (bool, error)) (state.Object, error) {
	object := state.Object{Key: key, Size: content.Size, SHA256: content.SHA256, Streamed: true}
	_, err := c.Store.Create(ctx, key, content)
	if err == nil || !fault.Is(err, fault.Exists) {
		return object, err
	}
	object.Streamed = false
	info, equal, err := bucket.Holds(ctx, c.Store, key, content.Size, content.SHA256)
	if err != nil || equal {
		return object, err
	}
	standing, err := c.hashStanding(ctx, key, info)
	if err != nil {
		return object, err
	}
	if equal, err = same(standing); err != nil || equal {
		return standing, err
	}
	return object, &fault.Error{Op: "put object", Object: key, Side: fault.SideBucket, Kind: fault.Conflict,
		Dataset: c.target.dataset, Version: int64(c.number), Err: errors.New("an earlier try left another file here"),
		Hint: fmt.Sprintf("mirror prune --uncommitted %s %d clears the earlier try", c.target.dataset, c.number)}
}

func (c *versionCopy) hashStanding(ctx context.Context, key string, info bucket.Info) (state.Object, error) {
	body, _, err := c.Store.Open(ctx, key, 0, -1)
	if err != nil {
		return state.Object{}, err
	}
	defer body.Close() // only read from: nothing can be lost
	sum, size, err := manifest.SumReader(body)
	if err != nil {
		return state.Object{}, fmt.Errorf("read object %s: %w", key, err)
	}
	return state.Object{Key: info.Key, Size: size, SHA256: sum}, nil
}

// sameIndex reports whether an index that stands, perhaps written by another release of the
// mirror, has the rows that we would write.
func (c *versionCopy) sameIndex(ctx context.Context, standing state.Object) (bool, error) {
	next, stop := iter.Pull2(c.attachments(ctx))
	defer stop()
	differs := errors.New("differs")
	info := bucket.Info{Key: standing.Key, Size: standing.Size}
	err := attachments.ReadIndex(ctx, bucket.NewReaderAt(ctx, c.Store, info), standing.Size, func(row attachments.IndexRow) error {
		want, err, more := next()
		switch {
		case err != nil:
			return err
		case !more || row.Attachment != want:
			return differs
		}
		return nil
	})
	if errors.Is(err, differs) || fault.Is(err, fault.Malformed) {
		return false, nil
	}
	_, _, more := next()
	return err == nil && !more, err
}

// inspect reads the footers of the version's tables: rows for the record, and doubts where the
// content contradicts the feed's own facts. A doubt holds the pointer, never the copy.
func (c *versionCopy) inspect(ctx context.Context, record *manifest.Record) error {
	tables := map[manifest.Kind][]parquetinfo.PartInfo{}
	for at := range record.Files {
		file := &record.Files[at]
		if file.Kind != manifest.KindSnapshot && file.Kind != manifest.KindChanges && file.Kind != manifest.KindIDMap {
			continue
		}
		info, err := c.footers.Footer(ctx, *file)
		if err != nil {
			return err
		}
		if info.Err == nil {
			rows := info.Rows
			file.Rows = &rows
		}
		tables[file.Kind] = append(tables[file.Kind], info)
	}
	record.Doubts = append(record.Doubts, parquetinfo.Doubts(tables[manifest.KindSnapshot], record.RowCount)...)
	record.Doubts = append(record.Doubts, parquetinfo.Doubts(tables[manifest.KindChanges], changedRows(record))...)
	record.Doubts = append(record.Doubts, parquetinfo.Doubts(tables[manifest.KindIDMap], parquetinfo.RowsUnknown)...)
	return nil
}

func changedRows(record *manifest.Record) int64 {
	if record.Counts == nil {
		return parquetinfo.RowsUnknown
	}
	return record.Counts.Added + record.Counts.Changed + record.Counts.Removed
}

// noteStored keeps what the store said of each object. It is a status document: the audit reads an
// object again when the store says something else later.
func (c *versionCopy) noteStored(ctx context.Context, verified state.Verified) error {
	doc := state.StoredDocument{Dataset: c.target.dataset, Version: c.number, Objects: verified.StoredObjects(), Attachments: "none", At: c.Now()}
	if c.wanted.Counts().Objects > 0 {
		doc.Attachments = "listed"
	}
	_, err := state.Update(ctx, c.Store, c.Pause, manifest.StoredKey(c.target.dataset, c.number), func(*state.StoredDocument) (*state.StoredDocument, error) {
		return &doc, nil
	})
	return err
}

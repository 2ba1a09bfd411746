package mirror

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"feedmirror/attachments"
	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// records restores records that a later record or the pointer names by another hash than theirs. A
// record cannot be fetched: only an older version of the object has it.
func (r *repairer) records(ctx context.Context, dataset string) error {
	wanted, err := r.wantedRecords(ctx, dataset)
	if err != nil {
		return err
	}
	for n, sum := range wanted {
		d := &damaged{versionRef: versionRef{dataset, n}, key: manifest.RecordKey(dataset, n), size: unknownSize, sum: sum, class: bucket.Document}
		bad, err := r.examine(ctx, d)
		if err == nil && bad {
			err = r.fromOlder(ctx, d)
		}
		if err != nil {
			return err
		}
		if bad {
			d.failed(false, "a record can only come from the bucket's own history")
			r.close(d)
		}
	}
	return nil
}

// wantedRecords returns the hashes by which later records, or else the pointer, name a dataset's
// records.
func (r *repairer) wantedRecords(ctx context.Context, dataset string) (map[manifest.Number]manifest.SHA256, error) {
	wanted := map[manifest.Number]manifest.SHA256{}
	holding, err := state.LoadHolding(ctx, r.Store, dataset)
	if err != nil {
		return nil, err
	}
	for _, held := range holding {
		committed, err := state.Recall(ctx, r.Store, dataset, held.Number)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			continue // it names nothing; that it cannot be read is a finding of its own
		}
		if previous := committed.Record().PreviousRecord; previous != nil {
			wanted[previous.Version] = previous.SHA256
		}
	}
	pointer, _, err := state.Read[state.Pointer](ctx, r.Store, manifest.PointerKey(dataset))
	if err != nil && !fault.Is(err, fault.Malformed) {
		return nil, err
	}
	if pointer != nil && pointer.Record.Key == manifest.RecordKey(dataset, pointer.Version) {
		if _, named := wanted[pointer.Version]; !named {
			wanted[pointer.Version] = pointer.Record.SHA256
		}
	}
	return wanted, nil
}

// noRecord reports whether a version has no record that can be used.
func noRecord(err error) bool { return fault.Is(err, fault.NotFound) || fault.Is(err, fault.Malformed) }

// version restores objects of one version.
func (r *repairer) version(ctx context.Context, ref versionRef, keys map[string]bool) error {
	if keys[manifest.StoredKey(ref.dataset, ref.number)] {
		r.rebuild[ref] = true
	}
	committed, err := state.Recall(ctx, r.Store, ref.dataset, ref.number)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		for key := range keys {
			d := &damaged{versionRef: ref, key: key}
			d.failed(!noRecord(err), "its version has no record that can be used: %v", err)
			r.close(d)
		}
		return nil
	}
	if pruned, err := state.CheckPruned(ctx, r.Store, ref.dataset, ref.number); pruned || err != nil {
		return err // taken since it was found missing
	}
	var fetch []*damaged
	for _, d := range namedBy(committed.Record()) {
		if !keys[d.key] {
			continue
		}
		fromFeed, err := r.locally(ctx, committed.Record(), d)
		if err != nil {
			return err
		}
		if fromFeed {
			fetch = append(fetch, d)
		}
	}
	if err := r.fromFeed(ctx, ref, fetch); err != nil {
		return err
	}
	for _, d := range fetch {
		r.close(d)
	}
	return nil
}

// namedBy returns the objects that a record names, attachments apart: the manifest first, from which
// the index is rebuilt.
func namedBy(record manifest.Record) []*damaged {
	ref := versionRef{record.Dataset, record.Version}
	list := []*damaged{
		{versionRef: ref, key: record.Manifest.Key, size: record.ManifestSize, sum: record.Manifest.SHA256},
		{versionRef: ref, key: record.Sums.Key, size: unknownSize, sum: record.Sums.SHA256, class: bucket.Document},
	}
	if index := record.Attachments.Index; index != nil {
		list = append(list, &damaged{versionRef: ref, key: index.Key, size: unknownSize, sum: index.SHA256})
	}
	for _, file := range record.Files {
		list = append(list, &damaged{versionRef: ref, key: file.Key, name: file.Path, size: file.Size, sum: file.SHA256})
	}
	return list
}

// locally looks what is wrong with an object and tries what needs no link: an older version, and for
// the mirror's own files to make them again. The manifest comes from the feed, by a link of its own.
// It reports whether the object is one that is left to be fetched.
func (r *repairer) locally(ctx context.Context, record manifest.Record, d *damaged) (fetch bool, err error) {
	bad, err := r.examine(ctx, d)
	if err == nil && bad {
		err = r.fromOlder(ctx, d)
	}
	if err != nil || !bad || d.restored {
		return false, err
	}
	switch d.key {
	case record.Manifest.Key:
		err = r.manifestFromFeed(ctx, d)
	case record.Sums.Key:
		err = r.rebuildSums(ctx, record, d)
	case manifest.IndexKey(record.Dataset, record.Version):
		err = r.rebuildIndex(ctx, record, d)
	default:
		return true, nil
	}
	r.close(d)
	return false, err
}

// fromOlder looks for the right bytes among the older versions that the store keeps.
func (r *repairer) fromOlder(ctx context.Context, d *damaged) error {
	if r.Versions == nil {
		return nil
	}
	for version, err := range r.Versions.Older(ctx, d.key) {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case fault.Is(err, fault.Unsupported):
			return nil // it keeps none
		case err != nil:
			d.failed(true, "older versions cannot be listed: %v", err)
			return nil
		case d.size != unknownSize && version.Size != d.size:
			continue
		case version.Archived:
			d.failed(true, "an older version is in an archive tier")
			continue
		}
		if err := r.fromVersion(ctx, d, version); err != nil || d.restored {
			return err
		}
	}
	d.failed(false, "no older version has its bytes")
	return nil
}

func (r *repairer) fromVersion(ctx context.Context, d *damaged, version bucket.OlderVersion) error {
	body, _, err := r.Versions.OpenOlder(ctx, d.key, version.ID)
	if err != nil {
		d.failed(true, "an older version cannot be read: %v", err)
		return nil
	}
	defer body.Close() // only read from: nothing can be lost
	source := &watchedReader{source: body}
	err = r.put(ctx, d, bucket.Content{Size: version.Size, SHA256: d.sum, Class: d.class, Body: source})
	switch {
	case source.err != nil:
		d.failed(true, "an older version cannot be read: %v", source.err)
		return nil
	case fault.Is(err, fault.WrongBytes):
		return nil // not the one
	}
	return r.written(ctx, d, "older-version", version.Size, err)
}

// rebuildSums makes SHA256SUMS from the record, as it was made at the commit.
func (r *repairer) rebuildSums(ctx context.Context, record manifest.Record, d *damaged) error {
	var text bytes.Buffer
	if err := manifest.EncodeSums(&text, manifest.SumLines(record.Manifest, record.Files, record.Attachments.Index)); err != nil {
		d.failed(false, "it cannot be rebuilt: %v", err)
		return nil
	}
	return r.rebuilt(ctx, d, bucket.Content{Size: int64(text.Len()), SHA256: manifest.SumBytes(text.Bytes()), Class: bucket.Document, Body: bytes.NewReader(text.Bytes())})
}

// rebuildIndex makes the attachment index from the manifest.
func (r *repairer) rebuildIndex(ctx context.Context, record manifest.Record, d *damaged) error {
	rows := func() iter.Seq2[manifest.Attachment, error] { return storedAttachments(ctx, r.Store, record) }
	index, err := attachments.NewIndex(rows)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		d.failed(true, "it cannot be rebuilt from the manifest: %v", err)
		return nil
	}
	defer index.Close()
	return r.rebuilt(ctx, d, index.Content)
}

// rebuilt writes a file that was made again, if it has the bytes that the record names.
func (r *repairer) rebuilt(ctx context.Context, d *damaged, content bucket.Content) error {
	if content.SHA256 != d.sum {
		d.failed(false, "what can be rebuilt has other bytes than those committed (sha256 %s): another release of the mirror wrote it", content.SHA256)
		return nil
	}
	content.SHA256, content.Class = d.sum, d.class
	return r.written(ctx, d, "rebuilt", content.Size, r.put(ctx, d, content))
}

// storedAttachments streams the attachments of a version's stored manifest. Its bytes are verified
// at the end: until it ends without an error, nothing that it yielded counts.
func storedAttachments(ctx context.Context, reader bucket.Reader, record manifest.Record) iter.Seq2[manifest.Attachment, error] {
	return func(yield func(manifest.Attachment, error) bool) {
		body, _, err := reader.Open(ctx, record.Manifest.Key, 0, -1)
		if err != nil {
			yield(manifest.Attachment{}, err)
			return
		}
		defer body.Close() // only read from: nothing can be lost
		stop := errors.New("stop")
		verified := bucket.VerifyReader(body, record.ManifestSize, record.Manifest.SHA256)
		_, err = manifest.DecodeManifest(verified, func(a manifest.Attachment) error {
			if !yield(a, nil) {
				return stop
			}
			return nil
		})
		if err != nil && !errors.Is(err, stop) {
			yield(manifest.Attachment{}, err)
		}
	}
}

// rebuildStored writes down anew what the store says of a version's objects. Objects that did not
// change keep their entry; so do those that are still wrong, so that the audit goes on to see that
// they are not what was committed.
func (r *repairer) rebuildStored(ctx context.Context, ref versionRef) error {
	committed, err := state.Recall(ctx, r.Store, ref.dataset, ref.number)
	if noRecord(err) {
		return nil // told above
	}
	if err != nil {
		return err
	}
	record, key := committed.Record(), manifest.StoredKey(ref.dataset, ref.number)
	before, tag, err := state.Read[state.StoredDocument](ctx, r.Store, key)
	if fault.Is(err, fault.Malformed) {
		info, statErr := r.Store.Stat(ctx, key)
		if statErr != nil {
			return statErr
		}
		before, tag, err = nil, info.Tag, nil
	}
	if err != nil {
		return err
	}
	doc := state.StoredDocument{Dataset: ref.dataset, Version: ref.number, Objects: []state.StoredObject{}, Attachments: "none", At: r.Now()}
	if record.Attachments.Count > 0 {
		doc.Attachments = "listed"
	}
	for _, d := range namedBy(record) {
		entry, known, err := r.storedEntry(ctx, d, before)
		if err != nil {
			return err
		}
		if known {
			doc.Objects = append(doc.Objects, entry)
		}
	}
	_, _, err = state.UpdateFrom(ctx, r.Store, r.Pause, key, before, tag, func(*state.StoredDocument) (*state.StoredDocument, error) {
		next := doc
		return &next, nil
	})
	return err
}

// storedEntry returns what stored.json is to say of an object; known is false when nothing is.
func (r *repairer) storedEntry(ctx context.Context, d *damaged, before *state.StoredDocument) (entry state.StoredObject, known bool, err error) {
	if before != nil {
		for _, one := range before.Objects {
			if one.Key == d.key {
				entry, known = one, true
			}
		}
	}
	info, err := r.Store.Stat(ctx, d.key)
	switch {
	case fault.Is(err, fault.NotFound):
		return entry, known, nil
	case err != nil:
		return entry, known, err
	case known && string(info.Tag) == entry.ETag:
		return entry, true, nil
	}
	size := d.size
	if size == unknownSize {
		size = info.Size
	}
	attested, err := state.Attest(ctx, r.Store, state.Object{Key: d.key, Size: size, SHA256: d.sum})
	if err != nil {
		return entry, known, ctx.Err() // it stays a finding; only a stop ends the work
	}
	return attested, true, nil
}

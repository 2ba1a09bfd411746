package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"feedmirror/attachments"
	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/transfer"
	"feedmirror/manifest"
)

// lookUpAttachments finds out which attachment objects the bucket has: those that the record
// before names are carried over, the others are looked for.
func (c *versionCopy) lookUpAttachments(ctx context.Context) error {
	if c.wanted.Counts().Objects == 0 {
		return nil
	}
	if err := c.markHeld(ctx); err != nil {
		return err
	}
	return c.wanted.LookUp(ctx, c.Store)
}

// markHeld carries over what the record before names. An index that is damaged or gone keeps no
// later version waiting: then nothing is carried over, each object is looked for, and all of them
// count as new.
func (c *versionCopy) markHeld(ctx context.Context) error {
	index, err := c.previousIndex(ctx)
	if err != nil || index == nil {
		return err
	}
	err = c.wanted.MarkHeld(indexDigests(ctx, c.Store, *index))
	if fault.Is(err, fault.NotFound) {
		// A prune that began after our claim may take the index; it leaves what we name.
		if index, err = c.previousIndex(ctx); err == nil && index != nil {
			err = absent(index.Key)
		}
	}
	kind := fault.KindOf(err)
	if index != nil && (kind == fault.NotFound || kind == fault.Malformed || kind == fault.Archived) {
		c.lostIndex(index.Key, err)
		return nil
	}
	return err
}

func (c *versionCopy) lostIndex(key string, err error) {
	c.tally.note(Note{Dataset: c.target.dataset, Version: int64(c.number), Kind: "index-unreadable",
		Message: fmt.Sprintf("nothing is carried over from %s, which cannot be read: every attachment was looked for, and counts as new. mirror verify --level inventory tells more", key)})
	c.log.Warn().Err(err).Int64("version", int64(c.number)).Msg("the attachment index of the version before cannot be read; every attachment is looked for")
}

// previousIndex returns the attachment index of the record that this version's record will name,
// or nil when there is none to carry over from.
func (c *versionCopy) previousIndex(ctx context.Context) (*manifest.ObjectRef, error) {
	previous := c.holding.NewestRecord(c.number)
	if previous == 0 {
		return nil, nil //nolint:nilnil // nothing to carry over is no error
	}
	// Asked now, after the claim: a prune may have come and gone since the holding was listed.
	_, err := c.Store.Stat(ctx, manifest.PrunedKey(c.target.dataset, previous))
	switch {
	case err == nil:
		return nil, nil //nolint:nilnil // its attachments may be gone; each is looked for
	case !fault.Is(err, fault.NotFound):
		return nil, err
	}
	committed, err := c.recall(ctx, previous)
	if err != nil {
		return nil, err
	}
	return committed.Record().Attachments.Index, nil
}

func indexDigests(ctx context.Context, r bucket.Reader, index manifest.ObjectRef) iter.Seq2[manifest.SHA256, error] {
	info, err := r.Stat(ctx, index.Key)
	if err != nil {
		return func(yield func(manifest.SHA256, error) bool) { yield(manifest.SHA256{}, err) }
	}
	return attachments.IndexDigests(ctx, bucket.NewReaderAt(ctx, r, info), info.Size)
}

// attachments streams the manifest's attachments, from memory or from the stored manifest.
func (c *versionCopy) attachments(ctx context.Context) iter.Seq2[manifest.Attachment, error] {
	return func(yield func(manifest.Attachment, error) bool) {
		in, err := c.openManifest(ctx)
		if err != nil {
			yield(manifest.Attachment{}, err)
			return
		}
		defer in.Close() // only read from: nothing can be lost
		stop := errors.New("stop")
		_, err = manifest.DecodeManifest(in, func(a manifest.Attachment) error {
			if !yield(a, nil) {
				return stop
			}
			return nil
		})
		if err != nil && !errors.Is(err, stop) {
			yield(manifest.Attachment{}, c.manifestFault(err))
		}
	}
}

func (c *versionCopy) openManifest(ctx context.Context) (io.ReadCloser, error) {
	if c.body != nil {
		return io.NopCloser(bytes.NewReader(c.body)), nil
	}
	entry := c.answer.Manifest
	body, _, err := c.Store.Open(ctx, manifest.ManifestKey(c.target.dataset, c.number), 0, -1)
	if err != nil {
		return nil, err
	}
	return verifiedBody{bucket.VerifyReader(body, entry.Size, entry.SHA256), body}, nil
}

type verifiedBody struct {
	io.Reader
	io.Closer
}

// missing yields the files to copy: the version's own files first, then attachments.
func (c *versionCopy) missing(ctx context.Context) iter.Seq2[transfer.File, error] {
	return func(yield func(transfer.File, error) bool) {
		for _, f := range c.manifest.Files {
			file := transfer.File{Name: f.Path, Key: manifest.FileKey(c.target.dataset, c.number, f), Size: f.Size, SHA256: f.SHA256}
			present, err := c.present(ctx, file)
			if err != nil {
				yield(transfer.File{}, err)
				return
			}
			if present {
				continue
			}
			if !yield(file, nil) {
				return
			}
		}
		for a, err := range c.wanted.Missing(c.attachments(ctx)) {
			file := transfer.File{Name: a.Name, Key: manifest.AttachmentKey(a.SHA256), Size: a.Size, SHA256: a.SHA256}
			if !yield(file, err) || err != nil {
				return
			}
		}
	}
}

// present reports whether a file of the version stands already, with the right bytes. Only an
// earlier try can have put it there, and that one stored the manifest first.
func (c *versionCopy) present(ctx context.Context, file transfer.File) (bool, error) {
	if !c.claimed {
		return false, nil
	}
	info, same, err := bucket.Holds(ctx, c.Store, file.Key, file.Size, file.SHA256)
	switch {
	case err != nil:
		return false, err
	case same:
		c.tally.update(func(r *Report) { r.Files.Present++ })
		c.Observer.Finished(c.target.dataset)
		return true, nil
	case info.Key != "":
		return false, &fault.Error{Op: "copy version", Object: file.Key, Side: fault.SideBucket, Kind: fault.Conflict,
			Dataset: c.target.dataset, Version: int64(c.number), Err: errors.New("the object holds other bytes than the manifest names"),
			Hint: fmt.Sprintf("mirror prune --uncommitted %s %d clears the earlier try", c.target.dataset, c.number)}
	}
	return false, nil
}

// AllPresent implements state.AttachmentCheck: after the copy, every attachment object that was
// not carried over is looked for once more.
func (c *versionCopy) AllPresent(ctx context.Context) error {
	if c.wanted.Counts().Objects == 0 {
		return nil
	}
	if err := c.wanted.LookUp(ctx, c.Store); err != nil {
		return err
	}
	counts := c.wanted.Counts()
	if absent := counts.Objects - counts.Held - counts.Present; absent > 0 {
		return &fault.Error{Op: "verify version", Object: manifest.AttachmentPrefix, Side: fault.SideBucket, Kind: fault.Transient,
			Dataset: c.target.dataset, Version: int64(c.number), Err: fmt.Errorf("%d attachment objects that were stored cannot be found", absent),
			Hint: "The store does not list what it took. The next pass looks again; mirror doctor tests it."}
	}
	return nil
}

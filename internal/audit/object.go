package audit

import (
	"context"
	"errors"
	"fmt"
	"io"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// object checks one object as deep as the level goes. It returns only errors that end the audit.
func (a *auditor) object(ctx context.Context, want expected, info bucket.Info) error {
	defer a.Checked()
	a.count(func(c *Checked, _ *NotChecked) { c.Objects++ })
	switch {
	case want.size != unknownSize && info.Size >= 0 && info.Size != want.size:
		a.findObject(KindWrongSize, want, fmt.Sprintf("it has %d bytes, %d are named", info.Size, want.size), restoreHint)
		return nil
	case info.Encoding != "":
		a.findObject(KindEncoded, want, fmt.Sprintf("the store keeps it with content encoding %q", info.Encoding), "Something rewrote its metadata; restore the object.")
		return nil
	}
	if want.size == unknownSize {
		want.size = info.Size
	}
	switch {
	case !a.deep(want.dataset, want.version):
		return nil
	case a.Level.includes(LevelChecksum) && a.Ledger != nil && !info.Archived:
		a.wait(want, info)
		return nil
	case a.Level.includes(LevelBytes):
		return a.bytes(ctx, want, info)
	case a.Level.includes(LevelChecksum):
		return a.checksum(ctx, want)
	case want.etag != "" && string(info.Tag) != want.etag:
		// Another tag than when it was committed: the bucket was moved, or somebody wrote to it.
		return a.bytes(ctx, want, info)
	default:
		return nil
	}
}

// checksum compares what the store itself keeps. A store that keeps no sha256 proves nothing.
func (a *auditor) checksum(ctx context.Context, want expected) error {
	info, err := a.Reader.Stat(ctx, want.key)
	switch {
	case fault.Is(err, fault.NotFound):
		a.missing(want)
	case err != nil:
		return a.unreadable(ctx, want, err)
	case info.SHA256 == nil && want.etag != "" && string(info.Tag) != want.etag:
		return a.bytes(ctx, want, info)
	case info.SHA256 == nil:
		a.count(func(_ *Checked, n *NotChecked) { n.Objects++; n.NoChecksum++ })
	case *info.SHA256 != want.sum:
		a.findObject(KindChecksum, want, fmt.Sprintf("the store's sha256 is %s, %s is named", info.SHA256, want.sum), restoreHint)
	default:
		a.good(want, info.Tag)
	}
	return nil
}

// deep reports whether the contents of a version are looked at.
func (a *auditor) deep(dataset string, n manifest.Number) bool {
	return a.Deep == nil || a.Deep(dataset, n)
}

// bytes reads an object and hashes it. A bad read is repeated before anything is accused.
func (a *auditor) bytes(ctx context.Context, want expected, info bucket.Info) error {
	if info.Archived {
		a.archived(want)
		return nil
	}
	tag, first := a.read(ctx, want)
	if first == nil {
		a.good(want, tag)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	tag, second := a.read(ctx, want)
	switch {
	case second == nil:
		a.good(want, tag)
		a.note(Finding{Kind: KindUnreadable, Key: want.key, Dataset: want.dataset, Version: int64(want.version),
			Detail: "read well the second time, after: " + first.Error()})
	case fault.Is(second, fault.NotFound):
		a.missing(want)
	case fault.Is(second, fault.Archived):
		a.archived(want)
	case fault.Is(second, fault.WrongBytes):
		a.findObject(KindCorrupt, want, second.Error(), restoreHint)
	default:
		return a.unreadable(ctx, want, second)
	}
	return nil
}

func (a *auditor) read(ctx context.Context, want expected) (bucket.Tag, error) {
	body, info, err := a.Reader.Open(ctx, want.key, 0, -1)
	if err != nil {
		return bucket.Absent, err
	}
	defer body.Close() // only read from: nothing can be lost
	if want.size == unknownSize {
		want.size = info.Size // a listing need not tell it
	}
	n, err := hashAll(body, want)
	a.count(func(c *Checked, _ *NotChecked) { c.Bytes += n })
	a.Read(n)
	return info.Tag, err
}

// hashAll reads a body and compares it, by its hash alone where nobody told its size. It returns how
// many bytes were read.
func hashAll(body io.Reader, want expected) (int64, error) {
	if want.size != unknownSize {
		return io.Copy(io.Discard, bucket.VerifyReader(body, want.size, want.sum))
	}
	sum, n, err := manifest.SumReader(body)
	if err == nil && sum != want.sum {
		err = &fault.Error{Op: "verify bytes", Kind: fault.WrongBytes, Err: fmt.Errorf("sha256 is %s, want %s", sum, want.sum)}
	}
	return n, err
}

func (a *auditor) unreadable(ctx context.Context, want expected, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return err
	}
	a.count(func(_ *Checked, n *NotChecked) { n.Objects++; n.Unreadable++ })
	a.findObject(KindUnreadable, want, err.Error(), "Nothing is known about its bytes. Check the store and the reader's permissions, then verify again.")
	return nil
}

func (a *auditor) archived(want expected) {
	a.count(func(_ *Checked, n *NotChecked) { n.Objects++; n.Archived++ })
	a.note(Finding{Kind: KindUnreadable, Key: want.key, Dataset: want.dataset, Version: int64(want.version), Detail: "in an archive tier: its bytes were not checked"})
}

func (a *auditor) findObject(kind Kind, want expected, detail, hint string) {
	a.find(Finding{Kind: kind, Key: want.key, Dataset: want.dataset, Version: int64(want.version), Detail: detail, Hint: hint})
}

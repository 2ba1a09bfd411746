package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// object checks one object as deep as the level goes. It returns only errors that end the audit.
func (a *auditor) object(ctx context.Context, want expected, info bucket.Info) error {
	defer a.Checked()
	a.count(func(c *Checked, _ *NotChecked) { c.Objects++ })
	if problem(want, info) != nil {
		// A listing is a moment old, and a store may tell it wrong: the object itself is asked.
		again, err := a.Reader.Stat(ctx, want.key)
		switch {
		case fault.Is(err, fault.NotFound):
			a.missing(want)
			return nil
		case err != nil:
			return a.unreadable(ctx, want, err)
		}
		info = again
	}
	if f := problem(want, info); f != nil {
		a.find(*f)
		return nil
	}
	if want.size == unknownSize {
		want.size = info.Size
	}
	switch {
	case !a.deep(want.dataset, want.version):
		return nil
	case want.unit != nil:
		a.enter(want, info)
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

// problem returns what is wrong with what a store says of an object, nil when nothing is.
func problem(want expected, info bucket.Info) *Finding {
	f := Finding{Key: want.key, Dataset: want.dataset, Version: int64(want.version), Hint: restoreHint}
	switch {
	case want.size != unknownSize && info.Size >= 0 && info.Size != want.size:
		f.Kind, f.Facts = KindWrongSize, strconv.FormatInt(info.Size, 10)
		f.Detail = fmt.Sprintf("it has %d bytes, %d are named", info.Size, want.size)
	case info.Encoding != "":
		f.Kind, f.Facts = KindEncoded, info.Encoding
		f.Detail, f.Hint = fmt.Sprintf("the store keeps it with content encoding %q", info.Encoding), "Something rewrote its metadata; restore the object."
	default:
		return nil
	}
	return &f
}

// absent judges an object that a listing lacks: the store is asked once more before it is called
// missing.
func (a *auditor) absent(ctx context.Context, want expected) error {
	info, err := a.Reader.Stat(ctx, want.key)
	if err == nil {
		return a.object(ctx, want, info)
	}
	defer a.Checked()
	a.count(func(c *Checked, _ *NotChecked) { c.Objects++ })
	if fault.Is(err, fault.NotFound) {
		a.missing(want)
		return nil
	}
	return a.unreadable(ctx, want, err)
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
		a.findObject(KindChecksum, want, info.SHA256.String(), fmt.Sprintf("the store's sha256 is %s, %s is named", info.SHA256, want.sum), restoreHint)
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
	first := a.read(ctx, want)
	if err := want.spool.trouble(); err != nil {
		return err
	}
	if first.good(want) {
		a.good(want, first.tag)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	second := a.read(ctx, want)
	if err := want.spool.trouble(); err != nil {
		return err
	}
	switch {
	case second.good(want):
		a.good(want, second.tag)
		a.note(Finding{Kind: KindUnreadable, Key: want.key, Dataset: want.dataset, Version: int64(want.version),
			Detail: "read well the second time, after: " + first.text(want)})
	case fault.Is(second.err, fault.NotFound):
		a.missing(want)
	case fault.Is(second.err, fault.Archived):
		a.archived(want)
	case second.err != nil:
		return a.unreadable(ctx, want, second.err)
	case first.err == nil && first.sum != second.sum:
		return a.unreadable(ctx, want, errors.New("it was read twice, and had other bytes each time: "+first.text(want)+"; "+second.text(want)))
	default:
		a.findObject(KindCorrupt, want, second.sum.String(), second.text(want), restoreHint)
	}
	return nil
}

// reading is what reading an object to its end showed.
type reading struct {
	tag  bucket.Tag
	sum  manifest.SHA256
	size int64 // bytes that came
	err  error
}

func (r reading) good(want expected) bool {
	return r.err == nil && r.sum == want.sum && (want.size == unknownSize || r.size == want.size)
}

func (r reading) text(want expected) string {
	switch {
	case r.err != nil:
		return r.err.Error()
	case want.size != unknownSize && r.size != want.size:
		return fmt.Sprintf("%d bytes came, %d are named", r.size, want.size)
	default:
		return fmt.Sprintf("sha256 is %s, want %s", r.sum, want.sum)
	}
}

func (a *auditor) read(ctx context.Context, want expected) reading {
	body, info, err := a.Reader.Open(ctx, want.key, 0, -1)
	if err != nil {
		return reading{err: err}
	}
	defer body.Close() // only read from: nothing can be lost
	r := reading{tag: info.Tag}
	from := io.Reader(body)
	if want.spool != nil {
		if err := want.spool.restart(); err != nil {
			return reading{err: err}
		}
		from = io.TeeReader(body, want.spool)
	}
	r.sum, r.size, r.err = manifest.SumReader(from)
	if want.spool != nil {
		want.spool.tag, want.spool.good = info.Tag, r.good(want)
	}
	a.count(func(c *Checked, _ *NotChecked) { c.Bytes += r.size })
	a.Read(r.size)
	return r
}

// unreadable tells of an object that could not be read: by the class of the error, which is its
// fact, since a store words the same refusal in another way each time.
func (a *auditor) unreadable(ctx context.Context, want expected, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return err
	}
	a.count(func(_ *Checked, n *NotChecked) { n.Objects++; n.Unreadable++ })
	a.findObject(KindUnreadable, want, string(fault.KindOf(err)), err.Error(), unreadableHint)
	return nil
}

const unreadableHint = "Nothing is known about its bytes. Check the store and the reader's permissions, then verify again."

func (a *auditor) archived(want expected) {
	a.count(func(_ *Checked, n *NotChecked) { n.Objects++; n.Archived++ })
	a.note(Finding{Kind: KindArchived, Key: want.key, Dataset: want.dataset, Version: int64(want.version), Detail: "in an archive tier: its bytes were not checked"})
}

func (a *auditor) findObject(kind Kind, want expected, facts, detail, hint string) {
	a.find(Finding{Kind: kind, Key: want.key, Dataset: want.dataset, Version: int64(want.version), Facts: facts, Detail: detail, Hint: hint})
}

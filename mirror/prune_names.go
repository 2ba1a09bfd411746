package mirror

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// attachmentNames say which attachments are named by versions that stay and, where only some
// datasets are pruned, which by versions that go.
type attachmentNames struct {
	stay  hashSet
	leave *hashSet // nil: whatever nobody names goes
}

// hashSet is a set of hashes, cut to 128 bits: 16 bytes each. Additions are sorted in when they
// amount to as much as is there, so that many versions that name the same objects stay small.
type hashSet struct {
	sorted [][16]byte
	fresh  [][16]byte
}

const freshAtLeast = 1 << 16

func (s *hashSet) add(sum manifest.SHA256) {
	s.fresh = append(s.fresh, [16]byte(sum[:16]))
	if len(s.fresh) >= max(freshAtLeast, len(s.sorted)) {
		s.settle()
	}
}

func (s *hashSet) settle() {
	if len(s.fresh) == 0 {
		return
	}
	s.sorted = append(s.sorted, s.fresh...)
	s.fresh = s.fresh[:0]
	slices.SortFunc(s.sorted, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	s.sorted = slices.Compact(s.sorted)
}

// has reports whether a hash is in the set. All additions come first.
func (s *hashSet) has(sum manifest.SHA256) bool {
	s.settle()
	_, found := slices.BinarySearchFunc(s.sorted, [16]byte(sum[:16]), func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	return found
}

// hasStart reports whether a hash in the set begins like this.
func (s *hashSet) hasStart(start state.HashStart) bool {
	s.settle()
	var least [16]byte
	copy(least[:], start[:])
	at, _ := slices.BinarySearchFunc(s.sorted, least, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	return at < len(s.sorted) && state.HashStart(s.sorted[at][:8]) == start
}

// readNames reads what every version of every dataset names, committed or not, but for those that
// go and those that were pruned. pick, where it is given, says of which datasets the names of the
// latter are kept apart. What a version names must be known for certain: anything else is an error.
func (p *pruner) readNames(ctx context.Context, goes map[versionID]bool, pick func(dataset string) bool) (*attachmentNames, error) {
	names := new(attachmentNames)
	if pick != nil {
		names.leave = new(hashSet)
	}
	datasets, err := state.Datasets(ctx, p.Store)
	if err != nil {
		return nil, err
	}
	for _, dataset := range datasets {
		holding, err := state.LoadHolding(ctx, p.Store, dataset)
		if err != nil {
			return nil, err
		}
		for _, held := range holding {
			switch {
			case held.Record && held.Pruned || goes[versionID{dataset, held.Number}]:
				if pick != nil && pick(dataset) {
					err = p.readLeaving(ctx, dataset, held.Number, names.leave)
				}
			case held.Record:
				err = p.readCommitted(ctx, dataset, held.Number, &names.stay)
			case held.Claimed:
				err = p.readClaimed(ctx, dataset, held.Number, &names.stay)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

// readCommitted reads what a committed version names by its manifest, whose bytes must be those that
// the record names, and by the index that its readers use.
func (p *pruner) readCommitted(ctx context.Context, dataset string, n manifest.Number, into *hashSet) error {
	committed, err := state.Recall(ctx, p.Store, dataset, n)
	if err != nil {
		return err
	}
	record := committed.Record()
	index := record.Attachments.Index
	if record.Attachments.Count == 0 || index == nil {
		return nil
	}
	err = p.readManifest(ctx, dataset, n, into, func(in io.Reader) io.Reader {
		return bucket.VerifyReader(in, record.ManifestSize, record.Manifest.SHA256)
	})
	if err == nil {
		err = p.readIndex(ctx, *index, into)
	}
	if fault.Is(err, fault.NotFound) {
		// Another prune may have taken it since it was listed: then its names keep nothing.
		if _, pruned := p.Store.Stat(ctx, manifest.PrunedKey(dataset, n)); pruned == nil {
			return nil
		}
	}
	if err != nil {
		return unknownNames(dataset, n, err, "mirror verify shows what is damaged; restore it first.")
	}
	return nil
}

func (p *pruner) readIndex(ctx context.Context, index manifest.ObjectRef, into *hashSet) error {
	for sum, err := range indexDigests(ctx, p.Store, index) {
		if err != nil {
			return err
		}
		into.add(sum)
	}
	return nil
}

func (p *pruner) readClaimed(ctx context.Context, dataset string, n manifest.Number, into *hashSet) error {
	err := p.readManifest(ctx, dataset, n, into, func(in io.Reader) io.Reader { return in })
	if fault.Is(err, fault.NotFound) {
		return nil // cleared since it was listed
	}
	if err != nil {
		return unknownNames(dataset, n, err, fmt.Sprintf("Clear the version with: mirror prune --uncommitted %s %d", dataset, n))
	}
	return nil
}

// readLeaving reads what a version names that goes. Names that cannot be read any more keep
// their objects in the bucket.
func (p *pruner) readLeaving(ctx context.Context, dataset string, n manifest.Number, into *hashSet) error {
	err := p.readManifest(ctx, dataset, n, into, func(in io.Reader) io.Reader { return in })
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Malformed) {
		p.note(dataset, n, "unreadable-manifest", "attachments that only this version names stay: "+err.Error())
		return nil
	}
	return err
}

func (p *pruner) readManifest(ctx context.Context, dataset string, n manifest.Number, into *hashSet, verified func(io.Reader) io.Reader) error {
	key := manifest.ManifestKey(dataset, n)
	body, _, err := p.Store.Open(ctx, key, 0, -1)
	if err != nil {
		return err
	}
	defer body.Close() // only read from: nothing can be lost
	in := verified(body)
	_, err = manifest.DecodeManifest(in, func(a manifest.Attachment) error {
		into.add(a.SHA256)
		return nil
	})
	if err == nil {
		_, err = io.Copy(io.Discard, in) // to the end, where the checksum is compared
	}
	if err != nil && fault.KindOf(err) == "" && ctx.Err() == nil {
		return &fault.Error{Op: "read manifest", Object: key, Side: fault.SideBucket, Kind: fault.Malformed, Dataset: dataset, Version: int64(n), Err: err}
	}
	return err
}

func unknownNames(dataset string, n manifest.Number, err error, hint string) error {
	return &fault.Error{Op: "read what a version names", Object: manifest.ManifestKey(dataset, n), Side: fault.SideBucket, Kind: fault.KindOf(err),
		Dataset: dataset, Version: int64(n), Err: fmt.Errorf("nothing is pruned while it is unknown: %w", err), Hint: hint}
}

// unnamed lists the attachments that go: those that no version names that stays, and that are older
// than the grace, by the store's clock.
func (p *pruner) unnamed(ctx context.Context, names *attachmentNames, grace time.Duration) iter.Seq2[attachment, error] {
	return func(yield func(attachment, error) bool) {
		for info, err := range p.Store.List(ctx, manifest.AttachmentPrefix, "") {
			if err != nil {
				yield(attachment{}, err)
				return
			}
			key, ok := manifest.ParseDataKey(info.Key)
			if !ok || key.Kind != manifest.KeyAttachment || names.stay.has(key.SHA256) || names.leave != nil && !names.leave.has(key.SHA256) {
				continue
			}
			if grace > 0 && p.Now().Sub(info.Modified) < grace {
				continue
			}
			if !yield(attachment{key.SHA256, info}, nil) {
				return
			}
		}
	}
}

package attachments

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"golang.org/x/sync/errgroup"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

const (
	// headAtMost hashes are looked up one by one without trying a listing first: the first page
	// of a listing would not save enough to pay for itself.
	headAtMost = 5
	// pageObjects is what a store returns for one listing request (S3 and GCS; Azure more).
	pageObjects = 1000
	// headsAtOnce bounds the lookups in flight; at 20 ms each that is 800 a second.
	headsAtOnce = 16
)

// LookUp finds out which of the hashes that are neither held nor present stand in the bucket. An
// object counts as present only with the wanted size, since only verified writes create keys
// that are hashes; another size is a fault.Conflict that names the key. An object whose size the
// store does not say is not counted as present.
//
// Few are asked for one by one. Many are looked for in a listing, which is left for single
// lookups as soon as its remaining pages, estimated from how densely the keys lie (hashes lie
// evenly), outnumber the hashes that are still to be found. So it costs about
// min(hashes, objects/1000) requests and at most one page more. Listings by two-digit prefix
// would never be cheaper: both sides of that comparison shrink alike.
func (w *Wanted) LookUp(ctx context.Context, reader bucket.Reader) error {
	if !w.sealed {
		return unsealed("look up attachments", "")
	}
	next := w.unknownFrom(0)
	if w.unknownCount(next) > headAtMost {
		var err error
		if next, err = w.lookUpByList(ctx, reader, next); err != nil {
			return fmt.Errorf("look up attachments: %w", err)
		}
	}
	if err := w.lookUpByHead(ctx, reader, next); err != nil {
		return fmt.Errorf("look up attachments: %w", err)
	}
	return nil
}

// lookUpByList walks the listing from the first unknown hash to the last. It returns the index
// from which on nothing is decided yet: the length of the table when it got to the end.
func (w *Wanted) lookUpByList(ctx context.Context, reader bucket.Reader, first int) (int, error) {
	last := w.unknownLast()
	start := manifest.AttachmentKey(w.entries.at(first).sum)
	after := start[:len(start)-1] // sorts just before the key
	from, to := position(w.entries.at(first).sum), position(w.entries.at(last).sum)
	next, undecided, listed := first, w.unknownCount(first), 0
	for info, err := range reader.List(ctx, manifest.AttachmentPrefix, after) {
		if err != nil {
			return 0, err
		}
		listed++
		sum, ok := parseKey(info.Key)
		if !ok {
			continue
		}
		i, found := w.find(sum)
		for ; next < i; next++ {
			if !w.has(next) {
				undecided--
			}
		}
		if found && !w.has(i) {
			if err := w.markPresent(i, info); err != nil {
				return 0, err
			}
			undecided--
			next = i + 1
		}
		if next > last {
			return w.entries.length, nil
		}
		if listed%pageObjects == 0 && pagesLeft(listed, share(from, position(sum), to)) > float64(undecided) {
			return next, nil
		}
	}
	return w.entries.length, nil
}

// pagesLeft estimates the pages that the rest of a listing will take when walked is the share of
// the way that the listed objects covered.
func pagesLeft(listed int, walked float64) float64 {
	if walked <= 0 {
		return math.Inf(1)
	}
	return float64(listed) / pageObjects * (1 - walked) / walked
}

func (w *Wanted) lookUpByHead(ctx context.Context, reader bucket.Reader, from int) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(headsAtOnce)
	for i := w.unknownFrom(from); i < w.entries.length && groupCtx.Err() == nil; i = w.unknownFrom(i + 1) {
		group.Go(func() error {
			info, err := reader.Stat(groupCtx, manifest.AttachmentKey(w.entries.at(i).sum))
			switch {
			case fault.Is(err, fault.NotFound):
				return nil
			case err != nil:
				return err
			}
			return w.markPresent(i, info)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// markPresent takes note of an object that stands under the i-th hash's key.
func (w *Wanted) markPresent(i int, info bucket.Info) error {
	entry := w.entries.at(i)
	if info.Size < 0 {
		return nil
	}
	if entry.size != markSize(info.Size) {
		return conflict(entry.sum, fmt.Errorf("the object has %d bytes, which is not the size that the manifest names", info.Size))
	}
	if info.SHA256 != nil && *info.SHA256 != entry.sum {
		return conflict(entry.sum, fmt.Errorf("the store keeps sha256 %s for it", *info.SHA256))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.held.has(i) && w.present.set(i) {
		w.counts.Present++
	}
	return nil
}

func conflict(sum manifest.SHA256, cause error) error {
	return &fault.Error{
		Op: "look up attachment", Object: manifest.AttachmentKey(sum), Side: fault.SideBucket, Kind: fault.Conflict, Err: cause,
		Hint: "Something other than the mirror wrote or cut this object; `mirror verify` shows the damage, and the mirror never overwrites it.",
	}
}

// unknownFrom returns the first index from i on of which nothing is known, or the length.
func (w *Wanted) unknownFrom(i int) int {
	for i < w.entries.length && w.has(i) {
		i++
	}
	return i
}

// unknownLast returns the last index of which nothing is known, or -1.
func (w *Wanted) unknownLast() int {
	i := w.entries.length - 1
	for i >= 0 && w.has(i) {
		i--
	}
	return i
}

func (w *Wanted) unknownCount(from int) int {
	count := 0
	for i := w.unknownFrom(from); i < w.entries.length; i = w.unknownFrom(i + 1) {
		count++
	}
	return count
}

// parseKey returns the hash that an attachment's key spells; other keys are not ours to judge.
func parseKey(key string) (manifest.SHA256, bool) {
	text := key[strings.LastIndexByte(key, '/')+1:]
	sum, err := manifest.ParseSHA256(text)
	return sum, err == nil && manifest.AttachmentKey(sum) == key
}

// position returns where a hash lies among all hashes: 0 to 1.
func position(sum manifest.SHA256) float64 {
	return float64(binary.BigEndian.Uint64(sum[:8])) / (1 << 64)
}

// share returns how much of the way from one position to another is walked at at.
func share(from, at, to float64) float64 {
	if to <= from {
		return 1
	}
	return min(1, max(0, (at-from)/(to-from)))
}

package attachments

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"sync"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// sizeMark stands for a size in three bytes: exact below 8 MiB, above that 23 bits of a hash, so
// that a greater size that is wrong goes unnoticed once in eight million.
type sizeMark [3]byte

func markSize(size int64) sizeMark {
	mark := uint32(size)
	if size < 0 || size >= 1<<23 {
		mark = 1<<23 | uint32(uint64(size)*0x9E3779B97F4A7C15>>41)
	}
	return sizeMark{byte(mark >> 16), byte(mark >> 8), byte(mark)}
}

type wantedEntry struct {
	sum  manifest.SHA256
	size sizeMark
}

// Wanted is the set of distinct hashes that a version's attachments have, and what is known of
// each: held by the previous version, present in the bucket, or done by this pass. Add each
// attachment, Seal, then mark. It keeps 35 bytes a name while adding, 35 bytes and three bits a
// distinct hash once sealed. The zero value is ready.
//
// Adding and sealing belong to one goroutine; afterwards all methods may be called concurrently,
// since workers mark as done what a producer is still reading about.
type Wanted struct {
	entries table[wantedEntry]
	sealed  bool

	mu      sync.Mutex // guards what follows
	held    bits
	present bits
	done    bits
	counts  WantedCounts
}

// WantedCounts sum up a Wanted: distinct hashes.
type WantedCounts struct {
	Objects int // all of them
	Held    int // named by the previous record's index
	Present int // found in the bucket, and not held
	Done    int // marked done by this pass
}

// Add enters an attachment; a hash may be added many times.
func (w *Wanted) Add(a manifest.Attachment) {
	w.sealed = false
	w.entries.add(wantedEntry{sum: a.SHA256, size: markSize(a.Size)})
}

// Seal ends the adding: it sorts and keeps each hash once. One hash with two sizes is a
// fault.Malformed that names the hash (two sizes of 8 MiB and more are told apart but once in
// eight million).
func (w *Wanted) Seal() error {
	w.entries.sort(func(a, b *wantedEntry) int { return bytes.Compare(a.sum[:], b.sum[:]) })
	kept := 0
	for i := range w.entries.length {
		entry := *w.entries.at(i)
		if kept == 0 || w.entries.at(kept-1).sum != entry.sum {
			*w.entries.at(kept) = entry
			kept++
			continue
		}
		if w.entries.at(kept-1).size != entry.size {
			return contradiction(manifest.AttachmentKey(entry.sum), errors.New("the manifest gives two sizes for one sha256"))
		}
	}
	w.entries.truncate(kept)
	w.held, w.present, w.done = newBits(kept), newBits(kept), newBits(kept)
	w.counts = WantedCounts{Objects: kept}
	w.sealed = true
	return nil
}

// Counts returns what is known so far.
func (w *Wanted) Counts() WantedCounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}

// MarkHeld marks the hashes that the previous record's index names: their objects are carried
// over without a look. Hashes that this version does not want are passed over. Where digests ends
// in an error nothing is marked: half an index would make for counts that nobody can check.
func (w *Wanted) MarkHeld(digests iter.Seq2[manifest.SHA256, error]) error {
	if !w.sealed {
		return unsealed("mark held attachments", "")
	}
	named := newBits(w.entries.length)
	for sum, err := range digests {
		if err != nil {
			return fmt.Errorf("read held attachments: %w", err)
		}
		if i, ok := w.find(sum); ok {
			named.set(i)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.entries.length {
		if named.has(i) && w.held.set(i) {
			w.counts.Held++
		}
	}
	return nil
}

// MarkDone marks a hash whose object this pass wrote, or found while writing.
func (w *Wanted) MarkDone(sum manifest.SHA256) error {
	if !w.sealed {
		return unsealed("mark attachment", manifest.AttachmentKey(sum))
	}
	i, ok := w.find(sum)
	if !ok {
		return unwanted(sum)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done.set(i) {
		w.counts.Done++
	}
	return nil
}

// Missing streams the manifest's attachments and yields one for each hash that is neither held
// nor present nor done: the first that the stream names. It may be called again, for example with
// the names left out that the feed could not link to: another name may lead to the same bytes.
// An attachment that was not added, or has another size than it had, is a fault.Internal: the
// stream is not the one that was added.
func (w *Wanted) Missing(attachments iter.Seq2[manifest.Attachment, error]) iter.Seq2[manifest.Attachment, error] {
	return func(yield func(manifest.Attachment, error) bool) {
		seen := newBits(w.entries.length)
		for a, err := range attachments {
			i, err := w.visit("list missing attachments", a, err)
			if err != nil {
				yield(manifest.Attachment{}, err)
				return
			}
			if !seen.set(i) || w.has(i) {
				continue
			}
			if !yield(a, nil) {
				return
			}
		}
	}
}

// Summarize streams the manifest's attachments and returns what a record says of them, without
// its index: names; distinct objects and their bytes; objects and bytes that the previous
// record's index does not name; names carried over from it.
func (w *Wanted) Summarize(attachments iter.Seq2[manifest.Attachment, error]) (manifest.RecordAttachments, error) {
	var sums manifest.RecordAttachments
	seen := newBits(w.entries.length)
	for a, err := range attachments {
		i, err := w.visit("sum up attachments", a, err)
		if err != nil {
			return manifest.RecordAttachments{}, err
		}
		w.mu.Lock()
		held := w.held.has(i)
		w.mu.Unlock()
		sums.Count++
		if held {
			sums.Carried++
		}
		if !seen.set(i) {
			continue
		}
		sums.Objects++
		sums.Bytes += a.Size
		if !held {
			sums.NewObjects++
			sums.NewBytes += a.Size
		}
	}
	return sums, nil
}

// visit returns where a streamed attachment stands in the set.
func (w *Wanted) visit(op string, a manifest.Attachment, err error) (int, error) {
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: %w", op, err)
	case !w.sealed:
		return 0, unsealed(op, a.Name)
	}
	i, ok := w.find(a.SHA256)
	if !ok {
		return 0, unwanted(a.SHA256)
	}
	if w.entries.at(i).size != markSize(a.Size) {
		return 0, &fault.Error{Op: op, Object: a.Name, Kind: fault.Internal, Err: errors.New("its size is not the one that was added")}
	}
	return i, nil
}

// has reports whether the object needs no copy: held, present or done.
func (w *Wanted) has(i int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held.has(i) || w.present.has(i) || w.done.has(i)
}

func (w *Wanted) find(sum manifest.SHA256) (int, bool) {
	i := w.entries.search(func(entry *wantedEntry) bool { return bytes.Compare(entry.sum[:], sum[:]) < 0 })
	return i, i < w.entries.length && w.entries.at(i).sum == sum
}

func unwanted(sum manifest.SHA256) error {
	return &fault.Error{
		Op: "find attachment", Object: manifest.AttachmentKey(sum), Kind: fault.Internal,
		Err: errors.New("this hash is not among the wanted ones"),
	}
}

package attachments

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// numbered returns the i-th attachment of an endless list of distinct ones.
func numbered(i int) manifest.Attachment {
	var seed [8]byte
	binary.BigEndian.PutUint64(seed[:], uint64(i))
	sum := manifest.SHA256(sha256.Sum256(seed[:]))
	return manifest.Attachment{
		Name: "document:" + sum.String(), Filename: "plan " + strconv.Itoa(i) + ".pdf", ContentType: "application/pdf",
		Size: int64(2048 + i%977), SHA256: sum,
	}
}

// firstN yields the first n numbered attachments.
func firstN(n int) iter.Seq2[manifest.Attachment, error] {
	return func(yield func(manifest.Attachment, error) bool) {
		for i := range n {
			if !yield(numbered(i), nil) {
				return
			}
		}
	}
}

func stream(list []manifest.Attachment) iter.Seq2[manifest.Attachment, error] {
	return func(yield func(manifest.Attachment, error) bool) {
		for _, a := range list {
			if !yield(a, nil) {
				return
			}
		}
	}
}

func streamSums(sums []manifest.SHA256) iter.Seq2[manifest.SHA256, error] {
	return func(yield func(manifest.SHA256, error) bool) {
		for _, sum := range sums {
			if !yield(sum, nil) {
				return
			}
		}
	}
}

// failing yields an error after the attachments of list.
func failing(list []manifest.Attachment, err error) iter.Seq2[manifest.Attachment, error] {
	return func(yield func(manifest.Attachment, error) bool) {
		for _, a := range list {
			if !yield(a, nil) {
				return
			}
		}
		yield(manifest.Attachment{}, err)
	}
}

func wantedOf(seq iter.Seq2[manifest.Attachment, error]) (*Wanted, error) {
	wanted := new(Wanted)
	for a, err := range seq {
		if err != nil {
			return nil, err
		}
		wanted.Add(a)
	}
	return wanted, wanted.Seal()
}

// fakeBucket holds keys and sizes, and counts requests as a store bills them: each started
// thousand of listed objects is a page.
type fakeBucket struct {
	sizes   map[string]int64
	sums    map[string]manifest.SHA256
	sorted  []string
	statErr error
	listErr error // after the first object

	mu          sync.Mutex
	heads       int
	pages       int
	concurrent  int
	concurrency int
}

func newFakeBucket(objects iter.Seq2[manifest.Attachment, error]) *fakeBucket {
	b := &fakeBucket{sizes: make(map[string]int64), sums: make(map[string]manifest.SHA256)}
	for a, err := range objects {
		if err != nil {
			panic(err) // the lists of tests have none
		}
		b.put(manifest.AttachmentKey(a.SHA256), a.Size)
	}
	return b
}

func (b *fakeBucket) put(key string, size int64) {
	b.sizes[key] = size
	b.sorted = nil
}

func (b *fakeBucket) requests() int { return b.heads + b.pages }

func (b *fakeBucket) Stat(ctx context.Context, key string) (bucket.Info, error) {
	b.mu.Lock()
	b.heads++
	b.concurrent++
	b.concurrency = max(b.concurrency, b.concurrent)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.concurrent--
		b.mu.Unlock()
	}()
	if b.statErr != nil {
		return bucket.Info{}, b.statErr
	}
	size, ok := b.sizes[key]
	if !ok {
		return bucket.Info{}, &fault.Error{Op: "stat object", Object: key, Side: fault.SideBucket, Kind: fault.NotFound}
	}
	info := bucket.Info{Key: key, Size: size}
	if sum, ok := b.sums[key]; ok {
		info.SHA256 = &sum
	}
	return info, ctx.Err()
}

func (b *fakeBucket) Open(context.Context, string, int64, int64) (io.ReadCloser, bucket.Info, error) {
	return nil, bucket.Info{}, errors.New("the lookup opens nothing")
}

func (b *fakeBucket) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		if b.sorted == nil {
			for key := range b.sizes {
				b.sorted = append(b.sorted, key)
			}
			slices.Sort(b.sorted)
		}
		b.pages++
		listed := 0
		start, _ := slices.BinarySearch(b.sorted, after)
		for _, key := range b.sorted[start:] {
			if !strings.HasPrefix(key, prefix) || key <= after {
				continue
			}
			if listed > 0 && listed%1000 == 0 {
				b.pages++
			}
			listed++
			if !yield(bucket.Info{Key: key, Size: b.sizes[key]}, nil) {
				return
			}
			if b.listErr != nil {
				yield(bucket.Info{}, b.listErr)
				return
			}
		}
	}
}

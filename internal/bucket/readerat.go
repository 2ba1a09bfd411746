package bucket

import (
	"context"
	"fmt"
	"io"
	"sync"

	"feedmirror/internal/fault"
)

// windowBytes is what a miss fetches at least. A Parquet file's footer and its length mostly fit
// into it, so that a footer costs one request.
const windowBytes = 64 << 10

// windowsKept bounds the memory of one ReaderAt.
const windowsKept = 4

// ReaderAt reads ranges of one object, with a small read-ahead, for formats that jump about. All
// reads see the same state of the object, or fail. It is safe for concurrent use.
type ReaderAt struct {
	ctx    context.Context //nolint:containedctx // io.ReaderAt has no place for one; the value lives for one call chain
	reader Reader
	key    string
	size   int64

	mu      sync.Mutex
	tag     Tag
	windows []window // the latest last
}

type window struct {
	offset int64
	data   []byte
}

// NewReaderAt returns a reader of the object as info describes it. Its reads end with ctx.
func NewReaderAt(ctx context.Context, r Reader, info Info) *ReaderAt {
	return &ReaderAt{ctx: ctx, reader: r, key: info.Key, size: info.Size, tag: info.Tag}
}

// Size returns the object's size in bytes.
func (r *ReaderAt) Size() int64 { return r.size }

// ReadAt implements io.ReaderAt.
func (r *ReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 || offset >= r.size {
		return 0, io.EOF
	}
	short := int64(len(p)) > r.size-offset
	if short {
		p = p[:r.size-offset]
	}
	if len(p) >= windowBytes {
		if err := r.fetch(p, offset); err != nil {
			return 0, err
		}
	} else if err := r.readWindow(p, offset); err != nil {
		return 0, err
	}
	if short {
		return len(p), io.EOF
	}
	return len(p), nil
}

// readWindow serves p from memory, fetching a window when none covers it.
func (r *ReaderAt) readWindow(p []byte, offset int64) error {
	if r.cached(p, offset) {
		return nil
	}
	start := max(0, min(offset, r.size-windowBytes))
	data := make([]byte, min(windowBytes, r.size-start))
	if err := r.fetch(data, start); err != nil {
		return err
	}
	copy(p, data[offset-start:])
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.windows) == windowsKept {
		r.windows = append(r.windows[:0], r.windows[1:]...)
	}
	r.windows = append(r.windows, window{offset: start, data: data})
	return nil
}

func (r *ReaderAt) cached(p []byte, offset int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.windows {
		if offset >= w.offset && offset+int64(len(p)) <= w.offset+int64(len(w.data)) {
			copy(p, w.data[offset-w.offset:])
			return true
		}
	}
	return false
}

// fetch fills p from one request.
func (r *ReaderAt) fetch(p []byte, offset int64) error {
	body, info, err := r.reader.Open(r.ctx, r.key, offset, int64(len(p)))
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // only read from: nothing can be lost
	if err := r.pin(info.Tag); err != nil {
		return err
	}
	if _, err := io.ReadFull(body, p); err != nil {
		return fmt.Errorf("read object %s at byte %d: %w", r.key, offset, err)
	}
	return nil
}

// pin holds the object to one state: ranges of two states make a file that never was.
func (r *ReaderAt) pin(tag Tag) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tag == "" {
		r.tag = tag
	}
	if tag != r.tag {
		return &fault.Error{
			Op: "read object", Object: r.key, Side: fault.SideBucket, Kind: fault.Conflict,
			Err: fmt.Errorf("changed while it was read (tag %q, then %q)", r.tag, tag),
		}
	}
	return nil
}

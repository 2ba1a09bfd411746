package buckettest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// Op names a method of a store.
type Op string

// The methods that can be made to fail.
const (
	OpStat    Op = "stat"
	OpOpen    Op = "open"
	OpCreate  Op = "create"
	OpSwap    Op = "swap"
	OpReplace Op = "replace"
	OpDelete  Op = "delete"
)

// Unavailable is what a store answers that may work a moment later.
func Unavailable() error {
	return &fault.Error{
		Op: "reach store", Side: fault.SideBucket, Kind: fault.Transient,
		Status: http.StatusServiceUnavailable, Err: errors.New("made to fail"),
	}
}

// FailNth answers the calls From to To (counted from 1) of one method with Err, without asking
// the store. With To zero it fails once.
type FailNth struct {
	bucket.Store
	Op       Op
	From, To int64
	Err      error // nil: Unavailable
	calls    atomic.Int64
}

// Calls returns how often the method was called.
func (f *FailNth) Calls() int64 { return f.calls.Load() }

func (f *FailNth) hit(op Op) error {
	if op != f.Op {
		return nil
	}
	n := f.calls.Add(1)
	if n < f.From || n > max(f.From, f.To) {
		return nil
	}
	if f.Err != nil {
		return f.Err
	}
	return Unavailable()
}

// Stat implements bucket.Reader.
func (f *FailNth) Stat(ctx context.Context, key string) (bucket.Info, error) {
	if err := f.hit(OpStat); err != nil {
		return bucket.Info{}, err
	}
	return f.Store.Stat(ctx, key)
}

// Open implements bucket.Reader.
func (f *FailNth) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	if err := f.hit(OpOpen); err != nil {
		return nil, bucket.Info{}, err
	}
	return f.Store.Open(ctx, key, offset, length)
}

// Create implements bucket.Writer.
func (f *FailNth) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	if err := f.hit(OpCreate); err != nil {
		return bucket.Info{}, err
	}
	return f.Store.Create(ctx, key, content)
}

// Swap implements bucket.Swapper.
func (f *FailNth) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	if err := f.hit(OpSwap); err != nil {
		return "", err
	}
	return f.Store.Swap(ctx, key, old, data)
}

// Replace implements bucket.Replacer.
func (f *FailNth) Replace(ctx context.Context, key string, old bucket.Tag, content bucket.Content) (bucket.Info, error) {
	if err := f.hit(OpReplace); err != nil {
		return bucket.Info{}, err
	}
	return f.Store.Replace(ctx, key, old, content)
}

// Delete implements bucket.Deleter.
func (f *FailNth) Delete(ctx context.Context, key string, tag bucket.Tag) error {
	if err := f.hit(OpDelete); err != nil {
		return err
	}
	return f.Store.Delete(ctx, key, tag)
}

// LostAnswer carries out the Nth write (Create, Swap, Replace or Delete, counted from 1) and answers as if
// the connection had broken.
type LostAnswer struct {
	bucket.Store
	Nth    int64
	writes atomic.Int64
}

func (l *LostAnswer) lose(err error) error {
	if l.writes.Add(1) == l.Nth && err == nil {
		return Unavailable()
	}
	return err
}

// Create implements bucket.Writer.
func (l *LostAnswer) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	info, err := l.Store.Create(ctx, key, content)
	if err := l.lose(err); err != nil {
		return bucket.Info{}, err
	}
	return info, nil
}

// Swap implements bucket.Swapper.
func (l *LostAnswer) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	tag, err := l.Store.Swap(ctx, key, old, data)
	if err := l.lose(err); err != nil {
		return "", err
	}
	return tag, nil
}

// Replace implements bucket.Replacer.
func (l *LostAnswer) Replace(ctx context.Context, key string, old bucket.Tag, content bucket.Content) (bucket.Info, error) {
	info, err := l.Store.Replace(ctx, key, old, content)
	if err := l.lose(err); err != nil {
		return bucket.Info{}, err
	}
	return info, nil
}

// Delete implements bucket.Deleter.
func (l *LostAnswer) Delete(ctx context.Context, key string, tag bucket.Tag) error {
	return l.lose(l.Store.Delete(ctx, key, tag))
}

// NoDelete refuses every Delete, as a bucket under retention does.
type NoDelete struct{ bucket.Store }

// Delete implements bucket.Deleter.
func (NoDelete) Delete(_ context.Context, key string, _ bucket.Tag) error {
	return &fault.Error{
		Op: "delete object", Object: key, Side: fault.SideBucket, Kind: fault.Denied,
		Status: http.StatusForbidden, Err: errors.New("made to refuse"),
	}
}

package bucket_test

import (
	"bytes"
	"context"
	"io"
	"iter"
	"strings"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// weakSwap compares, then writes a moment later.
type weakSwap struct {
	bucket.Store
	meet func(key string)
}

func (w *weakSwap) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	stands := bucket.Absent
	info, err := w.Stat(ctx, key)
	if err == nil {
		stands = info.Tag
	} else if !fault.Is(err, fault.NotFound) {
		return "", err
	}
	if stands != old {
		return "", &fault.Error{Op: "swap object", Object: key, Kind: fault.Conflict}
	}
	if old != bucket.Absent {
		w.meet(key)
	}
	return (&buckettest.IgnoreConditions{Store: w.Store}).Swap(ctx, key, old, data)
}

// overAbsent overwrites where a swap expected that nothing stands.
type overAbsent struct{ bucket.Store }

func (o overAbsent) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	if old == bucket.Absent {
		return (&buckettest.IgnoreConditions{Store: o.Store}).Swap(ctx, key, old, data)
	}
	return o.Store.Swap(ctx, key, old, data)
}

// lateList leaves out what was written last.
type lateList struct{ bucket.Store }

func (l lateList) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		for info, err := range l.Store.List(ctx, prefix, after) {
			if strings.HasSuffix(info.Key, "/first.txt") {
				continue
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// changed changes what a store says.
type changed struct {
	bucket.Store
	stat func(bucket.Info, error) (bucket.Info, error)
	open func(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error)
	make func(ctx context.Context, key string, content bucket.Content) (bucket.Info, error)
	kill func(ctx context.Context, key string, tag bucket.Tag) error
	says func(*bucket.Guarantees)
}

func (c changed) Stat(ctx context.Context, key string) (bucket.Info, error) {
	info, err := c.Store.Stat(ctx, key)
	if c.stat != nil {
		return c.stat(info, err)
	}
	return info, err
}

func (c changed) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	if c.open != nil {
		return c.open(ctx, key, offset, length)
	}
	return c.Store.Open(ctx, key, offset, length)
}

func (c changed) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	if c.make != nil {
		return c.make(ctx, key, content)
	}
	return c.Store.Create(ctx, key, content)
}

func (c changed) Delete(ctx context.Context, key string, tag bucket.Tag) error {
	if c.kill != nil {
		return c.kill(ctx, key, tag)
	}
	return c.Store.Delete(ctx, key, tag)
}

func (c changed) Guarantees() bucket.Guarantees {
	says := c.Store.Guarantees()
	if c.says != nil {
		c.says(&says)
	}
	return says
}

// raw is a store that compares bytes with what was announced, or does not.
type raw struct {
	bucket.Store
	compares bool
}

func (r raw) CreateRaw(ctx context.Context, key string, sent, announced []byte) error {
	if r.compares && !bytes.Equal(sent, announced) {
		return &fault.Error{Op: "create object", Object: key, Kind: fault.WrongBytes}
	}
	_, err := bucket.CreateDocument(ctx, r.Store, key, sent)
	return err
}

func denied(status int) error {
	return &fault.Error{Op: "ask store", Side: fault.SideBucket, Kind: fault.Denied, Status: status, Hint: "Ask for the right."}
}

// takesAnything writes what comes, under the sha256 of that.
func takesAnything(store bucket.Store) func(context.Context, string, bucket.Content) (bucket.Info, error) {
	return func(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
		data, err := io.ReadAll(content.Body)
		if err != nil {
			return bucket.Info{}, err
		}
		content.SHA256, content.Body = manifest.SumBytes(data), bytes.NewReader(data)
		return store.Create(ctx, key, content)
	}
}

// foldsCase finds a file under its name in capitals, as some file systems do.
type foldsCase struct{ bucket.Store }

func (f foldsCase) Stat(ctx context.Context, key string) (bucket.Info, error) {
	info, err := f.Store.Stat(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return f.Store.Stat(ctx, strings.ReplaceAll(key, "FIRST", "first"))
	}
	return info, err
}

package bucket

import (
	"context"
	"io"
	"iter"
	"sync/atomic"
)

// Counts are requests as the run report shows them.
type Counts struct {
	Read  atomic.Int64 // Stat and Open
	Write atomic.Int64 // Create, Swap and Delete
	List  atomic.Int64 // listings started; pages beyond the first are added by adapters that page
}

// WithCounts returns store with every request counted in counts.
func WithCounts(store Store, counts *Counts) Store { return &counted{Store: store, counts: counts} }

type counted struct {
	Store
	counts *Counts
}

func (c *counted) Stat(ctx context.Context, key string) (Info, error) {
	c.counts.Read.Add(1)
	return c.Store.Stat(ctx, key)
}

func (c *counted) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, Info, error) {
	c.counts.Read.Add(1)
	return c.Store.Open(ctx, key, offset, length)
}

func (c *counted) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		c.counts.List.Add(1)
		for info, err := range c.Store.List(ctx, prefix, after) {
			if !yield(info, err) {
				return
			}
		}
	}
}

func (c *counted) Create(ctx context.Context, key string, content Content) (Info, error) {
	c.counts.Write.Add(1)
	return c.Store.Create(ctx, key, content)
}

func (c *counted) Swap(ctx context.Context, key string, old Tag, data []byte) (Tag, error) {
	c.counts.Write.Add(1)
	return c.Store.Swap(ctx, key, old, data)
}

func (c *counted) Replace(ctx context.Context, key string, old Tag, content Content) (Info, error) {
	c.counts.Write.Add(1)
	return c.Store.Replace(ctx, key, old, content)
}

func (c *counted) Delete(ctx context.Context, key string, tag Tag) error {
	c.counts.Write.Add(1)
	return c.Store.Delete(ctx, key, tag)
}

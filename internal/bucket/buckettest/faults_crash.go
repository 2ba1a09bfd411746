package buckettest

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"

	"feedmirror/internal/bucket"
)

// ErrCrashed is what a store answers after the process that used it is meant to be dead.
var ErrCrashed = errors.New("the process is meant to be dead")

// CrashWhen says where a crash falls.
type CrashWhen int

// Where a crash falls.
const (
	BeforeWrite CrashWhen = iota // the write does not reach the store
	AfterWrite                   // it is done and answered; the next request of any kind fails
	AnswerLost                   // it is done, but its answer is lost
	MidWrite                     // half of the body of a Create or Replace was read; of another write as BeforeWrite
)

// CrashAfterNthWrite ends the life of its user at the Nth write (Create, Swap, Replace or Delete, counted
// from 1): from then on every request fails with ErrCrashed. The store beneath lives on, for the
// run that comes after.
type CrashAfterNthWrite struct {
	bucket.Store
	Nth  int64
	When CrashWhen

	mu      sync.Mutex
	writes  []Write
	crashed bool
}

// Write is one write that was asked for.
type Write struct {
	Op  Op
	Key string
}

// Writes returns how many writes were asked for before the crash, the fatal one included.
func (c *CrashAfterNthWrite) Writes() int64 { return int64(len(c.Journal())) }

// Journal returns the writes that were asked for before the crash, in their order.
func (c *CrashAfterNthWrite) Journal() []Write {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes)
}

// Crashed reports whether the crash has happened.
func (c *CrashAfterNthWrite) Crashed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.crashed
}

func (c *CrashAfterNthWrite) alive() error {
	if c.Crashed() {
		return ErrCrashed
	}
	return nil
}

// write runs one write. Writes that are under way when another one is fatal still reach the
// store, as requests on the wire do; their answers are lost.
func (c *CrashAfterNthWrite) write(op Op, key string, do func(fatal bool) error) error {
	bodied := op == OpCreate || op == OpReplace
	c.mu.Lock()
	if c.crashed {
		c.mu.Unlock()
		return ErrCrashed
	}
	c.writes = append(c.writes, Write{op, key})
	fatal := int64(len(c.writes)) == c.Nth
	before := c.When == BeforeWrite || c.When == MidWrite && !bodied
	c.crashed = fatal && (before || c.When == MidWrite)
	c.mu.Unlock()
	if fatal && before {
		return ErrCrashed
	}
	err := do(fatal && c.When == MidWrite)
	c.mu.Lock()
	defer c.mu.Unlock()
	if fatal {
		c.crashed = true
	}
	if c.crashed && (!fatal || c.When == AnswerLost || c.When == MidWrite) {
		return ErrCrashed
	}
	return err
}

// halved returns content with a body that breaks after its first half. It does not seek: nobody is
// left to send it again.
func halved(content bucket.Content) bucket.Content {
	content.Body = io.MultiReader(io.LimitReader(content.Body, content.Size/2), dead{})
	return content
}

type dead struct{}

func (dead) Read([]byte) (int, error) { return 0, ErrCrashed }

// Stat implements bucket.Reader.
func (c *CrashAfterNthWrite) Stat(ctx context.Context, key string) (bucket.Info, error) {
	if err := c.alive(); err != nil {
		return bucket.Info{}, err
	}
	return c.Store.Stat(ctx, key)
}

// Open implements bucket.Reader.
func (c *CrashAfterNthWrite) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	if err := c.alive(); err != nil {
		return nil, bucket.Info{}, err
	}
	return c.Store.Open(ctx, key, offset, length)
}

// List implements bucket.Reader.
func (c *CrashAfterNthWrite) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		for info, err := range c.Store.List(ctx, prefix, after) {
			if dead := c.alive(); dead != nil {
				yield(bucket.Info{}, dead)
				return
			}
			if !yield(info, err) {
				return
			}
		}
		if dead := c.alive(); dead != nil {
			yield(bucket.Info{}, dead)
		}
	}
}

// Create implements bucket.Writer.
func (c *CrashAfterNthWrite) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	var info bucket.Info
	err := c.write(OpCreate, key, func(midway bool) (err error) {
		if midway {
			content = halved(content)
		}
		info, err = c.Store.Create(ctx, key, content)
		return err
	})
	if err != nil {
		return bucket.Info{}, err
	}
	return info, nil
}

// Swap implements bucket.Swapper.
func (c *CrashAfterNthWrite) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	var tag bucket.Tag
	err := c.write(OpSwap, key, func(bool) (err error) {
		tag, err = c.Store.Swap(ctx, key, old, data)
		return err
	})
	if err != nil {
		return "", err
	}
	return tag, nil
}

// Replace implements bucket.Replacer.
func (c *CrashAfterNthWrite) Replace(ctx context.Context, key string, old bucket.Tag, content bucket.Content) (bucket.Info, error) {
	var info bucket.Info
	err := c.write(OpReplace, key, func(midway bool) (err error) {
		if midway {
			content = halved(content)
		}
		info, err = c.Store.Replace(ctx, key, old, content)
		return err
	})
	if err != nil {
		return bucket.Info{}, err
	}
	return info, nil
}

// Delete implements bucket.Deleter.
func (c *CrashAfterNthWrite) Delete(ctx context.Context, key string, tag bucket.Tag) error {
	return c.write(OpDelete, key, func(bool) error { return c.Store.Delete(ctx, key, tag) })
}

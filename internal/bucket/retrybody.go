package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"

	"feedmirror/internal/fault"
)

func (r *retrying) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, Info, error) {
	body, info, err := r.open(ctx, key, offset, length)
	if err != nil {
		return nil, Info{}, err
	}
	return &resumingBody{
		ctx: ctx, store: r, key: key, tag: info.Tag,
		body: body, offset: offset, length: length,
	}, info, nil
}

func (r *retrying) open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, Info, error) {
	var body io.ReadCloser
	var info Info
	err := r.policy.Do(ctx, Retryable, func(int) error {
		var err error
		body, info, err = r.Store.Open(ctx, key, offset, length)
		return err
	})
	return body, info, err
}

// resumingBody goes on at the byte where a body broke, as long as the object is the same.
type resumingBody struct {
	ctx      context.Context //nolint:containedctx // io.Reader has no place for one; it is the context of Open
	store    *retrying
	key      string
	tag      Tag
	body     io.ReadCloser
	offset   int64 // of the next byte
	length   int64 // bytes still wanted; -1: to the end
	failures int   // since the last byte
	err      error
}

// Read implements io.Reader.
func (b *resumingBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	for {
		n, err := b.body.Read(p)
		b.offset += int64(n)
		if b.length >= 0 {
			b.length -= int64(n)
		}
		if n > 0 {
			b.failures = 0
		}
		switch {
		case err == nil || err == io.EOF:
			b.err = err
			return n, err
		case n > 0:
			return n, nil // the error comes again with the next read
		}
		if err := b.resume(err); err != nil {
			b.err = err
			return 0, err
		}
	}
}

// resume opens the rest of the object after cause, or returns the error that ends the body.
func (b *resumingBody) resume(cause error) error {
	if !b.worth(cause) || b.failures+1 >= b.store.policy.attempts() {
		return cause
	}
	b.failures++
	pauses := b.store.policy.pauses()
	if b.store.policy.pause(b.ctx, pauses, cause) != nil {
		return cause
	}
	_ = b.body.Close() // it broke and was only read from: nothing can be lost
	body, info, err := b.store.open(b.ctx, b.key, b.offset, b.length)
	if err != nil {
		return err
	}
	b.body = body
	if info.Tag != b.tag {
		return &fault.Error{
			Op: "read object", Object: b.key, Side: fault.SideBucket, Kind: fault.Conflict,
			Err: fmt.Errorf("changed while it was read: %w", cause),
		}
	}
	return nil
}

func (b *resumingBody) worth(cause error) bool {
	return b.ctx.Err() == nil && (Retryable(cause) || errors.Is(cause, io.ErrUnexpectedEOF))
}

// Close implements io.Closer.
func (b *resumingBody) Close() error { return b.body.Close() }

package bucket

import (
	"context"
	"fmt"
	"io"
	"iter"

	"feedmirror/internal/fault"
)

// WithRetry returns store with failed requests sent again as far as that is safe. It is the one
// place where requests to a bucket are repeated; adapters turn the repeats of their clients off.
//
// Stat, Open, List and Delete are repeated after a fault.Transient; a body that breaks goes on at
// the byte where it broke, a listing after its last key. A Create or a
// Replace is repeated when its body seeks. A Swap is repeated after a fault.Contended only: after
// anything else the caller has to read the key and decide anew.
func WithRetry(store Store, policy Policy) Store {
	return &retrying{Store: store, policy: policy}
}

type retrying struct {
	Store
	policy Policy
	floors floors
}

func (r *retrying) Stat(ctx context.Context, key string) (Info, error) {
	var info Info
	err := r.policy.Do(ctx, Retryable, func(int) error {
		var err error
		info, err = r.Store.Stat(ctx, key)
		return err
	})
	return info, err
}

func (r *retrying) Delete(ctx context.Context, key string, tag Tag) error {
	return r.policy.Do(ctx, Retryable, func(int) error {
		return r.write(ctx, key, func() error { return r.Store.Delete(ctx, key, tag) })
	})
}

func (r *retrying) Swap(ctx context.Context, key string, old Tag, data []byte) (Tag, error) {
	var tag Tag
	contended := func(err error) bool { return fault.Is(err, fault.Contended) }
	err := r.policy.Do(ctx, contended, func(int) error {
		return r.write(ctx, key, func() error {
			var err error
			tag, err = r.Store.Swap(ctx, key, old, data)
			return err
		})
	})
	return tag, err
}

// write keeps the pause that a store asked for between two writes of one key.
func (r *retrying) write(ctx context.Context, key string, send func() error) error {
	if err := r.policy.wait(ctx, r.floors.left(key, r.policy.now())); err != nil {
		return &fault.Error{
			Op: "write object", Object: key, Side: fault.SideBucket, Kind: fault.Budget,
			Err: fmt.Errorf("wait between two writes of one key: %w", err),
		}
	}
	err := send()
	r.floors.note(key, err, r.policy.now())
	return err
}

func (r *retrying) Create(ctx context.Context, key string, content Content) (Info, error) {
	return r.put(ctx, key, content, fault.Exists, func(content Content) (Info, error) {
		return r.Store.Create(ctx, key, content)
	})
}

func (r *retrying) Replace(ctx context.Context, key string, old Tag, content Content) (Info, error) {
	return r.put(ctx, key, content, fault.Conflict, func(content Content) (Info, error) {
		return r.Store.Replace(ctx, key, old, content)
	})
}

// put sends a body until its write succeeds. A refusal of kind taken after a lost answer may be
// the answer to our own earlier try.
func (r *retrying) put(ctx context.Context, key string, content Content, taken fault.Kind, send func(Content) (Info, error)) (Info, error) {
	var info Info
	uncertain := false // an earlier attempt may have been stored although its answer was lost
	seeker, repeatable := content.Body.(io.Seeker)
	again := func(err error) bool {
		return repeatable && (Retryable(err) || fault.Is(err, fault.Contended))
	}
	err := r.policy.Do(ctx, again, func(attempt int) error {
		if attempt > 1 {
			if _, err := seeker.Seek(0, io.SeekStart); err != nil {
				return fmt.Errorf("rewind body of %s: %w", key, err)
			}
		}
		body := &watchedBody{source: content.Body}
		repeat := content
		repeat.Body = body
		return r.write(ctx, key, func() error {
			var err error
			info, err = send(repeat)
			switch {
			case err == nil:
				return nil
			case body.err != nil:
				repeatable = false // the source is broken: its owner decides
				return err
			case uncertain && fault.Is(err, taken):
				return r.settle(ctx, key, content, &info, err)
			}
			uncertain = uncertain || Retryable(err)
			return err
		})
	})
	if uncertain && Retryable(err) && ctx.Err() == nil {
		err = r.settle(ctx, key, content, &info, err)
	}
	if err != nil {
		return Info{}, err
	}
	return info, nil
}

// settle decides a write whose answer was lost by what stands at the key: the bytes that were to
// be written are a success, whoever wrote them; anything else leaves cause.
func (r *retrying) settle(ctx context.Context, key string, content Content, info *Info, cause error) error {
	stands, same, err := Holds(ctx, r.Store, key, content.Size, content.SHA256)
	if err != nil || !same {
		return cause
	}
	*info = stands
	return nil
}

// watchedBody remembers that the source, not the store, failed.
type watchedBody struct {
	source io.Reader
	err    error
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.source.Read(p)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

func (r *retrying) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for failures := 0; ; failures++ {
			var cause error
			for info, err := range r.Store.List(ctx, prefix, after) {
				if err != nil {
					cause = err
					break
				}
				if !yield(info, nil) {
					return
				}
				after, failures = info.Key, 0
			}
			if cause == nil {
				return
			}
			if !r.pauseList(ctx, failures, cause) {
				yield(Info{}, cause)
				return
			}
		}
	}
}

// pauseList waits after the given number of earlier failures without progress, and reports
// whether the listing goes on.
func (r *retrying) pauseList(ctx context.Context, failures int, cause error) bool {
	if !Retryable(cause) || failures+1 >= r.policy.attempts() {
		return false
	}
	pauses := r.policy.pauses()
	for range failures {
		pauses.NextBackOff()
	}
	return r.policy.pause(ctx, pauses, cause) == nil
}

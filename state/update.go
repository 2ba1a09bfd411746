package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// maxDocument bounds what is read of one of our own documents, in bytes. A shard document of
// 100,000 datasets stays below it.
const maxDocument = 64 << 20

// Documents is what package state needs of a bucket.
type Documents interface {
	bucket.Reader
	bucket.Writer
	bucket.Swapper
}

// Pause waits between two tries of a swap; it returns early with the context's error.
type Pause func(ctx context.Context, d time.Duration) error

// revised is a pointer to a document that embeds Revised.
type revised[T any] interface {
	*T
	revision() *int64
}

// maxSwaps bounds the tries of one change. Rivals on one document are few; a store that refuses
// this often does not honour its own tags.
const maxSwaps = 24

// Update changes the document at key by the rule of conditional writes: change sees what stands
// (nil: nothing) and returns what should stand (nil: leave it). It is called again, with what
// stands then, whenever a write did not clearly succeed. Update returns the document that stands
// at the end, ours or another's.
func Update[T any, P revised[T]](ctx context.Context, docs Documents, pause Pause, key string, change func(standing P) (P, error)) (P, error) {
	standing, tag, err := Read[T](ctx, docs, key)
	if err != nil {
		return nil, err
	}
	after, _, err := UpdateFrom[T, P](ctx, docs, pause, key, standing, tag, change)
	return after, err
}

// UpdateFrom is Update for a document that was read before, with its tag: it saves the first read.
func UpdateFrom[T any, P revised[T]](ctx context.Context, docs Documents, pause Pause, key string, standing P, tag bucket.Tag, change func(standing P) (P, error)) (P, bucket.Tag, error) {
	var last error
	for try := range maxSwaps {
		next, err := change(standing)
		if err != nil || next == nil {
			return standing, tag, err
		}
		body, err := revise[T, P](next, standing)
		if err != nil {
			return nil, tag, fmt.Errorf("swap %s: %w", key, err)
		}
		newTag, swapErr := docs.Swap(ctx, key, tag, body)
		if swapErr == nil {
			return next, newTag, nil
		}
		if hopeless(ctx, swapErr) {
			return nil, tag, swapErr
		}
		last = swapErr
		if err := pause(ctx, time.Duration(try)*50*time.Millisecond+fault.RetryAfter(swapErr)); err != nil {
			return nil, tag, swapErr
		}
		var raw []byte
		if raw, tag, err = readRaw(ctx, docs, key); err != nil {
			return nil, tag, err
		}
		if bytes.Equal(raw, body) {
			return next, tag, nil
		}
		if standing, err = decode[T](key, raw); err != nil {
			return nil, tag, err
		}
	}
	if !fault.Is(last, fault.Conflict) && !fault.Is(last, fault.Contended) {
		return nil, tag, last // nobody was in the way: the store failed each time
	}
	return nil, tag, &fault.Error{Op: "swap document", Object: key, Side: fault.SideBucket, Kind: fault.Conflict, Err: last,
		Hint: "Another process keeps changing it, or the store does not honour conditional writes: run mirror doctor."}
}

func revise[T any, P revised[T]](next, standing P) ([]byte, error) {
	revision := int64(1)
	if standing != nil {
		revision = *standing.revision() + 1
	}
	*next.revision() = revision
	return manifest.EncodeDocument(next)
}

// hopeless tells errors of a swap that another try cannot mend.
func hopeless(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	switch fault.KindOf(err) {
	case fault.Denied, fault.BucketUnfit, fault.NoSpace, fault.Usage, fault.Unsupported, fault.Budget:
		return true
	}
	return false
}

// Read returns the document at key and its tag; nil and bucket.Absent when there is none.
func Read[T any](ctx context.Context, r bucket.Reader, key string) (*T, bucket.Tag, error) {
	raw, tag, err := readRaw(ctx, r, key)
	if err != nil {
		return nil, bucket.Absent, err
	}
	doc, err := decode[T](key, raw)
	return doc, tag, err
}

func readRaw(ctx context.Context, r bucket.Reader, key string) ([]byte, bucket.Tag, error) {
	raw, info, err := bucket.ReadAll(ctx, r, key, maxDocument)
	if fault.Is(err, fault.NotFound) {
		return nil, bucket.Absent, nil
	}
	if err != nil {
		return nil, bucket.Absent, err
	}
	return raw, info.Tag, nil
}

func decode[T any](key string, raw []byte) (*T, error) {
	if raw == nil {
		return nil, nil //nolint:nilnil // absent is a state of its own here
	}
	doc := new(T)
	if err := json.Unmarshal(raw, doc); err != nil {
		return nil, &fault.Error{Op: "read document", Object: key, Side: fault.SideBucket, Kind: fault.Malformed, Err: err,
			Hint: "Something else wrote this key. Restore it from the bucket's own history, or remove it and run mirror sync --full."}
	}
	if pointer, ok := any(doc).(*Pointer); ok && key != manifest.PointerKey(pointer.Dataset) {
		return nil, &fault.Error{Op: "read document", Object: key, Side: fault.SideBucket, Kind: fault.Malformed,
			Err: fmt.Errorf("it is the pointer of dataset %q", pointer.Dataset), Hint: "Something else wrote this key. Restore it from the bucket's own history."}
	}
	return doc, nil
}

// CreateOnce puts an immutable document of ours. Where one stands already, it is returned as it
// is, with ours false; the caller decides whether it says the same.
func CreateOnce(ctx context.Context, docs Documents, key string, body []byte) (standing []byte, ours bool, err error) {
	_, err = docs.Create(ctx, key, bucket.Content{
		Size: int64(len(body)), SHA256: manifest.SumBytes(body), Class: bucket.Document, Body: bytes.NewReader(body),
	})
	if err == nil {
		return body, true, nil
	}
	if ctx.Err() != nil || hopeless(ctx, err) {
		return nil, false, err
	}
	raw, _, readErr := readRaw(ctx, docs, key)
	switch {
	case readErr != nil:
		return nil, false, errors.Join(err, readErr)
	case raw == nil:
		return nil, false, err
	default:
		return raw, bytes.Equal(raw, body), nil
	}
}

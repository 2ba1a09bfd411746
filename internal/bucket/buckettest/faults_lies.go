package buckettest

import (
	"context"
	"io"
	"iter"
	"slices"
	"strings"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// LieAboutExistence says that the keys of Infos are there, with those facts, when they are not.
// Reading them fails.
type LieAboutExistence struct {
	bucket.Store
	Infos map[string]bucket.Info
}

// Stat implements bucket.Reader.
func (l *LieAboutExistence) Stat(ctx context.Context, key string) (bucket.Info, error) {
	info, err := l.Store.Stat(ctx, key)
	lie, lies := l.Infos[key]
	if lies && fault.Is(err, fault.NotFound) {
		lie.Key = key
		return lie, nil
	}
	return info, err
}

// List implements bucket.Reader.
func (l *LieAboutExistence) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		pending := l.lies(prefix, after)
		for info, err := range l.Store.List(ctx, prefix, after) {
			if err != nil {
				yield(bucket.Info{}, err)
				return
			}
			for len(pending) > 0 && pending[0].Key < info.Key {
				if !yield(pending[0], nil) {
					return
				}
				pending = pending[1:]
			}
			if len(pending) > 0 && pending[0].Key == info.Key {
				pending = pending[1:]
			}
			if !yield(info, nil) {
				return
			}
		}
		for _, info := range pending {
			if !yield(info, nil) {
				return
			}
		}
	}
}

// lies returns what belongs into a listing, in order.
func (l *LieAboutExistence) lies(prefix, after string) []bucket.Info {
	var infos []bucket.Info
	for key, info := range l.Infos {
		if strings.HasPrefix(key, prefix) && key > after {
			info.Key = key
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b bucket.Info) int { return strings.Compare(a.Key, b.Key) })
	return infos
}

// FlipBit changes one bit of what is read at Offset of the object Key.
type FlipBit struct {
	bucket.Store
	Key    string
	Offset int64
}

// Open implements bucket.Reader.
func (f *FlipBit) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	body, info, err := f.Store.Open(ctx, key, offset, length)
	if err != nil || key != f.Key {
		return body, info, err
	}
	return &flippedBody{ReadCloser: body, at: f.Offset - offset}, info, nil
}

type flippedBody struct {
	io.ReadCloser
	at int64 // bytes until the one to change
}

func (b *flippedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.at >= 0 && b.at < int64(n) {
		p[b.at] ^= 1
	}
	b.at -= int64(n)
	return n, err
}

// ShortRead ends what is read of the object Key cleanly after Bytes, which a store must not do.
type ShortRead struct {
	bucket.Store
	Key   string
	Bytes int64
}

// Open implements bucket.Reader.
func (s *ShortRead) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	body, info, err := s.Store.Open(ctx, key, offset, length)
	if err != nil || key != s.Key {
		return body, info, err
	}
	return &shortBody{Reader: io.LimitReader(body, s.Bytes), Closer: body}, info, nil
}

type shortBody struct {
	io.Reader
	io.Closer
}

// IgnoreConditions overwrites whatever stands, as a store does that does not know the headers.
type IgnoreConditions struct{ bucket.Store }

// Create implements bucket.Writer.
func (i *IgnoreConditions) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	return overwrite(ctx, i.Store, key, content)
}

// Swap implements bucket.Swapper.
func (i *IgnoreConditions) Swap(ctx context.Context, key string, _ bucket.Tag, data []byte) (bucket.Tag, error) {
	for {
		tag, err := tagAt(ctx, i.Store, key)
		if err != nil {
			return "", err
		}
		tag, err = i.Store.Swap(ctx, key, tag, data)
		if !fault.Is(err, fault.Conflict) {
			return tag, err
		}
	}
}

// Replace implements bucket.Replacer.
func (i *IgnoreConditions) Replace(ctx context.Context, key string, _ bucket.Tag, content bucket.Content) (bucket.Info, error) {
	return overwrite(ctx, i.Store, key, content)
}

// Delete implements bucket.Deleter.
func (i *IgnoreConditions) Delete(ctx context.Context, key string, _ bucket.Tag) error {
	tag, err := tagAt(ctx, i.Store, key)
	if err != nil {
		return err
	}
	return i.Store.Delete(ctx, key, tag)
}

// overwrite deletes and creates until its own bytes stand. The verified read comes first: wrong
// bytes change nothing.
func overwrite(ctx context.Context, s bucket.Store, key string, content bucket.Content) (bucket.Info, error) {
	data, err := io.ReadAll(bucket.VerifyReader(content.Body, content.Size, content.SHA256))
	if err != nil {
		return bucket.Info{}, err
	}
	for {
		again := contentOf(data, content)
		info, err := s.Create(ctx, key, again)
		if !fault.Is(err, fault.Exists) {
			return info, err
		}
		tag, err := tagAt(ctx, s, key)
		if err != nil {
			return bucket.Info{}, err
		}
		if err := s.Delete(ctx, key, tag); err != nil && !fault.Is(err, fault.Conflict) {
			return bucket.Info{}, err
		}
	}
}

func contentOf(data []byte, content bucket.Content) bucket.Content {
	again := contentBytes(data, content.Class)
	again.SHA256 = content.SHA256
	return again
}

func tagAt(ctx context.Context, s bucket.Store, key string) (bucket.Tag, error) {
	info, err := s.Stat(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return bucket.Absent, nil
	}
	return info.Tag, err
}

// WeakCreate looks whether a key is free and writes a moment later, as a store without an atomic
// create does. Between is called in that moment; a test lets rivals meet there.
type WeakCreate struct {
	bucket.Store
	Between func(key string)
}

// Create implements bucket.Writer.
func (w *WeakCreate) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	tag, err := tagAt(ctx, w.Store, key)
	if err != nil {
		return bucket.Info{}, err
	}
	if tag != bucket.Absent {
		return bucket.Info{}, &fault.Error{Op: "create object", Object: key, Side: fault.SideBucket, Kind: fault.Exists}
	}
	if w.Between != nil {
		w.Between(key)
	}
	return overwrite(ctx, w.Store, key, content)
}

package buckettest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// Memory is a store in memory that does the same each time. A tag is a hash of the content, as an
// ETag is: it repeats when the same bytes are written again. It holds what tests put there, whole.
type Memory struct {
	// Now tells when an object was written; nil: the zero time.
	Now func() time.Time
	// FreshTags makes each write have a tag of its own, though its bytes are the same.
	FreshTags bool

	mu      sync.Mutex
	objects map[string]memoryObject
	writes  int64
	print   [16]byte
}

type memoryObject struct {
	data     []byte // never changed
	sum      manifest.SHA256
	tag      bucket.Tag
	modified time.Time
}

// NewMemory returns a store that holds nothing.
func NewMemory() *Memory { return &Memory{objects: map[string]memoryObject{}} }

// Clone returns a store that holds the same, and goes its own way from there.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{Now: m.Now, FreshTags: m.FreshTags, objects: maps.Clone(m.objects), writes: m.writes, print: m.print}
}

// Keys returns all keys, in order.
func (m *Memory) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.objects))
}

// Under returns the keys that begin with a prefix, in order.
func (m *Memory) Under(prefix string) []string {
	return slices.DeleteFunc(m.Keys(), func(key string) bool { return !strings.HasPrefix(key, prefix) })
}

// Bytes returns what a key holds, nil for nothing. They must not be changed.
func (m *Memory) Bytes(key string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.objects[key].data
}

// Fingerprint is equal for two stores that hold the same bytes, with the same tags, under the same keys.
func (m *Memory) Fingerprint() [16]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.print
}

// put is called with the lock held.
func (m *Memory) put(key string, data []byte, sum manifest.SHA256) memoryObject {
	m.remove(key)
	m.writes++
	object := memoryObject{data: data, sum: sum, tag: bucket.Tag(sum.String()[:32])}
	if m.FreshTags {
		object.tag = bucket.Tag(strconv.FormatInt(m.writes, 10))
	}
	if m.Now != nil {
		object.modified = m.Now()
	}
	m.objects[key] = object
	m.mark(key, object)
	return object
}

// remove is called with the lock held.
func (m *Memory) remove(key string) {
	if object, ok := m.objects[key]; ok {
		m.mark(key, object)
		delete(m.objects, key)
	}
}

// mark adds an object to the fingerprint, or takes it out again.
func (m *Memory) mark(key string, object memoryObject) {
	text := binary.AppendUvarint(nil, uint64(len(key)))
	text = append(append(append(text, key...), object.sum[:]...), object.tag...)
	sum := sha256.Sum256(text)
	for at := range m.print {
		m.print[at] ^= sum[at]
	}
}

func (o memoryObject) info(key string) bucket.Info {
	sum := o.sum
	return bucket.Info{Key: key, Size: int64(len(o.data)), Tag: o.tag, Modified: o.modified, SHA256: &sum}
}

// may refuses what no request may do.
func may(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return bucket.CheckKey(key)
}

func (m *Memory) find(ctx context.Context, op, key string) (memoryObject, error) {
	if err := may(ctx, key); err != nil {
		return memoryObject{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	object, ok := m.objects[key]
	if !ok {
		return object, refusal(op, key, fault.NotFound, "nothing is there")
	}
	return object, nil
}

func refusal(op, key string, kind fault.Kind, why string) error {
	return &fault.Error{Op: op, Object: key, Side: fault.SideBucket, Kind: kind, Err: errors.New(why)}
}

// Stat implements bucket.Reader.
func (m *Memory) Stat(ctx context.Context, key string) (bucket.Info, error) {
	object, err := m.find(ctx, "read object", key)
	if err != nil {
		return bucket.Info{}, err
	}
	return object.info(key), nil
}

// Open implements bucket.Reader.
func (m *Memory) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	object, err := m.find(ctx, "read object", key)
	if err != nil {
		return nil, bucket.Info{}, err
	}
	data := object.data[min(offset, int64(len(object.data))):]
	if length >= 0 {
		data = data[:min(length, int64(len(data)))]
	}
	return io.NopCloser(bytes.NewReader(data)), object.info(key), nil
}

// List implements bucket.Reader. It lists what is there when its first key is asked for.
func (m *Memory) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(bucket.Info{}, err)
			return
		}
		for _, info := range m.listed(prefix, after) {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (m *Memory) listed(prefix, after string) []bucket.Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []bucket.Info
	for key, object := range m.objects {
		if strings.HasPrefix(key, prefix) && key > after {
			info := object.info(key)
			info.SHA256 = nil // a listing does not tell
			list = append(list, info)
		}
	}
	slices.SortFunc(list, func(a, b bucket.Info) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// Create implements bucket.Writer.
func (m *Memory) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	return m.write(ctx, "put object", key, content, func(_ memoryObject, taken bool) error {
		if taken {
			return refusal("put object", key, fault.Exists, "the key is taken")
		}
		return nil
	})
}

// Replace implements bucket.Replacer.
func (m *Memory) Replace(ctx context.Context, key string, old bucket.Tag, content bucket.Content) (bucket.Info, error) {
	return m.write(ctx, "replace object", key, content, func(standing memoryObject, taken bool) error {
		if !taken || standing.tag != old {
			return bucket.Unreplaced(key, errors.New("another object is there"))
		}
		return nil
	})
}

func (m *Memory) write(ctx context.Context, op, key string, content bucket.Content, allowed func(memoryObject, bool) error) (bucket.Info, error) {
	if err := may(ctx, key); err != nil {
		return bucket.Info{}, err
	}
	data, err := io.ReadAll(bucket.VerifyReader(content.Body, content.Size, content.SHA256))
	if err != nil {
		return bucket.Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return bucket.Info{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	standing, taken := m.objects[key]
	if err := allowed(standing, taken); err != nil {
		return bucket.Info{}, err
	}
	return m.put(key, data, content.SHA256).info(key), nil
}

// Swap implements bucket.Swapper.
func (m *Memory) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	if err := may(ctx, key); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects[key].tag != old {
		return "", refusal("put object", key, fault.Conflict, "another state stands")
	}
	return m.put(key, bytes.Clone(data), manifest.SumBytes(data)).tag, nil
}

// Delete implements bucket.Deleter.
func (m *Memory) Delete(ctx context.Context, key string, tag bucket.Tag) error {
	if err := may(ctx, key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	standing, taken := m.objects[key]
	if taken && standing.tag != tag {
		return refusal("delete object", key, fault.Conflict, "another object is there")
	}
	m.remove(key)
	return nil
}

// Guarantees implements bucket.Store.
func (m *Memory) Guarantees() bucket.Guarantees {
	return bucket.Guarantees{AtomicCreate: true, CompareAndSwap: true, RefusesWrongBytes: true, Attests: "sha256",
		ConditionalDelete: true, FreshTags: m.FreshTags}
}

// Close implements bucket.Store.
func (m *Memory) Close() error { return nil }

// Bare returns the store as something is read that knows of keys and bytes alone.
func (m *Memory) Bare() Bare { return Bare{m} }

// Bare lists and reads all that a Memory holds.
type Bare struct{ memory *Memory }

// List returns all keys, in order.
func (b Bare) List() ([]string, error) { return b.memory.Keys(), nil }

// Read returns the bytes of a key.
func (b Bare) Read(key string) (io.ReadCloser, error) {
	body, _, err := b.memory.Open(context.Background(), key, 0, -1)
	return body, err
}

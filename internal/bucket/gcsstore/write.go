package gcsstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"cloud.google.com/go/storage"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// chunkSize is the default of Options.PartSize, in bytes; the service wants multiples of chunkUnit.
const (
	chunkSize = 8 << 20
	chunkUnit = 256 << 10
)

// castagnoli is the polynomial of CRC32C.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Create implements bucket.Writer.
func (s *Store) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	return s.put(ctx, key, storage.Conditions{DoesNotExist: true}, content)
}

// Replace implements bucket.Replacer.
func (s *Store) Replace(ctx context.Context, key string, old bucket.Tag, content bucket.Content) (bucket.Info, error) {
	generation, err := generationOf(key, old)
	if err != nil {
		return bucket.Info{}, err
	}
	info, err := s.put(ctx, key, storage.Conditions{GenerationMatch: generation}, content)
	if fault.Is(err, fault.Exists) {
		return bucket.Info{}, bucket.Unreplaced(key, err)
	}
	return info, err
}

// put writes an object in one request or through a resumable session.
func (s *Store) put(ctx context.Context, key string, when storage.Conditions, content bucket.Content) (bucket.Info, error) {
	name, err := s.name(key)
	if err != nil {
		return bucket.Info{}, err
	}
	verified := bucket.VerifyReader(content.Body, content.Size, content.SHA256)
	object := s.bucket.Object(name).If(when)
	if content.Size > int64(s.chunk) {
		return s.createLarge(ctx, key, object, content.Class, verified)
	}
	data := bytes.NewBuffer(make([]byte, 0, content.Size+bytes.MinRead))
	if _, err := data.ReadFrom(verified); err != nil {
		return bucket.Info{}, fmt.Errorf("create object %s: %w", key, err)
	}
	sum := crc32.Checksum(data.Bytes(), castagnoli())
	attrs, err := s.send(ctx, object, key, content.Class, data.Bytes(), sum)
	if err != nil {
		return bucket.Info{}, s.fail(ctx, opCreate, key, err)
	}
	return s.settle(ctx, key, attrs, content.Size, sum)
}

// send writes data in one request that announces the checksum sum of the whole.
func (s *Store) send(ctx context.Context, object *storage.ObjectHandle, key string, class bucket.ContentClass,
	data []byte, sum uint32,
) (*storage.ObjectAttrs, error) {
	upload, cancel := context.WithCancel(ctx)
	defer cancel()
	writer := s.writer(upload, object, key, class)
	writer.ChunkSize = 0 // one request, and no buffer beside ours
	writer.SendCRC32C = true
	writer.CRC32C = sum
	if _, err := writer.Write(data); err != nil {
		cancel() // Close would commit what was written
		return nil, errors.Join(err, ignoreCancel(writer.Close()))
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return writer.Attrs(), nil
}

// createLarge streams the body through a resumable session. The SDK sends the CRC32C of all bytes
// with the request that finishes it.
func (s *Store) createLarge(ctx context.Context, key string, object *storage.ObjectHandle, class bucket.ContentClass,
	verified *bucket.Verifier,
) (bucket.Info, error) {
	upload, cancel := context.WithCancel(ctx)
	defer cancel()
	writer := s.writer(upload, object, key, class)
	writer.ChunkSize = s.chunk
	sum := crc32.New(castagnoli())
	size, err := io.Copy(io.MultiWriter(writer, sum), verified)
	if err != nil {
		cancel() // Close would commit what was written
		_ = ignoreCancel(writer.Close())
		if cause := verified.Failure(); cause != nil {
			return bucket.Info{}, fmt.Errorf("create object %s: %w", key, cause)
		}
		return bucket.Info{}, s.fail(ctx, opCreate, key, err)
	}
	if err := writer.Close(); err != nil {
		return bucket.Info{}, s.fail(ctx, opCreate, key, err)
	}
	return s.settle(ctx, key, writer.Attrs(), size, sum.Sum32())
}

// ignoreCancel drops the error of a writer that was told to stop; another one is kept.
func ignoreCancel(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// settle compares what the store says it holds with what was sent. The store compared them before
// it made the object visible; one that did not, and holds other bytes, must not keep them under
// this key, so that very generation is taken away again.
func (s *Store) settle(ctx context.Context, key string, attrs *storage.ObjectAttrs, size int64, sum uint32) (bucket.Info, error) {
	if attrs.Generation <= 0 {
		return bucket.Info{}, bucket.Unreadable(opCreate, key, errors.New("it names no generation"))
	}
	if attrs.Size == size && attrs.CRC32C == sum {
		return infoOf(key, attrs), nil
	}
	cause := fmt.Errorf("the store holds %d bytes with crc32c %08x, sent were %d with %08x", attrs.Size, attrs.CRC32C, size, sum)
	wrong := &fault.Error{Op: opCreate, Object: key, Side: fault.SideBucket, Kind: fault.WrongBytes, Err: cause}
	if err := s.Delete(ctx, key, tagOf(attrs.Generation)); err != nil {
		wrong.Err = fmt.Errorf("%w; taking it away: %w", cause, err)
	}
	return bucket.Info{}, wrong
}

// writer returns a writer with the headers that belong to the class. What it needs more is set by
// the caller before the first byte.
func (s *Store) writer(ctx context.Context, object *storage.ObjectHandle, key string, class bucket.ContentClass) *storage.Writer {
	writer := object.NewWriter(ctx)
	writer.ContentType = bucket.MediaType(key, class)
	writer.CacheControl = bucket.CacheControl(class)
	if class == bucket.Data {
		writer.StorageClass = s.options.StorageClass // a cold class bills each rewrite of a document
	}
	writer.KMSKeyName = s.options.KMSKey
	return writer
}

// Swap implements bucket.Swapper.
func (s *Store) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	name, err := s.name(key)
	if err != nil {
		return bucket.Absent, err
	}
	conditions := storage.Conditions{DoesNotExist: true}
	if old != bucket.Absent {
		generation, err := generationOf(key, old)
		if err != nil {
			return bucket.Absent, err
		}
		conditions = storage.Conditions{GenerationMatch: generation}
	}
	object := s.bucket.Object(name).If(conditions)
	attrs, err := s.send(ctx, object, key, bucket.Pointer, data, crc32.Checksum(data, castagnoli()))
	if err != nil {
		return bucket.Absent, s.fail(ctx, opSwap, key, err)
	}
	if attrs.Generation <= 0 { // a success that names no object proves nothing: what stands decides
		return bucket.Absent, bucket.Unreadable(opSwap, key, errors.New("it names no generation"))
	}
	return tagOf(attrs.Generation), nil
}

// Delete implements bucket.Deleter.
func (s *Store) Delete(ctx context.Context, key string, tag bucket.Tag) error {
	name, err := s.name(key)
	if err != nil {
		return err
	}
	generation, err := generationOf(key, tag)
	if err != nil {
		return err
	}
	err = s.bucket.Object(name).If(storage.Conditions{GenerationMatch: generation}).Delete(ctx)
	if err == nil || errors.Is(err, storage.ErrObjectNotExist) {
		return nil
	}
	return s.fail(ctx, opDelete, key, err)
}

// CreateRaw implements bucket.RawCreator: it sends one body and announces another's checksum.
func (s *Store) CreateRaw(ctx context.Context, key string, sent, announced []byte) error {
	name, err := s.name(key)
	if err != nil {
		return err
	}
	object := s.bucket.Object(name).If(storage.Conditions{DoesNotExist: true})
	_, err = s.send(ctx, object, key, bucket.Data, sent, crc32.Checksum(announced, castagnoli()))
	if err != nil {
		return s.fail(ctx, opCreate, key, err)
	}
	return nil
}

package bucket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// ReadAll returns a document of at most limit bytes. A greater one is a fault.Malformed: nothing
// that the mirror reads whole may grow without a bound.
func ReadAll(ctx context.Context, r Reader, key string, limit int64) ([]byte, Info, error) {
	body, info, err := r.Open(ctx, key, 0, -1)
	if err != nil {
		return nil, Info{}, err
	}
	defer func() { _ = body.Close() }() // only read from: nothing can be lost
	var out bytes.Buffer
	if info.Size > 0 && info.Size <= limit {
		out.Grow(int(info.Size) + bytes.MinRead)
	}
	n, err := io.Copy(&out, io.LimitReader(body, limit+1))
	if err != nil {
		return nil, Info{}, fmt.Errorf("read object %s: %w", key, err)
	}
	if n > limit {
		return nil, Info{}, &fault.Error{
			Op: "read object", Object: key, Side: fault.SideBucket, Kind: fault.Malformed,
			Err: fmt.Errorf("larger than %d bytes", limit),
		}
	}
	return out.Bytes(), info, nil
}

// CreateDocument creates an immutable document of ours. A key that is taken is a fault.Exists.
func CreateDocument(ctx context.Context, w Writer, key string, data []byte) (Info, error) {
	return w.Create(ctx, key, Content{
		Size: int64(len(data)), SHA256: manifest.SumBytes(data), Class: Document,
		Body: bytes.NewReader(data),
	})
}

// Holds reports whether key holds exactly these bytes: by the checksum that the store keeps, else
// by reading them. A missing key is false without an error.
func Holds(ctx context.Context, r Reader, key string, size int64, sum manifest.SHA256) (Info, bool, error) {
	info, err := r.Stat(ctx, key)
	switch {
	case fault.Is(err, fault.NotFound):
		return Info{}, false, nil
	case err != nil:
		return Info{}, false, err
	case info.Size >= 0 && info.Size != size:
		return info, false, nil
	case info.SHA256 != nil:
		return info, *info.SHA256 == sum, nil
	}
	body, read, err := r.Open(ctx, key, 0, -1)
	if err != nil {
		return Info{}, false, err
	}
	defer func() { _ = body.Close() }() // only read from: nothing can be lost
	digest := sha256.New()
	n, err := io.Copy(digest, body)
	if err != nil {
		return Info{}, false, fmt.Errorf("read object %s: %w", key, err)
	}
	var got manifest.SHA256
	digest.Sum(got[:0])
	return read, n == size && got == sum, nil
}

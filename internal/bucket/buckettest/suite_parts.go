package buckettest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

func partGroups() []group {
	return []group{{"thresholds", testThresholds}, {"threshold-wrong-bytes", testThresholdWrongBytes}}
}

// threshold returns the size above which the store writes in parts, or 1 MiB when it never does.
func (s *subject) threshold(t testing.TB) int {
	t.Helper()
	limit := s.Guarantees().MaxSinglePut
	if limit > 64<<20 {
		t.Fatalf("the store writes objects up to %d bytes at once: open it with a smaller threshold", limit)
	}
	if limit == 0 {
		return 1 << 20
	}
	return int(limit)
}

// testThresholds: the way an object is written is decided once, by its size, and shows nowhere.
func testThresholds(t testing.TB, s *subject) {
	limit := s.threshold(t)
	var keys []string
	for _, size := range []int{0, 1, limit - 1, limit, limit + 1, 2*limit - 1, 2 * limit, 2*limit + 1} {
		key := fmt.Sprintf("size/%d", size)
		data := pattern(size, size)
		c := contentBytes(data, bucket.Data)
		c.Body = streamOnly{c.Body}
		if _, err := s.Create(t.Context(), key, c); err != nil {
			t.Fatalf("create %d bytes (threshold %d): %v", size, limit, err)
		}
		keys = append(keys, key)
		s.wantHash(t, key, int64(size), c.SHA256)
		// Other bytes: a server that hangs up on a taken key leaves no other sign that these are not its own.
		_, err := s.Create(t.Context(), key, contentBytes(pattern(size, size+1), bucket.Data))
		wantKind(t, err, fault.Exists)
	}
	s.wantKeys(t, keys...)
}

func (s *subject) wantHash(t testing.TB, key string, size int64, sum manifest.SHA256) {
	t.Helper()
	body, info, err := s.Open(t.Context(), key, 0, -1)
	if err != nil {
		t.Fatalf("open %q: %v", key, err)
	}
	digest := sha256.New()
	n, err := io.Copy(digest, body)
	if err := errors.Join(err, body.Close()); err != nil {
		t.Fatalf("read %q: %v", key, err)
	}
	if n != size || info.Size != size || !bytes.Equal(digest.Sum(nil), sum[:]) {
		t.Fatalf("%q: %d bytes (store says %d), want %d; sha256 right: %t", key, n, info.Size, size, bytes.Equal(digest.Sum(nil), sum[:]))
	}
}

func testThresholdWrongBytes(t testing.TB, s *subject) {
	limit := s.threshold(t)
	for _, size := range []int{limit, limit + 1, 2*limit + 1} {
		data := pattern(size, size)
		good := contentBytes(data, bucket.Data)
		flipped := bytes.Clone(data)
		flipped[size-1] ^= 1
		for name, wrong := range map[string][]byte{
			"last byte flipped": flipped, "too short": data[:size-1], "too long": append(bytes.Clone(data), 0),
		} {
			c := good
			c.Body = streamOnly{bytes.NewReader(wrong)}
			_, err := s.Create(t.Context(), "wrong", c)
			if !fault.Is(err, fault.WrongBytes) {
				t.Fatalf("%d bytes, %s: got %v, want a fault.WrongBytes", size, name, err)
			}
			s.wantKeys(t)
		}
		ctx, cancel := context.WithCancel(t.Context())
		c := good
		c.Body = io.MultiReader(bytes.NewReader(data[:size-1]), cancelReader{cancel}, bytes.NewReader(data[size-1:]))
		_, err := s.Create(ctx, "wrong", c)
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%d bytes, cancelled: got %v", size, err)
		}
		s.wantKeys(t)
	}
}

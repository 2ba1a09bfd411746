package buckettest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

func writeGroups() []group {
	return []group{
		{"create", testCreate},
		{"exists", testExists},
		{"empty", testEmpty},
		{"large-document", testLargeDocument},
		{"create-race", testCreateRace},
	}
}

func testCreate(t testing.TB, s *subject) {
	for _, class := range []bucket.ContentClass{bucket.Data, bucket.Document, bucket.Pointer} {
		key, data := []string{"data/a", "doc/a", "pointer/a"}[class], pattern(1000, int(class))
		c := contentBytes(data, class)
		c.Body = streamOnly{c.Body}
		created, err := s.Create(t.Context(), key, c)
		if err != nil {
			t.Fatalf("create %q: %v", key, err)
		}
		s.wantBytes(t, key, data)
		stat, err := s.Stat(t.Context(), key)
		if err != nil {
			t.Fatalf("stat %q: %v", key, err)
		}
		if stat.Tag != created.Tag || stat.Tag == bucket.Absent || stat.Size != 1000 || stat.Key != key {
			t.Errorf("stat says %+v, create said %+v", stat, created)
		}
		if stat.Archived || stat.Encoding != "" || stat.Modified.IsZero() {
			t.Errorf("stat says %+v, want readable, not encoded and dated", stat)
		}
		checkAttested(t, s, stat, manifest.SumBytes(data))
	}
	s.wantKeys(t, "data/a", "doc/a", "pointer/a")
}

// checkAttested holds a store to the checksum that it declares to keep.
func checkAttested(t testing.TB, s *subject, info bucket.Info, sum manifest.SHA256) {
	t.Helper()
	if info.SHA256 != nil && *info.SHA256 != sum {
		t.Errorf("store attests sha256 %s, want %s", info.SHA256, sum)
	}
	switch attests := s.Guarantees().Attests; attests {
	case "":
	case "sha256":
		if info.SHA256 == nil {
			t.Errorf("store declares to attest sha256 and told none")
		}
	default:
		if !bytes.HasPrefix([]byte(info.Checksum), []byte(attests+":")) {
			t.Errorf("store declares to attest %s and told %q", attests, info.Checksum)
		}
	}
}

func testExists(t testing.TB, s *subject) {
	first := pattern(300, 1)
	before := s.mustCreate(t, "taken", first)
	for _, data := range [][]byte{pattern(300, 2), first, {}} {
		_, err := s.Create(t.Context(), "taken", contentBytes(data, bucket.Data))
		wantKind(t, err, fault.Exists)
	}
	_, err := bucket.CreateDocument(t.Context(), s, "taken", []byte("{}"))
	wantKind(t, err, fault.Exists)
	s.wantBytes(t, "taken", first)
	after, err := s.Stat(t.Context(), "taken")
	if err != nil || after.Tag != before.Tag {
		t.Errorf("tag moved from %q to %q (%v)", before.Tag, after.Tag, err)
	}
	s.wantKeys(t, "taken")
}

func testEmpty(t testing.TB, s *subject) {
	s.mustCreate(t, "empty", nil)
	s.wantBytes(t, "empty", nil)
	s.wantAbsent(t, "missing")
	c := contentBytes(nil, bucket.Data)
	c.Body = bytes.NewReader([]byte("x"))
	_, err := s.Create(t.Context(), "too-long", c)
	wantKind(t, err, fault.WrongBytes)
	c = contentBytes(nil, bucket.Data)
	c.SHA256 = manifest.SumBytes([]byte("other"))
	_, err = s.Create(t.Context(), "other-hash", c)
	wantKind(t, err, fault.WrongBytes)
	s.wantKeys(t, "empty")
}

func testLargeDocument(t testing.TB, s *subject) {
	data := pattern(5<<20+17, 5)
	if _, err := bucket.CreateDocument(t.Context(), s, "large.json", data); err != nil {
		t.Fatalf("create document: %v", err)
	}
	s.wantBytes(t, "large.json", data)
	_, _, err := bucket.ReadAll(t.Context(), s, "large.json", 1<<20)
	wantKind(t, err, fault.Malformed)
	tag, err := s.Swap(t.Context(), "swapped.json", bucket.Absent, data)
	if err != nil {
		t.Fatalf("swap large document: %v", err)
	}
	stat, err := s.Stat(t.Context(), "swapped.json")
	if err != nil || stat.Tag != tag {
		t.Fatalf("stat after swap: tag %q, want %q (%v)", stat.Tag, tag, err)
	}
	if _, err = s.Swap(t.Context(), "swapped.json", tag, data[1:]); err != nil {
		t.Fatalf("swap large document again: %v", err)
	}
	s.wantBytes(t, "swapped.json", data[1:])
}

func testCreateRace(t testing.TB, s *subject) {
	if !s.Guarantees().AtomicCreate {
		t.Fatal("the store declares no atomic create: the mirror cannot use it")
	}
	const writers = 16
	ctx := t.Context()
	errs := race(writers, func(i int) error {
		_, err := s.Create(ctx, "raced", contentBytes(pattern(2000+i, i), bucket.Data))
		return err
	})
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			t.Fatalf("writers %d and %d both won", winner, i)
		case err == nil:
			winner = i
		case !fault.Is(err, fault.Exists) && !fault.Is(err, fault.Contended):
			t.Errorf("writer %d: %v, want a fault.Exists", i, err)
		}
	}
	if winner < 0 {
		t.Fatal("nobody won")
	}
	s.wantBytes(t, "raced", pattern(2000+winner, winner))
	s.wantKeys(t, "raced")
}

func bodyGroups() []group {
	return []group{
		{"wrong-bytes", testWrongBytes},
		{"too-short", testTooShort},
		{"too-long", testTooLong},
		{"broken-source", testBrokenSource},
		{"cancel", testCancel},
		{"body-released", testBodyReleased},
	}
}

// sizesOfBodies are below, around and above common buffer sizes.
func sizesOfBodies() []int { return []int{1, 100, 64 << 10, 1<<20 + 1} }

// refuseBody creates with a body that is not what content names, and wants nothing to be left.
func refuseBody(t testing.TB, s *subject, change func(data []byte) []byte) {
	t.Helper()
	for _, size := range sizesOfBodies() {
		data := pattern(size, size)
		c := contentBytes(data, bucket.Data)
		c.Body = streamOnly{bytes.NewReader(change(bytes.Clone(data)))}
		_, err := s.Create(t.Context(), "wrong", c)
		wantKind(t, err, fault.WrongBytes)
		s.wantAbsent(t, "wrong")
		s.wantKeys(t)
	}
	// The key is free for the right bytes.
	s.mustCreate(t, "wrong", pattern(100, 100))
}

func testWrongBytes(t testing.TB, s *subject) {
	data := pattern(4096, 9)
	c := contentBytes(data, bucket.Data)
	data = bytes.Clone(data)
	data[0] ^= 0x80
	c.Body = bytes.NewReader(data)
	_, err := s.Create(t.Context(), "wrong-first", c)
	wantKind(t, err, fault.WrongBytes)
	s.wantKeys(t)
	refuseBody(t, s, func(data []byte) []byte { data[len(data)-1] ^= 1; return data })
}

func testTooShort(t testing.TB, s *subject) {
	refuseBody(t, s, func(data []byte) []byte { return data[:len(data)-1] })
}

func testTooLong(t testing.TB, s *subject) {
	refuseBody(t, s, func(data []byte) []byte { return append(data, 0) })
}

var errSource = errors.New("source broke")

func testBrokenSource(t testing.TB, s *subject) {
	for _, size := range sizesOfBodies() {
		data := pattern(size, size)
		c := contentBytes(data, bucket.Data)
		c.Body = io.MultiReader(bytes.NewReader(data[:size/2]), brokenReader{})
		if _, err := s.Create(t.Context(), "broken", c); !errors.Is(err, errSource) {
			t.Fatalf("got %v, want the source's error", err)
		}
		s.wantAbsent(t, "broken")
		s.wantKeys(t)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errSource }

// testCancel ends the context in mid-body: what was sent must not become visible, now or later.
func testCancel(t testing.TB, s *subject) {
	for _, size := range []int{100, 3 << 20} {
		data := pattern(size, size)
		ctx, cancel := context.WithCancel(t.Context())
		c := contentBytes(data, bucket.Data)
		c.Body = io.MultiReader(bytes.NewReader(data[:size-1]), cancelReader{cancel}, bytes.NewReader(data[size-1:]))
		_, err := s.Create(ctx, "cancelled", c)
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want context.Canceled", err)
		}
		deadline := time.Now().Add(300 * time.Millisecond)
		for time.Now().Before(deadline) {
			s.wantAbsent(t, "cancelled")
			time.Sleep(50 * time.Millisecond)
		}
		s.wantKeys(t)
	}
}

// cancelReader ends the context and gives the request time to notice before it goes on.
type cancelReader struct{ cancel context.CancelFunc }

func (r cancelReader) Read([]byte) (int, error) {
	r.cancel()
	time.Sleep(50 * time.Millisecond)
	return 0, io.EOF
}

// testBodyReleased checks that a body is not read once Create has returned: its owner may reuse it.
func testBodyReleased(t testing.TB, s *subject) {
	data := pattern(4<<20, 4)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body := &watchedBody{source: bytes.NewReader(data), after: 1 << 20, cancel: cancel}
	c := contentBytes(data, bucket.Data)
	c.Body = body
	if _, err := s.Create(ctx, "released", c); err == nil {
		t.Fatal("a cancelled create succeeded")
	}
	body.over.Store(true)
	time.Sleep(200 * time.Millisecond)
	if body.late.Load() {
		t.Error("the body was read after Create returned")
	}
}

type watchedBody struct {
	source     io.Reader
	after      int
	cancel     context.CancelFunc
	over, late atomic.Bool
}

func (b *watchedBody) Read(p []byte) (int, error) {
	if b.over.Load() {
		b.late.Store(true)
	}
	n, err := b.source.Read(p[:min(len(p), 16<<10)])
	b.after -= n
	if b.after < 0 {
		b.cancel()
		time.Sleep(5 * time.Millisecond)
	}
	return n, err
}

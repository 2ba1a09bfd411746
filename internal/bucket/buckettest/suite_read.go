package buckettest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

func readGroups() []group {
	return []group{
		{"absent", testAbsent},
		{"ranges", testRanges},
		{"reader-at", testReaderAt},
		{"ended-context", testEndedContext},
	}
}

func testAbsent(t testing.TB, s *subject) {
	s.mustCreate(t, "folder/here", []byte("x"))
	for _, key := range []string{"nothing", "folder", "folder/other", "folder/here/below", "fold"} {
		s.wantAbsent(t, key)
		_, _, err := s.Open(t.Context(), key, 0, -1)
		wantKind(t, err, fault.NotFound)
		_, _, err = s.Open(t.Context(), key, 5, 5)
		wantKind(t, err, fault.NotFound)
		_, _, err = bucket.ReadAll(t.Context(), s, key, 100)
		wantKind(t, err, fault.NotFound)
	}
}

// testRanges: a range that reaches past the end delivers what there is; one that begins at or
// behind the end is empty.
func testRanges(t testing.TB, s *subject) {
	data := pattern(10_000, 3)
	created := s.mustCreate(t, "ranged", data)
	for _, r := range []struct{ offset, length, want int64 }{
		{0, -1, 10_000}, {0, 0, 0}, {0, 1, 1}, {0, 10_000, 10_000}, {0, 20_000, 10_000}, {1, -1, 9_999},
		{9_999, -1, 1}, {9_999, 1, 1}, {9_999, 50, 1}, {5_000, 100, 100}, {10_000, -1, 0}, {10_000, 10, 0}, {5, 0, 0}, {10_001, -1, 0}, {20_000, 5, 0},
	} {
		body, info, err := s.Open(t.Context(), "ranged", r.offset, r.length)
		if err != nil {
			t.Fatalf("open at %d for %d: %v", r.offset, r.length, err)
		}
		got, err := io.ReadAll(body)
		if err := errors.Join(err, body.Close()); err != nil {
			t.Fatalf("read at %d for %d: %v", r.offset, r.length, err)
		}
		if !bytes.Equal(got, data[min(r.offset, 10_000):min(r.offset, 10_000)+r.want]) {
			t.Errorf("range at %d for %d: got %d bytes, want %d", r.offset, r.length, len(got), r.want)
		}
		if info.Size != 10_000 || info.Tag != created.Tag {
			t.Errorf("range at %d for %d: store says %+v, want the whole object's size and tag %q", r.offset, r.length, info, created.Tag)
		}
	}
}

func testReaderAt(t testing.TB, s *subject) {
	data := pattern(300_000, 8)
	s.mustCreate(t, "jumps", data)
	info, err := s.Stat(t.Context(), "jumps")
	if err != nil {
		t.Fatalf("stat: %v", err)
	}
	reader := bucket.NewReaderAt(t.Context(), s, info)
	got, err := io.ReadAll(io.NewSectionReader(reader, 0, reader.Size()))
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("read all through ReaderAt: %d bytes, %v", len(got), err)
	}
	for _, at := range []struct{ offset, length int }{{299_992, 8}, {0, 4}, {100_000, 150_000}, {299_990, 10}} {
		p := make([]byte, at.length)
		if n, err := reader.ReadAt(p, int64(at.offset)); err != nil || n != at.length || !bytes.Equal(p, data[at.offset:at.offset+n]) {
			t.Errorf("read %d bytes at %d: %d, %v", at.length, at.offset, n, err)
		}
	}
	if n, err := reader.ReadAt(make([]byte, 20), 299_990); n != 10 || !errors.Is(err, io.EOF) {
		t.Errorf("read past the end: %d, %v, want 10 and EOF", n, err)
	}
}

func testEndedContext(t testing.TB, s *subject) {
	info := s.mustCreate(t, "here", []byte("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := map[string]func() error{
		"stat":   func() error { _, err := s.Stat(ctx, "here"); return err },
		"open":   func() error { _, _, err := s.Open(ctx, "here", 0, -1); return err },
		"create": func() error { _, err := s.Create(ctx, "new", contentBytes([]byte("x"), bucket.Data)); return err },
		"swap":   func() error { _, err := s.Swap(ctx, "here", info.Tag, []byte("y")); return err },
		"delete": func() error { return s.Delete(ctx, "here", info.Tag) },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: got %v, want context.Canceled", name, err)
		}
	}
	s.wantKeys(t, "here")
	s.wantBytes(t, "here", []byte("x"))
}

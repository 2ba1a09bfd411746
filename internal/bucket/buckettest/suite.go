package buckettest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// Open returns a store that holds nothing: a folder or a prefix of its own for every call. A
// store that writes large objects in parts is opened with a threshold of at most 64 MiB. The suite
// closes what it opened.
type Open func(t *testing.T) bucket.Store

// group is one named property of a store.
type group struct {
	name string
	run  func(t testing.TB, s *subject)
}

func groups() []group {
	all := []group{}
	all = append(all, writeGroups()...)
	all = append(all, bodyGroups()...)
	all = append(all, nameGroups()...)
	all = append(all, listGroups()...)
	all = append(all, readGroups()...)
	all = append(all, swapGroups()...)
	all = append(all, replaceGroups()...)
	all = append(all, deleteGroups()...)
	return append(all, partGroups()...)
}

// Groups returns the names of the conformance groups.
func Groups() []string {
	var names []string
	for _, g := range groups() {
		names = append(names, g.name)
	}
	return names
}

// Run checks that stores returned by open keep the contract of the port and what they declare in
// their Guarantees. Each group is a subtest with a store of its own.
func Run(t *testing.T, open Open) {
	t.Helper()
	run(t, groups(), open)
}

// RunAlone is Run without the groups in which writers meet: for a store that keeps its promises to a
// single writer.
func RunAlone(t *testing.T, open Open) {
	t.Helper()
	run(t, slices.DeleteFunc(groups(), func(g group) bool { return strings.HasSuffix(g.name, "-race") }), open)
}

func run(t *testing.T, groups []group, open Open) {
	t.Helper()
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			store := open(t)
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Errorf("close store: %v", err)
				}
			})
			g.run(t, &subject{Store: store})
		})
	}
}

// subject is the store under test with helpers that fail the test.
type subject struct{ bucket.Store }

func contentBytes(data []byte, class bucket.ContentClass) bucket.Content {
	return bucket.Content{
		Size: int64(len(data)), SHA256: manifest.SumBytes(data), Class: class, Body: bytes.NewReader(data),
	}
}

func (s *subject) mustCreate(t testing.TB, key string, data []byte) bucket.Info {
	t.Helper()
	info, err := s.Create(t.Context(), key, contentBytes(data, bucket.Data))
	if err != nil {
		t.Fatalf("create %q: %v", key, err)
	}
	if info.Size != int64(len(data)) || info.Tag == bucket.Absent || info.Key != key {
		t.Fatalf("create %q of %d bytes returned %+v", key, len(data), info)
	}
	return info
}

func (s *subject) wantBytes(t testing.TB, key string, want []byte) {
	t.Helper()
	got, info, err := bucket.ReadAll(t.Context(), s, key, int64(len(want))+1)
	if err != nil {
		t.Fatalf("read %q: %v", key, err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%q holds %d bytes %.40q, want %d bytes %.40q", key, len(got), got, len(want), want)
	}
	if info.Size != int64(len(want)) || info.Encoding != "" {
		t.Fatalf("open %q told %+v, want %d bytes and no encoding", key, info, len(want))
	}
}

func (s *subject) wantAbsent(t testing.TB, key string) {
	t.Helper()
	if _, err := s.Stat(t.Context(), key); !fault.Is(err, fault.NotFound) {
		t.Fatalf("stat %q: got %v, want a fault.NotFound", key, err)
	}
}

func (s *subject) keys(t testing.TB, prefix, after string) []string {
	t.Helper()
	keys := []string{}
	for info, err := range s.List(t.Context(), prefix, after) {
		if err != nil {
			t.Fatalf("list %q after %q: %v", prefix, after, err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// wantKeys checks the whole store: nothing missing, nothing stray.
func (s *subject) wantKeys(t testing.TB, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := s.keys(t, "", ""); !slices.Equal(got, want) {
		t.Fatalf("store holds %q, want %q", got, want)
	}
}

func wantKind(t testing.TB, err error, want fault.Kind) {
	t.Helper()
	if !fault.Is(err, want) {
		t.Fatalf("got error %v (kind %q), want kind %q", err, fault.KindOf(err), want)
	}
}

// pattern returns n bytes that differ from those of another seed and from shifted ones.
func pattern(n, seed int) []byte {
	data := make([]byte, n)
	state := uint32(seed)*2654435761 + 1
	for i := range data {
		state = state*1664525 + 1013904223
		data[i] = byte(state >> 24)
	}
	return data
}

// streamOnly hides Seek, as a body from a network has none.
type streamOnly struct{ io.Reader }

// race runs n functions at once and returns their errors.
func race(n int, run func(i int) error) []error {
	errs := make([]error, n)
	start, done := make(chan struct{}), make(chan struct{})
	for i := range n {
		go func() {
			defer func() { done <- struct{}{} }()
			<-start
			errs[i] = run(i)
		}()
	}
	close(start)
	for range n {
		<-done
	}
	return errs
}

// each runs n functions, a few at a time, and fails on the first error.
func each(t testing.TB, n int, run func(i int) error) {
	t.Helper()
	const workers = 8
	errs := race(workers, func(worker int) error {
		for i := worker; i < n; i += workers {
			if err := run(i); err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
		}
		return nil
	})
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (s *subject) createAll(t testing.TB, keys []string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	each(t, len(keys), func(i int) error {
		_, err := s.Create(ctx, keys[i], contentBytes([]byte(keys[i]), bucket.Data))
		return err
	})
}

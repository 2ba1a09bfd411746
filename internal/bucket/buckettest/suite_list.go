package buckettest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"feedmirror/internal/bucket"
)

func listGroups() []group {
	return []group{
		{"list-empty", func(t testing.TB, s *subject) { s.wantKeys(t) }},
		{"list-order", testListOrder},
		{"list-after", testListAfter},
		{"list-prefix", testListPrefix},
		{"list-pages", testListPages},
		{"list-after-write", testListAfterWrite},
		{"list-info", testListInfo},
		{"list-stop", testListStop},
	}
}

// orderKeys are those where the order of whole keys and that of path segments differ.
func orderKeys() []string {
	return []string{
		"a-b", "a-b/c", "a/b", "a/b-c", "a/b/c", "a.b", "a0", "a!", "a b/c", "B", "b", "é", "z/é", "~", "😀",
		"v/0000000009/record.json", "v/0000000010/record.json", "v/0000000100/record.json", "v-x/1",
	}
}

func testListOrder(t testing.TB, s *subject) {
	keys := []string{}
	for _, key := range orderKeys() {
		if key != "a-b" && key != "a/b" { // a folder cannot hold a key and one below it
			keys = append(keys, key)
		}
	}
	s.createAll(t, keys)
	s.wantKeys(t, keys...)
}

func testListAfter(t testing.TB, s *subject) {
	keys := []string{"a/1", "a/2", "a/3", "a-1", "a-2", "b", "c/d/e"}
	s.createAll(t, keys)
	slices.Sort(keys)
	for _, after := range append([]string{"a", "a/", "a/1x", "a.", "c/", "c/d", "zzz", "A"}, keys...) {
		var want []string
		for _, key := range keys {
			if key > after {
				want = append(want, key)
			}
		}
		if got := s.keys(t, "", after); !slices.Equal(got, want) {
			t.Errorf("list after %q: got %q, want %q", after, got, want)
		}
	}
	if got := s.keys(t, "a/", "a/1"); !slices.Equal(got, []string{"a/2", "a/3"}) {
		t.Errorf("list a/ after a/1: got %q", got)
	}
	if got := s.keys(t, "a/", "A"); !slices.Equal(got, []string{"a/1", "a/2", "a/3"}) {
		t.Errorf("list a/ after A: got %q", got)
	}
	if got := s.keys(t, "a/", "b"); len(got) != 0 {
		t.Errorf("list a/ after b: got %q", got)
	}
}

func testListPrefix(t testing.TB, s *subject) {
	keys := []string{"ab/1", "ab/2", "abc/1", "ab-1", "abd", "b/ab/1"}
	s.createAll(t, keys)
	for prefix, want := range map[string][]string{
		"ab":    {"ab-1", "ab/1", "ab/2", "abc/1", "abd"},
		"ab/":   {"ab/1", "ab/2"},
		"ab/1":  {"ab/1"},
		"abc":   {"abc/1"},
		"x":     {},
		"b/a":   {"b/ab/1"},
		"ab/1/": {},
	} {
		if got := s.keys(t, prefix, ""); !slices.Equal(got, want) {
			t.Errorf("list %q: got %q, want %q", prefix, got, want)
		}
	}
}

// testListPages needs more keys than a store gives in one page (1,000 on S3 and GCS).
func testListPages(t testing.TB, s *subject) {
	keys := make([]string, 1105)
	for i := range keys {
		keys[i] = fmt.Sprintf("pages/%02d/%05d", i%3, i)
	}
	s.createAll(t, keys)
	s.wantKeys(t, keys...)
	slices.Sort(keys)
	if got := s.keys(t, "pages/", keys[50]); !slices.Equal(got, keys[51:]) {
		t.Errorf("list after %q: got %d keys, want %d", keys[50], len(got), len(keys)-51)
	}
}

func testListAfterWrite(t testing.TB, s *subject) {
	want := []string{}
	for i := range 5 {
		key := fmt.Sprintf("w/%d", i)
		info := s.mustCreate(t, key, []byte(key))
		want = append(want, key)
		s.wantKeys(t, want...)
		if i == 2 {
			if err := s.Delete(t.Context(), key, info.Tag); err != nil {
				t.Fatalf("delete %q: %v", key, err)
			}
			want = want[:len(want)-1]
			s.wantKeys(t, want...)
		}
	}
}

func testListInfo(t testing.TB, s *subject) {
	created := s.mustCreate(t, "i/data", pattern(777, 7))
	tag, err := s.Swap(t.Context(), "i/doc", bucket.Absent, []byte("{}"))
	if err != nil {
		t.Fatalf("swap: %v", err)
	}
	for info, err := range s.List(t.Context(), "i/", "") {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		want := bucket.Info{Key: "i/data", Size: 777, Tag: created.Tag}
		if info.Key == "i/doc" {
			want = bucket.Info{Key: "i/doc", Size: 2, Tag: tag}
		}
		if info.Key != want.Key || info.Size != want.Size || info.Tag != want.Tag || info.Modified.IsZero() {
			t.Errorf("list says %+v, want %+v with a date", info, want)
		}
	}
}

func testListStop(t testing.TB, s *subject) {
	s.createAll(t, []string{"1", "2", "3"})
	seen := 0
	for _, err := range s.List(t.Context(), "", "") {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		if seen++; seen == 2 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var last error
	for _, err := range s.List(ctx, "", "") {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("list with an ended context: got %v, want context.Canceled", last)
	}
}

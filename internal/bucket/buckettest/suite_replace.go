package buckettest

import (
	"bytes"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

func replaceGroups() []group {
	return []group{{"replace", testReplace}, {"replace-wrong-bytes", testReplaceWrongBytes}, {"replace-race", testReplaceRace}}
}

// replaceSizes are below and above the size from which a store writes in parts.
func (s *subject) replaceSizes(t testing.TB) []int {
	t.Helper()
	limit := s.threshold(t)
	return []int{0, 1000, limit + 1}
}

func testReplace(t testing.TB, s *subject) {
	for _, size := range s.replaceSizes(t) {
		const key = "data/part"
		old := s.mustCreate(t, key, []byte("wrong"))
		data := pattern(size, size)
		content := contentBytes(data, bucket.Data)
		content.Body = streamOnly{content.Body}
		info, err := s.Replace(t.Context(), key, old.Tag, content)
		if err != nil {
			t.Fatalf("replace by %d bytes: %v", size, err)
		}
		if info.Size != int64(size) || info.Tag == bucket.Absent || info.Tag == old.Tag {
			t.Fatalf("replace by %d bytes returned %+v, the tag was %q", size, info, old.Tag)
		}
		s.wantHash(t, key, int64(size), content.SHA256)
		stale := contentBytes([]byte("stale"), bucket.Data)
		_, err = s.Replace(t.Context(), key, old.Tag, stale)
		wantKind(t, err, fault.Conflict)
		_, err = s.Replace(t.Context(), key, bucket.Absent, contentBytes([]byte("stale"), bucket.Data))
		wantKind(t, err, fault.Conflict)
		s.wantHash(t, key, int64(size), content.SHA256)
		if err := s.Delete(t.Context(), key, info.Tag); err != nil {
			t.Fatalf("delete what was put in the place: %v", err)
		}
		_, err = s.Replace(t.Context(), key, info.Tag, contentBytes([]byte("gone"), bucket.Data))
		if !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.NotFound) {
			t.Fatalf("replace of a key that is gone: got %v, want a fault.Conflict", err)
		}
		s.wantAbsent(t, key)
	}
}

func testReplaceWrongBytes(t testing.TB, s *subject) {
	for _, size := range s.replaceSizes(t)[1:] {
		const key = "data/part"
		old := s.mustCreate(t, key, []byte("wrong"))
		data := pattern(size, size)
		flipped := bytes.Clone(data)
		flipped[size-1] ^= 1
		for name, wrong := range map[string][]byte{
			"last byte flipped": flipped, "too short": data[:size-1], "too long": append(bytes.Clone(data), 0),
		} {
			content := contentBytes(data, bucket.Data)
			content.Body = streamOnly{bytes.NewReader(wrong)}
			_, err := s.Replace(t.Context(), key, old.Tag, content)
			if !fault.Is(err, fault.WrongBytes) {
				t.Fatalf("%d bytes, %s: got %v, want a fault.WrongBytes", size, name, err)
			}
			s.wantBytes(t, key, []byte("wrong"))
			s.wantKeys(t, key)
		}
		if err := s.Delete(t.Context(), key, old.Tag); err != nil {
			t.Fatalf("delete what must not have been touched: %v", err)
		}
	}
}

// testReplaceRace: of many that replace one object, one wins.
func testReplaceRace(t testing.TB, s *subject) {
	old := s.mustCreate(t, "data/part", []byte("wrong"))
	errs := race(8, func(i int) error {
		_, err := s.Replace(t.Context(), "data/part", old.Tag, contentBytes([]byte{byte('a' + i)}, bucket.Data))
		return err
	})
	winners := 0
	for i, err := range errs {
		switch {
		case err == nil:
			winners++
			s.wantBytes(t, "data/part", []byte{byte('a' + i)})
		case !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Contended):
			t.Errorf("writer %d: %v", i, err)
		}
	}
	if winners != 1 {
		t.Fatalf("%d winners, want 1", winners)
	}
}

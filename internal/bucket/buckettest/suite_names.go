package buckettest

import (
	"slices"
	"strings"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

func nameGroups() []group {
	return []group{
		{"names", testNames},
		{"names-exact-or-refused", testDisputedNames},
		{"names-refused", testRefusedNames},
	}
}

// oddNames must be stored under exactly these keys.
func oddNames() []string {
	return []string{
		"a b", "a+b", "a%20b", "a%2Bb", "a#b", "a?b", "a:b", "a&b=c", "~", "(x)", "'q'", `"q"`, "a,b",
		"😀", "Größe", "a/😀/b", "a=b/c=d/part-0000.parquet", "a__0x2f__b", "a;b", "a@b", "a*b", "a!b", "a$b",
		"a|b", "a<b>c", "[a]", "{a}", "^", "`", "_under", ".hidden", "UPPER", "e\u0301", "\u00e9",
		"a  b", strings.Repeat("s", 255), strings.TrimSuffix(strings.Repeat(strings.Repeat("d", 99)+"/", 10), "/"),
	}
}

func testNames(t testing.TB, s *subject) {
	names := oddNames()
	s.createAll(t, names)
	for _, name := range names {
		s.wantBytes(t, name, []byte(name))
		info, err := s.Stat(t.Context(), name)
		if err != nil || info.Key != name {
			t.Fatalf("stat %q: %+v, %v", name, info, err)
		}
		if got := s.keys(t, name, ""); !slices.Contains(got, name) {
			t.Errorf("list with prefix %q: got %q", name, got)
		}
	}
	s.wantKeys(t, names...)
	tag, err := s.Swap(t.Context(), "a b+c%20d?.json", bucket.Absent, []byte("1"))
	if err != nil {
		t.Fatalf("swap an odd name: %v", err)
	}
	if err := s.Delete(t.Context(), "a b+c%20d?.json", tag); err != nil {
		t.Fatalf("delete an odd name: %v", err)
	}
	s.wantKeys(t, names...)
}

// testDisputedNames: some services change these names. A store keeps them exactly, or refuses
// them before it writes.
func testDisputedNames(t testing.TB, s *subject) {
	var kept []string
	for _, name := range []string{"dot.", "dots./b", "space ", " lead", "a./b."} {
		_, err := s.Create(t.Context(), name, contentBytes([]byte(name), bucket.Data))
		if err != nil {
			wantKind(t, err, fault.Unsupported)
			continue
		}
		kept = append(kept, name)
		s.wantBytes(t, name, []byte(name))
	}
	s.wantKeys(t, kept...)
}

func testRefusedNames(t testing.TB, s *subject) {
	for _, name := range []string{
		"", "/", "/a", "a/", "a//b", "..", "../a", "a/../b", "a/..", ".", "./a", "a/./b",
		`a\b`, "a\x00b", "a\nb", "a\x7f", "a\xff", strings.Repeat("k", bucket.MaxKeyBytes+1),
	} {
		_, err := s.Create(t.Context(), name, contentBytes([]byte("x"), bucket.Data))
		wantKind(t, err, fault.Malformed)
		_, err = s.Swap(t.Context(), name, bucket.Absent, []byte("x"))
		wantKind(t, err, fault.Malformed)
		_, err = s.Stat(t.Context(), name)
		wantKind(t, err, fault.Malformed)
		_, _, err = s.Open(t.Context(), name, 0, -1)
		wantKind(t, err, fault.Malformed)
		wantKind(t, s.Delete(t.Context(), name, "t"), fault.Malformed)
	}
	s.wantKeys(t)
}

package manifest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"feedmirror/manifest/jsonstream"
)

func FuzzDecodeManifest(f *testing.F) {
	for _, seed := range []string{
		`{"datasetId":"ds_a","version":42,"files":[` + entry("path", "snapshot/a") + `],"attachments":[` + entry("file", "original") + `]}`,
		`{"files":{"snapshot":[` + entry("path", "snapshot/a") + `],"schema":` + entry("path", "schema.json") + `}}`,
		`{"snapshot":[` + entry("file", "snapshot/a") + `],"idMap":null}`, `<html>`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeManifest(bytes.NewReader(data), func(a Attachment) error {
			if CheckAttachmentName(a.Name) != nil || CheckSize(a.Size) != nil || a.SHA256.IsZero() {
				t.Fatalf("handed on %+v", a)
			}
			return nil
		})
		if err != nil {
			if !utf8.ValidString(err.Error()) || strings.ContainsFunc(err.Error(), func(c rune) bool { return c < ' ' }) {
				t.Fatalf("unsafe error text %q", err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatalf("took what is not JSON: %q", data)
		}
		// The reference for "unique" is quadratic and dull.
		for i, a := range m.Files {
			if CheckPath(a.Path) != nil || CheckSize(a.Size) != nil || a.SHA256.IsZero() {
				t.Fatalf("kept %+v", a)
			}
			for _, b := range m.Files[:i] {
				if strings.EqualFold(a.Path, b.Path) || strings.EqualFold(FileKey("d", 1, a), FileKey("d", 1, b)) {
					t.Fatalf("kept %q and %q", a.Path, b.Path)
				}
			}
		}
	})
}

func FuzzReadEntry(f *testing.F) {
	f.Add([]byte(entry("path", "snapshot/a")))
	f.Add([]byte(`{"file":"original","filename":null,"contentType":7,"url":"u","expiresAt":"x","sizeBytes":null,"sha256":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ReadEntry(jsonstream.New(bytes.NewReader(data)))
		if err != nil {
			return
		}
		// What encoding/json makes of the same text, where it is as strict.
		var want struct {
			File, Path, Filename, ContentType, URL, ExpiresAt string
			SizeBytes                                         *int64
			SHA256                                            string
		}
		var names map[string]json.RawMessage
		first := json.NewDecoder(bytes.NewReader(data))
		if first.Decode(&names) != nil || json.NewDecoder(bytes.NewReader(data)).Decode(&want) != nil || foldedTwice(names) {
			return
		}
		size := int64(-1)
		if want.SizeBytes != nil {
			size = *want.SizeBytes
		}
		var sum SHA256
		if want.SHA256 != "" {
			if sum, err = ParseSHA256(want.SHA256); err != nil {
				t.Fatal(err)
			}
		}
		if reference := (Entry{want.File, want.Path, want.Filename, want.ContentType, size, sum, want.URL, want.ExpiresAt}); got != reference {
			t.Fatalf("got %+v, want %+v", got, reference)
		}
	})
}

// foldedTwice reports names that encoding/json, which ignores case, would take for a field's.
func foldedTwice(names map[string]json.RawMessage) bool {
	for name := range names {
		for _, field := range []string{"file", "path", "filename", "contentType", "url", "expiresAt", "sizeBytes", "sha256"} {
			if name != field && strings.EqualFold(name, field) {
				return true
			}
		}
	}
	return false
}

func FuzzDecodeVersion(f *testing.F) {
	f.Add([]byte(documented))
	f.Add([]byte(`{"version":1,"previousVersion":null,"counts":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := DecodeVersion(data)
		if err != nil {
			return
		}
		if CheckDataset(v.Dataset) != nil || CheckNumber(v.Number) != nil || v.Previous < 0 || v.Previous >= v.Number || v.RowCount < 0 {
			t.Fatalf("took %+v", v)
		}
		if _, err := json.Marshal(v); err != nil { // times that JSON cannot hold
			t.Fatalf("%+v: %v", v, err)
		}
	})
}

func FuzzDecodeSchema(f *testing.F) {
	f.Add([]byte(documentedSchema))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := DecodeSchema(data)
		if err != nil {
			return
		}
		for _, column := range s.Columns {
			if column.Name == "" {
				t.Fatalf("took %+v", s)
			}
		}
	})
}

func FuzzUniqueAgreesWithComparingAll(f *testing.F) {
	f.Add("snapshot/a\nsnapshot/A\nsnapshot/a/b")
	f.Add("idMap/x\nid_map/x\nsnapshot/x/y/z\nsnapshot/x/y")
	f.Fuzz(func(t *testing.T, text string) {
		var unique Unique
		var kept []File
		for path := range strings.SplitSeq(text, "\n") {
			if CheckPath(path) != nil {
				continue
			}
			next := File{Kind: KindOf(path), Path: path}
			clash := false
			for _, other := range kept {
				a, b := Fold(FileKey("d", 1, next)), Fold(FileKey("d", 1, other))
				clash = clash || a == b || strings.EqualFold(path, other.Path) || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
			}
			err := unique.Add(next)
			if (err != nil) != clash {
				t.Fatalf("%q after %v: clash is %v, got %v", path, kept, clash, err)
			}
			if clash {
				return
			}
			kept = append(kept, next)
		}
	})
}

func FuzzParseSHA256(f *testing.F) {
	f.Add(sumA)
	f.Add("../../../x")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseSHA256(text); err == nil && !strings.EqualFold(s.String(), text) {
			t.Fatalf("%q became %s", text, s)
		}
	})
}

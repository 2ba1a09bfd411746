package soak_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

const watched = "ds_a"

// shelf is a bucket in memory.
type shelf map[string][]byte

func (s shelf) read(_ context.Context, key string) ([]byte, error) {
	if data, ok := s[key]; ok {
		return data, nil
	}
	return nil, errAbsent
}

func (s shelf) put(key string, data []byte) map[string]any {
	s[key] = data
	sum := sha256.Sum256(data)
	return map[string]any{"key": key, "sha256": hex.EncodeToString(sum[:])}
}

func (s shelf) document(t *testing.T, key string, value any) map[string]any {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return s.put(key, data)
}

// publish puts a version with a file and an attachment, and points to it.
func (s shelf) publish(t *testing.T, version, revision int64, decisions ...string) {
	t.Helper()
	dir := fmt.Sprintf("versions/%s/%010d/", watched, version)
	part := s.put(fmt.Sprintf("snapshot/%d.parquet", version), fmt.Appendf(nil, "rows of %d", version))
	part["kind"] = "snapshot"
	attachment := s.put(fmt.Sprintf("attachments/%d", version), fmt.Appendf(nil, "document of %d", version))
	var index bytes.Buffer
	if err := parquet.Write(&index, []struct {
		SHA256 string `parquet:"sha256"`
		Key    string `parquet:"key"`
	}{{attachment["sha256"].(string), attachment["key"].(string)}}); err != nil {
		t.Fatal(err)
	}
	record := s.document(t, dir+"record.json", map[string]any{"dataset": watched, "version": version, "files": []any{part},
		"attachments": map[string]any{"index": s.put(dir+"index", index.Bytes())}})
	s.document(t, "current/"+watched+".json", map[string]any{"dataset": watched, "version": version, "revision": revision, "record": record,
		"manifest": s.put(dir+"manifest.json", []byte("{}")), "snapshot": []any{part["key"]}, "decisions": decisions})
}

// TestTheReaderSeesEachBrokenPromise changes one thing between two looks.
func TestTheReaderSeesEachBrokenPromise(t *testing.T) {
	rollback := func(s shelf, to int64) string {
		key := fmt.Sprintf("_mirror/decisions/%s/%d", watched, to)
		s.document(t, key, map[string]any{"dataset": watched, "action": "rollback", "version": to})
		return key
	}
	for name, test := range map[string]struct {
		change func(shelf)
		want   string // part of the violation; empty for none
	}{
		"nothing":                    {func(shelf) {}, ""},
		"a new version":              {func(s shelf) { s.publish(t, 8, 4) }, ""},
		"the same revision":          {func(s shelf) { s.publish(t, 8, 3) }, "from revision 3 to 3"},
		"an older version":           {func(s shelf) { s.publish(t, 5, 4) }, "went from version 7 to 5"},
		"a rollback":                 {func(s shelf) { s.publish(t, 5, 4, rollback(s, 5)) }, ""},
		"a rollback to another":      {func(s shelf) { s.publish(t, 5, 4, rollback(s, 6)) }, "went from version 7 to 5"},
		"a decision that is not":     {func(s shelf) { s.publish(t, 5, 4, "_mirror/decisions/ds_a/none") }, "went from version 7 to 5"},
		"no pointer":                 {func(s shelf) { delete(s, "current/ds_a.json") }, "vanished"},
		"half a pointer":             {func(s shelf) { s["current/ds_a.json"] = s["current/ds_a.json"][:20] }, "is no pointer"},
		"no record":                  {func(s shelf) { delete(s, recordKey(watched, 7)) }, "record.json is not there"},
		"another record":             {func(s shelf) { s[recordKey(watched, 7)] = []byte("{}") }, "record.json, which"},
		"a file that is gone":        {func(s shelf) { delete(s, "snapshot/7.parquet") }, "snapshot/7.parquet is not there"},
		"other bytes":                {func(s shelf) { s["snapshot/7.parquet"] = []byte("rows of 9") }, "snapshot/7.parquet, which"},
		"another manifest":           {func(s shelf) { s["versions/ds_a/0000000007/manifest.json"] = nil }, "manifest.json, which"},
		"an attachment that is gone": {func(s shelf) { delete(s, "attachments/7") }, "attachments/7 is not there"},
		"files that are not the record's": {func(s shelf) {
			s["current/ds_a.json"] = bytes.Replace(s["current/ds_a.json"], []byte(`"snapshot":["snapshot/7.parquet"]`), []byte(`"snapshot":["snapshot/8.parquet"]`), 1)
			s["current/ds_a.json"] = bytes.Replace(s["current/ds_a.json"], []byte(`"revision":3`), []byte(`"revision":4`), 1)
		}, "names [snapshot/8.parquet]"},
	} {
		s := shelf{}
		s.publish(t, 7, 3)
		var seen []string
		r := &reader{dataset: watched, read: s.read, chance: newChance(1, 1), proven: map[string]string{},
			broken: func(format string, args ...any) { seen = append(seen, fmt.Sprintf(format, args...)) }}
		look := func() {
			if err := r.check(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			clear(r.proven) // as if each object were due to be read again
		}
		look()
		if len(seen) > 0 || r.checks != 1 {
			t.Fatalf("%s: the first look: %d checks, %v", name, r.checks, seen)
		}
		test.change(s)
		look()
		if text := strings.Join(seen, "; "); (test.want == "") != (text == "") || !strings.Contains(text, test.want) {
			t.Errorf("%s: saw %q, want %q", name, text, test.want)
		}
	}
}

// TestAReaderThatComesLateExcusesAPruneAlone lets files go while the reader looks.
func TestAReaderThatComesLateExcusesAPruneAlone(t *testing.T) {
	const pruned = "versions/ds_a/0000000007/pruned.json"
	for name, test := range map[string]struct {
		meanwhile func(s shelf)
		want      string
	}{
		"a prune":         {func(s shelf) { s.publish(t, 8, 4); s[pruned] = []byte("{}") }, ""},
		"no note":         {func(s shelf) { s.publish(t, 8, 4) }, "no pruned.json says so"},
		"a pointer there": {func(s shelf) { s[pruned] = []byte("{}") }, "leads to it at version 7"},
	} {
		s := shelf{}
		s.publish(t, 7, 3)
		before := maps.Clone(s)
		delete(before, "snapshot/7.parquet")
		test.meanwhile(s)
		looks := 0
		var seen []string
		r := &reader{dataset: watched, chance: newChance(1, 1), proven: map[string]string{},
			broken: func(format string, args ...any) { seen = append(seen, fmt.Sprintf(format, args...)) },
			read: func(ctx context.Context, key string) ([]byte, error) {
				if key == "current/ds_a.json" {
					looks++
				}
				if looks <= 1 {
					return before.read(ctx, key)
				}
				return s.read(ctx, key)
			}}
		if err := r.check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(seen, "; "); (test.want == "") != (text == "") || !strings.Contains(text, test.want) {
			t.Errorf("%s: saw %q, want %q", name, text, test.want)
		}
	}
}

// TestARevisionThatStandsStillIsSeen swaps a document without counting.
func TestARevisionThatStandsStillIsSeen(t *testing.T) {
	const key = "_mirror/prune.json"
	for text, want := range map[string]string{
		`{"revision":3,"state":"finished"}`: "", `{"revision":4}`: "", `{"revision":3}`: "from revision 3 to 3", `{"revision":2}`: "from revision 3 to 2", `{"rev`: "does not parse",
	} {
		s := shelf{key: []byte(`{"revision":3,"state":"finished"}`)}
		var seen []string
		r := &revisions{read: s.read, keys: []string{key, "_mirror/none.json"}, last: map[string][]byte{},
			broken: func(format string, args ...any) { seen = append(seen, fmt.Sprintf(format, args...)) }}
		for range 2 {
			if err := r.check(t.Context()); err != nil {
				t.Error(err)
			}
			s[key] = []byte(text)
		}
		if err := r.check(t.Context()); err != nil {
			t.Error(err)
		}
		if got := strings.Join(seen, "; "); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: saw %q, want %q", text, got, want)
		}
	}
}

package invariant

import (
	"bytes"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

func TestAValidBucketHasNoViolations(t *testing.T) {
	bucket := build(t, nil)
	for _, violation := range Check(bucket) {
		t.Error(violation)
	}
	if unlinked := Unlinked(bucket); len(unlinked) != 0 {
		t.Errorf("unlinked: %v", unlinked)
	}
}

func TestAFolderReadsAsTheSameBucket(t *testing.T) {
	root := t.TempDir()
	for key, data := range build(t, nil) {
		path := filepath.Join(root, filepath.FromSlash(key))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, violation := range Check(Folder(root)) {
		t.Error(violation)
	}
	if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(part5)), []byte("fivE"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !has(Check(Folder(root)), WrongData, part5) {
		t.Error("a changed file is not noticed")
	}
	if violations := Check(Folder(filepath.Join(root, "absent"))); !has(violations, Unreadable, "") {
		t.Errorf("no folder: %v", violations)
	}
}

func has(violations []Violation, kind Kind, key string) bool {
	return slices.ContainsFunc(violations, func(v Violation) bool { return v.Kind == kind && v.Key == key })
}

// planted is a violation that is put into a valid bucket: either a document is edited before
// anything names it by hash, or an object is changed afterwards.
type planted struct {
	clause string
	key    string                  // of the violation
	kind   Kind                    //
	edit   map[string]func(fields) // by document
	change func(memory)
}

func set(path string, value any) func(fields) {
	return func(document fields) {
		names := strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			document = document[name].(fields)
		}
		document[names[len(names)-1]] = value
	}
}

func edit(key, path string, value any) map[string]func(fields) {
	return map[string]func(fields){key: set(path, value)}
}

func put(key, data string) func(memory) { return func(m memory) { m[key] = []byte(data) } }
func remove(key string) func(memory)    { return func(m memory) { delete(m, key) } }

func recordFileEdit(change func(files []any) []any) map[string]func(fields) {
	return map[string]func(fields){v5 + "record.json": func(d fields) { d["files"] = change(d["files"].([]any)) }}
}

func sumsEdit(change func(text string) string) map[string]func(fields) {
	return map[string]func(fields){v5 + "SHA256SUMS": func(d fields) { d["text"] = change(d["text"].(string)) }}
}

func indexEdit(change func(rows []indexRow) []indexRow) map[string]func(fields) {
	return map[string]func(fields){index5: func(d fields) { d["rows"] = change(d["rows"].([]indexRow)) }}
}

func otherSizes(document fields) {
	document["attachments"].([]any)[0].(fields)["sizeBytes"] = 99
}

func plantedInKeys() []planted {
	strays := []planted{
		{clause: "I1 a part has other bytes", key: part5, kind: WrongData, change: put(part5, "fivE")},
		{clause: "I1 a part is cut", key: part5, kind: WrongData, change: put(part5, "fiv")},
		{clause: "I1 the schema has other bytes", key: v5 + "schema.json", kind: WrongData, change: put(v5+"schema.json", "{}")},
		{clause: "I1 an unfinished version has other bytes", key: strings.ReplaceAll(part5, "05/part", "07/part"), kind: WrongData,
			change: put(strings.ReplaceAll(part5, "05/part", "07/part"), "other")},
		{clause: "I1 no manifest names a part", key: strings.ReplaceAll(part5, "0000.parquet", "0009.parquet"), kind: UnclaimedData,
			change: put(strings.ReplaceAll(part5, "0000.parquet", "0009.parquet"), "x")},
		{clause: "I1 no manifest names an extra file", key: v5 + "files/x", kind: UnclaimedData, change: put(v5+"files/x", "x")},
		{clause: "I1 a version has no manifest", key: strings.ReplaceAll(part5, "05/part", "08/part"), kind: UnclaimedData,
			change: put(strings.ReplaceAll(part5, "05/part", "08/part"), "x")},
		{clause: "I1 an index without a manifest", key: strings.ReplaceAll(index5, "05/index", "08/index"), kind: UnclaimedData,
			change: func(m memory) { m[strings.ReplaceAll(index5, "05/index", "08/index")] = m[index5] }},
		{clause: "I1 an attachment has other bytes than its key says", key: pdfKey(), kind: WrongAttachment, change: put(pdfKey(), "x")},
		{clause: "I1 no manifest names an attachment", key: attachmentKey(sumOf([]byte("x"))), kind: UnclaimedData,
			change: put(attachmentKey(sumOf([]byte("x"))), "x")},
		{clause: "withdrawn.json without a record", key: "versions/" + ds + "/0000000006/withdrawn.json", kind: LostRecord,
			change: put("versions/"+ds+"/0000000006/withdrawn.json", `{"revision":1,"dataset":"berlin.plans","version":6,"from":"2026-01-02T03:04:05Z","until":null}`)},
		{clause: "pruned.json without a record", key: "versions/" + ds + "/0000000006/pruned.json", kind: LostRecord,
			change: put("versions/"+ds+"/0000000006/pruned.json", "{}")},
	}
	for _, key := range []string{
		"README", "snapshot/x.parquet", "snapshot/ploti_dataset_id=x/part.parquet", "snapshot/ploti_dataset_id=a..b/ploti_version=0000000001/p",
		"snapshot/ploti_dataset_id=x/ploti_version=5/part.parquet", "attachments/sha256/00/" + strings.Repeat("1", 64),
		"attachments/sha256/AB/" + strings.Repeat("AB", 32), "versions/" + ds + "/5/record.json", v5 + "notes.txt", "current/x.txt",
		"current/.json", "_mirror/x.json", "_mirror/shards/x.json", "publications/x.parquet", "attachment_index/x.parquet",
		"changes/_delta_log/1.json", "id_map/_delta_log/00000000000000000000.json.bak",
	} {
		kind := StrayKey
		if strings.HasPrefix(key, "id_map") || strings.HasPrefix(key, "changes/_delta_log/1") || key == "current/.json" {
			kind = HiddenKey
		}
		strays = append(strays, planted{clause: "a key outside the layout: " + key, key: key, kind: kind, change: put(key, "x")})
	}
	for _, key := range []string{
		strings.ReplaceAll(part5, "part-0000", "_part"), strings.ReplaceAll(part5, "part-0000", ".part"),
		strings.ReplaceAll(part5, "part-0000", "_x/part"), v5 + "files/_hidden", "attachments/_x", "versions/" + ds + "/_tmp/x",
	} {
		strays = append(strays, planted{clause: "a hidden name: " + key, key: key, kind: HiddenKey, change: put(key, "x")})
	}
	return append(strays, planted{clause: "a side file", key: part5 + ".attrs", kind: AttrsFile, change: put(part5+".attrs", "{}")})
}

func plantedInDocuments() []planted {
	var list []planted
	for _, key := range []string{
		v5 + "record.json", v5 + "manifest.json", v5 + "stored.json", v3 + "withdrawn.json", "versions/" + ds + "/0000000006/gone.json",
		v3 + "pruned.json", pointerKey, decisionKey, "_mirror/layout.json", "_mirror/shards/0-of-1-ab12.json", "_mirror/leases/" + ds + ".json",
	} {
		list = append(list,
			planted{clause: "not JSON: " + key, key: key, kind: BadDocument, change: put(key, "<html>")},
			planted{clause: "cut: " + key, key: key, kind: BadDocument, change: func(m memory) {
				if data := m[key]; len(data) > 10 {
					m[key] = data[:len(data)/2]
				} else {
					m[key] = []byte("{")
				}
			}})
	}
	for _, test := range []struct {
		clause, key, path string
		value             any
	}{
		{"a record of another dataset", v5 + "record.json", "dataset", "other"},
		{"a record of another version", v5 + "record.json", "version", 4},
		{"a record of a newer layout", v5 + "record.json", "layout", 2},
		{"a newer layout", "_mirror/layout.json", "layout", 2},
		{"a layout without revision", "_mirror/layout.json", "revision", 0},
		{"a shard without revision", "_mirror/shards/0-of-1-ab12.json", "revision", nil},
		{"a lease without owner", "_mirror/leases/" + ds + ".json", "owner", ""},
		{"stored.json of another version", v5 + "stored.json", "version", 4},
		{"withdrawn.json without a time", v3 + "withdrawn.json", "from", nil},
		{"gone.json of another dataset", "versions/" + ds + "/0000000006/gone.json", "dataset", "x"},
		{"a decision without an action", decisionKey, "action", ""},
		{"a decision about another dataset", decisionKey, "dataset", "x"},
		{"a rollback to nowhere", decisionKey, "action", "rollback"},
		{"a pointer of another dataset", pointerKey, "dataset", "x"},
		{"a pointer without revision", pointerKey, "revision", 0},
		{"a manifest entry without a size", v5 + "manifest.json", "files", []any{fields{"path": "x", "sha256": "00"}}},
		{"a manifest entry without a name", v5 + "manifest.json", "files", []any{fields{"sizeBytes": 1, "sha256": "00"}}},
	} {
		list = append(list, planted{clause: test.clause, key: test.key, kind: BadDocument, edit: edit(test.key, test.path, test.value)})
	}
	return list
}

func plantedInVersions() []planted {
	record := v5 + "record.json"
	list := []planted{
		{clause: "I2 a part is missing", key: part5, kind: MissingObject, change: remove(part5)},
		{clause: "I2 the manifest is missing", key: v5 + "manifest.json", kind: MissingObject, change: remove(v5 + "manifest.json")},
		{clause: "I2 the sums are missing", key: v5 + "SHA256SUMS", kind: MissingObject, change: remove(v5 + "SHA256SUMS")},
		{clause: "I2 the index is missing", key: index5, kind: MissingObject, change: remove(index5)},
		{clause: "I2 an attachment is missing", key: pdfKey(), kind: MissingObject, change: remove(pdfKey())},
		{clause: "I2 an extra file is missing", key: v5 + "files/docs/readme.txt", kind: MissingObject, change: remove(v5 + "files/docs/readme.txt")},
		{clause: "I2 a part has other bytes than the record names", key: part5, kind: WrongObject, change: put(part5, "fivE")},
		{clause: "I2 the manifest has other bytes", key: v5 + "manifest.json", kind: WrongObject, change: func(m memory) { m[v5+"manifest.json"] = append(m[v5+"manifest.json"], ' ') }},
		{clause: "I2 the manifest's size is wrong", key: v5 + "manifest.json", kind: WrongObject, edit: edit(record, "manifestSizeBytes", 1)},
		{clause: "I2 the manifest's key is wrong", key: record, kind: RecordIncomplete, edit: edit(record, "manifest.key", v3+"manifest.json")},
		{clause: "I2 the sums' key is wrong", key: record, kind: RecordIncomplete, edit: edit(record, "sha256sums.key", v3+"SHA256SUMS")},
		{clause: "I2 the index's key is wrong", key: record, kind: RecordIncomplete, edit: edit(record, "attachments.index.key", pdfKey())},
		{clause: "I2 no index although there are attachments", key: record, kind: RecordIncomplete, edit: edit(record, "attachments.index", nil)},
		{clause: "I2 wrong count of names", key: record, kind: RecordIncomplete, edit: edit(record, "attachments.count", 4)},
		{clause: "I2 wrong count of objects", key: record, kind: RecordIncomplete, edit: edit(record, "attachments.objects", 3)},
		{clause: "I2 wrong sum of bytes", key: record, kind: RecordIncomplete, edit: edit(record, "attachments.bytes", 3)},
		{clause: "I2 changes are said to be empty", key: record, kind: RecordIncomplete, edit: edit(record, "changes", "empty")},
		{clause: "I2 the record leaves a file out", key: record, kind: RecordIncomplete, edit: recordFileEdit(func(f []any) []any { return f[1:] })},
		{clause: "I2 the record names a file twice", key: record, kind: RecordIncomplete, edit: recordFileEdit(func(f []any) []any { return append(f, f[0]) })},
		{clause: "I2 the record names a file of another version", key: record, kind: RecordIncomplete, edit: recordFileEdit(func(f []any) []any {
			return append(f, fields{"kind": "snapshot", "path": "snapshot/part-0000.parquet", "key": strings.ReplaceAll(part5, "05/part", "03/part"), "sizeBytes": 5, "sha256": sumOf([]byte("three"))})
		})},
		{clause: "I2 the record's size is wrong", key: record, kind: RecordIncomplete, edit: recordFileEdit(func(f []any) []any { f[0].(fields)["sizeBytes"] = 77; return f })},
		{clause: "I2 the record's kind is wrong", key: record, kind: RecordIncomplete, edit: recordFileEdit(func(f []any) []any { f[0].(fields)["kind"] = "extra"; return f })},
		{clause: "SHA256SUMS lacks a line", key: v5 + "SHA256SUMS", kind: WrongSums, edit: sumsEdit(func(s string) string { return s[strings.Index(s, "\n")+1:] })},
		{clause: "SHA256SUMS has a line twice", key: v5 + "SHA256SUMS", kind: WrongSums, edit: sumsEdit(func(s string) string { return s + s[:strings.Index(s, "\n")+1] })},
		{clause: "SHA256SUMS has a foreign line", key: v5 + "SHA256SUMS", kind: WrongSums, edit: sumsEdit(func(s string) string { return s + sumOf(nil) + "  x\n" })},
		{clause: "SHA256SUMS has a wrong sum", key: v5 + "SHA256SUMS", kind: WrongSums, edit: sumsEdit(func(s string) string { return sumOf(nil) + s[64:] })},
		{clause: "SHA256SUMS is in another format", key: v5 + "SHA256SUMS", kind: WrongSums, edit: sumsEdit(func(s string) string { return strings.ReplaceAll(s, "  ", " *") })},
		{clause: "SHA256SUMS does not end its last line", key: v5 + "SHA256SUMS", kind: WrongSums, edit: sumsEdit(strings.TrimSpace)},
		{clause: "I1 a manifest gives an attachment another size", key: pdfKey(), kind: WrongData, edit: map[string]func(fields){v5 + "manifest.json": otherSizes, v3 + "manifest.json": otherSizes}},
		{clause: "the index has foreign columns", key: index5, kind: WrongIndex, change: func(m memory) {
			var out bytes.Buffer
			if err := parquet.Write(&out, []struct{ Name string }{{"x"}}); err != nil {
				panic(err)
			}
			m[index5] = out.Bytes()
		}},
		{clause: "the index is no Parquet", key: index5, kind: WrongIndex, change: put(index5, "PAR1")},
	}
	for name, change := range map[string]func([]indexRow) []indexRow{
		"lacks a row":              func(r []indexRow) []indexRow { return r[1:] },
		"has a row twice":          func(r []indexRow) []indexRow { return append(r, r[0]) },
		"has a foreign row":        func(r []indexRow) []indexRow { r[0].File = "source:77"; return r },
		"has a wrong size":         func(r []indexRow) []indexRow { r[0].SizeBytes++; return r },
		"has a wrong hash":         func(r []indexRow) []indexRow { r[0].SHA256 = r[1].SHA256; return r },
		"has a wrong key":          func(r []indexRow) []indexRow { r[0].Key = r[1].Key; return r },
		"has a wrong kind":         func(r []indexRow) []indexRow { r[0].Kind = "other"; return r },
		"has no document hash":     func(r []indexRow) []indexRow { r[0].DocumentSHA256 = nil; return r },
		"has an odd document hash": func(r []indexRow) []indexRow { r[0].DocumentSHA256 = &r[1].SHA256; return r },
		"has a document too many":  func(r []indexRow) []indexRow { r[1].DocumentSHA256 = &r[1].SHA256; return r },
	} {
		list = append(list, planted{clause: "the index " + name, key: index5, kind: WrongIndex, edit: indexEdit(change)})
	}
	return list
}

func plantedInChains() []planted {
	record := v5 + "record.json"
	return []planted{
		{clause: "the chain names another hash", key: record, kind: BrokenChain, edit: edit(record, "previousRecord.sha256", sumOf(nil))},
		{clause: "the chain names no record", key: record, kind: BrokenChain, edit: edit(record, "previousRecord.version", 4)},
		{clause: "the chain names itself", key: record, kind: BrokenChain, edit: edit(record, "previousRecord.version", 5)},
		{clause: "a record was rewritten", key: record, kind: BrokenChain, change: func(m memory) { m[v3+"record.json"] = append(m[v3+"record.json"], '\n') }},
		{clause: "a record was deleted", key: record, kind: BrokenChain, change: remove(v3 + "record.json")},
		{clause: "the chain is cut without a gap", key: record, kind: BrokenChain, edit: edit(record, "previousRecord", nil)},
		{clause: "the feed's predecessor is another, without a gap", key: record, kind: BrokenChain, edit: edit(record, "previousVersion", 4)},
		{clause: "the gap expects another version", key: record, kind: BrokenChain, edit: map[string]func(fields){record: func(d fields) {
			d["previousVersion"], d["gap"] = 4, fields{"expected": 2, "reason": "expired"}
		}}},
	}
}

func plantedInPointers() []planted {
	list := []planted{
		{clause: "I3 the record is missing", change: remove(v5 + "record.json")},
		{clause: "I3 the record was rewritten", change: func(m memory) { m[v5+"record.json"] = append(m[v5+"record.json"], '\n') }},
		{clause: "I3 the version was pruned", change: put(v5+"pruned.json", "{}")},
		{clause: "I3 a snapshot file is missing", change: remove(part5)},
		{clause: "I3 the schema is missing", change: remove(v5 + "schema.json")},
		{clause: "I3 the manifest is missing", change: remove(v5 + "manifest.json")},
	}
	for _, test := range []struct {
		clause, path string
		value        any
	}{
		{"another version than its record", "version", 3},
		{"a version without a record", "version", 7},
		{"another record's key", "record.key", v3 + "record.json"},
		{"another record's hash", "record.sha256", sumOf(nil)},
		{"another manifest", "manifest.sha256", sumOf(nil)},
		{"another schema version", "schemaVersion", "2.0"},
		{"fewer snapshot files", "snapshot", []any{part5}},
		{"foreign snapshot files", "snapshot", []any{part5, changes5}},
		{"another schema", "schema.key", v3 + "schema.json"},
		{"no schema", "schema", nil},
		{"pinned without a decision", "pinned", true},
	} {
		list = append(list, planted{clause: "I3 " + test.clause, edit: edit(pointerKey, test.path, test.value)})
	}
	for i := range list {
		list[i].key, list[i].kind = pointerKey, WrongPointer
	}
	return list
}

func TestPlantedViolationsAreFound(t *testing.T) {
	all := slices.Concat(plantedInKeys(), plantedInDocuments(), plantedInVersions(), plantedInChains(), plantedInPointers())
	for _, test := range all {
		t.Run(test.clause, func(t *testing.T) {
			bucket := build(t, test.edit)
			if test.change != nil {
				test.change(bucket)
			}
			violations := Check(bucket)
			if !has(violations, test.kind, test.key) {
				t.Errorf("no %s at %s in %v", test.kind, test.key, violations)
			}
			for _, violation := range violations {
				if violation.Detail == "" {
					t.Errorf("%v says nothing", violation)
				}
			}
		})
	}
	t.Logf("%d violations planted", len(all))
}

// What the design allows is not called a violation.
func TestAllowedStatesHaveNoViolations(t *testing.T) {
	record := v5 + "record.json"
	for name, test := range map[string]planted{
		"a gap with its reason": {edit: map[string]func(fields){record: func(d fields) {
			d["previousVersion"], d["gap"] = 4, fields{"expected": 4, "reason": "expired"}
		}}},
		"a history that begins late": {edit: map[string]func(fields){record: func(d fields) {
			d["previousRecord"], d["gap"] = nil, fields{"expected": 3, "reason": "history-current"}
		}}},
		"changes lost to retention": {edit: map[string]func(fields){
			record: func(d fields) {
				d["changes"] = "expired"
				d["files"] = slices.DeleteFunc(d["files"].([]any), func(f any) bool { return f.(fields)["key"] == changes5 })
			},
			v5 + "SHA256SUMS": func(d fields) {
				lines := strings.SplitAfter(d["text"].(string), "\n")
				d["text"] = strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasSuffix(l, changes5+"\n") }), "")
			},
		}, change: remove(changes5)},
		"a pruned version": {change: func(m memory) {
			m[v3+"pruned.json"] = []byte("{}")
			delete(m, strings.ReplaceAll(part5, "05/part", "03/part"))
		}},
		"an operator's rollback": {edit: map[string]func(fields){
			pointerKey:  set("pinned", true),
			decisionKey: func(d fields) { d["action"], d["version"] = "rollback", 5 },
		}},
	} {
		bucket := build(t, test.edit)
		if test.change != nil {
			test.change(bucket)
		}
		for _, violation := range Check(bucket) {
			t.Errorf("%s: %v", name, violation)
		}
	}
}

func TestRecordsThatNoneNamesAreUnlinked(t *testing.T) {
	record := v5 + "record.json"
	bucket := build(t, map[string]func(fields){record: func(d fields) {
		d["previousRecord"], d["gap"] = nil, fields{"expected": 3, "reason": "history-current"}
	}})
	if unlinked := Unlinked(bucket); len(unlinked) != 1 || unlinked[0] != v3+"record.json" {
		t.Errorf("unlinked: %v", unlinked)
	}
}

// broken is a bucket that refuses to read one key.
type broken struct {
	memory
	key string
}

func (b broken) Read(key string) (io.ReadCloser, error) {
	if key == b.key {
		return nil, errors.New("permission denied")
	}
	return b.memory.Read(key)
}

func TestAKeyThatCannotBeReadIsReported(t *testing.T) {
	bucket := build(t, nil)
	if violations := Check(broken{bucket, part5}); !has(violations, Unreadable, part5) {
		t.Errorf("violations: %v", violations)
	}
	if _, err := Take(broken{bucket, part5}); err == nil {
		t.Error("a snapshot was taken of a bucket that cannot be read")
	}
}

// The checker must not share the code that it checks.
func TestTheCheckerImportsNothingOfOurs(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no source files", err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range file.Imports {
			path := strings.Trim(imported.Path.Value, `"`)
			if first, _, _ := strings.Cut(path, "/"); strings.Contains(path, "feedmirror") || strings.Contains(first, ".") && path != "github.com/parquet-go/parquet-go" {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}

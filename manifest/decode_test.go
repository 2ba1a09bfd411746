package manifest

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"feedmirror/manifest/jsonstream"
)

const (
	sumA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	sumB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// entry returns {"<named>": "<name>", "sizeBytes": 5, "sha256": sumA}.
func entry(named, name string) string {
	return `{"` + named + `":"` + name + `","sizeBytes":5,"sha256":"` + sumA + `"}`
}

func decode(text string) (Manifest, []Attachment, error) {
	var attachments []Attachment
	m, err := DecodeManifest(strings.NewReader(text), func(a Attachment) error {
		attachments = append(attachments, a)
		return nil
	})
	return m, attachments, err
}

func sum(t *testing.T, text string) SHA256 {
	t.Helper()
	s, err := ParseSHA256(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestManifestFormsDecodeToTheSame(t *testing.T) {
	snapshot, changes := entry("path", "snapshot/part-0000.parquet"), entry("path", "changes/part-0000.parquet")
	ids, schema, extra := entry("path", "idMap/part-0000.parquet"), entry("path", "schema.json"), entry("path", "notes/read me.txt")
	attachment := `{"file":"source:a","filename":"A.pdf","contentType":"application/pdf","sizeBytes":7,"sha256":"` + strings.ToUpper(sumB) + `"}`
	for name, text := range map[string]string{
		"flat":                 `{"datasetId":"ds_a","version":42,"files":[` + snapshot + `,` + changes + `,` + ids + `,` + schema + `,` + extra + `],"attachments":[` + attachment + `]}`,
		"attachments first":    `{"attachments":[` + attachment + `],"files":[` + snapshot + `,` + changes + `,` + ids + `,` + schema + `,` + extra + `],"version":42,"datasetId":"ds_a"}`,
		"named by file":        strings.ReplaceAll(`{"datasetId":"ds_a","version":42,"files":[`+snapshot+`,`+changes+`,`+ids+`,`+schema+`,`+extra+`],"attachments":[`+attachment+`]}`, `"path"`, `"file"`),
		"attachments in files": `{"datasetId":"ds_a","version":42,"files":[` + snapshot + `,` + attachment + `,` + changes + `,` + ids + `,` + schema + `,` + extra + `]}`,
		"grouped": `{"datasetId":"ds_a","version":42,"files":{"expiresAt":"x","snapshot":[` + snapshot + `],"changes":[` + changes + `],"idMap":` + ids + `,"schema":` + schema + `,"other":[` + extra + `,1]},
			"attachments":[` + attachment + `]}`,
		"grouped with attachments": `{"datasetId":"ds_a","version":42,"files":{"snapshot":[` + snapshot + `],"changes":[` + changes + `],"idMap":[` + ids + `],"schema":[` + schema + `],"attachments":[` + attachment + `],"other":` + extra + `}}`,
		"groups at the top": `{"datasetId":"ds_a","version":42,"snapshot":[` + snapshot + `],"changes":[` + changes + `],"idMap":[` + ids + `],"schema":` + schema + `,
			"files":[` + extra + `],"attachments":[` + attachment + `],"unknown":{"a":[1,{"path":"x"}]},"totals":null}`,
	} {
		t.Run(name, func(t *testing.T) {
			m, attachments, err := decode(text)
			if err != nil {
				t.Fatal(err)
			}
			a := sum(t, sumA)
			want := Manifest{Dataset: "ds_a", Version: 42, Files: []File{
				{KindSnapshot, "snapshot/part-0000.parquet", 5, a}, {KindChanges, "changes/part-0000.parquet", 5, a},
				{KindIDMap, "idMap/part-0000.parquet", 5, a}, {KindSchema, "schema.json", 5, a}, {KindExtra, "notes/read me.txt", 5, a},
			}}
			if !reflect.DeepEqual(m, want) {
				t.Errorf("got %+v, want %+v", m, want)
			}
			if want := []Attachment{{"source:a", "A.pdf", "application/pdf", 7, sum(t, sumB)}}; !reflect.DeepEqual(attachments, want) {
				t.Errorf("got %+v, want %+v", attachments, want)
			}
		})
	}
}

func TestManifestKeepsWhatItCanDoWithoutOut(t *testing.T) {
	m, attachments, err := decode(`{"datasetId":{"id":7},"version":"1.0","files":null,"snapshot":[],"changes":null,
		"schema":{"columns":[{"name":"a"}]},
		"attachments":[{"file":"original","filename":null,"contentType":5,"url":{},"path":null,"sizeBytes":0,"sha256":"` + sumA + `","more":[[]]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if m.Dataset != "" || m.Version != 0 || len(m.Files) != 0 {
		t.Errorf("got %+v, want nothing but attachments", m)
	}
	if want := []Attachment{{Name: "original", SHA256: sum(t, sumA)}}; !reflect.DeepEqual(attachments, want) {
		t.Errorf("got %+v, want %+v", attachments, want)
	}
}

// Each of these is refused, and the message names the entry and what is wrong.
func TestHostileManifests(t *testing.T) {
	files := func(entries string) string { return `{"files":[` + entries + `]}` }
	withSize := func(size string) string {
		return files(`{"sha256":"` + sumA + `","sizeBytes":` + size + `,"path":"snapshot/a"}`)
	}
	withSum := func(text string) string {
		return files(`{"sha256":` + text + `,"sizeBytes":1,"path":"snapshot/a"}`)
	}
	two := func(a, b string) string { return files(entry("path", a) + "," + entry("path", b)) }
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"HTML":                         {"<!DOCTYPE html><html>", []string{"HTML"}},
		"empty":                        {"", []string{"truncated"}},
		"truncated":                    {`{"files":[` + entry("path", "snapshot/a"), []string{"truncated"}},
		"trailing data":                {`{"files":[]}{}`, []string{"trailing data"}},
		"a list":                       {`[]`, []string{"want an object, got an array"}},
		"a string":                     {`"x"`, []string{"want an object"}},
		"files as a string":            {`{"files":"x"}`, []string{`"files"`, "want a list"}},
		"a name instead of an entry":   {files(`"snapshot/a"`), []string{`"files" entry 1`, "want an object, got a string"}},
		"hash too short":               {withSum(`"abc"`), []string{`"snapshot/a"`, "sha256", "64 hex digits"}},
		"hash not hex":                 {withSum(`"` + strings.Repeat("z", 64) + `"`), []string{`"snapshot/a"`, "64 hex digits"}},
		"hash as a path":               {withSum(`"../../../x"`), []string{`"snapshot/a"`, "64 hex digits"}},
		"hash as a number":             {withSum(`7`), []string{`"snapshot/a"`, "want a string, got a number"}},
		"hash all zero":                {withSum(`"` + strings.Repeat("0", 64) + `"`), []string{`"snapshot/a"`, "all zero"}},
		"no hash":                      {withSum(`null`), []string{`"snapshot/a"`, "no sha256"}},
		"size negative":                {withSize("-1"), []string{`"snapshot/a"`, "sizeBytes", "-1"}},
		"size absurd":                  {withSize("9007199254740993"), []string{`"snapshot/a"`, "9007199254740993"}},
		"size beyond 64 bits":          {withSize("99999999999999999999999"), []string{`"snapshot/a"`, "99999999999999999999999"}},
		"size with a fraction":         {withSize("1.5"), []string{`"snapshot/a"`, "1.5"}},
		"size with an exponent":        {withSize("1e3"), []string{`"snapshot/a"`, "1e3"}},
		"size as a string":             {withSize(`"5"`), []string{`"snapshot/a"`, "want a number, got a string"}},
		"no size":                      {withSize("null"), []string{`"snapshot/a"`, "no sizeBytes"}},
		"no name":                      {files(`{"sizeBytes":1,"sha256":"` + sumA + `"}`), []string{"entry 1", "neither a path nor a file"}},
		"a field twice":                {files(`{"path":"a","sizeBytes":1,"sizeBytes":2,"sha256":"` + sumA + `"}`), []string{`"a"`, "sizeBytes stands twice"}},
		"files twice":                  {`{"files":[],"files":[]}`, []string{"files stands twice"}},
		"a group twice":                {`{"files":{"snapshot":[],"snapshot":[]}}`, []string{"files.snapshot stands twice"}},
		"same path twice":              {two("snapshot/a", "snapshot/a"), []string{`"snapshot/a" stands twice`}},
		"same path in two groups":      {`{"files":[` + entry("path", "snapshot/a") + `],"snapshot":[` + entry("path", "snapshot/a") + `]}`, []string{`"snapshot/a" stands twice`}},
		"names that differ in case":    {two("snapshot/Part.parquet", "snapshot/part.parquet"), []string{"differ only in case", `"snapshot/Part.parquet"`}},
		"case beyond ASCII":            {two("snapshot/straSe-\u212a", "snapshot/stra\u017fe-k"), []string{"differ only in case"}},
		"idMap and id_map":             {two("idMap/a", "id_map/a"), []string{"map to the same key", `"idMap/a"`}},
		"two schemas":                  {`{"files":[` + entry("path", "schema.json") + `],"schema":` + entry("path", "other.json") + `}`, []string{"same key"}},
		"a file in a file":             {two("snapshot/a", "snapshot/a/b"), []string{"is a folder of"}},
		"a file around a file":         {two("snapshot/a/b", "snapshot/A"), []string{"is a folder of"}},
		"dots":                         {files(entry("path", "snapshot/../../x")), []string{`"snapshot/../../x"`}},
		"leading slash":                {files(entry("path", "/etc/passwd")), []string{`"/etc/passwd"`, "not relative"}},
		"backslash":                    {files(entry("path", `snapshot\\a`)), []string{`"snapshot\\a"`}},
		"colon":                        {files(entry("path", `c:/a`)), []string{`"c:/a"`}},
		"control character":            {files(entry("path", `snapshot/a\u0000b`)), []string{`"snapshot/a\x00b"`, "control character"}},
		"line feed":                    {files(entry("path", `snapshot/a\nb`)), []string{"control character"}},
		"hidden":                       {files(entry("path", `snapshot/_a`)), []string{"begins with '_'"}},
		"trailing dot":                 {files(entry("path", `snapshot/a./b`)), []string{"ends in a dot"}},
		"snapshot outside of its list": {`{"snapshot":[` + entry("path", "part-0000.parquet") + `]}`, []string{`"part-0000.parquet"`, `"snapshot/"`}},
		"changes under snapshot":       {`{"files":{"snapshot":[` + entry("path", "changes/a") + `]}}`, []string{`"changes/a"`}},
		"attachment without a file":    {`{"attachments":[` + entry("path", "source:a") + `]}`, []string{`"attachments" entry 1`, "no file"}},
		"attachment control character": {`{"attachments":[` + entry("file", `source:\u001b[2J`) + `]}`, []string{`"source:\x1b[2J"`, "control character"}},
		"attachment name too long":     {`{"attachments":[` + entry("file", strings.Repeat("n", 1025)) + `]}`, []string{"1025 bytes"}},
		"attachments as an object":     {`{"attachments":{}}`, []string{"want a list"}},
		"dataset with dots":            {`{"datasetId":"../x"}`, []string{"dataset id"}},
		"version with a fraction":      {`{"version":4.5}`, []string{"version", "4.5"}},
		"version zero":                 {`{"version":0}`, []string{"version number 0"}},
		"version of eleven digits":     {`{"version":10000000000}`, []string{"10000000000"}},
		"not UTF-8":                    {files(entry("path", "snapshot/\xff")), []string{"not UTF-8"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := decode(test.text)
			if err == nil {
				t.Fatal("want an error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in: %v", want, err)
				}
			}
		})
	}
}

func TestErrorsNeverHoldLinks(t *testing.T) {
	for _, rest := range []string{`"sizeBytes":-1`, `"sizeBytes":1,"sha256":"x"`, `"url":"https://h/?sig=secret"`, `"file":7`, `"path":"../x"`, `"path":"a" "b"`} {
		_, _, err := decode(`{"files":[{"url":"https://h/?sig=secret",` + rest + `}]}`)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: want an error without the link, got %v", rest, err)
		}
	}
}

func TestVisitErrorsComeThrough(t *testing.T) {
	stop := errors.New("stop")
	_, err := DecodeManifest(strings.NewReader(`{"attachments":[`+entry("file", "original")+`]}`), func(Attachment) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("want the visitor's error, got %v", err)
	}
}

func TestManifestLimits(t *testing.T) {
	long := func(n int) string {
		text := `{"files":[{"path":"a","sizeBytes":1,"sha256":"` + sumA + `","more":"`
		return text + strings.Repeat("x", n-len(text)+len(`{"files":[`)-len(`"}`)) + `"}]}`
	}
	if _, _, err := decode(long(MaxEntryBytes)); err != nil {
		t.Errorf("an entry of just the limit: %v", err)
	}
	if _, _, err := decode(long(MaxEntryBytes + 1)); !errors.Is(err, jsonstream.ErrTooLarge) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("an entry over the limit: want ErrTooLarge that names it, got %v", err)
	}
	// The bound is on all that is no attachment: white space is the cheapest to send.
	const bound = 1000
	padded := func(n int) error {
		_, err := decodeManifest(strings.NewReader("{"+strings.Repeat(" ", n-2)+"}"), nil, bound, MaxFiles)
		return err
	}
	if err := padded(bound); err != nil {
		t.Errorf("just the bound: %v", err)
	}
	attachments := strings.Repeat(entry("file", "original")+",\n", 2*bound/100) + entry("file", "original")
	for _, text := range []string{`{"attachments":[` + attachments + `]}`, `{"files":[` + attachments + `]}`} {
		if _, err := decodeManifest(strings.NewReader(text), func(Attachment) error { return nil }, bound, MaxFiles); err != nil {
			t.Errorf("attachments count towards no bound, but: %v", err)
		}
	}
	if err := padded(bound + 1); !errors.Is(err, jsonstream.ErrTooLarge) {
		t.Errorf("a byte more than the bound: want ErrTooLarge, got %v", err)
	}
}

func TestManifestMustBeForItsVersion(t *testing.T) {
	m := Manifest{Dataset: "ds_a", Version: 42, Files: []File{{Kind: KindSnapshot, Path: "snapshot/a"}}}
	if err := m.CheckFor("ds_a", 42); err != nil {
		t.Error(err)
	}
	if err := (Manifest{Files: m.Files}).CheckFor("ds_a", 42); err != nil {
		t.Errorf("a manifest that names neither: %v", err)
	}
	long := strings.Repeat("a", 250) + "/"
	for name, err := range map[string]error{
		"other dataset": m.CheckFor("ds_b", 42),
		"other version": m.CheckFor("ds_a", 43),
		"bad dataset":   m.CheckFor("a..b", 42),
		"bad version":   m.CheckFor("ds_a", 0),
		// A path within 1,024 bytes whose key is not.
		"long key": Manifest{Files: []File{{Kind: KindSnapshot, Path: "snapshot/" + long + long + long + long[:230]}}}.CheckFor("ds_a", 42),
	} {
		if err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}

package invariant

import (
	"encoding/json"
	"strings"
	"testing"
)

const (
	pruned3     = v3 + "pruned.json"
	snapshotLog = "snapshot/ploti_dataset_id=" + ds + "/_delta_log/"
)

// history is a bucket with every document that two runs may write differently.
func history(t *testing.T) memory {
	t.Helper()
	when := "2026-01-02T03:04:05Z"
	m := build(t, map[string]func(fields){
		v5 + "record.json": func(f fields) {
			f["run"], f["committedAt"], f["publishedAt"], f["doubts"] = "run-1", when, when, []any{}
		},
		v5 + "stored.json": func(f fields) {
			f["at"], f["objects"] = when, []any{fields{"key": part5, "sizeBytes": 4, "etag": "a", "attested": "streamed"}}
		},
		pointerKey: func(f fields) {
			f["movedAt"], f["decisions"] = when, []any{decisionKey}
			f["left"] = []any{fields{"version": 3, "at": when}}
			f["held"] = fields{"version": 6, "since": when}
		},
	})
	m[pruned3] = []byte(`{"dataset":"berlin.plans","version":3,"run":"run-1","at":"` + when + `","objects":2}`)
	return m
}

// setIn changes one field of a JSON document, named by its path.
func setIn(t *testing.T, m memory, key, path string, value any) {
	t.Helper()
	document, err := decodeAny(m[key])
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Split(path, ".")
	at, ok := document.(map[string]any)
	for _, name := range names[:len(names)-1] {
		switch inner := at[name].(type) {
		case map[string]any:
			at = inner
		case []any:
			at, ok = inner[0].(map[string]any)
		}
	}
	if !ok {
		t.Fatalf("%s has no %s", key, path)
	}
	at[names[len(names)-1]] = value
	if m[key], err = json.Marshal(document); err != nil {
		t.Fatal(err)
	}
}

func normalOf(t *testing.T, m memory) Normal {
	t.Helper()
	normal, err := Normalise(m)
	if err != nil {
		t.Fatal(err)
	}
	return normal
}

func TestEqualLeavesOutWhatRunsMayDifferIn(t *testing.T) {
	const later = "2027-06-07T08:09:10Z"
	want, m := history(t), history(t)
	for key, paths := range map[string][]string{
		v5 + "record.json":    {"run", "committedAt", "previousRecord.sha256"},
		v5 + "stored.json":    {"at", "revision", "objects.etag", "objects.attested"},
		pointerKey:            {"revision", "movedAt", "record.sha256", "decisions", "left.at", "held.since"},
		pruned3:               {"run", "at"},
		v3 + "withdrawn.json": {"from", "revision"},
		"versions/" + ds + "/0000000006/gone.json": {"at"},
	} {
		for _, path := range paths {
			setIn(t, m, key, path, later)
		}
	}
	delete(m, "_mirror/runs/2026-01-02/run.json")
	m["_mirror/shards/0-of-1-ab12.json"] = []byte("{}")
	m["changes/_delta_log/00000000000000000001.json"] = []byte("{}")
	delete(m, "publications/2026-01-02/run.parquet")
	for _, violation := range Equal(normalOf(t, want), normalOf(t, m)) {
		t.Error(violation)
	}
}

func TestEqualSeesWhateverElseDiffers(t *testing.T) {
	gone6 := "versions/" + ds + "/0000000006/gone.json"
	for name, test := range map[string]struct {
		change func(m memory)
		kind   Kind
		key    string
		detail string
	}{
		"a part is missing":        {remove(part5), MissingKey, part5, ""},
		"a record is missing":      {remove(v5 + "record.json"), MissingKey, v5 + "record.json", ""},
		"a pointer is missing":     {remove(pointerKey), MissingKey, pointerKey, ""},
		"a note is missing":        {remove(gone6), MissingKey, gone6, ""},
		"an attachment is missing": {remove(pdfKey()), MissingKey, pdfKey(), ""},
		"a key too many":           {put("README", "x"), ExtraKey, "README", ""},
		"a table too many": {put(snapshotLog+"00000000000000000000.json", `{"metaData":{"id":"t","schemaString":"{}"}}`+"\n"+`{"add":{"path":"ploti_version=0000000005/part-0000.parquet"}}`),
			OtherDocument, snapshotLog, ""},
		"a document too many":           {put(v5+"pruned.json", "{}"), ExtraKey, v5 + "pruned.json", ""},
		"a part has other bytes":        {put(part5, "fivE"), OtherBytes, part5, "SHA256"},
		"a manifest has other bytes":    {put(v5+"manifest.json", "{}"), OtherBytes, v5 + "manifest.json", ""},
		"an index has other bytes":      {put(index5, "PAR1"), OtherBytes, index5, ""},
		"sums have other bytes":         {put(v5+"SHA256SUMS", "x"), OtherBytes, v5 + "SHA256SUMS", ""},
		"a record's time by the feed":   {func(m memory) { setIn(t, m, v5+"record.json", "publishedAt", "x") }, OtherDocument, v5 + "record.json", "publishedAt is x"},
		"a record's doubts":             {func(m memory) { setIn(t, m, v5+"record.json", "doubts", []any{"rows"}) }, OtherDocument, v5 + "record.json", "doubts"},
		"a record's previous version":   {func(m memory) { setIn(t, m, v5+"record.json", "previousRecord.version", 4) }, OtherDocument, v5 + "record.json", "previousRecord.version is 4, want 3"},
		"a record's first file":         {func(m memory) { setIn(t, m, v5+"record.json", "files.kind", "x") }, OtherDocument, v5 + "record.json", "files[0].kind is x"},
		"a record without predecessor":  {func(m memory) { setIn(t, m, v5+"record.json", "previousRecord", nil) }, OtherDocument, v5 + "record.json", "previousRecord"},
		"a field that nobody knows":     {func(m memory) { setIn(t, m, v5+"record.json", "novelty", 1) }, OtherDocument, v5 + "record.json", "novelty"},
		"a pointer's version":           {func(m memory) { setIn(t, m, pointerKey, "version", 3) }, OtherDocument, pointerKey, "version"},
		"a pointer's pin":               {func(m memory) { setIn(t, m, pointerKey, "pinned", true) }, OtherDocument, pointerKey, "pinned"},
		"a pointer's hold":              {func(m memory) { setIn(t, m, pointerKey, "held", nil) }, OtherDocument, pointerKey, "held"},
		"a pointer's flag":              {func(m memory) { setIn(t, m, pointerKey, "withdrawn", true) }, OtherDocument, pointerKey, "withdrawn"},
		"a version that a pointer left": {func(m memory) { setIn(t, m, pointerKey, "left.version", 4) }, OtherDocument, pointerKey, "left[0].version"},
		"a pointer that obeys nothing":  {func(m memory) { setIn(t, m, pointerKey, "decisions", nil) }, OtherDocument, pointerKey, "decisions"},
		"why a version is gone":         {func(m memory) { setIn(t, m, gone6, "reason", "withdrawn") }, OtherDocument, gone6, "reason"},
		"a withdrawal that was closed":  {func(m memory) { setIn(t, m, v3+"withdrawn.json", "until", "2026-01-03T00:00:00Z") }, OtherDocument, v3 + "withdrawn.json", "until"},
		"what a prune took":             {func(m memory) { setIn(t, m, pruned3, "objects", 3) }, OtherDocument, pruned3, "objects is 3, want 2"},
		"the size of a stored object":   {func(m memory) { setIn(t, m, v5+"stored.json", "objects.sizeBytes", 5) }, OtherDocument, v5 + "stored.json", "objects[0].sizeBytes"},
		"a stored object too many":      {func(m memory) { setIn(t, m, v5+"stored.json", "objects", []any{}) }, OtherDocument, v5 + "stored.json", "objects"},
	} {
		t.Run(name, func(t *testing.T) {
			want, m := history(t), history(t)
			test.change(m)
			violations := Equal(normalOf(t, want), normalOf(t, m))
			if len(violations) != 1 || !has(violations, test.kind, test.key) || !strings.Contains(violations[0].Detail, test.detail) {
				t.Errorf("want one %s at %s that says %q, got %v", test.kind, test.key, test.detail, violations)
			}
		})
	}
	broken := history(t)
	broken[pointerKey] = []byte("{} {}")
	if _, err := Normalise(broken); err == nil {
		t.Error("a document that does not parse is normalised")
	}
}

func TestUnsettledNamesWhatIsLeftToDo(t *testing.T) {
	shard := "_mirror/shards/0-of-1-ab12.json"
	settled := func() memory {
		m := history(t)
		for key := range m {
			if strings.Contains(key, "ploti_version=0000000007") || strings.HasPrefix(key, "versions/"+ds+"/0000000007/") {
				delete(m, key)
			}
		}
		m["_mirror/prune.json"] = []byte(`{"revision":3,"state":"finished"}`)
		m[shard] = []byte(`{"revision":9,"owed":[]}`)
		return m
	}
	for _, violation := range Unsettled(settled()) {
		t.Errorf("nothing is left: %v", violation)
	}
	manifest7 := "versions/" + ds + "/0000000007/manifest.json"
	newer := "_mirror/decisions/" + ds + "/20270102T030405Z-run.json"
	bucketWide := "_mirror/decisions/_bucket/20270102T030405Z-run.json"
	for name, test := range map[string]struct {
		change func(m memory)
		kind   Kind // empty: nothing is left
		key    string
	}{
		"a debt":                    {put(shard, `{"revision":9,"owed":[{"dataset":"a","reason":"failed"}]}`), StillOwed, shard},
		"a prune that decides":      {put("_mirror/prune.json", `{"state":"deciding"}`), StillPruning, "_mirror/prune.json"},
		"a prune that deletes":      {put("_mirror/prune.json", `{"state":"deleting"}`), StillPruning, "_mirror/prune.json"},
		"a prune of another kind":   {put("_mirror/prune.json", `{"state":"resting"}`), BadDocument, "_mirror/prune.json"},
		"no prune ever":             {remove("_mirror/prune.json"), "", ""},
		"a claim":                   {put(manifest7, "{}"), NotCommitted, manifest7},
		"a claim of a version gone": {func(m memory) { put(manifest7, "{}")(m); put("versions/"+ds+"/0000000007/gone.json", "{}")(m) }, "", ""},
		"a newer approval":          {put(newer, `{"dataset":"berlin.plans","action":"approve"}`), NotObeyed, newer},
		"a newer rollback":          {put(newer, `{"dataset":"berlin.plans","action":"rollback","version":3}`), NotObeyed, newer},
		"a newer retirement":        {put(newer, `{"dataset":"berlin.plans","action":"retire"}`), NotObeyed, newer},
		"what was taken note of":    {put(newer, `{"dataset":"berlin.plans","action":"acknowledge"}`), "", ""},
		"of no dataset":             {put(bucketWide, `{"dataset":"_bucket","action":"acknowledge"}`), "", ""},
		"a pointer that obeys none": {func(m memory) { setIn(t, m, pointerKey, "decisions", nil) }, NotObeyed, decisionKey},
		"a shard without its form":  {put(shard, `[]`), BadDocument, shard},
	} {
		t.Run(name, func(t *testing.T) {
			m := settled()
			test.change(m)
			violations := Unsettled(m)
			if test.kind == "" && len(violations) > 0 || test.kind != "" && (len(violations) != 1 || !has(violations, test.kind, test.key)) {
				t.Errorf("want %q at %q, got %v", test.kind, test.key, violations)
			}
		})
	}
	m := settled()
	m[bucketWide] = []byte(`{"dataset":"_bucket","action":"acknowledge","at":"2027-01-02T03:04:05Z"}`)
	if violations := Check(m); has(violations, StrayKey, bucketWide) || has(violations, BadDocument, bucketWide) {
		t.Errorf("a decision about the bucket: %v", violations)
	}
}

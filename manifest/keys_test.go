package manifest

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	anyDataset = rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,20}`).Filter(func(id string) bool { return CheckDataset(id) == nil })
	anyNumber  = rapid.Custom(func(t *rapid.T) Number {
		digits := rapid.IntRange(0, 9).Draw(t, "digits")
		least := Number(1)
		for range digits {
			least *= 10
		}
		return least + Number(rapid.Int64Range(0, int64(9*least-1)).Draw(t, "number"))
	})
	anyPath = rapid.OneOf(
		rapid.Just("schema.json"),
		rapid.StringMatching(`(snapshot|changes|id_map|idMap|notes)(/[A-Za-z0-9é][A-Za-z0-9._ -]{0,12}){0,3}`),
	).Filter(func(path string) bool { return CheckPath(path) == nil })
)

// Readers list records and take them for the version order.
func TestListOrderOfRecordsIsVersionOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dataset := anyDataset.Draw(t, "dataset")
		numbers := rapid.SliceOfDistinct(anyNumber, func(n Number) Number { return n }).Draw(t, "numbers")
		slices.Sort(numbers)
		var keys []string
		for _, n := range numbers {
			keys = append(keys, RecordKey(dataset, n))
		}
		if !slices.IsSorted(keys) {
			t.Fatalf("byte order is not version order: %q", keys)
		}
		for i, key := range keys {
			n, document, ok := ParseVersionKey(dataset, key)
			if !ok || n != numbers[i] || document != "record.json" {
				t.Fatalf("%q: got %d %q %v", key, n, document, ok)
			}
		}
	})
}

func TestEveryKeyOfTheLayoutParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dataset, n, path := anyDataset.Draw(t, "dataset"), anyNumber.Draw(t, "number"), anyPath.Draw(t, "path")
		hash := SumBytes([]byte(path))
		f := File{Kind: KindOf(path), Path: path}
		_, below, _ := strings.Cut(path, "/")
		ofFile := map[Kind]Key{
			KindSnapshot: {Kind: KeySnapshot, Table: "snapshot", Dataset: dataset, Version: n, Rest: below},
			KindChanges:  {Kind: KeyChanges, Table: "changes", Dataset: dataset, Version: n, Rest: below},
			KindIDMap:    {Kind: KeyIDMap, Table: "id_map", Dataset: dataset, Version: n, Rest: below},
			KindSchema:   {Kind: KeyDocument, Dataset: dataset, Version: n, Rest: "schema.json"},
			KindExtra:    {Kind: KeyDocument, Dataset: dataset, Version: n, Rest: "files/" + path},
		}
		document := func(name string) Key { return Key{Kind: KeyDocument, Dataset: dataset, Version: n, Rest: name} }
		log := "_delta_log/00000000000000000003.json"
		for key, want := range map[string]Key{
			FileKey(dataset, n, f):                             ofFile[f.Kind],
			AttachmentKey(hash):                                {Kind: KeyAttachment, SHA256: hash},
			IndexKey(dataset, n):                               {Kind: KeyAttachmentIndex, Table: "attachment_index", Dataset: dataset, Version: n, Rest: "index.parquet"},
			ManifestKey(dataset, n):                            document("manifest.json"),
			RecordKey(dataset, n):                              document("record.json"),
			SumsKey(dataset, n):                                document("SHA256SUMS"),
			StoredKey(dataset, n):                              document("stored.json"),
			GoneKey(dataset, n):                                document("gone.json"),
			WithdrawnKey(dataset, n):                           document("withdrawn.json"),
			PrunedKey(dataset, n):                              document("pruned.json"),
			OtherManifestKey(dataset, n, hash):                 document("manifest." + hash.String()[:8] + ".json"),
			PointerKey(dataset):                                {Kind: KeyPointer, Dataset: dataset},
			LeaseKey(dataset):                                  {Kind: KeyMirror, Rest: "leases/" + dataset + ".json"},
			DecisionsPrefix(dataset) + "x.json":                {Kind: KeyMirror, Rest: "decisions/" + dataset + "/x.json"},
			LayoutKey:                                          {Kind: KeyMirror, Rest: "layout.json"},
			"publications/2026-10-18/run.parquet":              {Kind: KeyPublication, Table: "publications", Rest: "2026-10-18/run.parquet"},
			"publications/" + log:                              {Kind: KeyDeltaLog, Table: "publications", Rest: log[11:]},
			"changes/" + log:                                   {Kind: KeyDeltaLog, Table: "changes", Rest: log[11:]},
			"snapshot/ploti_dataset_id=" + dataset + "/" + log: {Kind: KeyDeltaLog, Table: "snapshot", Dataset: dataset, Rest: log[11:]},
			"attachment_index/ploti_dataset_id=" + dataset + "/" + log: {Kind: KeyDeltaLog, Table: "attachment_index", Dataset: dataset, Rest: log[11:]},
		} {
			if got, ok := ParseDataKey(key); !ok || got != want {
				t.Fatalf("%q: got %+v %v, want %+v", key, got, ok, want)
			}
		}
	})
}

func TestKeysThatTheMirrorNeverWritesAreNobodys(t *testing.T) {
	for _, key := range []string{
		"", "x", "/", "snapshot", "snapshot/", "snapshot/a.parquet", "other/a", "_mirror", "_mirror/", "current", "current/a", "current/a/b.json", "current/..json",
		"snapshot/_delta_log/0.json", "id_map/ploti_dataset_id=a/_delta_log/0.json", "attachment_index/ploti_dataset_id=a/ploti_version=0000000001/other.parquet",
		"snapshot/ploti_dataset_id=a/ploti_version=1/a", "snapshot/ploti_dataset_id=a/ploti_version=0000000000/a", "snapshot/ploti_dataset_id=a/ploti_version=00000000001/a",
		"snapshot/ploti_dataset_id=a/ploti_version=0000000001", "snapshot/ploti_dataset_id=a/ploti_version=0000000001/", "snapshot/ploti_dataset_id=a/ploti_version=+000000001/a",
		"snapshot/ploti_dataset_id=a..b/ploti_version=0000000001/a", "snapshot/ploti_dataset_id=a/ploti_version=0000000001/../a", "snapshot/dataset_id=a/ploti_version=0000000001/a",
		"versions/a/0000000001", "versions/a/0000000001/", "versions/a/1/record.json", "versions/_a/0000000001/record.json", "versions/a/99999999999/record.json",
		"attachments/sha256/ab/" + sumA, "attachments/sha256/aa/" + sumA[1:], "attachments/sha256/AA/" + strings.ToUpper(sumA), "attachments/sha256/aa/x/" + sumA, "attachments/md5/aa/" + sumA,
	} {
		if got, ok := ParseDataKey(key); ok || got != (Key{}) {
			t.Errorf("%q: got %+v %v, want nothing", key, got, ok)
		}
	}
	if _, _, ok := ParseVersionKey("a", RecordKey("b", 1)); ok {
		t.Error("a key of another dataset was taken")
	}
}

func FuzzKeysStayWhereTheyBelong(f *testing.F) {
	f.Add("ds_a", int64(42), "snapshot/part-0000.parquet")
	f.Add("a..b", int64(0), "snapshot/../../x")
	f.Add("a", int64(MaxNumber), "idMap/ä b/c")
	f.Add("a", int64(1), "notes/schema.json")
	f.Fuzz(func(t *testing.T, dataset string, number int64, path string) {
		n := Number(number)
		if CheckDataset(dataset) != nil || CheckNumber(n) != nil || CheckPath(path) != nil {
			return
		}
		m := Manifest{Files: []File{{Kind: KindOf(path), Path: path}}}
		key := FileKey(dataset, n, m.Files[0])
		parsed, ok := ParseDataKey(key)
		if err := m.CheckFor(dataset, n); (err == nil) != ok {
			t.Fatalf("%q: check says %v, parse says %v", key, err, ok)
		}
		if ok && (parsed.Dataset != dataset || parsed.Version != n) {
			t.Fatalf("%q: parsed as %+v", key, parsed)
		}
	})
}

func FuzzParsedKeysHaveOneSpelling(f *testing.F) {
	f.Add(FileKey("ds_a", 42, File{Kind: KindSnapshot, Path: "snapshot/a"}))
	f.Add(RecordKey("ds_a", 42))
	f.Add(AttachmentKey(SumBytes(nil)))
	f.Add(PointerKey("ds_a"))
	f.Add("changes/_delta_log/00000000000000000003.json")
	f.Fuzz(func(t *testing.T, key string) {
		parsed, ok := ParseDataKey(key)
		if !ok {
			return
		}
		again := ""
		switch parsed.Kind {
		case KeySnapshot, KeyChanges, KeyIDMap, KeyAttachmentIndex:
			again = parsed.Table + "/" + Partition(parsed.Dataset, parsed.Version) + parsed.Rest
		case KeyDocument:
			again = VersionPrefix(parsed.Dataset, parsed.Version) + parsed.Rest
		case KeyAttachment:
			again = AttachmentKey(parsed.SHA256)
		case KeyPointer:
			again = PointerKey(parsed.Dataset)
		case KeyMirror:
			again = "_mirror/" + parsed.Rest
		case KeyPublication:
			again = "publications/" + parsed.Rest
		case KeyDeltaLog:
			again = parsed.Table + "/_delta_log/" + parsed.Rest
			if parsed.Dataset != "" {
				again = parsed.Table + "/ploti_dataset_id=" + parsed.Dataset + "/_delta_log/" + parsed.Rest
			}
		}
		if again != key {
			t.Fatalf("%q parsed as %+v, which spells %q", key, parsed, again)
		}
	})
}

package manifest

import (
	"strconv"
	"strings"
)

// KeyKind says what the bucket layout holds under a key.
type KeyKind string

const (
	deltaLog         = "_delta_log/"
	partitionDataset = "ploti_dataset_id="
	partitionVersion = "ploti_version="
)

// The kinds of keys.
const (
	KeySnapshot        KeyKind = "snapshot"
	KeyChanges         KeyKind = "changes"
	KeyIDMap           KeyKind = "id_map"
	KeyAttachment      KeyKind = "attachment"
	KeyAttachmentIndex KeyKind = "attachment-index"
	KeyDocument        KeyKind = "document"    // of a version, under versions/
	KeyDeltaLog        KeyKind = "delta-log"   // of any table
	KeyPublication     KeyKind = "publication" // a Parquet file of the publications table
	KeyPointer         KeyKind = "pointer"
	KeyMirror          KeyKind = "mirror" // the mirror's own, under _mirror/
)

// Key is a key of the bucket layout, taken apart.
type Key struct {
	Kind    KeyKind
	Table   string // of a part, an index, a publication or a log: the key's first segment
	Dataset string // empty where the key belongs to none or to all
	Version Number // zero where the key belongs to none
	SHA256  SHA256 // of an attachment's bytes
	// Rest is what follows: the path of a part, the name of a version's document, the file in a
	// table's log, what lies in _mirror/.
	Rest string
}

// ParseVersionKey takes apart a key below RecordsPrefix(dataset): the version and the document,
// which is "record.json" and so on, or "files/<path>".
func ParseVersionKey(dataset, key string) (n Number, document string, ok bool) {
	rest, ok := strings.CutPrefix(key, RecordsPrefix(dataset))
	if !ok {
		return 0, "", false
	}
	digits, document, ok := strings.Cut(rest, "/")
	if !ok || document == "" {
		return 0, "", false
	}
	n, ok = parsePadded(digits)
	if !ok {
		return 0, "", false
	}
	return n, document, true
}

// ParseDataKey takes apart any key of the bucket layout. It is not ok for what the layout does
// not know and for spellings that the mirror never writes (a version without its zeros, a hash
// in upper case or in another folder): such an object is nobody's.
func ParseDataKey(key string) (Key, bool) {
	// The mirror's own may hold staging files of any name.
	if rest, ok := strings.CutPrefix(key, "_mirror/"); ok && rest != "" {
		return Key{Kind: KeyMirror, Rest: rest}, true
	}
	if CheckKey(key) != nil {
		return Key{}, false
	}
	parsed, ok := parseDataKey(key)
	if !ok {
		return Key{}, false
	}
	return parsed, true
}

func parseDataKey(key string) (Key, bool) {
	table, rest, _ := strings.Cut(key, "/")
	switch table {
	case "snapshot":
		return parseTableKey(KeySnapshot, table, rest)
	case "changes":
		return parseTableKey(KeyChanges, table, rest)
	case "id_map":
		return parseTableKey(KeyIDMap, table, rest)
	case "attachment_index":
		return parseTableKey(KeyAttachmentIndex, table, rest)
	case "attachments":
		return parseAttachmentKey(key)
	case "publications":
		if name, isLog := strings.CutPrefix(rest, deltaLog); isLog {
			return Key{Kind: KeyDeltaLog, Table: table, Rest: name}, true
		}
		return Key{Kind: KeyPublication, Table: table, Rest: rest}, rest != ""
	case "versions":
		dataset, _, _ := strings.Cut(rest, "/")
		n, document, ok := ParseVersionKey(dataset, key)
		return Key{Kind: KeyDocument, Dataset: dataset, Version: n, Rest: document}, ok && CheckDataset(dataset) == nil
	case "current":
		dataset, isJSON := strings.CutSuffix(rest, ".json")
		return Key{Kind: KeyPointer, Dataset: dataset}, isJSON && CheckDataset(dataset) == nil
	}
	return Key{}, false
}

// parseTableKey takes apart what follows "<table>/". Changes have one log for all datasets, an
// id map has none.
func parseTableKey(kind KeyKind, table, rest string) (Key, bool) {
	if name, isLog := strings.CutPrefix(rest, deltaLog); isLog {
		return Key{Kind: KeyDeltaLog, Table: table, Rest: name}, kind == KeyChanges
	}
	partition, rest, _ := strings.Cut(rest, "/")
	dataset, ok := strings.CutPrefix(partition, partitionDataset)
	if !ok || CheckDataset(dataset) != nil {
		return Key{}, false
	}
	if name, isLog := strings.CutPrefix(rest, deltaLog); isLog {
		return Key{Kind: KeyDeltaLog, Table: table, Dataset: dataset, Rest: name}, kind == KeySnapshot || kind == KeyAttachmentIndex
	}
	partition, rest, _ = strings.Cut(rest, "/")
	digits, ok := strings.CutPrefix(partition, partitionVersion)
	n, isNumber := parsePadded(digits)
	if !ok || !isNumber || rest == "" {
		return Key{}, false
	}
	return Key{Kind: kind, Table: table, Dataset: dataset, Version: n, Rest: rest}, kind != KeyAttachmentIndex || rest == "index.parquet"
}

func parseAttachmentKey(key string) (Key, bool) {
	sum, err := ParseSHA256(key[strings.LastIndexByte(key, '/')+1:])
	if err != nil || AttachmentKey(sum) != key {
		return Key{}, false
	}
	return Key{Kind: KeyAttachment, SHA256: sum}, true
}

// parsePadded reads the ten digits of a version in a key.
func parsePadded(digits string) (Number, bool) {
	value, err := strconv.ParseInt(digits, 10, 64)
	n := Number(value)
	return n, err == nil && CheckNumber(n) == nil && n.Padded() == digits
}

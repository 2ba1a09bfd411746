package invariant

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Kinds of violations by Equal.
const (
	MissingKey    Kind = "missing-key"    // only the other bucket has it
	ExtraKey      Kind = "extra-key"      // the other bucket lacks it
	OtherBytes    Kind = "other-bytes"    // data, or a document that is kept byte for byte
	OtherDocument Kind = "other-document" // another field than those that may differ
)

// Normal is a bucket without what may differ between two runs that had the same work: what lies
// under _mirror, the commits of tables (what a table lists at its end is kept), and in the remaining
// documents of ours the times, run ids, revisions, tags and hashes of records.
type Normal struct {
	objects   map[string]Object
	documents map[string]any
}

// Normalise reads a bucket.
func Normalise(b Bucket) (Normal, error) {
	keys, err := b.List()
	if err != nil {
		return Normal{}, err
	}
	normal := Normal{objects: make(map[string]Object), documents: make(map[string]any)}
	for _, key := range keys {
		where := parseKey(key)
		if strings.HasPrefix(key, "_mirror/") || where.class == classTable || where.class == classCheckpoint {
			continue
		}
		passing := passingFields(where.class)
		if passing == nil {
			if normal.objects[key], err = hashObject(b, key); err != nil {
				return Normal{}, fmt.Errorf("read %s: %w", key, err)
			}
			continue
		}
		data, err := readAll(b, key)
		if err != nil {
			return Normal{}, err
		}
		document, err := decodeAny(data)
		if err != nil {
			return Normal{}, fmt.Errorf("decode %s: %w", key, err)
		}
		for _, field := range passing {
			mask(document, strings.Split(field, "."))
		}
		normal.documents[key] = document
	}
	return normal, normal.addTables(b, keys)
}

// passingFields returns the fields of a document that differ from run to run; nil for a class of
// objects that must be the same to the byte. All others are compared, those too that this package
// does not know.
func passingFields(class class) []string {
	switch class {
	case classRecord:
		return []string{"previousRecord.sha256", "run", "committedAt"}
	case classPointer:
		// The decisions that it obeys are known by their times and runs alone; Unsettled tells whether
		// it obeys those that stand.
		return []string{"revision", "movedAt", "record.sha256", "held.since", "decisions", "left.at", "left.came"}
	case classGone:
		return []string{"revision", "at"}
	case classWithdrawn:
		return []string{"revision", "from", "until"}
	case classPruned:
		return []string{"run", "at"}
	case classStored:
		// How bytes are attested depends on who wrote them: a pass that finds them reads them back.
		return []string{"revision", "at", "objects.etag", "objects.attested"}
	}
	return nil
}

// decodeAny reads one JSON document with its numbers as they are written.
func decodeAny(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("bytes follow the document")
	}
	return document, nil
}

// masked stands for a value that may differ; that there is one is compared.
const masked = "*"

// mask replaces the field at path, in every element of lists on the way.
func mask(value any, path []string) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			mask(element, path)
		}
	case map[string]any:
		inner, ok := value[path[0]]
		switch {
		case !ok || inner == nil:
		case len(path) == 1:
			value[path[0]] = masked
		default:
			mask(inner, path[1:])
		}
	}
}

// Equal compares a bucket with the one that it should equal, in the order of their keys.
func Equal(want, got Normal) []Violation {
	c := &checker{}
	for _, key := range sortedKeys(union(want.keys(), got.keys())) {
		wanted, has := want.at(key)
		found, stands := got.at(key)
		switch {
		case !has:
			c.report(ExtraKey, key, "it should not be there")
		case !stands:
			c.report(MissingKey, key, "it is not there")
		case reflect.DeepEqual(wanted, found):
		default:
			kind := OtherBytes
			if _, document := want.documents[key]; document {
				kind = OtherDocument
			}
			c.report(kind, key, "%s", differs("", wanted, found))
		}
	}
	return c.violations
}

func (n Normal) at(key string) (any, bool) {
	if document, ok := n.documents[key]; ok {
		return document, true
	}
	object, ok := n.objects[key]
	return object, ok
}

func (n Normal) keys() map[string]bool {
	keys := make(map[string]bool, len(n.objects)+len(n.documents))
	for key := range n.objects {
		keys[key] = true
	}
	for key := range n.documents {
		keys[key] = true
	}
	return keys
}

func union(a, b map[string]bool) map[string]bool {
	for key := range b {
		a[key] = true
	}
	return a
}

// differs names the first difference of two values that are not equal.
func differs(path string, want, got any) string {
	wanted, isMap := want.(map[string]any)
	found, same := got.(map[string]any)
	if isMap && same {
		names := make(map[string]bool)
		for name := range wanted {
			names[name] = true
		}
		for name := range found {
			names[name] = true
		}
		for _, name := range sortedKeys(names) {
			if !reflect.DeepEqual(wanted[name], found[name]) {
				return differs(strings.TrimPrefix(path+"."+name, "."), wanted[name], found[name])
			}
		}
		return "a field is null here and absent there"
	}
	wantedList, isList := want.([]any)
	foundList, same := got.([]any)
	if isList && same && len(wantedList) == len(foundList) {
		for at := range wantedList {
			if !reflect.DeepEqual(wantedList[at], foundList[at]) {
				return differs(fmt.Sprintf("%s[%d]", path, at), wantedList[at], foundList[at])
			}
		}
	}
	return fmt.Sprintf("%s is %+v, want %+v", cmp.Or(path, "it"), got, want)
}

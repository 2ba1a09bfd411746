package invariant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// WrongTable is a Delta log that an engine would trip over, or that says what no record says.
const WrongTable Kind = "wrong-table"

// deltaFile is a file that a log lists.
type deltaFile struct {
	Path       string            `json:"path"`
	Partitions map[string]string `json:"partitionValues"`
	Size       int64             `json:"size"`
}

type deltaAction struct {
	Protocol *json.RawMessage `json:"protocol"`
	MetaData *struct {
		ID     string `json:"id"`
		Schema string `json:"schemaString"`
	} `json:"metaData"`
	Add    *deltaFile `json:"add"`
	Remove *deltaFile `json:"remove"`
}

// table is what the commits of a log say, read one by one from the first.
type table struct {
	root  string
	head  int
	id    string
	files map[string]deltaFile // by key
}

// checkTables reads every log from its commits alone and asserts what an engine relies on: commits
// follow each other, the table is described before it lists anything, and each file that the head
// lists is there with its size.
func (c *checker) checkTables() {
	for _, t := range c.tables() {
		for key, f := range t.files {
			object, there := c.objects[key]
			switch {
			case !there:
				c.report(WrongTable, t.root, "it lists %s, which is not there", key)
			case object.Size != f.Size:
				c.report(WrongTable, t.root, "it lists %s with %d bytes, it has %d", key, f.Size, object.Size)
			}
		}
		c.checkListed(t)
	}
}

// checkListed holds what a table lists against the records: a snapshot's table shows one whole
// version, and the table of changes the whole changes of each version that it lists any of.
func (c *checker) checkListed(t table) {
	kind, _, _ := strings.Cut(t.root, "/")
	listed := map[string][]string{} // by record
	for key := range t.files {
		where := c.places[key]
		switch kind {
		case "publications":
			continue
		case "attachment_index":
			if where.class != classIndex {
				c.report(WrongTable, t.root, "it lists %s", key)
				continue
			}
		default:
			if where.class != classPart || !strings.HasPrefix(where.path, kind+"/") {
				c.report(WrongTable, t.root, "it lists %s", key)
				continue
			}
		}
		listed[where.recordKey()] = append(listed[where.recordKey()], key)
	}
	if kind != "changes" && len(listed) > 1 {
		c.report(WrongTable, t.root, "it shows %d versions at once", len(listed))
	}
	for record, keys := range listed {
		v := c.versionOf(c.places[record])
		if _, there := c.objects[record]; !there || v.record == nil {
			c.report(WrongTable, t.root, "it lists files of a version without a record: %s", record)
			continue
		}
		if kind == "attachment_index" {
			continue
		}
		if want := len(v.filesOf(kind)); want != len(keys) {
			c.report(WrongTable, t.root, "it lists %d files of %s, which has %d", len(keys), record, want)
		}
	}
}

func (v *version) filesOf(kind string) []string {
	var keys []string
	for _, file := range v.record.Files {
		if file.Kind == kind {
			keys = append(keys, file.Key)
		}
	}
	slices.Sort(keys)
	return keys
}

// tables reads every log of the bucket.
func (c *checker) tables() []table {
	commits := map[string][]string{}
	for _, key := range c.keys() {
		root, name, ok := strings.Cut(key, "_delta_log/")
		if ok && c.places[key].class == classTable && strings.HasSuffix(name, ".json") {
			commits[root] = append(commits[root], key)
		}
	}
	var list []table
	for root, keys := range commits {
		t := table{root: root, head: len(keys) - 1, files: map[string]deltaFile{}}
		for n, key := range keys { // in order of their names
			if want := fmt.Sprintf("%s_delta_log/%020d.json", root, n); key != want {
				c.report(WrongTable, key, "it follows commit %d", n-1)
				break
			}
			c.document(key, func(data []byte) error { return t.apply(n, data) })
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b table) int { return strings.Compare(a.root, b.root) })
	return list
}

func (t *table) apply(n int, data []byte) error {
	described := n > 0
	for line := range bytes.Lines(data) {
		var a deltaAction
		if err := decode(line, &a); err != nil {
			return err
		}
		switch {
		case a.MetaData != nil:
			described = true
			if t.id != "" && a.MetaData.ID != t.id {
				return fmt.Errorf("the table's id changes from %s to %s", t.id, a.MetaData.ID)
			}
			if t.id = a.MetaData.ID; t.id == "" || !json.Valid([]byte(a.MetaData.Schema)) {
				return fmt.Errorf("the table has id %q, and schema %q", t.id, a.MetaData.Schema)
			}
		case a.Add != nil, a.Remove != nil:
			if !described {
				return fmt.Errorf("it lists files before it describes the table")
			}
			if err := t.list(a); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *table) list(a deltaAction) error {
	file := a.Add
	if a.Remove != nil {
		file = a.Remove
	}
	path, err := url.PathUnescape(file.Path)
	if err != nil {
		return fmt.Errorf("path %q: %w", file.Path, err)
	}
	key := t.root + path
	if a.Remove == nil {
		t.files[key] = *file
		return nil
	}
	if _, listed := t.files[key]; !listed {
		return fmt.Errorf("it removes %s, which is not listed", key)
	}
	delete(t.files, key)
	return nil
}

// Lagging returns what the tables do not show yet: an interrupted pass leaves that behind, a finished
// one nothing. Datasets named in unmapped have no table of their own.
func Lagging(b Bucket, unmapped ...string) []string {
	c := readBucket(b, func(Bucket, string) (Object, error) { return Object{}, nil }) // no bytes are judged here
	byRoot := map[string]table{}
	for _, t := range c.tables() {
		byRoot[t.root] = t
	}
	var late []string
	for _, key := range c.keys() {
		where := c.places[key]
		if where.class != classPointer || slices.Contains(unmapped, where.dataset) {
			continue
		}
		var p pointer
		c.document(key, func(data []byte) error { return decode(data, &p) })
		v := c.versionOf(c.places[p.Record.Key])
		if v.record == nil {
			continue // reported by Check
		}
		late = append(late, lateOne(byRoot, p, v)...)
		late = append(late, c.lateChanges(byRoot[changesRoot], p)...)
	}
	return late
}

const changesRoot = "changes/"

func lateOne(byRoot map[string]table, p pointer, v *version) []string {
	var late []string
	root := "snapshot/ploti_dataset_id=" + p.Dataset + "/"
	if !slices.Equal(byRoot[root].keys(), v.filesOf("snapshot")) {
		late = append(late, fmt.Sprintf("%s does not show version %d", root, p.Version))
	}
	root = "attachment_index/ploti_dataset_id=" + p.Dataset + "/"
	var index []string
	if v.record.Attachments.Index != nil {
		index = []string{v.record.Attachments.Index.Key}
	}
	if !slices.Equal(byRoot[root].keys(), index) {
		late = append(late, fmt.Sprintf("%s does not show version %d", root, p.Version))
	}
	return late
}

// lateChanges wants the changes of every record up to the published version.
func (c *checker) lateChanges(changes table, p pointer) []string {
	var late []string
	for _, v := range c.recordedVersions(p.Dataset) {
		if v.record.Version > p.Version || v.pruned {
			continue
		}
		for _, key := range v.filesOf("changes") {
			f, listed := changes.files[key]
			if !listed || f.Partitions["ploti_version"] != strconv.FormatInt(v.record.Version, 10) || f.Partitions["ploti_dataset_id"] != p.Dataset {
				late = append(late, fmt.Sprintf("%s does not list %s", changesRoot, key))
			}
		}
	}
	return late
}

func (t table) keys() []string {
	var keys []string
	for key := range t.files {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

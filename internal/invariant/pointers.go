package invariant

import (
	"fmt"
	"slices"
	"strings"
)

// checkPointers asserts I3: a pointer names a version that has a record, and says of it what the
// record says.
func (c *checker) checkPointers() {
	for _, key := range c.keys() {
		if c.places[key].class != classPointer {
			continue
		}
		c.document(key, func(data []byte) error {
			var p pointer
			if err := decode(data, &p); err != nil {
				return err
			}
			if p.Dataset != c.places[key].dataset || p.Revision < 1 {
				return fmt.Errorf("it is about dataset %q, revision %d", p.Dataset, p.Revision)
			}
			c.checkPointer(key, &p)
			return nil
		})
	}
}

func (c *checker) checkPointer(key string, p *pointer) {
	if want := recordKey(p.Dataset, p.Version); p.Record.Key != want {
		c.report(WrongPointer, key, "it names record %q for version %d", p.Record.Key, p.Version)
		return
	}
	if object, ok := c.objects[p.Record.Key]; !ok || object.SHA256 != p.Record.SHA256 {
		c.report(WrongPointer, key, "%s is not there with sha256 %s", p.Record.Key, p.Record.SHA256)
		return
	}
	v := c.versionOf(c.places[p.Record.Key])
	if v.record == nil {
		c.report(WrongPointer, key, "%s cannot be read", p.Record.Key)
		return
	}
	if v.pruned {
		c.report(WrongPointer, key, "version %d was pruned", p.Version)
	}
	if p.Manifest != v.record.Manifest || p.SchemaVersion != v.record.SchemaVersion {
		c.report(WrongPointer, key, "its manifest or schema version is not the record's")
	}
	c.checkPointedFiles(key, p, v.record)
	if p.Pinned && !c.rolledBack(p) {
		c.report(WrongPointer, key, "it is pinned to version %d, and no decision says so", p.Version)
	}
}

// checkPointedFiles asserts that the keys that readers take from a pointer are the record's, and
// are there.
func (c *checker) checkPointedFiles(key string, p *pointer, r *record) {
	var snapshot []string
	schema := ""
	for _, file := range r.Files {
		switch file.Kind {
		case "snapshot":
			snapshot = append(snapshot, file.Key)
		case "schema":
			schema = file.Key
		}
	}
	named := slices.Sorted(slices.Values(p.Snapshot))
	slices.Sort(snapshot)
	if !slices.Equal(named, snapshot) {
		c.report(WrongPointer, key, "it names %d snapshot files, which are not the %d of the record", len(named), len(snapshot))
	}
	pointed := ""
	if p.Schema != nil {
		pointed = p.Schema.Key
	}
	if pointed != schema {
		c.report(WrongPointer, key, "its schema is %q, the record's is %q", pointed, schema)
	}
	for _, file := range append(named, pointed, p.Manifest.Key) {
		if _, ok := c.objects[file]; !ok && file != "" {
			c.report(WrongPointer, key, "%s is not there", file)
		}
	}
}

// rolledBack reports whether a decision sends the dataset to the version that its pointer names.
func (c *checker) rolledBack(p *pointer) bool {
	for key := range c.objects {
		if !strings.HasPrefix(key, "_mirror/decisions/"+p.Dataset+"/") {
			continue
		}
		data, err := readAll(c.bucket, key)
		if err == nil && isRollback(data, p.Version) {
			return true
		}
	}
	return false
}

func isRollback(data []byte, to int64) bool {
	var d decision
	return decode(data, &d) == nil && d.Action == "rollback" && d.Version == to
}

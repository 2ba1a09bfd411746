package invariant

import (
	"fmt"
	"sort"
)

// Kind names the promise that is broken.
type Kind string

// The kinds of violations.
const (
	Unreadable       Kind = "unreadable"        // a key that cannot be listed or read
	StrayKey         Kind = "stray-key"         // the layout has no place for it
	HiddenKey        Kind = "hidden-key"        // readers need it, and its name begins with _ or .
	AttrsFile        Kind = "attrs-file"        // a side file of a library
	BadDocument      Kind = "bad-document"      // it does not parse, or is about something else
	LostRecord       Kind = "lost-record"       // withdrawn.json or pruned.json beside no record
	UnclaimedData    Kind = "unclaimed-data"    // no manifest names it
	WrongData        Kind = "wrong-data"        // I1: other bytes than the manifest names
	WrongAttachment  Kind = "wrong-attachment"  // I1: other bytes than its key says
	MissingObject    Kind = "missing-object"    // I2: a record names it
	WrongObject      Kind = "wrong-object"      // I2: other size or hash than the record names
	RecordIncomplete Kind = "record-incomplete" // I2: the record and its manifest disagree
	WrongSums        Kind = "wrong-sums"        // SHA256SUMS does not cover the version
	WrongIndex       Kind = "wrong-index"       // the attachment index and the manifest disagree
	BrokenChain      Kind = "broken-chain"      // previousRecord does not resolve
	WrongPointer     Kind = "wrong-pointer"     // I3
	Overwritten      Kind = "overwritten"       // I4, by Compare
	Deleted          Kind = "deleted"           // I4, by Compare
	PointerBack      Kind = "pointer-back"      // I3 and I4, by Compare
)

// Violation is one broken promise.
type Violation struct {
	Kind   Kind
	Key    string
	Detail string
}

// String returns "kind key: detail".
func (v Violation) String() string { return fmt.Sprintf("%s %s: %s", v.Kind, v.Key, v.Detail) }

// Check reads a whole bucket and returns the violations it finds, in the order of their keys.
func Check(b Bucket) []Violation {
	c := newChecker(b)
	c.checkKeys()
	c.checkVersions()
	c.checkChains()
	c.checkPointers()
	c.checkTables()
	sort.SliceStable(c.violations, func(i, j int) bool { return c.violations[i].Key < c.violations[j].Key })
	return c.violations
}

// Unlinked returns the keys of records that no later record and no pointer names: a rival's, or
// those of a history that was filled in later. They are no violation. A dataset's newest record
// is never among them.
func Unlinked(b Bucket) []string {
	c := newChecker(b)
	linked := make(map[string]bool)
	for _, dataset := range c.datasets() {
		versions := c.recordedVersions(dataset)
		for _, v := range versions {
			if previous := v.record.PreviousRecord; previous != nil {
				linked[recordKey(dataset, previous.Version)] = true
			}
		}
		if len(versions) > 0 {
			linked[versions[len(versions)-1].where.recordKey()] = true
		}
	}
	var unlinked []string
	for _, dataset := range c.datasets() {
		for _, v := range c.recordedVersions(dataset) {
			if key := v.where.recordKey(); !linked[key] {
				unlinked = append(unlinked, key)
			}
		}
	}
	return unlinked
}

// version is what stands in the folder of one version.
type version struct {
	where     place
	manifest  *claims // nil: none that can be read
	record    *record // nil: none that can be read
	hasRecord bool
	pruned    bool
}

type checker struct {
	bucket     Bucket
	places     map[string]place
	objects    map[string]Object
	versions   map[string]*version // by versions/<dataset>/<version>/
	violations []Violation
}

// newChecker takes the inventory: it hashes every object and reads every version's documents.
func newChecker(b Bucket) *checker { return readBucket(b, hashObject) }

// readBucket gathers what a bucket says; object reads what is asked of each object.
func readBucket(b Bucket, object func(b Bucket, key string) (Object, error)) *checker {
	c := &checker{bucket: b, places: make(map[string]place), objects: make(map[string]Object), versions: make(map[string]*version)}
	keys, err := b.List()
	if err != nil {
		c.report(Unreadable, "", "%v", err)
	}
	for _, key := range keys {
		where := parseKey(key)
		if where.class == classStaging {
			continue // of a local store; a crash may leave any of them
		}
		read, err := object(b, key)
		if err != nil {
			c.report(Unreadable, key, "%v", err)
			continue
		}
		c.places[key], c.objects[key] = where, read
	}
	for _, key := range c.keys() {
		c.gather(key, c.places[key])
	}
	return c
}

// gather reads what Check needs of a version before it can judge any of its files.
func (c *checker) gather(key string, where place) {
	if where.version == "" {
		return
	}
	v := c.versionOf(where)
	switch {
	case where.class == classPruned:
		v.pruned = true
	case where.class == classManifest && key == versionPrefix(where)+"manifest.json":
		c.document(key, func(data []byte) error {
			claims, err := readManifest(where, data)
			if err == nil {
				v.manifest = &claims
			}
			return err
		})
	case where.class == classRecord:
		v.hasRecord = true
		c.document(key, func(data []byte) error {
			found := new(record)
			if err := decode(data, found); err != nil {
				return err
			}
			if found.Layout != 1 || found.Dataset != where.dataset || fmt.Sprintf("%010d", found.Version) != where.version {
				return fmt.Errorf("it says layout %d, dataset %q, version %d", found.Layout, found.Dataset, found.Version)
			}
			v.record = found
			return nil
		})
	}
}

func (c *checker) versionOf(where place) *version {
	prefix := versionPrefix(where)
	if c.versions[prefix] == nil {
		c.versions[prefix] = &version{where: place{dataset: where.dataset, version: where.version}}
	}
	return c.versions[prefix]
}

// document reads a key and reports what parse finds wrong with it.
func (c *checker) document(key string, parse func([]byte) error) {
	data, err := readAll(c.bucket, key)
	if err != nil {
		c.report(Unreadable, key, "%v", err)
		return
	}
	if err := parse(data); err != nil {
		c.report(BadDocument, key, "%v", err)
	}
}

func (c *checker) report(kind Kind, key, format string, args ...any) {
	c.violations = append(c.violations, Violation{Kind: kind, Key: key, Detail: fmt.Sprintf(format, args...)})
}

func (c *checker) keys() []string { return Snapshot{Objects: c.objects}.keys() }

// datasets returns the datasets that have a version, in order.
func (c *checker) datasets() []string {
	seen := make(map[string]bool)
	var list []string
	for _, v := range c.versions {
		if !seen[v.where.dataset] {
			seen[v.where.dataset] = true
			list = append(list, v.where.dataset)
		}
	}
	sort.Strings(list)
	return list
}

// recordedVersions returns the versions of a dataset with a readable record, lowest first.
func (c *checker) recordedVersions(dataset string) []*version {
	var list []*version
	for _, v := range c.versions {
		if v.where.dataset == dataset && v.record != nil {
			list = append(list, v)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].where.version < list[j].where.version })
	return list
}

func recordKey(dataset string, number int64) string {
	return fmt.Sprintf("versions/%s/%010d/record.json", dataset, number)
}

func (p place) recordKey() string { return versionPrefix(p) + "record.json" }

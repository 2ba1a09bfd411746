package invariant

import (
	"fmt"
	"sort"
	"strings"
)

// checkVersions asserts I2: what a record names is there, or pruned.json says why it is not, and
// the record leaves out nothing of its manifest.
func (c *checker) checkVersions() {
	for _, dataset := range c.datasets() {
		for _, v := range c.recordedVersions(dataset) {
			c.checkRecord(v)
		}
	}
}

func (c *checker) checkRecord(v *version) {
	key, r := v.where.recordKey(), v.record
	if r.Manifest.Key != versionPrefix(v.where)+"manifest.json" {
		c.report(RecordIncomplete, key, "its manifest's key is %q", r.Manifest.Key)
	}
	c.checkObject(v, r.Manifest.Key, r.ManifestSize, r.Manifest.SHA256)
	if r.Sums.Key != versionPrefix(v.where)+"SHA256SUMS" {
		c.report(RecordIncomplete, key, "the key of its sums is %q", r.Sums.Key)
	}
	if c.checkObject(v, r.Sums.Key, -1, r.Sums.SHA256) {
		c.checkSums(v)
	}
	for _, file := range r.Files {
		c.checkObject(v, file.Key, file.Size, file.SHA256)
	}
	if v.manifest != nil {
		c.checkAgainstManifest(v)
	}
	c.checkRecordedAttachments(v)
}

// checkObject asserts that an object that a record names is there, with size (-1: any) and hash.
func (c *checker) checkObject(v *version, key string, size int64, sum string) bool {
	object, ok := c.objects[key]
	switch {
	case !ok && v.pruned:
		return false
	case !ok:
		c.report(MissingObject, key, "%s names it", v.where.recordKey())
		return false
	case size >= 0 && object.Size != size || object.SHA256 != sum:
		c.report(WrongObject, key, "it has %d bytes and sha256 %s, %s names %d and %s", object.Size, object.SHA256, v.where.recordKey(), size, sum)
		return false
	}
	return true
}

// checkAgainstManifest asserts that record and manifest name the same files. Changes that the
// feed had lost already may be missing from a record that says so.
func (c *checker) checkAgainstManifest(v *version) {
	key := v.where.recordKey()
	recorded := make(map[string]bool)
	for _, file := range v.record.Files {
		if recorded[file.Key] {
			c.report(RecordIncomplete, key, "%s stands twice", file.Key)
		}
		recorded[file.Key] = true
		want, ok := v.manifest.files[file.Key]
		switch {
		case !ok || fileKey(v.where, file.Path) != file.Key:
			c.report(RecordIncomplete, key, "%s with path %q is no file of the manifest", file.Key, file.Path)
		case want.size != file.Size || want.sha256 != file.SHA256:
			c.report(RecordIncomplete, key, "%s has another size or sha256 in the manifest", file.Key)
		case file.Kind != kindOf(file.Key):
			c.report(RecordIncomplete, key, "%s is called %q", file.Key, file.Kind)
		}
	}
	changes := false
	for file := range v.manifest.files {
		isChanges := strings.HasPrefix(file, "changes/")
		changes = changes || isChanges && recorded[file]
		if !recorded[file] && (!isChanges || v.record.Changes != "expired") {
			c.report(RecordIncomplete, key, "it leaves out %s, which the manifest names", file)
		}
	}
	if want := v.record.Changes == "present"; want != changes {
		c.report(RecordIncomplete, key, "changes are %q, and changes files named: %t", v.record.Changes, changes)
	}
}

func kindOf(key string) string {
	switch first, rest, _ := strings.Cut(key, "/"); {
	case first != "versions":
		return first
	case strings.Count(rest, "/") == 2 && strings.HasSuffix(key, "/schema.json"):
		return "schema"
	default:
		return "extra"
	}
}

// checkRecordedAttachments asserts the counts, the index and that every attachment is there.
func (c *checker) checkRecordedAttachments(v *version) {
	key, sums := v.where.recordKey(), v.record.Attachments
	if v.manifest != nil {
		sizes := make(map[string]int64)
		for _, attachment := range v.manifest.attachments {
			sizes[attachment.sha256] = attachment.size
		}
		total := int64(0)
		for sum, size := range sizes {
			total += size
			c.checkObject(v, attachmentKey(sum), size, sum)
		}
		count, objects := int64(len(v.manifest.attachments)), int64(len(sizes))
		if sums.Count != count || sums.Objects != objects || sums.Bytes != total {
			c.report(RecordIncomplete, key, "it counts %d attachments in %d objects of %d bytes, the manifest %d in %d of %d",
				sums.Count, sums.Objects, sums.Bytes, count, objects, total)
		}
	}
	if (sums.Index != nil) != (sums.Count > 0) {
		c.report(RecordIncomplete, key, "%d attachments, and an index: %t", sums.Count, sums.Index != nil)
	}
	if sums.Index == nil {
		return
	}
	want := fmt.Sprintf("attachment_index/ploti_dataset_id=%s/ploti_version=%s/index.parquet", v.where.dataset, v.where.version)
	if sums.Index.Key != want {
		c.report(RecordIncomplete, key, "the key of its index is %q", sums.Index.Key)
	}
	c.checkObject(v, sums.Index.Key, -1, sums.Index.SHA256)
}

// checkSums asserts that SHA256SUMS has one line for each file of the version but itself, the
// record, stored.json and the attachments, and that sha256sum would agree.
func (c *checker) checkSums(v *version) {
	key := v.record.Sums.Key
	data, err := readAll(c.bucket, key)
	if err != nil {
		c.report(Unreadable, key, "%v", err)
		return
	}
	want := map[string]string{v.record.Manifest.Key: v.record.Manifest.SHA256}
	for _, file := range v.record.Files {
		want[file.Key] = file.SHA256
	}
	if index := v.record.Attachments.Index; index != nil {
		want[index.Key] = index.SHA256
	}
	text, complete := strings.CutSuffix(string(data), "\n")
	if !complete {
		c.report(WrongSums, key, "its last line does not end")
	}
	for line := range strings.SplitSeq(text, "\n") {
		sum, name, ok := strings.Cut(line, "  ")
		if !ok || want[name] != sum {
			c.report(WrongSums, key, "line %q is not one of this version's", line)
		}
		delete(want, name)
	}
	for _, name := range sortedKeys(want) {
		c.report(WrongSums, key, "no line for %s", name)
	}
}

// checkChains asserts that each previousRecord names a lower record by the hash of its bytes, and
// that a record whose feed predecessor is another one says why.
func (c *checker) checkChains() {
	for _, dataset := range c.datasets() {
		for _, v := range c.recordedVersions(dataset) {
			c.checkLink(v)
		}
	}
}

func (c *checker) checkLink(v *version) {
	key, r := v.where.recordKey(), v.record
	linked := int64(0)
	if previous := r.PreviousRecord; previous != nil {
		linked = previous.Version
		object, ok := c.objects[recordKey(v.where.dataset, previous.Version)]
		switch {
		case previous.Version >= r.Version:
			c.report(BrokenChain, key, "previousRecord names version %d, which is not lower", previous.Version)
		case !ok:
			c.report(BrokenChain, key, "previousRecord names version %d, which has no record", previous.Version)
		case object.SHA256 != previous.SHA256:
			c.report(BrokenChain, key, "previousRecord names version %d with another hash than its record's", previous.Version)
		}
	}
	expected := int64(0)
	if r.PreviousVersion != nil {
		expected = *r.PreviousVersion
	}
	if expected != linked && (r.Gap == nil || r.Gap.Expected != expected || r.Gap.Reason == "") {
		c.report(BrokenChain, key, "it follows version %d, the feed says %d, and no gap says why", linked, expected)
	}
}

func sortedKeys[T any](set map[string]T) []string {
	keys := make([]string, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

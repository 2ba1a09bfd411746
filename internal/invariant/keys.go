package invariant

import (
	"fmt"
	"strings"
)

// checkKeys asserts what each key shows by itself: that the layout knows it, that data is what a
// manifest names (I1), and that documents parse.
func (c *checker) checkKeys() {
	attachments := c.claimedAttachments()
	for _, key := range c.keys() {
		where := c.places[key]
		switch where.class {
		case classStray:
			c.report(StrayKey, key, "the layout does not know this key")
		case classHidden:
			c.report(HiddenKey, key, "readers skip, or trip over, names that begin with _ or .")
		case classAttrs:
			c.report(AttrsFile, key, "side files have no place in the bucket")
		case classPart, classVersionFile:
			c.checkData(key, where)
		case classIndex:
			c.checkIndexClaim(key, where)
		case classAttachment:
			c.checkAttachment(key, attachments)
		case classDecision:
			c.document(key, func(data []byte) error { return checkDecision(where, data) })
		case classGone, classWithdrawn, classPruned, classStored, classLayout, classShard, classLease:
			c.document(key, func(data []byte) error { return checkNote(where, data) })
			if (where.class == classWithdrawn || where.class == classPruned) && !c.versionOf(where).hasRecord {
				c.report(LostRecord, key, "no record stands beside it")
			}
		}
	}
}

func checkDecision(where place, data []byte) error {
	var d decision
	if err := decode(data, &d); err != nil {
		return err
	}
	if d.Dataset != where.dataset || d.Action == "" || d.At.IsZero() {
		return fmt.Errorf("dataset %q, action %q, at %s", d.Dataset, d.Action, d.At)
	}
	if d.Action == "rollback" && d.Version < 1 {
		return fmt.Errorf("a rollback without a version")
	}
	return nil
}

// checkData asserts that a data key holds what the manifest of its version names.
func (c *checker) checkData(key string, where place) {
	v := c.versionOf(where)
	if v.manifest == nil {
		c.report(UnclaimedData, key, "its version has no readable manifest")
		return
	}
	want, ok := v.manifest.files[key]
	if !ok {
		c.report(UnclaimedData, key, "the manifest of its version does not name it")
		return
	}
	if got := c.objects[key]; got.Size != want.size || got.SHA256 != want.sha256 {
		c.report(WrongData, key, "it has %d bytes and sha256 %s, the manifest names %d and %s", got.Size, got.SHA256, want.size, want.sha256)
	}
}

// claimedAttachments returns the keys of all attachments that some manifest names, with the size
// it gives them.
func (c *checker) claimedAttachments() map[string]int64 {
	claimed := make(map[string]int64)
	for _, v := range c.versions {
		if v.manifest == nil {
			continue
		}
		for _, attachment := range v.manifest.attachments {
			claimed[attachmentKey(attachment.sha256)] = attachment.size
		}
	}
	return claimed
}

func (c *checker) checkAttachment(key string, claimed map[string]int64) {
	object := c.objects[key]
	if !strings.HasSuffix(key, "/"+object.SHA256) {
		c.report(WrongAttachment, key, "its bytes hash to %s", object.SHA256)
		return
	}
	switch size, ok := claimed[key]; {
	case !ok:
		c.report(UnclaimedData, key, "no manifest names it")
	case size != object.Size:
		c.report(WrongData, key, "it has %d bytes, a manifest names %d", object.Size, size)
	}
}

// checkIndexClaim asserts that an index has the rows that its version's manifest calls for.
func (c *checker) checkIndexClaim(key string, where place) {
	v := c.versionOf(where)
	if v.manifest == nil {
		c.report(UnclaimedData, key, "its version has no readable manifest")
		return
	}
	rows, err := c.readIndex(key)
	if err != nil {
		c.report(WrongIndex, key, "%v", err)
		return
	}
	if len(rows) != len(v.manifest.attachments) {
		c.report(WrongIndex, key, "%d rows for %d attachments of the manifest", len(rows), len(v.manifest.attachments))
	}
	seen := make(map[string]bool)
	for _, row := range rows {
		if problem := row.problem(v.manifest.attachments); problem != "" {
			c.report(WrongIndex, key, "row %q: %s", row.File, problem)
		}
		if seen[row.File] {
			c.report(WrongIndex, key, "row %q stands twice", row.File)
		}
		seen[row.File] = true
	}
}

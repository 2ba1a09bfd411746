package invariant

import (
	"strings"
)

// Compare asserts I4 and the moving half of I3 between two states of a bucket: nothing immutable
// was overwritten or deleted, and pointers moved up or by a decision that is new. Files of a
// version that has a pruned.json now, and attachments when there is any new pruned.json or a prune
// was under way, may be gone; whoever tests a pass that must not prune asserts that no such document appeared.
func Compare(old, now Snapshot) []Violation {
	c := &checker{}
	pruned := map[string]bool{"any": isPruning(old.documents[pruneKey])}
	for key := range now.Objects {
		if where := parseKey(key); where.class == classPruned {
			_, before := old.Objects[key]
			pruned[versionPrefix(where)] = true
			pruned["any"] = pruned["any"] || !before
		}
	}
	for _, key := range old.keys() {
		where := parseKey(key)
		before := old.Objects[key]
		after, there := now.Objects[key]
		switch {
		case !there && mayBePruned(where, pruned):
		case !there && !mayGo(where):
			c.report(Deleted, key, "it was there with sha256 %s", before.SHA256)
		case there && before != after && !mayChange(where):
			c.report(Overwritten, key, "sha256 %s became %s", before.SHA256, after.SHA256)
		case there && before != after && where.class == classPointer:
			c.comparePointer(key, where.dataset, old, now)
		}
	}
	return c.violations
}

// isPruning reports whether prune.json says that attachments are being deleted.
func isPruning(data []byte) bool {
	state, err := pruneState(data)
	return err == nil && state == "deleting"
}

// mayChange reports whether I4 lets an object be overwritten.
func mayChange(where place) bool {
	switch where.class {
	case classPointer, classLease, classShard, classStored, classWithdrawn, classLedger, classLayout, classOwn, classCheckpoint:
		return true
	}
	return false
}

// mayGo reports whether an object may be deleted although nothing was pruned: what doctor leaves
// and what is trimmed.
func mayGo(where place) bool { return where.class == classOwn || where.class == classReport }

func mayBePruned(where place, pruned map[string]bool) bool {
	switch where.class {
	case classPart, classIndex, classVersionFile, classSums: // the sums name what is gone
		return pruned[versionPrefix(where)]
	case classAttachment:
		return pruned["any"]
	}
	return false
}

func (c *checker) comparePointer(key, dataset string, old, now Snapshot) {
	var before, after pointer
	if decode(old.documents[key], &before) != nil || decode(now.documents[key], &after) != nil {
		c.report(BadDocument, key, "it does not parse")
		return
	}
	if after.Revision <= before.Revision {
		c.report(PointerBack, key, "revision %d became %d", before.Revision, after.Revision)
	}
	if after.Version >= before.Version {
		return
	}
	for decision, data := range now.documents {
		_, known := old.documents[decision]
		if !known && strings.HasPrefix(decision, "_mirror/decisions/"+dataset+"/") && isRollback(data, after.Version) {
			return
		}
	}
	c.report(PointerBack, key, "version %d became %d without a new decision", before.Version, after.Version)
}

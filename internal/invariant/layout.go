package invariant

import (
	"regexp"
	"strings"
)

// class says what the layout holds under a key.
type class int

const (
	classStray  class = iota // the layout does not know it
	classHidden              // beside table files, under a name that readers skip or trip over
	classAttrs               // a side file of a library
	classPart                // of snapshot, changes or id_map
	classIndex
	classAttachment
	classManifest // of a version; also a later one under the same number
	classVersionFile
	classSums
	classRecord
	classStored
	classGone
	classWithdrawn
	classPruned
	classTable // a log of a table, or a file of the publications table
	classCheckpoint
	classPointer
	classLayout
	classShard
	classLease
	classDecision
	classReport // runs, audits
	classLedger
	classOwn // directly in _mirror, and doctor's own
	classStaging
)

// place is a key, taken apart.
type place struct {
	class   class
	dataset string
	version string // ten digits
	path    string // of a part or a version's file, as keys spell it: "snapshot/part-0000.parquet"
}

const (
	dsPattern      = `([A-Za-z0-9][A-Za-z0-9._-]{0,127})`
	versionPattern = `(\d{10})`
	restPattern    = `(.+)`
)

type rule struct {
	pattern *regexp.Regexp
	class   class
}

// rules returns the layout, in the order in which a key is held against it. The groups of a
// pattern are dataset, version and path, as far as it has them.
func rules() []rule {
	var list []rule
	add := func(class class, pattern string) {
		pattern = strings.NewReplacer("<ds>", dsPattern, "<v>", versionPattern, "<rest>", restPattern).Replace(pattern)
		list = append(list, rule{regexp.MustCompile(`^` + pattern + `$`), class})
	}
	log := `_delta_log/\d{20}(?:\.json|\.checkpoint\.parquet)`
	last := `_delta_log/_last_checkpoint`
	for _, table := range []string{`changes/`, `publications/`, `snapshot/ploti_dataset_id=<ds>/`, `attachment_index/ploti_dataset_id=<ds>/`} {
		add(classTable, table+log)
		add(classCheckpoint, table+last)
	}
	add(classTable, `publications/\d{4}-\d{2}-\d{2}/[^/]+\.parquet`)
	add(classIndex, `attachment_index/ploti_dataset_id=<ds>/ploti_version=<v>/index\.parquet`)
	for _, table := range []string{"snapshot", "changes", "id_map"} {
		add(classPart, table+`/ploti_dataset_id=<ds>/ploti_version=<v>/<rest>`)
	}
	add(classAttachment, `attachments/sha256/[0-9a-f]{2}/[0-9a-f]{64}`)
	add(classManifest, `versions/<ds>/<v>/manifest(?:\.[0-9a-f]{8})?\.json`)
	add(classVersionFile, `versions/<ds>/<v>/(schema\.json|files/.+)`)
	add(classSums, `versions/<ds>/<v>/SHA256SUMS`)
	add(classRecord, `versions/<ds>/<v>/record\.json`)
	add(classStored, `versions/<ds>/<v>/stored\.json`)
	add(classGone, `versions/<ds>/<v>/gone\.json`)
	add(classWithdrawn, `versions/<ds>/<v>/withdrawn\.json`)
	add(classPruned, `versions/<ds>/<v>/pruned\.json`)
	add(classPointer, `current/<ds>\.json`)
	add(classLayout, `_mirror/layout\.json`)
	add(classShard, `_mirror/shards/\d+-of-\d+-[^/]+\.json`)
	add(classLease, `_mirror/leases/<ds>\.json`)
	add(classDecision, `_mirror/decisions/<ds>/[^/]+\.json`)
	add(classDecision, `_mirror/decisions/(_bucket)/[^/]+\.json`) // about what belongs to no dataset
	add(classLedger, `_mirror/audits/ledger/.+`)
	add(classReport, `_mirror/(?:runs|audits)/.+`)
	add(classStaging, `_mirror/(?:tmp|locks)/.+`)
	add(classOwn, `_mirror/(?:doctor/.+|prune\.json|status\.html)`)
	return list
}

var layout = rules()

// parseKey takes a key apart.
func parseKey(key string) place {
	if strings.HasSuffix(key, ".attrs") {
		return place{class: classAttrs}
	}
	for _, rule := range layout {
		groups := rule.pattern.FindStringSubmatch(key)
		if groups == nil {
			continue
		}
		found := place{class: rule.class}
		for i, field := range []*string{&found.dataset, &found.version, &found.path} {
			if i+1 < len(groups) {
				*field = groups[i+1]
			}
		}
		return refine(key, found)
	}
	if underTable(key) && hasHiddenSegment(key) {
		return place{class: classHidden}
	}
	return place{class: classStray}
}

// refine holds a key to what its pattern cannot say.
func refine(key string, found place) place {
	switch {
	case strings.Contains(found.dataset, ".."):
		return place{class: classStray}
	case found.class == classAttachment && key[len("attachments/sha256/"):][:2] != key[len("attachments/sha256/xx/"):][:2]:
		return place{class: classStray}
	case found.class == classPart || found.class == classVersionFile:
		if hasHiddenSegment(key) {
			return place{class: classHidden}
		}
	}
	if found.class == classPart {
		table, _, _ := strings.Cut(key, "/")
		found.path = table + "/" + found.path
	}
	return found
}

func underTable(key string) bool {
	table, _, _ := strings.Cut(key, "/")
	switch table {
	case "snapshot", "changes", "id_map", "attachments", "attachment_index", "publications", "versions", "current":
		return true
	}
	return false
}

func hasHiddenSegment(key string) bool {
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment[0] == '_' || segment[0] == '.' {
			return true
		}
	}
	return false
}

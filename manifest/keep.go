package manifest

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// KeepRules say which versions a prune keeps beside those that somebody needs. A version is kept
// when any one rule keeps it; a rule that is zero keeps nothing.
type KeepRules struct {
	Versions int           `json:"keepVersions"` // so many, the published one and those before it
	Days     int           `json:"keepDays"`     // what readers could still meet in the last so many days
	Majors   int           `json:"keepMajors"`   // the newest version of each of so many MAJOR schemas, newest first
	Grace    time.Duration `json:"graceNanoseconds"`
}

// Validate refuses rules that would keep nothing but what is needed: that is more likely a
// forgotten flag than a wish.
func (r KeepRules) Validate() error {
	switch {
	case min(r.Versions, r.Days, r.Majors) < 0 || r.Grace < 0:
		return errors.New("a rule is negative")
	case r.Versions == 0 && r.Days == 0 && r.Majors == 0:
		return errors.New("no rule says what to keep")
	}
	return nil
}

// Aged is a committed version as the rules of pruning see it.
type Aged struct {
	Version     Number
	Schema      SchemaVersion
	CommittedAt time.Time
	LeftAt      time.Time // when the pointer last left it; zero when that is not known
	Withdrawn   bool
	Pruned      bool
	Decided     bool // a decision that is not carried out yet leads to it
}

// Verdict says what becomes of a version, and why.
type Verdict struct {
	Version Number `json:"version"`
	Prune   bool   `json:"prune"`
	Why     string `json:"why"`
}

// JudgeVersions decides which of a dataset's committed versions, given in version order, may go.
// Versions that are pruned already get no verdict. While nothing is published nothing goes, and
// neither does what stands at or above the published version: a hold, an approval or a reader who
// catches up needs each of them.
func JudgeVersions(published Number, versions []Aged, rules KeepRules, now time.Time) []Verdict {
	j := judge{published: published, versions: versions, rules: rules, now: now}
	j.count()
	list := make([]Verdict, 0, len(versions))
	for at, v := range versions {
		if v.Pruned {
			continue
		}
		verdict := Verdict{Version: v.Version, Why: j.keeps(at)}
		if verdict.Why == "" {
			verdict.Prune = true
			verdict.Why = "superseded " + j.superseded(at).UTC().Format(time.RFC3339) + ", and no rule keeps it"
		}
		list = append(list, verdict)
	}
	return list
}

type judge struct {
	published Number
	versions  []Aged
	rules     KeepRules
	now       time.Time
	newest    map[Number]bool // kept by their number
	majors    map[Number]bool // newest of their MAJOR
	fallback  Number          // where readers can be moved back to from a withdrawn version; zero: nowhere
}

// count walks down from the published version, once for all rules that count.
func (j *judge) count() {
	j.newest, j.majors = map[Number]bool{}, map[Number]bool{}
	seen := map[int]bool{}
	withdrawn := false
	for _, v := range slices.Backward(j.versions) {
		if v.Pruned || v.Version > j.published {
			continue
		}
		withdrawn = withdrawn || v.Version == j.published && v.Withdrawn
		if v.Withdrawn {
			continue // it would take the place of one that is of use
		}
		if len(j.newest) < j.rules.Versions {
			j.newest[v.Version] = true
		}
		if !seen[v.Schema.Major] && len(seen) < j.rules.Majors {
			seen[v.Schema.Major], j.majors[v.Version] = true, true
		}
		if withdrawn && j.fallback == 0 {
			j.fallback = v.Version
		}
	}
}

// keeps returns why a version stays, or "".
func (j *judge) keeps(at int) string {
	v := j.versions[at]
	switch {
	case j.published == 0:
		return "nothing is published yet"
	case v.Version == j.published:
		return "published"
	case v.Version > j.published:
		return "newer than the published version"
	case at == len(j.versions)-1:
		return "the newest version"
	case v.Decided:
		return "a decision that is not carried out yet leads to it"
	case v.Version == j.fallback:
		return "the published version is withdrawn, and this is the way back"
	case j.newest[v.Version]:
		return fmt.Sprintf("one of the %d newest", j.rules.Versions)
	case j.majors[v.Version]:
		return fmt.Sprintf("the newest of MAJOR %d", v.Schema.Major)
	}
	age := j.now.Sub(j.superseded(at))
	switch {
	case j.rules.Days > 0 && age < time.Duration(j.rules.Days)*24*time.Hour:
		return fmt.Sprintf("superseded less than %d days ago", j.rules.Days)
	case age < j.rules.Grace:
		return fmt.Sprintf("superseded less than %s ago", j.rules.Grace)
	}
	return ""
}

// superseded returns since when readers are led elsewhere. Where no pointer tells, the next
// version's commit does; a version that came later than that was filled in, and counts from then.
func (j *judge) superseded(at int) time.Time {
	v := j.versions[at]
	if !v.LeftAt.IsZero() {
		return v.LeftAt
	}
	since := v.CommittedAt
	if at+1 < len(j.versions) && j.versions[at+1].CommittedAt.After(since) {
		since = j.versions[at+1].CommittedAt
	}
	return since
}

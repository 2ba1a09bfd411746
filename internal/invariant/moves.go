package invariant

import (
	"fmt"
	"slices"
)

// moved is what CheckMove looks at of a pointer.
type moved struct {
	Revision  int64    `json:"revision"`
	Version   int64    `json:"version"`
	Pinned    bool     `json:"pinned"`
	Decisions []string `json:"decisions"`
}

// maxDecisions is how many decisions a pointer remembers.
const maxDecisions = 32

// CheckMove asserts the moving half of I3 on two successive states of one pointer: the revision is
// one higher, the version is not lower but by a decision that is new, a pin is not lifted without
// one, and no decision that was obeyed is forgotten while there is room. Before is nil for a
// pointer that did not stand.
func CheckMove(before, after []byte) error {
	var old, now moved
	if before != nil {
		if err := decode(before, &old); err != nil {
			return fmt.Errorf("the pointer that stood: %w", err)
		}
	}
	if err := decode(after, &now); err != nil {
		return fmt.Errorf("the pointer that stands: %w", err)
	}
	decided := slices.ContainsFunc(now.Decisions, func(key string) bool { return !slices.Contains(old.Decisions, key) })
	lost := slices.ContainsFunc(old.Decisions, func(key string) bool { return !slices.Contains(now.Decisions, key) })
	switch {
	case now.Revision != old.Revision+1:
		return fmt.Errorf("the pointer's revision %d became %d", old.Revision, now.Revision)
	case now.Version < old.Version && (!decided || !now.Pinned):
		return fmt.Errorf("the pointer went from version %d back to %d without a rollback", old.Version, now.Version)
	case old.Pinned && !now.Pinned && !decided:
		return fmt.Errorf("the pin at version %d was lifted without a decision", old.Version)
	case lost && len(now.Decisions) < maxDecisions:
		return fmt.Errorf("the pointer obeyed %q and forgot one of them: %q", old.Decisions, now.Decisions)
	}
	return nil
}

package manifest

// HoldReason says why a committed version is not published.
type HoldReason string

// The reasons of a hold.
const (
	HoldMajor   HoldReason = "major"   // its MAJOR schema differs from the published one's
	HoldContent HoldReason = "content" // its files contradict the feed's own facts
	HoldFork    HoldReason = "fork"    // it continues an older version than the newest one held
)

// Candidate is a committed version as the rules of publication see it.
type Candidate struct {
	Version        Number
	Schema         SchemaVersion
	ResyncRequired bool
	Fork           bool // its record carries a gap of reason fork
	Doubts         bool
	Withdrawn      bool
	Pruned         bool
}

// Published is where readers are now.
type Published struct {
	Version Number // zero while nothing is published
	Schema  SchemaVersion
	Pinned  bool // by a rollback, until approved
}

// Hold names the first version that waits for a person.
type Hold struct {
	Version Number        `json:"version"`
	Schema  SchemaVersion `json:"schemaVersion"`
	Reason  HoldReason    `json:"reason"`
}

// OnMajor says what happens to the pointer at a MAJOR schema change.
type OnMajor string

// The choices.
const (
	MajorHold   OnMajor = "hold"
	MajorFollow OnMajor = "follow"
)

// NextPublication returns the version that the pointer may move to now (zero: it stays) and the
// hold that stands afterwards (nil: none). candidates are committed versions in version order;
// those at or below the published one are ignored.
func NextPublication(now Published, candidates []Candidate, onMajor OnMajor) (Number, *Hold) {
	target, hold := walk(now, candidates, onMajor)
	if now.Pinned {
		return 0, hold
	}
	return target, hold
}

// Approve returns where the pointer moves when a person accepts what hold names (nil: there is no
// hold, only a pin), and the hold that stands afterwards. A further MAJOR is a new hold.
func Approve(now Published, hold *Hold, candidates []Candidate, onMajor OnMajor) (Number, *Hold) {
	if hold == nil || hold.Version <= now.Version {
		return walk(now, candidates, onMajor)
	}
	accepted := now
	var rest []Candidate
	for _, c := range candidates {
		switch {
		case c.Withdrawn || c.Pruned: // meanwhile: nobody is led there
		case c.Version == hold.Version:
			accepted = Published{Version: c.Version, Schema: c.Schema}
		case c.Version > hold.Version:
			rest = append(rest, c)
		}
	}
	if accepted.Version != hold.Version {
		return walk(now, candidates, onMajor)
	}
	target, next := walk(accepted, rest, onMajor)
	return max(target, accepted.Version), next
}

// walk follows the candidates above the published version. A doubtful or forked version is stepped
// over as soon as a later one is in order: a version without doubts lifts a content hold, a reload
// lifts a fork. A MAJOR ends the walk, since all that follows has the new shape.
func walk(now Published, candidates []Candidate, onMajor OnMajor) (Number, *Hold) {
	var target Number
	var hold *Hold
	onFork := false
	for _, c := range candidates {
		if c.Version <= now.Version || c.Withdrawn || c.Pruned {
			continue
		}
		onFork = !c.ResyncRequired && (onFork || (c.Fork && now.Version != 0))
		reason := holdReason(now, c, onMajor, onFork)
		if reason == "" {
			target, hold = c.Version, nil
			continue
		}
		if hold == nil {
			hold = &Hold{Version: c.Version, Schema: c.Schema, Reason: reason}
		}
		if reason == HoldMajor {
			break
		}
	}
	return target, hold
}

// holdReason returns why a version waits for a person; "" when nothing speaks against it.
func holdReason(now Published, c Candidate, onMajor OnMajor, onFork bool) HoldReason {
	switch {
	case now.Version != 0 && onMajor != MajorFollow && c.Schema.Breaks(now.Schema):
		return HoldMajor
	case onFork:
		return HoldFork
	case c.Doubts:
		return HoldContent
	default:
		return ""
	}
}

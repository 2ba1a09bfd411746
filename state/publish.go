package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// Publication is one attempt to bring a dataset's pointer up to date.
type Publication struct {
	Dataset    string
	Committed  []Committed // records above the pointer, in version order
	Holding    manifest.Holding
	OnMajor    manifest.OnMajor
	FirstReady bool // whether a first pointer may be written: the newest version is committed
	// Seen is the revision of the pointer that was read before Committed and Holding were; zero when
	// there was none. Every decision about a dataset swaps its pointer, so that a pointer of another
	// revision says that Committed and Holding may be out of date: ErrPointerMoved.
	Seen int64
	// Fence swaps the pointer also where it stays as it is, to tell others of a decision.
	Fence bool
	Now   time.Time
}

// ErrPointerMoved says that somebody else wrote the pointer since the dataset was read. Nothing
// that was computed from that reading may be written: read it again.
var ErrPointerMoved = errors.New("the pointer was written since its dataset was read")

// Change is what became of a pointer.
type Change struct {
	Before *Pointer // nil when there was none
	After  *Pointer // nil when there still is none
	// Waits is what holds a first publication back; nil once there is a pointer, which says it itself.
	Waits *manifest.Hold
}

// Moved reports whether the pointer names another version than before.
func (c Change) Moved() bool {
	return c.After != nil && (c.Before == nil || c.Before.Version != c.After.Version)
}

// Publish moves the pointer as far as the rules allow and records what is held. What it read
// before is not used against a pointer that somebody else wrote since: ErrPointerMoved.
func Publish(ctx context.Context, docs Documents, pause Pause, p Publication) (Change, error) {
	var waits *manifest.Hold
	change, err := p.swap(ctx, docs, pause, func(standing *Pointer) (*Pointer, error) {
		if standing == nil && !p.FirstReady {
			return nil, nil //nolint:nilnil // nothing to publish yet
		}
		if standing != nil && standing.Retired {
			return nil, nil //nolint:nilnil // it stays where it is
		}
		target, hold := manifest.NextPublication(publishedOf(standing), p.candidates(), p.OnMajor)
		waits = hold
		return p.next(ctx, docs, standing, target, hold, ActionPublish)
	})
	if err == nil && change.After == nil {
		change.Waits = waits
	}
	return change, err
}

// Approve carries out a decision to accept what is held, or to lift a pin.
func (p Publication) Approve(ctx context.Context, docs Documents, pause Pause, key string, decision Decision) (Change, error) {
	return p.swap(ctx, docs, pause, func(standing *Pointer) (*Pointer, error) {
		if standing.overtook(key) {
			return nil, nil //nolint:nilnil // obeyed already, or a later one is
		}
		target, hold := manifest.Approve(publishedOf(standing), decision.Hold, p.candidates(), p.OnMajor)
		next, err := p.next(ctx, docs, standing, target, hold, ActionApprove)
		if err != nil {
			return nil, err
		}
		if next == nil {
			if standing == nil {
				return nil, nil //nolint:nilnil // nothing is committed that could be published
			}
			next = clonePointer(standing)
		}
		next.Pinned, next.Retired = false, false
		next.obey(key)
		return next, nil
	})
}

// Rollback carries out a decision to move readers to a committed version, and pins it there. It
// is the only way down. A version that was pruned meanwhile is not moved to, and the decision
// counts as obeyed; one that a prune under way means to delete is a fault.Budget.
func (p Publication) Rollback(ctx context.Context, docs Documents, pause Pause, key string, target Committed) (Change, error) {
	return p.swap(ctx, docs, pause, func(standing *Pointer) (*Pointer, error) {
		if standing == nil {
			return nil, &fault.Error{Op: "roll back", Object: p.Dataset, Side: fault.SideBucket, Kind: fault.NotFound,
				Err: fmt.Errorf("nothing is published yet")}
		}
		if standing.overtook(key) {
			return nil, nil //nolint:nilnil // obeyed already, or a later one is
		}
		pruned, err := CheckPruned(ctx, docs, p.Dataset, target.record.Version)
		if err != nil {
			return nil, err
		}
		if pruned { // it can never be carried out: it is settled, and readers stay
			next := clonePointer(standing)
			next.obey(key)
			return next, nil
		}
		next := p.pointTo(standing, target, ActionRollback)
		_, hold := manifest.NextPublication(manifest.Published{Version: next.Version, Schema: next.SchemaVersion, Pinned: true}, p.candidates(), p.OnMajor)
		next.Held, next.Pinned = p.heldSince(standing, hold), true
		next.obey(key)
		return next, nil
	})
}

// Retire carries out a decision to leave a dataset alone. Its readers stay where they are. Where
// nothing is published there is nothing to write: the decision says it, until there is a pointer.
func (p Publication) Retire(ctx context.Context, docs Documents, pause Pause, key string) (Change, error) {
	return p.swap(ctx, docs, pause, func(standing *Pointer) (*Pointer, error) {
		if standing == nil || slices.Contains(standing.Decisions, key) {
			return nil, nil //nolint:nilnil // obeyed already
		}
		next := clonePointer(standing)
		next.Retired = true
		next.obey(key)
		return next, nil
	})
}

func (p Publication) swap(ctx context.Context, docs Documents, pause Pause, change func(*Pointer) (*Pointer, error)) (Change, error) {
	var result Change
	after, err := Update(ctx, docs, pause, manifest.PointerKey(p.Dataset), func(standing *Pointer) (*Pointer, error) {
		result.Before = standing
		if standing.revisionOf() != p.Seen {
			return nil, ErrPointerMoved
		}
		return change(standing)
	})
	result.After = after
	return result, err
}

func (p Publication) candidates() []manifest.Candidate {
	list := make([]manifest.Candidate, 0, len(p.Committed))
	for _, c := range p.Committed {
		held, _ := p.Holding.Find(c.record.Version)
		list = append(list, c.Candidate(held))
	}
	return list
}

// next returns the pointer that should stand, or nil when the one that stands says it already.
func (p Publication) next(ctx context.Context, r bucket.Reader, standing *Pointer, target manifest.Number, hold *manifest.Hold, by Action) (*Pointer, error) {
	var next *Pointer
	switch {
	case target != 0:
		at := slices.IndexFunc(p.Committed, func(c Committed) bool { return c.record.Version == target })
		if at < 0 {
			return nil, fmt.Errorf("publish %s: version %d is not committed", p.Dataset, target)
		}
		if standing != nil && standing.Version >= target {
			return nil, fmt.Errorf("publish %s: version %d is not above the published %d", p.Dataset, target, standing.Version)
		}
		whole, err := p.Committed[at].whole(ctx, r)
		if err != nil {
			return nil, err
		}
		next = p.pointTo(standing, whole, by)
	case standing == nil:
		return nil, nil //nolint:nilnil // all that is committed is held; there is no pointer to say so
	default:
		next = clonePointer(standing)
	}
	next.Held = p.heldSince(standing, hold)
	held, _ := p.Holding.Find(next.Version)
	next.Withdrawn = held.Withdrawn
	if standing != nil && !p.Fence && next.Version == standing.Version && next.Withdrawn == standing.Withdrawn && sameHold(next.Held, standing.Held) {
		return nil, nil //nolint:nilnil // it says so already
	}
	return next, nil
}

// whole returns a version with its files. A record that says something else than before is a
// fault.Conflict: records are never replaced.
func (c Committed) whole(ctx context.Context, r bucket.Reader) (Committed, error) {
	if !c.brief {
		return c, nil
	}
	again, err := Recall(ctx, r, c.record.Dataset, c.record.Version)
	if err == nil && again.sum != c.sum {
		err = &fault.Error{Op: "read record", Object: manifest.RecordKey(c.record.Dataset, c.record.Version), Side: fault.SideBucket, Kind: fault.Conflict,
			Err: errors.New("it was replaced while it was read"), Hint: "Records are never replaced. Find out who writes to this bucket beside the mirror."}
	}
	return again, err
}

func (p Publication) heldSince(standing *Pointer, hold *manifest.Hold) *Held {
	if hold == nil {
		return nil
	}
	if standing != nil && standing.Held != nil && standing.Held.Hold == *hold {
		return standing.Held
	}
	return &Held{Hold: *hold, Since: p.Now}
}

func (p Publication) pointTo(standing *Pointer, c Committed, by Action) *Pointer {
	record := c.record
	next := &Pointer{
		Dataset: p.Dataset, Version: record.Version, SchemaVersion: record.SchemaVersion,
		PublishedAt: record.PublishedAt, MovedAt: p.Now, Move: 1, MovedBy: by,
		Record:   manifest.ObjectRef{Key: manifest.RecordKey(p.Dataset, record.Version), SHA256: c.sum},
		Manifest: record.Manifest, Snapshot: []string{},
	}
	if standing != nil {
		next.Decisions, next.Left, next.Retired = slices.Clone(standing.Decisions), slices.Clone(standing.Left), standing.Retired
		if standing.Version == next.Version { // readers are there already: a rollback that is decided twice
			next.PreviousVersion, next.MovedAt = standing.PreviousVersion, standing.MovedAt
			next.Move, next.MovedBy = standing.moves(), standing.MovedBy
		} else {
			next.PreviousVersion, next.Move = standing.Version, standing.moves()+1
			next.leave(standing, p.Now)
		}
	}
	for _, file := range record.Files {
		switch file.Kind {
		case manifest.KindSnapshot:
			next.Snapshot = append(next.Snapshot, file.Key)
		case manifest.KindSchema:
			next.Schema = &SchemaRef{Key: file.Key}
		}
	}
	held, _ := p.Holding.Find(record.Version)
	next.Withdrawn = held.Withdrawn
	return next
}

// revisionOf returns the revision of a pointer, zero for none.
func (p *Pointer) revisionOf() int64 {
	if p == nil {
		return 0
	}
	return p.Revision
}

// overtook reports whether the pointer obeys a decision, or one that was made after it: what was
// decided last counts, whoever carries out his own more slowly.
func (p *Pointer) overtook(decision string) bool {
	return p != nil && slices.ContainsFunc(p.Decisions, func(obeyed string) bool { return obeyed >= decision })
}

func (p *Pointer) obey(decision string) {
	p.Decisions = append(p.Decisions, decision)
	if extra := len(p.Decisions) - maxDecisions; extra > 0 {
		p.Decisions = slices.Delete(p.Decisions, 0, extra)
	}
}

func (p *Pointer) leave(standing *Pointer, at time.Time) {
	p.Left = append(p.Left, Departure{Version: standing.Version, At: at, Came: standing.MovedAt, Move: standing.moves(), By: standing.MovedBy})
	if extra := len(p.Left) - maxDepartures; extra > 0 {
		p.Left = slices.Delete(p.Left, 0, extra)
	}
}

// moves returns the number of the last move. Pointers of the first release did not count them.
func (p *Pointer) moves() int64 { return max(p.Move, int64(len(p.Left))+1) }

// LeftAt returns when readers were last led away from a version; zero when that is not known.
func (p *Pointer) LeftAt(n manifest.Number) time.Time {
	for _, departure := range slices.Backward(p.Left) {
		if departure.Version == n {
			return departure.At
		}
	}
	if p.PreviousVersion == n { // written before departures were kept
		return p.MovedAt
	}
	return time.Time{}
}

func publishedOf(p *Pointer) manifest.Published {
	if p == nil {
		return manifest.Published{}
	}
	return manifest.Published{Version: p.Version, Schema: p.SchemaVersion, Pinned: p.Pinned}
}

func clonePointer(p *Pointer) *Pointer {
	next := *p
	next.Snapshot, next.Decisions, next.Left = slices.Clone(p.Snapshot), slices.Clone(p.Decisions), slices.Clone(p.Left)
	return &next
}

func sameHold(a, b *Held) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Hold == b.Hold
}

// HighestPublished returns the highest version that readers were ever led to, as far as the pointer
// remembers.
func (p *Pointer) HighestPublished() manifest.Number {
	highest := p.Version
	for _, departure := range p.Left {
		highest = max(highest, departure.Version)
	}
	return highest
}

// Forgets reports whether the pointer moved more often than it remembers.
func (p *Pointer) Forgets() bool { return len(p.Left) >= maxDepartures }

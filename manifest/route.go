package manifest

import (
	"fmt"
	"slices"
)

// RouteVersion is what a route needs to know of a committed version.
type RouteVersion struct {
	Number           Number
	Previous         Number // by the feed; zero on a first version
	Schema           SchemaVersion
	Changes          ChangesState
	ResyncRequired   bool
	RecordIDsChanged bool
	Doubtful         bool // its content contradicts the feed's own facts
	Pruned           bool // its files are deleted
}

// RouteVersionOf returns what a route needs of a record. Changes of no rows are none.
func RouteVersionOf(record Record, pruned bool) RouteVersion {
	v := RouteVersion{Number: record.Version, Previous: record.PreviousVersion, Schema: record.SchemaVersion, Changes: record.Changes,
		ResyncRequired: record.ResyncRequired, RecordIDsChanged: record.RecordIDsChanged, Doubtful: len(record.Doubts) > 0, Pruned: pruned}
	if v.Changes == ChangesPresent && !slices.ContainsFunc(record.Files, hasChanges) {
		v.Changes = ChangesEmpty
	}
	return v
}

func hasChanges(file RecordFile) bool {
	return file.Kind == KindChanges && (file.Rows == nil || *file.Rows > 0)
}

// Route is the shortest correct way for a consumer who holds one version of a dataset to another one
// (feed documentation, "Versions, snapshots and changes": following a feed). The consumer first rewrites
// the ids that it keeps elsewhere, with the maps in this order, and then either reloads or applies.
type Route struct {
	From, To Number
	// Rewrite are the versions whose id maps replace ids, lowest first.
	Rewrite []Number
	// RewriteBack are the versions whose id maps replace ids the other way round, highest first, for a
	// consumer who goes back.
	RewriteBack []Number
	// Reload is the version whose snapshot replaces everything; zero when changes lead all the way.
	Reload Number
	Reason string // why it must be reloaded
	// Apply are the versions whose changes are applied, lowest first. It is empty when Reload is set.
	Apply []Number
	// Empty are versions on the way that changed nothing.
	Empty []Number
	// Fill are the versions on the way that added columns: records that did not change have null there
	// until the consumer reloads, which is optional.
	Fill []Number
	// Unmapped tells that some id map on the way may be missing: ids kept elsewhere may lead nowhere.
	Unmapped bool
}

// PlanRoute finds the way from a version to another, over the versions that are committed, in version
// order. found is false when the bucket cannot serve the version to.
func PlanRoute(versions []RouteVersion, from, to Number) (route Route, found bool) {
	route = Route{From: from, To: to}
	target, ok := findRoute(versions, to)
	if !ok || target.Pruned {
		return route, false
	}
	switch from {
	case to:
		return route, true
	case 0:
		route.Reload, route.Reason = to, "nothing is held yet"
		return route, true
	}
	if from > to {
		route.back(versions, target)
		return route, true
	}
	way, whole := walkBack(versions, from, target)
	before, known := findRoute(versions, from)
	for _, v := range way {
		route.step(v)
		if known && v.Schema.Major == before.Schema.Major && v.Schema.Minor > before.Schema.Minor {
			route.Fill = append(route.Fill, v.Number)
		}
		before, known = v, true
	}
	if !whole && route.Reload == 0 {
		route.Reload, route.Reason = to, "the versions between are not all here"
	}
	if !whole {
		route.Unmapped = true
	}
	if route.Reload != 0 {
		route.Reload, route.Apply, route.Empty, route.Fill = to, nil, nil, nil
	}
	return route, true
}

// back fills in the way of a consumer whose version lies behind the target: the rows are reloaded, and
// ids that were carried forward by a map are carried back by it.
func (r *Route) back(versions []RouteVersion, to RouteVersion) {
	r.Reload, r.Reason = to.Number, "it goes back, and changes only lead forward"
	from, known := findRoute(versions, r.From)
	if !known {
		r.Unmapped = true
		return
	}
	way, whole := walkBack(versions, to.Number, from)
	if !whole {
		r.Unmapped = true
		return
	}
	for _, v := range slices.Backward(way) {
		if v.RecordIDsChanged {
			r.Unmapped = r.Unmapped || v.Pruned || v.Doubtful
			if !v.Pruned {
				r.RewriteBack = append(r.RewriteBack, v.Number)
			}
		}
	}
}

// walkBack follows previousVersion from a version down to the consumer's, and returns the versions
// above that one, lowest first. whole is false when a version on the way is not committed, or the way
// leads past the consumer's version.
func walkBack(versions []RouteVersion, from Number, to RouteVersion) (way []RouteVersion, whole bool) {
	for v := to; ; {
		way = append(way, v)
		if v.Previous == from {
			whole = true
			break
		}
		previous, ok := findRoute(versions, v.Previous)
		if !ok || previous.Number < from || previous.Number >= v.Number {
			break
		}
		v = previous
	}
	slices.Reverse(way)
	return way, whole
}

// step adds one version of the way.
func (r *Route) step(v RouteVersion) {
	if v.RecordIDsChanged {
		r.Unmapped = r.Unmapped || v.Pruned || v.Doubtful
		if !v.Pruned {
			r.Rewrite = append(r.Rewrite, v.Number)
		}
	}
	reload := func(reason string) {
		if r.Reload == 0 {
			r.Reload, r.Reason = v.Number, reason
		}
	}
	switch {
	case v.RecordIDsChanged:
		reload(fmt.Sprintf("version %d replaced record ids", v.Number))
	case v.ResyncRequired:
		reload(fmt.Sprintf("version %d has no changes to apply: the feed asks for a reload", v.Number))
	case v.Doubtful:
		reload(fmt.Sprintf("the content of version %d contradicts the feed's own facts", v.Number))
	case v.Changes == ChangesExpired:
		reload(fmt.Sprintf("the changes of version %d had left the feed before they were mirrored", v.Number))
	case v.Changes == ChangesNotApplicable:
		reload(fmt.Sprintf("version %d has no changes to apply", v.Number))
	case v.Changes == ChangesEmpty:
		r.Empty = append(r.Empty, v.Number)
	case v.Pruned:
		reload(fmt.Sprintf("the changes of version %d were pruned", v.Number))
	default:
		r.Apply = append(r.Apply, v.Number)
	}
}

func findRoute(versions []RouteVersion, n Number) (RouteVersion, bool) {
	at, ok := slices.BinarySearchFunc(versions, n, func(v RouteVersion, n Number) int { return int(v.Number - n) })
	if !ok {
		return RouteVersion{}, false
	}
	return versions[at], true
}

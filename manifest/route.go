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
	Pruned           bool // its files are deleted
}

// RouteVersionOf returns what a route needs of a record.
func RouteVersionOf(record Record, pruned bool) RouteVersion {
	return RouteVersion{Number: record.Version, Previous: record.PreviousVersion, Schema: record.SchemaVersion, Changes: record.Changes,
		ResyncRequired: record.ResyncRequired, RecordIDsChanged: record.RecordIDsChanged, Pruned: pruned}
}

// Route is the shortest correct way for a consumer who holds one version of a dataset to another one
// (feed documentation, "Versions, snapshots and changes": following a feed). The consumer first rewrites
// the ids that it keeps elsewhere, with the maps in this order, and then either reloads or applies.
type Route struct {
	From, To Number
	// Rewrite are the versions whose id maps replace ids, lowest first.
	Rewrite []Number
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
	// Unmapped tells that some id map on the way cannot be had: ids kept elsewhere may lead nowhere.
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
	if from == to {
		return route, true
	}
	if from > to {
		route.Reload, route.Reason, route.Unmapped = to, "it goes back, and changes only lead forward", mapsBetween(versions, to, from)
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
		if v.Pruned {
			r.Unmapped = true
		} else {
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

func mapsBetween(versions []RouteVersion, low, high Number) bool {
	return slices.ContainsFunc(versions, func(v RouteVersion) bool { return v.Number > low && v.Number <= high && v.RecordIDsChanged })
}

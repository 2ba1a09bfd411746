package manifest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"feedmirror/internal/evidence"
)

// modelVersion is a version of a dataset with what stands in its files. Records are followed by an
// entity that no consumer sees, so that it is known which ids mean the same record.
type modelVersion struct {
	RouteVersion
	held     bool
	snapshot map[string]modelRow
	upserts  map[string]modelRow
	deletes  []string
	idMap    map[string]string // previous to new, of every record that was carried over
}

type modelRow struct{ entity, value int }

// modelChain is all that the feed ever released, in version order.
type modelChain struct {
	t        *rapid.T
	versions []*modelVersion
	fresh    int // entities, values and ids made so far
}

func (c *modelChain) find(n Number) *modelVersion {
	at := slices.IndexFunc(c.versions, func(v *modelVersion) bool { return v.Number == n })
	if at < 0 {
		return nil
	}
	return c.versions[at]
}

func (c *modelChain) next() int { c.fresh++; return c.fresh }

func (c *modelChain) one(in int, label string) bool {
	return rapid.IntRange(1, in).Draw(c.t, label) == 1
}

// release adds a version of a kind that is drawn.
func (c *modelChain) release() {
	last := c.versions[len(c.versions)-1]
	before := last
	if c.one(6, "reaches back") { // a fork, or the rebuild of a version that readers never had
		before = rapid.SampledFrom(c.versions).Draw(c.t, "previous")
	}
	v := &modelVersion{held: true, snapshot: maps.Clone(before.snapshot)}
	v.RouteVersion = RouteVersion{Number: last.Number + Number(rapid.IntRange(1, 3).Draw(c.t, "number")), Previous: before.Number, Schema: before.Schema, Changes: ChangesPresent}
	switch {
	case c.one(5, "empty"):
		v.Changes = ChangesEmpty
	default:
		c.edit(v)
	}
	switch {
	case c.one(8, "major"):
		v.Schema.Major++
		v.ResyncRequired = true
	case c.one(8, "ids"):
		c.replaceIDs(v)
	case c.one(10, "resync"):
		v.ResyncRequired = true
	case c.one(5, "minor"):
		v.Schema.Minor++
	}
	v.compare(before)
	if v.ResyncRequired && c.one(4, "changes all the same") {
		v.Changes, v.upserts = ChangesPresent, map[string]modelRow{"wrong": {}}
	}
	c.lose(v)
	c.versions = append(c.versions, v)
}

// edit adds, changes and removes records.
func (c *modelChain) edit(v *modelVersion) {
	for _, id := range slices.Sorted(maps.Keys(v.snapshot)) {
		switch rapid.IntRange(0, 5).Draw(c.t, "edit") {
		case 0:
			delete(v.snapshot, id)
		case 1:
			v.snapshot[id] = modelRow{v.snapshot[id].entity, c.next()}
		}
	}
	for range rapid.IntRange(0, 2).Draw(c.t, "added") {
		v.snapshot[fmt.Sprint("id", c.next())] = modelRow{c.next(), c.next()}
	}
}

// replaceIDs gives some records another id; the map names all that were carried over.
func (c *modelChain) replaceIDs(v *modelVersion) {
	v.ResyncRequired, v.RecordIDsChanged, v.idMap = true, true, map[string]string{}
	before := c.find(v.Previous).snapshot
	after := map[string]modelRow{}
	for _, id := range slices.Sorted(maps.Keys(v.snapshot)) {
		now := id
		if c.one(2, "new id") {
			now = fmt.Sprint("id", c.next())
		}
		after[now] = v.snapshot[id]
		if _, carried := before[id]; carried {
			v.idMap[id] = now
		}
	}
	v.snapshot = after
}

// compare writes the changes as the feed does.
func (v *modelVersion) compare(before *modelVersion) {
	v.upserts = map[string]modelRow{}
	if v.ResyncRequired {
		v.Changes = ChangesNotApplicable
		return
	}
	for id, row := range v.snapshot {
		if before.snapshot[id] != row {
			v.upserts[id] = row
		}
	}
	for id := range before.snapshot {
		if _, stays := v.snapshot[id]; !stays {
			v.deletes = append(v.deletes, id)
		}
	}
}

// lose takes from the bucket what can be missing there.
func (c *modelChain) lose(v *modelVersion) {
	switch rapid.IntRange(0, 20).Draw(c.t, "loss") {
	case 0:
		v.held = false // gone before it was mirrored
	case 1, 2:
		v.Pruned = true
	case 3:
		v.Doubtful = true
	case 4:
		if v.Changes == ChangesPresent {
			v.Changes = ChangesExpired
		}
	}
	if v.Pruned || v.Doubtful || v.Changes == ChangesExpired { // nothing to apply may be read
		if v.Changes != ChangesEmpty || v.Doubtful {
			v.upserts, v.deletes = map[string]modelRow{"wrong": {}}, nil
		}
	}
	if v.Pruned {
		v.idMap = map[string]string{}
	}
}

func drawChain(t *rapid.T) *modelChain {
	c := &modelChain{t: t}
	first := &modelVersion{held: true, snapshot: map[string]modelRow{}}
	first.RouteVersion = RouteVersion{Number: 1, Schema: SchemaVersion{Major: 1}, Changes: ChangesNotApplicable, ResyncRequired: true}
	c.versions = []*modelVersion{first}
	for range 4 {
		first.snapshot[fmt.Sprint("id", c.next())] = modelRow{c.next(), c.next()}
	}
	for range rapid.IntRange(1, 9).Draw(t, "versions") {
		c.release()
	}
	return c
}

func (c *modelChain) known() []RouteVersion {
	var list []RouteVersion
	for _, v := range c.versions {
		if v.held {
			list = append(list, v.RouteVersion)
		}
	}
	return list
}

// follow does what a route says with the rows of a consumer, and with ids that it keeps elsewhere.
func (c *modelChain) follow(route Route, rows map[string]modelRow, kept map[string]string) {
	if route.Reload != 0 {
		if v := c.find(route.Reload); v.Pruned || !v.held {
			c.t.Fatalf("%+v reloads from what is not there", route)
		}
		clear(rows)
		maps.Copy(rows, c.find(route.Reload).snapshot)
	}
	for _, n := range route.Apply {
		maps.Copy(rows, c.find(n).upserts)
		for _, id := range c.find(n).deletes {
			delete(rows, id)
		}
	}
	rewrite := func(ids map[string]string) {
		for from, now := range kept {
			if next, mapped := ids[now]; mapped {
				kept[from] = next
			}
		}
	}
	for _, n := range route.Rewrite {
		rewrite(c.find(n).idMap)
	}
	for _, n := range route.RewriteBack {
		back := map[string]string{}
		for old, now := range c.find(n).idMap {
			back[now] = old
		}
		rewrite(back)
	}
}

// TestARouteLeadsToTheRightRowsOnEveryChain lets a consumer at every version that was ever released go
// to every version that is there, also back: its rows are those of the snapshot, an id kept elsewhere
// names the same record as before unless the route says that it may not, and no way is shorter.
func TestARouteLeadsToTheRightRowsOnEveryChain(t *testing.T) {
	tally := evidence.Count(t, "routes")
	for range evidence.Size(1, 100) {
		rapid.Check(t, func(t *rapid.T) { tally.Add(walkEverywhere(t)) })
	}
}

// walkEverywhere draws a chain, walks all its ways, and returns how many there are.
func walkEverywhere(t *rapid.T) (ways int) {
	c := drawChain(t)
	for _, from := range c.versions {
		for _, to := range c.versions {
			route, found := PlanRoute(c.known(), from.Number, to.Number)
			if there := to.held && !to.Pruned; found != there {
				t.Fatalf("from %d to %d: found is %t", from.Number, to.Number, found)
			}
			if found {
				c.check(route, from, to)
				ways++
			}
		}
	}
	return ways
}

func (c *modelChain) check(route Route, from, to *modelVersion) {
	rows, kept := maps.Clone(from.snapshot), map[string]string{}
	for id := range rows {
		kept[id] = id
	}
	c.follow(route, rows, kept)
	if !maps.Equal(rows, to.snapshot) {
		c.t.Fatalf("%+v leads to %v, want %v", route, rows, to.snapshot)
	}
	now := map[int]string{}
	for id, row := range to.snapshot {
		now[row.entity] = id
	}
	for id, row := range from.snapshot {
		if want, stays := now[row.entity]; stays && !route.Unmapped && kept[id] != want {
			c.t.Fatalf("%+v makes %s of the kept id %s, want %s", route, kept[id], id, want)
		}
	}
	reloads := 0
	if route.Reload != 0 {
		reloads = 1
	}
	if got, want := [2]int{reloads, len(route.Apply)}, c.shortest(from.Number, to.Number); got != want {
		c.t.Fatalf("%+v takes %v reloads and applications, %v are enough", route, got, want)
	}
}

// shortest tries all ways from a version to another, and returns the reloads and the applications of
// changes of the best: one reload less is better than any number of applications.
func (c *modelChain) shortest(from, to Number) [2]int {
	best := map[Number][2]int{from: {}}
	for range c.versions { // no way needs more steps than there are versions
		for _, v := range c.versions {
			if !v.held {
				continue
			}
			for at, cost := range maps.Clone(best) {
				if !v.Pruned {
					better(best, v.Number, [2]int{cost[0] + 1, cost[1]})
				}
				if at != v.Previous || v.Doubtful || v.ResyncRequired {
					continue
				}
				switch {
				case v.Changes == ChangesEmpty:
					better(best, v.Number, cost)
				case v.Changes == ChangesPresent && !v.Pruned:
					better(best, v.Number, [2]int{cost[0], cost[1] + 1})
				}
			}
		}
	}
	if cost, reached := best[to]; reached {
		return cost
	}
	return [2]int{math.MaxInt, math.MaxInt}
}

func better(best map[Number][2]int, n Number, cost [2]int) {
	if known, reached := best[n]; !reached || slices.Compare(cost[:], known[:]) < 0 {
		best[n] = cost
	}
}

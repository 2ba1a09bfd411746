package manifest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheShortestCorrectWay(t *testing.T) {
	schema := func(major, minor int) SchemaVersion { return SchemaVersion{Major: major, Minor: minor} }
	present := func(n, previous Number) RouteVersion {
		return RouteVersion{Number: n, Previous: previous, Schema: schema(1, 0), Changes: ChangesPresent}
	}
	reload := func(n, previous Number) RouteVersion {
		v := present(n, previous)
		v.Changes, v.ResyncRequired = ChangesNotApplicable, true
		return v
	}
	ids := func(n, previous Number) RouteVersion {
		v := reload(n, previous)
		v.RecordIDsChanged = true
		return v
	}
	with := func(v RouteVersion, change func(*RouteVersion)) RouteVersion { change(&v); return v }
	pruned := func(v *RouteVersion) { v.Pruned = true }
	for _, c := range []struct {
		name     string
		versions []RouteVersion
		from, to Number
		want     Route
	}{
		{"nothing to do", []RouteVersion{present(41, 0)}, 41, 41, Route{}},
		{"a first load", []RouteVersion{reload(41, 0), ids(42, 41)}, 0, 42, Route{Reload: 42, Reason: "nothing is held yet"}},
		{"numbers skip", []RouteVersion{present(41, 0), present(42, 41), present(45, 42)}, 41, 45, Route{Apply: []Number{42, 45}}},
		{"a version that changed nothing", []RouteVersion{present(41, 0), with(present(42, 41), func(v *RouteVersion) { v.Changes = ChangesEmpty }), present(43, 42)}, 41, 43,
			Route{Apply: []Number{43}, Empty: []Number{42}}},
		{"a pruned version that changed nothing", []RouteVersion{present(41, 0), with(present(42, 41), func(v *RouteVersion) { v.Changes, v.Pruned = ChangesEmpty, true }), present(43, 42)}, 41, 43,
			Route{Apply: []Number{43}, Empty: []Number{42}}},
		{"a column more", []RouteVersion{present(41, 0), with(present(42, 41), func(v *RouteVersion) { v.Schema = schema(1, 1) })}, 41, 42, Route{Apply: []Number{42}, Fill: []Number{42}}},
		{"one reload makes all others needless", []RouteVersion{present(41, 0), present(42, 41), reload(43, 42), present(44, 43)}, 41, 44,
			Route{Reload: 44, Reason: "version 43 has no changes to apply: the feed asks for a reload"}},
		{"behind the reload it applies", []RouteVersion{present(41, 0), reload(43, 41), present(44, 43)}, 43, 44, Route{Apply: []Number{44}}},
		{"ids are rewritten in order", []RouteVersion{present(41, 0), ids(43, 41), present(44, 43), ids(45, 44)}, 41, 45,
			Route{Rewrite: []Number{43, 45}, Reload: 45, Reason: "version 43 replaced record ids"}},
		{"an id map that was pruned", []RouteVersion{present(41, 0), with(ids(43, 41), pruned), present(44, 43)}, 41, 44,
			Route{Reload: 44, Reason: "version 43 replaced record ids", Unmapped: true}},
		{"changes that were lost", []RouteVersion{present(41, 0), with(present(42, 41), func(v *RouteVersion) { v.Changes = ChangesExpired }), present(43, 42)}, 41, 43,
			Route{Reload: 43, Reason: "the changes of version 42 had left the feed before they were mirrored"}},
		{"changes that were pruned", []RouteVersion{present(41, 0), with(present(42, 41), pruned), present(43, 42)}, 41, 43,
			Route{Reload: 43, Reason: "the changes of version 42 were pruned"}},
		{"a version between is missing", []RouteVersion{present(41, 0), present(43, 42)}, 41, 43,
			Route{Reload: 43, Reason: "the versions between are not all here", Unmapped: true}},
		{"the consumer's version is not on the way", []RouteVersion{present(41, 0), present(42, 41), present(43, 41)}, 42, 43,
			Route{Reload: 43, Reason: "the versions between are not all here", Unmapped: true}},
		{"a consumer older than the bucket", []RouteVersion{present(41, 40), present(42, 41)}, 30, 42,
			Route{Reload: 42, Reason: "the versions between are not all here", Unmapped: true}},
		{"the consumer's version is known only by its number", []RouteVersion{present(41, 40), present(42, 41)}, 40, 42, Route{Apply: []Number{41, 42}}},
		{"the rebuild of a withdrawn version", []RouteVersion{present(41, 0), present(42, 41), reload(44, 42)}, 42, 44,
			Route{Reload: 44, Reason: "version 44 has no changes to apply: the feed asks for a reload"}},
		{"back", []RouteVersion{present(41, 0), present(42, 41)}, 42, 41, Route{Reload: 41, Reason: "it goes back, and changes only lead forward"}},
		{"back over replaced ids", []RouteVersion{present(41, 0), ids(42, 41), present(43, 42), ids(44, 43)}, 44, 41,
			Route{RewriteBack: []Number{44, 42}, Reload: 41, Reason: "it goes back, and changes only lead forward"}},
		{"back over an id map that was pruned", []RouteVersion{present(41, 0), with(ids(42, 41), pruned), ids(43, 42)}, 43, 41,
			Route{RewriteBack: []Number{43}, Reload: 41, Reason: "it goes back, and changes only lead forward", Unmapped: true}},
		{"back from a version that does not stand on the target", []RouteVersion{present(41, 0), present(42, 41), present(43, 41)}, 43, 42,
			Route{Reload: 42, Reason: "it goes back, and changes only lead forward", Unmapped: true}},
		{"back from a version that is not here", []RouteVersion{present(41, 0)}, 50, 41, Route{Reload: 41, Reason: "it goes back, and changes only lead forward", Unmapped: true}},
		{"over a version in doubt", []RouteVersion{present(41, 0), with(present(42, 41), func(v *RouteVersion) { v.Doubtful = true }), present(43, 42)}, 41, 43,
			Route{Reload: 43, Reason: "the content of version 42 contradicts the feed's own facts"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, found := PlanRoute(c.versions, c.from, c.to)
			if !found {
				t.Fatal("no way")
			}
			c.want.From, c.want.To = c.from, c.to
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNoWayLeadsToWhatIsNotThere(t *testing.T) {
	versions := []RouteVersion{{Number: 41, Pruned: true}, {Number: 42, Previous: 41}}
	for _, to := range []Number{40, 41, 43} {
		if route, found := PlanRoute(versions, 42, to); found {
			t.Errorf("to %d: %+v", to, route)
		}
	}
}

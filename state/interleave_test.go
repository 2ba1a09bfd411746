package state_test

import (
	"context"
	"errors"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// from returns a bucket that these actions lead to, and processes that begin there.
func from(t *testing.T, before []action, processes ...buckettest.Process) func() (*buckettest.Memory, []buckettest.Process) {
	t.Helper()
	store := buckettest.NewMemory()
	got := buckettest.Explore(t, buckettest.Scenario{
		Begin: func() (*buckettest.Memory, []buckettest.Process) {
			return buckettest.NewMemory(), []buckettest.Process{process("before", before...)}
		},
		End: func(now *buckettest.Memory, ended []buckettest.Ended) error {
			store = now.Clone()
			return well(ended)
		}})
	if got.Finding != nil {
		t.Fatal(got.Finding)
	}
	return func() (*buckettest.Memory, []buckettest.Process) { return store.Clone(), processes }
}

func ends(one ...manifest.Number) func(*buckettest.Memory, []buckettest.Ended) error {
	return func(now *buckettest.Memory, ended []buckettest.Ended) error {
		return errors.Join(well(ended), pointsTo(now, one...))
	}
}

func commitScenarios(t *testing.T) map[string]buckettest.Scenario {
	one, two, three := contentOf(1, 1, "one"), contentOf(2, 1, "two"), contentOf(3, 1, "three")
	rebuilt := contentOf(1, 1, "rebuilt")
	list := map[string]buckettest.Scenario{
		"two processes commit one first version": {
			Begin: from(t, nil, process("a", one.release), process("b", one.release)), Check: kept(), End: ends(1)},
		"two processes commit one version": {
			Begin: from(t, []action{one.release}, process("a", two.release), process("b", two.release)), Check: kept(), End: ends(2)},
		"one process is a version ahead": {
			Begin: from(t, []action{one.release}, process("a", two.release, three.release), process("b", two.release)), Check: kept(), End: ends(3)},
		"a version that was rebuilt between two tries": {
			Begin: from(t, nil, process("a", one.release), process("b", rebuilt.release)), Check: kept(),
			End: func(now *buckettest.Memory, ended []buckettest.Ended) error {
				if a, b := ended[0].Err, ended[1].Err; a == nil && b == nil {
					return errors.New("both committed, each its own version 1")
				}
				return well(ended, fault.Conflict, fault.History)
			}},
	}
	if evidence.Long() {
		list["three processes commit one first version"] = buckettest.Scenario{
			Begin: from(t, nil, process("a", one.release), process("b", one.release), process("c", one.release)), Check: kept(), End: ends(1), Switches: 2}
	}
	return list
}

func TestInterleavingsOfACommit(t *testing.T) {
	explored(t, "interleavings-commit", 1, commitScenarios(t))
}

// resend answers a swap that was refused by sending the same again over what stands then: what the
// rule of conditional writes forbids.
type resend struct{ bucket.Store }

func (r resend) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	for {
		tag, err := r.Store.Swap(ctx, key, old, data)
		if !fault.Is(err, fault.Conflict) {
			return tag, err
		}
		info, err := r.Stat(ctx, key)
		if err != nil {
			return "", err
		}
		old = info.Tag
	}
}

func ignoring(store bucket.Store) bucket.Store { return &buckettest.IgnoreConditions{Store: store} }

func pointerScenarios(t *testing.T) map[string]buckettest.Scenario {
	one, two, three := contentOf(1, 1, "one"), contentOf(2, 1, "two"), contentOf(3, 1, "three")
	committed := []action{one.release, two.commit}
	list := map[string]buckettest.Scenario{
		"two processes publish one version": {
			Begin: from(t, committed, process("a", publish), process("b", publish)), Check: kept(), End: ends(2)},
		"the published version is withdrawn meanwhile": {
			Begin: from(t, committed, process("a", publish), process("b", withdraw(1))), Check: kept(), End: ends(2)},
		"the version to come is withdrawn meanwhile": {
			Begin: from(t, committed, process("a", publish), process("b", withdraw(2))), Check: kept(), End: ends(1, 2)}, // who is first decides
	}
	if evidence.Long() {
		list["three processes move one pointer"] = buckettest.Scenario{
			Begin: from(t, committed, process("a", publish), process("b", three.release), process("c", withdraw(1))), Check: kept(), End: ends(3), Switches: 3}
	}
	return list
}

func TestInterleavingsOfAPointerMove(t *testing.T) {
	explored(t, "interleavings-pointer", 2, pointerScenarios(t))
}

// unfenced publishes what it read at first, whoever wrote the pointer since.
func unfenced(ctx context.Context, m *buckettest.Machine, store bucket.Store) error {
	p, err := readPublication(ctx, m, store)
	if err != nil {
		return err
	}
	for {
		if _, err := state.Publish(ctx, store, m.Pause, p); !errors.Is(err, state.ErrPointerMoved) {
			return err
		}
		pointer, _, err := state.Read[state.Pointer](ctx, store, manifest.PointerKey("ds"))
		if err != nil {
			return err
		}
		p.Seen = pointer.Revision
	}
}

// TestRulesThatAreTakenOutAreMissed: without any of the rules that keep a pointer true, a schedule is
// found that breaks it.
func TestRulesThatAreTakenOutAreMissed(t *testing.T) {
	one, two, three := contentOf(1, 1, "one"), contentOf(2, 1, "two"), contentOf(3, 1, "three")
	committed := []action{one.release, two.commit}
	resending := func(store bucket.Store) bucket.Store { return resend{store} }
	t.Run("the compare-and-swap", func(t *testing.T) {
		found(t, buckettest.Scenario{Beneath: ignoring, Check: kept(), End: ends(3),
			Begin: from(t, committed, process("a", publish), process("b", three.release))}, "revision")
	})
	t.Run("the put-if-absent", func(t *testing.T) {
		found(t, buckettest.Scenario{Beneath: ignoring, Check: kept(), End: ends(1),
			Begin: from(t, nil, process("a", one.release), process("b", one.release))}, "overwritten")
	})
	t.Run("the computing anew", func(t *testing.T) {
		found(t, buckettest.Scenario{Check: kept(), End: ends(3),
			Begin: from(t, committed, wrapped("a", resending, publish), process("b", three.release))}, "revision")
	})
	t.Run("the fence of the revision", func(t *testing.T) {
		found(t, buckettest.Scenario{Check: kept(), End: ends(1, 2),
			Begin: from(t, committed, process("a", unfenced), process("b", withdraw(2)))}, "says withdrawn false")
	})
}

package interleavings_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
	"feedmirror/internal/invariant"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

func v(n manifest.Number, major int, documents ...string) staticVersion {
	return staticVersion{number: n, previous: n - 1, major: major, documents: documents}
}

func begins(store *buckettest.Memory, processes ...buckettest.Process) func() (*buckettest.Memory, []buckettest.Process) {
	return func() (*buckettest.Memory, []buckettest.Process) { return store.Clone(), processes }
}

func decisionScenarios(t *testing.T) map[string]buckettest.Scenario {
	plain := []staticVersion{v(1, 1), v(2, 1), v(3, 1)}
	held := []staticVersion{v(1, 1), v(2, 2), v(3, 2)}
	two, three := beginning(t, plain[:2]), beginning(t, plain)
	waiting := beginning(t, held[:1], held[:2])
	withRollback := begins(two, runs("sync", nil, passOver(plain...)), runs("rollback", nil, rollbackTo(1)))
	withApproval := begins(waiting, runs("sync", nil, passOver(held...)), runs("approve", nil, approval))
	list := map[string]buckettest.Scenario{
		"a pass and a rollback":  {Begin: withRollback, Check: inOrder(), End: endsAt(1, true, plain)},
		"a pass and an approval": {Begin: withApproval, Check: inOrder(), End: endsAt(3, false, held)},
		"an approval and a rollback": {Begin: begins(waiting, runs("approve", nil, approval), runs("rollback", nil, rollbackTo(1))),
			Check: inOrder(), End: lastDecision(held[:2])},
	}
	if !evidence.Long() {
		return list
	}
	list["two rollbacks"] = buckettest.Scenario{Begin: begins(three, runs("one", nil, rollbackTo(1)), runs("two", nil, rollbackTo(2))),
		Check: inOrder(), End: lastDecision(plain)}
	list["a retirement and a pass"] = buckettest.Scenario{Begin: begins(two, runs("sync", nil, passOver(plain...)), runs("retire", nil, retirement)),
		Check: inOrder(), End: retired(plain)}
	list["a pass and a rollback, of which one dies"] = buckettest.Scenario{Begin: withRollback, Check: inOrder(), Crashes: 1, Switches: 2, End: standing(plain)}
	list["a pass and an approval, of which one dies"] = buckettest.Scenario{Begin: withApproval, Check: inOrder(), Crashes: 1, Switches: 2, End: approved(held)}
	return list
}

// approved wants the next pass to carry out an approval that stands.
func approved(versions []staticVersion) func(*buckettest.Memory, []buckettest.Ended) error {
	return func(now *buckettest.Memory, ended []buckettest.Ended) error {
		if len(now.Under(manifest.DecisionsPrefix(permits))) == 0 {
			return endsAt(versions[0].number, false, versions)(now, ended)
		}
		return endsAt(versions[len(versions)-1].number, false, versions)(now, ended)
	}
}

// lastDecision wants the pointer, after the next pass, to be where the decision with the last name
// leads.
func lastDecision(versions []staticVersion) func(*buckettest.Memory, []buckettest.Ended) error {
	return func(now *buckettest.Memory, ended []buckettest.Ended) error {
		keys := now.Under(manifest.DecisionsPrefix(permits))
		if len(keys) == 0 {
			return errors.New("no decision stands")
		}
		decision, _, err := state.Read[state.Decision](context.Background(), now, keys[len(keys)-1])
		if err != nil {
			return err
		}
		if decision.Action == state.ActionRollback {
			return endsAt(decision.Version, true, versions)(now, ended)
		}
		return endsAt(versions[len(versions)-1].number, false, versions)(now, ended)
	}
}

// standing wants the next pass to carry out the last decision that stands, or to follow the feed where
// none does.
func standing(versions []staticVersion) func(*buckettest.Memory, []buckettest.Ended) error {
	return func(now *buckettest.Memory, ended []buckettest.Ended) error {
		if len(now.Under(manifest.DecisionsPrefix(permits))) > 0 {
			return lastDecision(versions)(now, ended)
		}
		return endsAt(versions[len(versions)-1].number, false, versions)(now, ended)
	}
}

func retirement(ctx context.Context, m *buckettest.Machine, store bucket.Store) error {
	_, err := mirror.Retire(ctx, decideOptions(m, store), permits)
	return err
}

// retired wants the dataset to be retired, and the next pass to leave its pointer alone.
func retired(versions []staticVersion) func(*buckettest.Memory, []buckettest.Ended) error {
	return func(now *buckettest.Memory, ended []buckettest.Ended) error {
		if err := endedWell(ended); err != nil {
			return err
		}
		before, err := pointerOf(now)
		if err == nil && !before.Retired {
			err = errors.New("the pointer does not say that the dataset is retired")
		}
		if err == nil {
			err = nextPass(now, versions...)
		}
		if err != nil {
			return err
		}
		after, err := pointerOf(now)
		if err == nil && after.Revision != before.Revision {
			err = fmt.Errorf("a pass wrote the pointer of a retired dataset: revision %d after %d", after.Revision, before.Revision)
		}
		return err
	}
}

// leaseScenarios let time pass: a pass that others wait for is overtaken when its lease expires, wakes
// up, and finds its lease lost or renews it in time.
func leaseScenarios(t *testing.T) map[string]buckettest.Scenario {
	plain := []staticVersion{v(1, 1), v(2, 1)}
	one := beginning(t, plain[:1])
	scenario := buckettest.Scenario{Begin: begins(one, runs("one", nil, passOver(plain...)), runs("two", nil, passOver(plain...))),
		Check: inOrder(), End: endsAt(2, false, plain), Switches: 3}
	list := map[string]buckettest.Scenario{"two passes, and time passes only when all wait": scenario}
	if evidence.Long() {
		scenario.Delays, scenario.Switches = 1, 1
		list["two passes, and one is frozen at any place"] = scenario
	}
	return list
}

func TestInterleavingsOfLeases(t *testing.T) {
	interleavings(t, "interleavings-leases", 1, leaseScenarios)
}

func TestInterleavingsOfDecisions(t *testing.T) {
	interleavings(t, "interleavings-decisions", 1, decisionScenarios)
}

// comeback is a feed whose document "old" is of versions 1 and 2, and comes back with version 4.
func comeback() []staticVersion {
	return []staticVersion{v(1, 1, "old", "shared"), v(2, 1, "old", "shared"), v(3, 1, "shared"), v(4, 1, "old", "shared")}
}

func pruneScenarios(t *testing.T) map[string]buckettest.Scenario {
	versions := comeback()
	breaking := []staticVersion{v(1, 1, "old", "shared"), v(2, 1, "shared"), v(3, 2, "old", "shared")}
	three := beginning(t, versions[:3])
	claimed := three.Clone() // by a pass that died after it stored the manifest
	if _, err := bucket.CreateDocument(t.Context(), claimed, manifest.ManifestKey(permits, 4), versions[3].manifest()); err != nil {
		t.Fatal(err)
	}
	list := map[string]buckettest.Scenario{
		"a pass and a prune": {Begin: begins(three, runs("sync", nil, passOver(versions...)), runs("prune", nil, pruning)),
			Check: inOrder(), End: prunedAt(4, false, versions)},
	}
	if evidence.Long() {
		list["a rollback and a prune"] = buckettest.Scenario{Check: inOrder(), End: prunedOrRolledBack(versions[:3]),
			Begin: begins(three, runs("rollback", nil, rollbackTo(2)), runs("prune", nil, pruning))}
		list["an approval and a prune"] = buckettest.Scenario{Check: inOrder(), End: prunedAt(3, false, breaking),
			Begin: begins(beginning(t, breaking[:2], breaking), runs("approve", nil, approval), runs("prune", nil, pruning))}
		list["two prunes"] = buckettest.Scenario{Check: inOrder(), End: prunedAt(3, false, versions[:3]),
			Begin: begins(three, runs("one", nil, pruning), runs("two", nil, pruning))}
		list["a pass and a clearing of what it goes on with"] = buckettest.Scenario{Check: inOrder(), End: prunedAt(4, false, versions),
			Begin: begins(claimed, runs("sync", nil, passOver(versions...)), runs("clear", nil, clearing))}
	}
	for name, s := range list {
		s.Switches = 3 // without a bound the schedules are too many
		list[name] = s
	}
	return list
}

// clearing clears version 4, which was never committed.
func clearing(ctx context.Context, m *buckettest.Machine, store bucket.Store) error {
	_, err := mirror.ClearUncommitted(ctx, pruneOptionsOf(m, store), permits, 4)
	return err
}

// prunedAt wants all to have ended well, or to wait for the prune, and the prune to be over once it is
// resumed; the next passes then leave the pointer at a version.
func prunedAt(n manifest.Number, pinned bool, versions []staticVersion) func(*buckettest.Memory, []buckettest.Ended) error {
	return func(now *buckettest.Memory, ended []buckettest.Ended) error {
		if err := endedWell(ended, fault.Budget, fault.Usage); err != nil {
			return err
		}
		o := mirror.PruneOptions{Store: now, Rules: keepOne, LeaseTTL: time.Minute, Run: "resume", Host: "test", Tool: "mirror test",
			Now: later, Pause: noPause}
		if _, err := mirror.ResumePrune(context.Background(), o); err != nil {
			return fmt.Errorf("resume: %w", err)
		}
		if err := endsAt(n, pinned, versions, fault.Budget, fault.Usage)(now, ended); err != nil {
			return err
		}
		if broken := invariant.Check(now.Bare()); len(broken) > 0 {
			return fmt.Errorf("after the next pass: %v", broken)
		}
		return nil
	}
}

// prunedOrRolledBack wants readers at version 2 where a rollback stands and the prune left it, and at
// the newest otherwise: a rollback that was told to wait for the prune is carried out by the next pass.
func prunedOrRolledBack(versions []staticVersion) func(*buckettest.Memory, []buckettest.Ended) error {
	return func(now *buckettest.Memory, ended []buckettest.Ended) error {
		decided := len(now.Under(manifest.DecisionsPrefix(permits))) > 0
		pruned := now.Bytes(manifest.PrunedKey(permits, 2)) != nil
		if ended[0].Err == nil && (!decided || pruned) {
			return fmt.Errorf("the rollback says that it is done: decided %v, pruned %v", decided, pruned)
		}
		if !decided || pruned {
			return prunedAt(versions[len(versions)-1].number, false, versions)(now, ended)
		}
		return prunedAt(2, true, versions)(now, ended)
	}
}

func TestInterleavingsOfAPrune(t *testing.T) {
	interleavings(t, "interleavings-prune", 1, pruneScenarios)
}

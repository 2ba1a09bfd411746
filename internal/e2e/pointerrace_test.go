package e2e_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/bucket/open"
	"feedmirror/internal/evidence"
	"feedmirror/manifest"
	"feedmirror/state"
)

// raceKeys is over how many pointers the rounds are spread: some stores make writers that meet on one
// key wait for each other, and different keys wait at the same time.
const raceKeys = 10

// TestTwoWritersLoseNoUpdate lets two writers swap one pointer at the same moment, round after round,
// on each kind of store. Each adds a name of its own; at the end every name that was acknowledged
// stands there once, and the revision counts them.
func TestTwoWritersLoseNoUpdate(t *testing.T) {
	for name, place := range places() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tally := evidence.Count(t, "race-"+strings.Replace(name, "folder", "local", 1))
			at := place(t)
			writers := [2]bucket.Store{openStore(t, at), openStore(t, at)}
			lost, refused := race(t, writers, evidence.Size(20, 1000), tally)
			if lost != "" {
				t.Error(lost)
			}
			tally.Note("%d swaps were refused and computed anew", refused)
		})
	}
}

// TestTheRaceFindsAStoreThatIgnoresConditions is what the race is worth.
func TestTheRaceFindsAStoreThatIgnoresConditions(t *testing.T) {
	t.Parallel()
	at := folderPlace(t)
	weak := &buckettest.IgnoreConditions{Store: openStore(t, at)}
	if lost, _ := race(t, [2]bucket.Store{weak, weak}, 100, nil); lost == "" {
		t.Error("no update was lost")
	}
}

// openStore opens a place as the program does.
func openStore(t *testing.T, at place) bucket.Store {
	t.Helper()
	store, err := inEnvironment(at.env, func() (bucket.Store, error) { return open.Open(t.Context(), at.url, open.Options{}) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// environment guards the process's environment: t.Setenv is not for parallel tests. The programs under
// test get none of it.
var environment sync.Mutex

func inEnvironment(env []string, do func() (bucket.Store, error)) (bucket.Store, error) {
	environment.Lock()
	defer environment.Unlock()
	for _, line := range env {
		name, value, _ := strings.Cut(line, "=")
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
		defer os.Unsetenv(name) //nolint:errcheck // a name that could be set can be unset
	}
	return do()
}

// race returns what was lost, or "", and how many swaps were refused.
func race(t *testing.T, writers [2]bucket.Store, rounds int, tally *evidence.Tally) (lost string, refused int) {
	t.Helper()
	var group sync.WaitGroup
	problems, counts := make([]string, raceKeys), make([]int, raceKeys)
	for i := range raceKeys {
		share := rounds / raceKeys
		if i < rounds%raceKeys {
			share++
		}
		group.Go(func() {
			one := pointerRace{t: t, writers: writers, key: manifest.PointerKey(fmt.Sprintf("ds_%d", i))}
			problems[i] = one.run(share, tally)
			counts[i] = one.refused
		})
	}
	group.Wait()
	for _, n := range counts {
		refused += n
	}
	return strings.Join(slices.DeleteFunc(problems, func(p string) bool { return p == "" }), "\n"), refused
}

// pointerRace is the race over one pointer.
type pointerRace struct {
	t       *testing.T
	writers [2]bucket.Store
	key     string
	acked   []string
	refused int
}

func (r *pointerRace) run(rounds int, tally *evidence.Tally) string {
	for round := range rounds {
		var started, done sync.WaitGroup
		started.Add(len(r.writers))
		var calls [2]int
		var errs [2]error
		names := [2]string{}
		for i, store := range r.writers {
			names[i] = fmt.Sprintf("w%d-%d", i, round)
			done.Go(func() {
				started.Done()
				started.Wait() // both begin at the same moment
				calls[i], errs[i] = addName(r.t.Context(), store, r.key, names[i])
			})
		}
		done.Wait()
		for i, err := range errs {
			if err != nil {
				return fmt.Sprintf("%s: writer %d failed in round %d: %v", r.key, i, round, err)
			}
			r.acked = append(r.acked, names[i])
			r.refused += calls[i] - 1
		}
		if tally != nil {
			tally.Add(1)
		}
	}
	return r.judge()
}

// addName adds a name to the pointer's list, and returns how often it was computed.
func addName(ctx context.Context, store bucket.Store, key, name string) (calls int, err error) {
	_, err = state.Update(ctx, store, pauseFor, key, func(standing *state.Pointer) (*state.Pointer, error) {
		calls++
		next := &state.Pointer{Dataset: strings.TrimSuffix(strings.TrimPrefix(key, "current/"), ".json")}
		if standing != nil {
			if slices.Contains(standing.Snapshot, name) {
				return nil, nil //nolint:nilnil // our own write landed although its answer was lost
			}
			*next = *standing
			next.Snapshot = slices.Clone(standing.Snapshot)
		}
		next.Snapshot = append(next.Snapshot, name)
		return next, nil
	})
	return calls, err
}

// pauseFor waits as the program does.
func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *pointerRace) judge() string {
	pointer, _, err := state.Read[state.Pointer](r.t.Context(), r.writers[0], r.key)
	if err != nil || pointer == nil {
		return fmt.Sprintf("%s: %+v, %v", r.key, pointer, err)
	}
	stands, acked := slices.Sorted(slices.Values(pointer.Snapshot)), slices.Sorted(slices.Values(r.acked))
	if !slices.Equal(stands, acked) {
		return fmt.Sprintf("%s: %d updates were acknowledged, %d stand", r.key, len(acked), len(stands))
	}
	if pointer.Revision != int64(len(acked)) {
		return fmt.Sprintf("%s: the revision is %d after %d updates", r.key, pointer.Revision, len(acked))
	}
	return ""
}

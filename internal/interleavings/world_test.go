package interleavings_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/rs/zerolog"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
	"feedmirror/internal/invariant"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

// permits is the dataset of all scenarios.
const permits = "ds_permits"

var keepOne = manifest.KeepRules{Versions: 1}

// later is after all that happens in a schedule.
func later() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func noPause(ctx context.Context, _ time.Duration) error { return ctx.Err() }

type noObserver struct{}

func (noObserver) Planned(string, int64, int64) {}
func (noObserver) Finished(string)              {}
func (noObserver) Stage(string, string)         {}

// command is what a process runs.
type command func(ctx context.Context, m *buckettest.Machine, store bucket.Store) error

// runs is a process that sees the store through wrap, nil: as it is.
func runs(name string, wrap func(bucket.Store) bucket.Store, do command) buckettest.Process {
	return buckettest.Process{Name: name, Run: func(ctx context.Context, m *buckettest.Machine) error {
		store := m.Store()
		if wrap != nil {
			store = wrap(store)
		}
		return do(ctx, m, store)
	}}
}

// zeroCounts counts nothing: the explorer does.
type zeroCounts struct{}

func (zeroCounts) Counts() mirror.RequestCounts { return mirror.RequestCounts{} }

const staticURL = "https://feed.example"

func passOptions(name string, store bucket.Store, now func() time.Time, pause state.Pause, versions []staticVersion) mirror.Options {
	source := &staticFeed{now: now, versions: versions}
	return mirror.Options{
		Settings: mirror.Settings{ShardOf: 1, History: manifest.HistoryAll, FullEvery: 24 * time.Hour, Overlap: 10 * time.Minute,
			LeaseTTL: time.Minute, OnMajor: manifest.MajorHold, AtOnce: 1},
		Feed: source, FeedURL: staticURL, Store: store, StoreURL: "memory", Mover: staticCopier{source, store}, Manifests: source,
		Observer: noObserver{}, Log: zerolog.Nop(), Run: name, Host: "test", Tool: "mirror test", Now: now, Pause: pause, Requests: zeroCounts{},
	}
}

// passOver makes one pass over a feed that has these versions. Exits beside 0 are errors, but those of
// a prune that the pass waits for.
func passOver(versions ...staticVersion) command {
	return func(ctx context.Context, m *buckettest.Machine, store bucket.Store) error {
		return passed(mirror.Run(ctx, passOptions(m.Name(), store, m.Now, m.Pause, versions)))
	}
}

func passed(report mirror.Report) error {
	busy := slices.ContainsFunc(report.Notes, func(n mirror.Note) bool { return n.Kind == "busy" })
	switch {
	case busy != (report.Datasets.Busy > 0):
		return fmt.Errorf("the pass noted %+v and counts %d busy", report.Notes, report.Datasets.Busy)
	case report.Exit == mirror.ExitDone || report.Exit == mirror.ExitStopped:
		return nil
	}
	text, err := json.Marshal(report)
	return errors.Join(fmt.Errorf("the pass ended with %d: %s", report.Exit, text), err)
}

func decideOptions(m *buckettest.Machine, store bucket.Store) mirror.DecideOptions {
	return mirror.DecideOptions{Docs: store, Pause: m.Pause, OnMajor: manifest.MajorHold, Now: m.Now, Run: m.Name(), Who: "tester"}
}

func approval(ctx context.Context, m *buckettest.Machine, store bucket.Store) error {
	_, err := mirror.Approve(ctx, decideOptions(m, store), permits)
	return err
}

func rollbackTo(n manifest.Number) command {
	return func(ctx context.Context, m *buckettest.Machine, store bucket.Store) error {
		_, err := mirror.Rollback(ctx, decideOptions(m, store), permits, n)
		return err
	}
}

func pruneOptionsOf(m *buckettest.Machine, store bucket.Store) mirror.PruneOptions {
	return mirror.PruneOptions{Store: store, Rules: keepOne, Apply: true, LeaseTTL: time.Minute,
		Run: m.Name(), Host: "test", Tool: "mirror test", Now: m.Now, Pause: m.Pause}
}

func pruning(ctx context.Context, m *buckettest.Machine, store bucket.Store) error {
	_, err := mirror.Prune(ctx, pruneOptionsOf(m, store))
	return err
}

// beginning is a bucket that passes over these feeds made, one after the other.
func beginning(t *testing.T, feeds ...[]staticVersion) *buckettest.Memory {
	t.Helper()
	store := buckettest.NewMemory()
	got := buckettest.ExploreHere(t, buckettest.Scenario{
		Begin: func() (*buckettest.Memory, []buckettest.Process) {
			return buckettest.NewMemory(), []buckettest.Process{runs("before", nil, func(ctx context.Context, m *buckettest.Machine, store bucket.Store) error {
				_, err := state.SaveLayout(ctx, store, m.Pause, state.Layout{Layout: manifest.LayoutVersion, FeedURL: staticURL, Store: "memory",
					Guarantees: store.Guarantees(), ProbedAt: m.Now(), CreatedAt: m.Now(), Tool: "mirror test"})
				for _, versions := range feeds {
					err = errors.Join(err, passOver(versions...)(ctx, m, store))
				}
				return err
			})}
		},
		End: func(now *buckettest.Memory, ended []buckettest.Ended) error {
			store = now.Clone()
			return ended[0].Err
		}})
	if got.Finding != nil {
		t.Fatal(got.Finding)
	}
	return store
}

// inOrder returns what judges states: the bucket keeps every promise, the pointer moves as it may, and
// only a prune deletes.
func inOrder() func(now *buckettest.Memory, key string, before []byte) error {
	checked := map[[16]byte]bool{} // buckets that are in order: many schedules lead to the same
	return func(now *buckettest.Memory, key string, before []byte) error {
		if print := now.Fingerprint(); !checked[print] {
			if broken := invariant.Check(now.Bare()); len(broken) > 0 {
				return fmt.Errorf("%v", broken)
			}
			checked[print] = true
		}
		if strings.HasPrefix(key, "current/") {
			return invariant.CheckMove(before, now.Bytes(key))
		}
		return nil
	}
}

// pointerOf reads the pointer of a bucket.
func pointerOf(now *buckettest.Memory) (*state.Pointer, error) {
	pointer, _, err := state.Read[state.Pointer](context.Background(), now, manifest.PointerKey(permits))
	if err == nil && pointer == nil {
		err = errors.New("there is no pointer")
	}
	return pointer, err
}

// endedWell wants every process that was not killed to have ended without an error but those allowed.
func endedWell(ended []buckettest.Ended, allowed ...fault.Kind) error {
	for _, e := range ended {
		if e.Err != nil && !e.Crashed && !slices.Contains(allowed, fault.KindOf(e.Err)) {
			return fmt.Errorf("%s failed: %w", e.Name, e.Err)
		}
	}
	return nil
}

// nextPass makes a pass after all others, over the bucket as it then is.
func nextPass(now *buckettest.Memory, versions ...staticVersion) error {
	return passed(mirror.Run(context.Background(), passOptions("later", now, later, noPause, versions)))
}

// endsAt wants all to have ended well, and the next pass to leave the pointer at a version, pinned or
// not, and nothing owed.
func endsAt(n manifest.Number, pinned bool, versions []staticVersion, allowed ...fault.Kind) func(*buckettest.Memory, []buckettest.Ended) error {
	return func(now *buckettest.Memory, ended []buckettest.Ended) error {
		if err := errors.Join(endedWell(ended, allowed...), nextPass(now, versions...)); err != nil {
			return err
		}
		pointer, err := pointerOf(now)
		if err == nil && (pointer.Version != n || pointer.Pinned != pinned) {
			err = fmt.Errorf("the pointer is at version %d, pinned %v, after the next pass; want %d, %v", pointer.Version, pointer.Pinned, n, pinned)
		}
		return err
	}
}

// bubble runs a test in a synctest bubble with decoders of its own.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	parquet.Zstd = zstd.Codec{}
	defer func() { parquet.Zstd = zstd.Codec{} }()
	synctest.Test(t, test)
}

// interleavings explores scenarios by name and wants no finding. All of them run in one bubble.
func interleavings(t *testing.T, row string, short int, scenarios func(t *testing.T) map[string]buckettest.Scenario) {
	t.Helper()
	tally := evidence.Count(t, row)
	states, stand := 0, float64(0)
	bubble(t, func(t *testing.T) {
		list := scenarios(t)
		for _, name := range slices.Sorted(maps.Keys(list)) {
			s := list[name]
			s.Switches = evidence.Size(short, s.Switches)
			got := buckettest.ExploreHere(t, s)
			switch {
			case got.Finding != nil:
				t.Errorf("%s:\n%s", name, got.Finding)
			case !got.Whole:
				t.Errorf("%s: left unfinished after %d schedules", name, got.Schedules)
			}
			tally.Add(got.Schedules)
			states += got.States
			if got.StandFor > 0 {
				stand += got.StandFor
			}
			t.Logf("%s: %d schedules, %d states, at most %d steps; they stand for %.3g interleavings", name, got.Schedules, got.States, got.Longest, got.StandFor)
		}
	})
	tally.Note("%d states", states)
	if stand > 0 {
		tally.Note("the schedules stand for %.1g interleavings", stand)
	}
}

package state_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
	"feedmirror/internal/invariant"
	"feedmirror/manifest"
	"feedmirror/state"
)

// The interleavings of this package are those of the state code alone: each process does with it what
// a pass does, step by step.

// content is one version as the feed has it: its manifest and its schema.
type content struct {
	number       manifest.Number
	manifest     []byte
	schema       []byte
	schemaNumber manifest.SchemaVersion
}

func contentOf(n manifest.Number, major int, text string) content {
	c := content{number: n, schema: []byte(text), schemaNumber: manifest.SchemaVersion{Major: major}}
	c.manifest = fmt.Appendf(nil, `{"datasetId":"ds","version":%d,"files":[{"path":"schema.json","sizeBytes":%d,"sha256":%q}]}`,
		n, len(c.schema), manifest.SumBytes(c.schema))
	return c
}

func (c content) file() manifest.File {
	return manifest.File{Kind: manifest.KindSchema, Path: "schema.json", Size: int64(len(c.schema)), SHA256: manifest.SumBytes(c.schema)}
}

// record returns the record that a run would commit, with the bytes of its sums.
func (c content) record(m *buckettest.Machine, run string) (manifest.Record, []byte, error) {
	file := c.file()
	record := recordOf(c.number, c.schemaNumber.Major)
	record.Manifest = manifest.ObjectRef{Key: manifest.ManifestKey("ds", c.number), SHA256: manifest.SumBytes(c.manifest)}
	record.ManifestSize, record.Run, record.CommittedAt = int64(len(c.manifest)), run, m.Now()
	record.Files = []manifest.RecordFile{{Kind: file.Kind, Path: file.Path, Key: manifest.FileKey("ds", c.number, file), Size: file.Size, SHA256: file.SHA256}}
	var sums bytes.Buffer
	err := manifest.EncodeSums(&sums, manifest.SumLines(record.Manifest, record.Files, nil))
	record.Sums = manifest.ObjectRef{Key: manifest.SumsKey("ds", c.number), SHA256: manifest.SumBytes(sums.Bytes())}
	return record, sums.Bytes(), err
}

type noAttachments struct{}

func (noAttachments) AllPresent(context.Context) error { return nil }

// action is what a process does.
type action func(ctx context.Context, m *buckettest.Machine, store bucket.Store) error

// process is one that does this, one after the other.
func process(name string, actions ...action) buckettest.Process {
	return wrapped(name, nil, actions...)
}

// wrapped is a process that sees the store through wrap.
func wrapped(name string, wrap func(bucket.Store) bucket.Store, actions ...action) buckettest.Process {
	return buckettest.Process{Name: name, Run: func(ctx context.Context, m *buckettest.Machine) error {
		store := m.Store()
		if wrap != nil {
			store = wrap(store)
		}
		for _, do := range actions {
			if err := do(ctx, m, store); err != nil {
				return err
			}
		}
		return nil
	}}
}

// commit copies, verifies and commits a version.
func (c content) commit(ctx context.Context, m *buckettest.Machine, store bucket.Store) error {
	record, sums, err := c.record(m, m.Name())
	if err != nil {
		return err
	}
	var objects []state.Object
	for _, o := range []struct {
		key  string
		data []byte
	}{{record.Manifest.Key, c.manifest}, {record.Files[0].Key, c.schema}, {record.Sums.Key, sums}} {
		if err := put(ctx, store, o.key, o.data); err != nil {
			return err
		}
		objects = append(objects, state.Object{Key: o.key, Size: int64(len(o.data)), SHA256: manifest.SumBytes(o.data)})
	}
	holding, err := state.LoadHolding(ctx, store, "ds")
	if err != nil {
		return err
	}
	if before := holding.NewestRecord(c.number); before != 0 {
		committed, err := state.Recall(ctx, store, "ds", before)
		if err != nil {
			return err
		}
		record.PreviousVersion, record.PreviousRecord = before, &manifest.RecordRef{Version: before, SHA256: committed.SHA256()}
	}
	verified, err := state.Verify(ctx, store, "ds", c.number, objects, noAttachments{})
	if err == nil {
		_, err = state.Commit(ctx, store, verified, record)
	}
	return err
}

// put creates an object, or wants the one that stands to be the same.
func put(ctx context.Context, store bucket.Store, key string, data []byte) error {
	standing, ours, err := state.CreateOnce(ctx, store, key, data)
	if err == nil && !ours && !bytes.Equal(standing, data) {
		return &fault.Error{Op: "put object", Object: key, Kind: fault.Conflict, Err: errors.New("other bytes stand")}
	}
	return err
}

// readPublication reads what a publication is computed from: the pointer first.
func readPublication(ctx context.Context, m *buckettest.Machine, store bucket.Store) (state.Publication, error) {
	p := state.Publication{Dataset: "ds", OnMajor: manifest.MajorHold, FirstReady: true, Now: m.Now()}
	pointer, _, err := state.Read[state.Pointer](ctx, store, manifest.PointerKey("ds"))
	if err != nil {
		return p, err
	}
	published := manifest.Number(0)
	if pointer != nil {
		p.Seen, published = pointer.Revision, pointer.Version
	}
	if p.Holding, err = state.LoadHolding(ctx, store, "ds"); err != nil {
		return p, err
	}
	if err := state.ReadNotes(ctx, store, "ds", p.Holding, 0); err != nil {
		return p, err
	}
	for _, held := range p.Holding {
		if held.Record && held.Number > published {
			committed, err := state.Recall(ctx, store, "ds", held.Number)
			if err != nil {
				return p, err
			}
			p.Committed = append(p.Committed, committed)
		}
	}
	return p, nil
}

// publish moves the pointer, and reads all anew when somebody else wrote it meanwhile.
func publish(ctx context.Context, m *buckettest.Machine, store bucket.Store) error {
	return publishWith(ctx, m, store, false)
}

func publishWith(ctx context.Context, m *buckettest.Machine, store bucket.Store, fence bool) error {
	for {
		p, err := readPublication(ctx, m, store)
		if err != nil {
			return err
		}
		p.Fence = fence
		if _, err := state.Publish(ctx, store, m.Pause, p); !errors.Is(err, state.ErrPointerMoved) {
			return err
		}
	}
}

// release commits a version and publishes it, as a pass does.
func (c content) release(ctx context.Context, m *buckettest.Machine, store bucket.Store) error {
	if err := c.commit(ctx, m, store); err != nil {
		return err
	}
	return publish(ctx, m, store)
}

// withdraw notes that the feed withdrew a version, and tells the pointer.
func withdraw(n manifest.Number) action {
	return func(ctx context.Context, m *buckettest.Machine, store bucket.Store) error {
		if err := state.NoteWithdrawn(ctx, store, m.Pause, state.Withdrawn{Dataset: "ds", Version: n, From: m.Now()}); err != nil {
			return err
		}
		return publishWith(ctx, m, store, true)
	}
}

// kept returns what judges states: the bucket keeps every promise, and the pointer moved as it may.
func kept() func(now *buckettest.Memory, key string, before []byte) error {
	checked := map[[16]byte]bool{} // buckets that are in order: many schedules lead to the same
	return func(now *buckettest.Memory, key string, before []byte) error {
		mayChange := strings.HasPrefix(key, "current/") || strings.HasPrefix(key, "_mirror/") || strings.HasSuffix(key, "/withdrawn.json")
		if before != nil && !mayChange {
			return fmt.Errorf("%s was overwritten", key)
		}
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

// well wants every process that was not killed to have ended without an error but those allowed.
func well(ended []buckettest.Ended, allowed ...fault.Kind) error {
	for _, e := range ended {
		if e.Err != nil && !e.Crashed && !slices.Contains(allowed, fault.KindOf(e.Err)) {
			return fmt.Errorf("%s failed: %w", e.Name, e.Err)
		}
	}
	return nil
}

// pointsTo wants the pointer at one of these versions, saying of it what its notes say.
func pointsTo(now *buckettest.Memory, one ...manifest.Number) error {
	ctx := context.Background()
	pointer, _, err := state.Read[state.Pointer](ctx, now, manifest.PointerKey("ds"))
	switch {
	case err != nil:
		return err
	case pointer == nil || !slices.Contains(one, pointer.Version):
		return fmt.Errorf("the pointer is %+v, want version %d", pointer, one)
	}
	holding, err := state.LoadHolding(ctx, now, "ds")
	if err == nil {
		err = state.ReadNotes(ctx, now, "ds", holding, 0)
	}
	if held, _ := holding.Find(pointer.Version); err == nil && held.Withdrawn != pointer.Withdrawn {
		err = fmt.Errorf("the pointer says withdrawn %v of version %d, and its withdrawn.json %v", pointer.Withdrawn, pointer.Version, held.Withdrawn)
	}
	return err
}

// found explores a scenario from which a rule was taken out, with ever more switches, and wants it
// to be found.
func found(t *testing.T, s buckettest.Scenario, what string) {
	t.Helper()
	for s.Switches = 1; s.Switches <= 3; s.Switches++ {
		if got := buckettest.Explore(t, s); got.Finding != nil {
			t.Logf("found in schedule %d, with %d switches:\n%s", got.Schedules, s.Switches, got.Finding)
			if !strings.Contains(got.Finding.Err.Error(), what) {
				t.Errorf("want it to say %q", what)
			}
			return
		}
	}
	t.Error("nothing is found")
}

// explored explores scenarios by name and wants no finding, each of them whole. The long form has all
// interleavings, and those of one switch with a crash or a lost answer at each place.
func explored(t *testing.T, row string, short int, scenarios map[string]buckettest.Scenario) {
	t.Helper()
	tally := evidence.Count(t, row)
	states, stand := 0, float64(0)
	explore := func(name string, s buckettest.Scenario) {
		got := buckettest.Explore(t, s)
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
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		s := scenarios[name]
		if !evidence.Long() {
			s.Switches = short
			explore(name, s)
			continue
		}
		explore(name, s)
		if s.Switches > 0 {
			continue // too large as it is
		}
		s.Switches = 1
		crashing, losing := s, s
		crashing.Crashes, crashing.Restart, losing.LostAnswers = 1, true, 1
		explore(name+", with a crash", crashing)
		explore(name+", with a lost answer", losing)
	}
	tally.Note("%d states", states)
	if stand > 0 {
		tally.Note("the schedules stand for %.1g interleavings", stand)
	}
}

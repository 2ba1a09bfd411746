package mirror_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

const permitsTwin = "ds_permits_twin"

// frozen runs meanwhile just before the nth call of the store's user, and lets none of its other calls
// through until that is over: as if that process had been stopped there. What it sends afterwards
// rests on what it saw before.
type frozen struct {
	bucket.Store
	nth       int
	meanwhile func()

	mu        sync.Mutex
	calls     int
	slept     bool
	firstSwap int // the call that begins the prune
	journal   []string
}

func (f *frozen) step(op, key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	f.journal = append(f.journal, op+" "+key)
	if op == "swap" && f.firstSwap == 0 {
		f.firstSwap = f.calls
	}
	if f.calls == f.nth {
		f.slept = true
		f.meanwhile()
	}
}

func (f *frozen) Stat(ctx context.Context, key string) (bucket.Info, error) {
	f.step("stat", key)
	return f.Store.Stat(ctx, key)
}

func (f *frozen) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	f.step("open", key)
	return f.Store.Open(ctx, key, offset, length)
}

func (f *frozen) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	f.step("list", prefix)
	return f.Store.List(ctx, prefix, after)
}

func (f *frozen) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	f.step("create", key)
	return f.Store.Create(ctx, key, content)
}

func (f *frozen) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	f.step("swap", key)
	return f.Store.Swap(ctx, key, old, data)
}

func (f *frozen) Delete(ctx context.Context, key string, tag bucket.Tag) error {
	f.step("delete", key)
	return f.Store.Delete(ctx, key, tag)
}

// twins has two datasets whose documents are the same bytes, release by release.
func twins(t *testing.T) (w *world, d, twin *feedsim.Dataset) {
	t.Helper()
	w = newWorld(t, feedsim.Options{})
	d = w.dataset(permits, feedsim.Points)
	twin, err := w.feed.AddDataset(feedsim.DatasetSpec{ID: permitsTwin, TwinOf: permits, Character: feedsim.Points, Rows: 12})
	if err != nil {
		t.Fatal(err)
	}
	w.release(d, feedsim.ReleaseSpec{})
	w.release(twin, feedsim.ReleaseSpec{})
	return w, d, twin
}

// twinsWorld has documents that only versions 1 and 2 of both datasets name, which a prune takes, and
// that versions name again which the next pass meets.
func twinsWorld(t *testing.T) *world {
	t.Helper()
	w, d, twin := twins(t)
	w.sync(0)
	names := w.documentsOf(1)
	if stored := w.attachmentsStored(); stored > len(names)+1 {
		t.Fatalf("two datasets with %d documents each store %d attachments", len(names), stored)
	}
	for _, left := range [][]string{nil, names, names[1:]} {
		w.release(d, feedsim.ReleaseSpec{Change: 1, LeaveOut: left})
		w.release(twin, feedsim.ReleaseSpec{Change: 1, LeaveOut: left})
	}
	w.sync(0)
	w.release(d, feedsim.ReleaseSpec{Change: 1})
	w.release(twin, feedsim.ReleaseSpec{Change: 1, LeaveOut: names[3:]})
	return w
}

// matrix is a world that is frozen again and again, each time in a copy.
type matrix struct {
	t      *testing.T
	tally  *evidence.Tally
	origin *world
	want   []string // the keys in the end
}

// newMatrix notes how a bucket ends that nobody disturbed.
func newMatrix(t *testing.T, row string) *matrix {
	t.Helper()
	m := &matrix{t: t, tally: evidence.Count(t, row), origin: twinsWorld(t)}
	w, _ := m.origin.copyOf(t)
	w.prune(0, keepOne)
	w.syncUntilDone()
	m.want = m.settled(w, "undisturbed")
	return m
}

// settled lets a bucket come to its end, and returns its keys.
func (m *matrix) settled(w *world, when string) []string {
	m.t.Helper()
	if _, err := mirror.ResumePrune(m.t.Context(), w.pruneOptions(keepOne)); err != nil || w.pruneDocument().Running() {
		m.t.Fatalf("%s: the prune is not finished by --resume: %v", when, err)
	}
	w.whole(when + ", resumed")
	w.syncUntilDone()
	w.prune(0, keepOne)
	w.prune(0, keepOne) // what a delete in flight brought too late
	return slices.Sorted(maps.Keys(finishedData(m.t, w)))
}

// try freezes a process before its nth request while others do something, and wants a whole bucket
// after each step and the same end as undisturbed.
func (m *matrix) try(name string, nth int, run func(w *world, store bucket.Store) error, meanwhile func(w *world)) {
	m.t.Helper()
	when := fmt.Sprintf("%s while the process sleeps before request %d", name, nth)
	w, store := m.origin.copyOf(m.t)
	sleeping := &frozen{Store: store, nth: nth, meanwhile: func() {
		meanwhile(w)
		w.whole(when + ", before it wakes up")
	}}
	if err := run(w, sleeping); err != nil && !fault.Is(err, fault.Budget) {
		m.t.Errorf("%s: it ended with %v", when, err)
	}
	w.whole(when)
	if got := m.settled(w, when); !slices.Equal(got, m.want) {
		m.t.Errorf("%s: it ends otherwise: %v", when, difference(got, m.want))
	}
	if sleeping.slept {
		m.tally.Add(1)
	}
	if m.t.Failed() {
		m.t.Fatalf("failed with %s", when)
	}
}

// requests returns which of so many requests are tried: all of them in the first two scenarios and every
// third in the others; or a few of them, other ones for each scenario.
func requests(count, scenario int) []int {
	stride := evidence.Size(max(count/3, 1), 1+min(scenario/2, 1)*2)
	var list []int
	for nth := 1 + scenario*7%stride; nth <= count; nth += stride {
		list = append(list, nth)
	}
	return list
}

func pruneOnce(w *world, store bucket.Store) error {
	o := w.pruneOptions(keepOne)
	o.Store = store
	_, err := mirror.Prune(context.Background(), o)
	return err
}

func resumeOnce(w *world) {
	if _, err := mirror.ResumePrune(context.Background(), w.pruneOptions(keepOne)); err != nil {
		w.t.Errorf("resume: %v", err)
	}
}

// pass makes one pass, which may be told to wait for a prune.
func pass(w *world) {
	if report := mirror.Run(context.Background(), w.options()); report.Exit != 0 && report.Exit != mirror.ExitStopped {
		w.t.Errorf("a pass ended with %d: %+v", report.Exit, report.Failures)
	}
}

// pruneDiesAt lets a prune die at a write.
func pruneDiesAt(nth int64, when buckettest.CrashWhen) func(w *world) {
	return func(w *world) {
		_ = pruneOnce(w, &buckettest.CrashAfterNthWrite{Store: w.store, Nth: nth, When: when}) // dead
	}
}

func inTurn(steps ...func(w *world)) func(w *world) {
	return func(w *world) {
		for _, step := range steps {
			step(w)
		}
	}
}

// scenarios are what others do while a process sleeps.
type scenario struct {
	name      string
	meanwhile func(w *world)
}

// TestAPruneThatSleepsHarmsNothing stops a prune before each of its requests, lets others do what it
// must not undo, and wakes it up.
func TestAPruneThatSleepsHarmsNothing(t *testing.T) {
	m := newMatrix(t, "prune-frozen")
	w, store := m.origin.copyOf(t)
	counter := &frozen{Store: store}
	if err := pruneOnce(w, counter); err != nil {
		t.Fatal(err)
	}
	m.tally.Note("%d requests of a prune", counter.calls)
	for at, s := range []scenario{
		{"a pass", pass},
		{"a pass, another prune, a pass", inTurn(pass, resumeOnce, (*world).syncUntilDone)},
		{"another prune, a pass", inTurn(resumeOnce, (*world).syncUntilDone)},
		{"a new prune, a pass", inTurn(func(w *world) { _ = pruneOnce(w, w.store) }, pass)},
		{"a pass, a prune that dies deleting", inTurn(pass, resumeOnce, pruneDiesAt(9, buckettest.AfterWrite))},
	} {
		for _, nth := range requests(counter.calls, at) {
			m.try(s.name, nth, pruneOnce, s.meanwhile)
		}
	}
}

// TestAPassThatSleepsThroughAPruneLosesNothing stops a pass before each of its requests, lets a prune
// come to its end or die half way, and wakes it up.
func TestAPassThatSleepsThroughAPruneLosesNothing(t *testing.T) {
	m := newMatrix(t, "sync-frozen")
	syncOnce := func(w *world, store bucket.Store) error {
		beneath := w.store
		w.store = store
		o := w.options()
		w.store = beneath
		report := mirror.Run(context.Background(), o)
		if report.Exit != 0 && report.Exit != mirror.ExitStopped {
			return fmt.Errorf("exit %d: %+v", report.Exit, report.Failures)
		}
		return nil
	}
	w, store := m.origin.copyOf(t)
	counter := &frozen{Store: store}
	if err := syncOnce(w, counter); err != nil {
		t.Fatal(err)
	}
	m.tally.Note("%d requests of a pass", counter.calls)
	prune := func(w *world) {
		if err := pruneOnce(w, w.store); err != nil {
			w.t.Errorf("prune: %v", err)
		}
	}
	for at, s := range []scenario{
		{"a prune", prune},
		{"a prune that dies deciding", pruneDiesAt(2, buckettest.AfterWrite)},
		{"a prune that dies deleting", pruneDiesAt(9, buckettest.AfterWrite)},
		{"a prune, a pass, a prune", inTurn(prune, (*world).syncUntilDone, prune)},
	} {
		for _, nth := range requests(counter.calls, at) {
			m.try(s.name, nth, syncOnce, s.meanwhile)
		}
	}
}

// TestTheOrderOfAPrune reads the journal of a prune's requests: what it means to delete stands before
// pointers are fenced, claims are read after that, pruned.json stands beside each record before the
// first delete, and the prune is closed behind the last.
func TestTheOrderOfAPrune(t *testing.T) {
	w, store := twinsWorld(t).copyOf(t)
	recorder := &frozen{Store: store}
	if err := pruneOnce(w, recorder); err != nil {
		t.Fatal(err)
	}
	swaps := every(recorder.journal, "swap "+manifest.PruneKey)
	fences := every(recorder.journal, "swap current/")
	notes := every(recorder.journal, "create versions/", "/pruned.json")
	deletes := every(recorder.journal, "delete ")
	if len(swaps) != 3 || len(fences) != 2 || len(notes) != 6 || len(deletes) < 12 {
		t.Fatalf("%d swaps of prune.json, %d fences, %d notes, %d deletes:\n%s", len(swaps), len(fences), len(notes), len(deletes), strings.Join(recorder.journal, "\n"))
	}
	order := []struct {
		what string
		at   int
	}{
		{"prune.json", swaps[0]}, {"the first fence", fences[0]}, {"the last fence", fences[1]},
		{"the first claim read after it", after(recorder.journal, fences[1], "open versions/", "/manifest.json")},
		{"prune.json narrowed", swaps[1]}, {"the first pruned.json", notes[0]}, {"the last pruned.json", notes[5]},
		{"the first delete", deletes[0]}, {"the last delete", deletes[len(deletes)-1]}, {"prune.json closed", swaps[2]},
	}
	for at := 1; at < len(order); at++ {
		if order[at-1].at >= order[at].at {
			t.Errorf("%s is request %d, %s request %d", order[at-1].what, order[at-1].at, order[at].what, order[at].at)
		}
	}
	for at, line := range recorder.journal[:swaps[0]] {
		if op, _, _ := strings.Cut(line, " "); op != "open" && op != "list" && op != "stat" {
			t.Errorf("request %d, before prune.json, is %s", at, line)
		}
	}
}

// TestADryRunWritesNothing asserts it by the requests and by the bucket.
func TestADryRunWritesNothing(t *testing.T) {
	w, store := twinsWorld(t).copyOf(t)
	before := w.take()
	recorder := &frozen{Store: store}
	o := w.pruneOptions(keepOne)
	o.Store, o.Apply = recorder, false
	report, err := mirror.Prune(t.Context(), o)
	if err != nil || report.Status != "planned" || len(report.Versions) != 6 || report.Attachments.Objects == 0 {
		t.Errorf("error %v, status %s, %d versions, %d attachments", err, report.Status, len(report.Versions), report.Attachments.Objects)
	}
	for _, line := range recorder.journal {
		if op, _, _ := strings.Cut(line, " "); op != "open" && op != "list" && op != "stat" {
			t.Errorf("a dry run sent %s", line)
		}
	}
	if !maps.Equal(before.Objects, w.take().Objects) {
		t.Error("the bucket is another one")
	}
}

// TestAPassClaimsBeforeItLooks reads the journal of a pass: the manifest, which says what the version
// names, stands before prune.json is read, and that is before anything is called present.
func TestAPassClaimsBeforeItLooks(t *testing.T) {
	w, store := twinsWorld(t).copyOf(t)
	recorder := &frozen{Store: store}
	w.store = recorder
	pass(w)
	w.store = store
	for _, dataset := range []string{permits, permitsTwin} {
		claim := after(recorder.journal, -1, "create "+manifest.ManifestKey(dataset, 5))
		look := after(recorder.journal, claim, "open "+manifest.PruneKey)
		first := after(recorder.journal, claim, "create snapshot/ploti_dataset_id="+dataset+"/")
		if claim < 0 || look < claim || first < look {
			t.Errorf("%s: claimed at request %d, looked for a prune at %d, wrote its first part at %d", dataset, claim, look, first)
		}
	}
	claimed := after(recorder.journal, -1, "create versions/", "/manifest.json")
	for at, line := range recorder.journal {
		if at < claimed && (strings.HasPrefix(line, "stat attachments/") || strings.HasPrefix(line, "list attachments/")) {
			t.Errorf("request %d, before the claim, is %s", at, line)
		}
	}
}

// every returns the places of the lines that begin and end so.
func every(journal []string, begin string, end ...string) []int {
	var list []int
	for at, line := range journal {
		if strings.HasPrefix(line, begin) && (len(end) == 0 || strings.HasSuffix(line, end[0])) {
			list = append(list, at)
		}
	}
	return list
}

// after returns the place of the first such line behind another place, -1 when there is none.
func after(journal []string, behind int, begin string, end ...string) int {
	for _, at := range every(journal, begin, end...) {
		if at > behind {
			return at
		}
	}
	return -1
}

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
)

// frozenWorld is a bucket behind a gate, in which runs are frozen at a request while others go on.
type frozenWorld struct {
	*world
	gate    *gate
	random  *rand.Rand
	permits *feedsim.Dataset
	bulky   *feedsim.Dataset
	step    int
}

// frozenTTL is the shortest lease that the program takes: a frozen run outlives it in every round.
const frozenTTL = "1s"

func newFrozenWorld(t *testing.T, random *rand.Rand) *frozenWorld {
	t.Helper()
	g := newGate(t)
	w := &frozenWorld{world: newWorld(t, g.place, feedsim.Options{}), gate: g, random: random}
	w.permits = w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Points, Rows: 6}, feedsim.ReleaseSpec{}, feedsim.ReleaseSpec{Add: 1})
	bulky, err := w.feed.AddBulk(w.bulk())
	if err != nil {
		t.Fatal(err)
	}
	w.bulky = bulky
	w.releaseBoth()
	w.sync(0, "--lease-ttl", frozenTTL)
	return w
}

// bulk names two new attachments. Each second version leaves older ones out, and the next names all of
// them again, so that a prune and a sync want the same ones.
func (w *frozenWorld) bulk() feedsim.BulkSpec {
	spec := feedsim.BulkSpec{Dataset: bulky, PartBytes: 8 << 10, Attachments: 5 + 2*w.step, AttachmentBytes: 64}
	if w.step%2 == 0 {
		spec.FirstAttachment, spec.Attachments = 2*w.step, 5
	}
	return spec
}

func (w *frozenWorld) releaseBoth() {
	w.t.Helper()
	w.step++
	w.release(w.permits, feedsim.ReleaseSpec{Add: 1})
	if _, err := w.bulky.ReleaseBulk(w.bulk()); err != nil {
		w.t.Fatal(err)
	}
}

// ends runs a command and wants one of these exit codes.
func (w *frozenWorld) ends(line []string, exits ...int) {
	w.t.Helper()
	done := w.start(nil, line...).wait()
	if !slices.Contains(exits, done.exit) {
		w.t.Errorf("%s ended with %d, want one of %v\n%s%s", strings.Join(line, " "), done.exit, exits, done.out, tail(done.err))
	}
}

func syncLine() []string { return []string{"sync", "--output", "json", "--lease-ttl", frozenTTL} }

func pruneLine() []string {
	return []string{"prune", "--keep-versions", "2", "--grace", "0s", "--apply", "--output", "json"}
}

// meanwhile is what others do while a run is frozen. A version can have to wait for a prune that is
// frozen: exit code 6.
func meanwhile() map[string]func(w *frozenWorld) {
	return map[string]func(w *frozenWorld){
		"a sync": func(w *frozenWorld) { w.ends(syncLine(), 0, 6) },
		"a release and a sync": func(w *frozenWorld) {
			w.releaseBoth()
			w.ends(syncLine(), 0, 6)
		},
		"a rollback": func(w *frozenWorld) {
			w.ends(syncLine(), 0, 6)
			var p pointer
			w.document("current/"+permits+".json", &p)
			w.ends([]string{"rollback", permits, fmt.Sprint(p.Version - 1), "--reason", "a test"}, 0, 2, 6)
		},
		"an approval": func(w *frozenWorld) {
			w.release(w.permits, feedsim.ReleaseSpec{Major: true})
			w.ends(syncLine(), 0, 6)
			w.ends([]string{"approve", permits, "--reason", "a test"}, 0, 2)
		},
		"a prune": func(w *frozenWorld) {
			w.ends(syncLine(), 0, 6)
			w.ends(pruneLine(), 0, 6)
		},
	}
}

// round freezes a run at a request, lets others go on past its lease, wakes it up, and wants that
// nothing was lost and nothing failed. It returns false when the run made no such request.
func (w *frozenWorld) round(line []string, at func(*http.Request, int) bool, others func(*frozenWorld)) bool {
	w.t.Helper()
	w.releaseBoth()
	if line[0] == "prune" {
		w.ends(syncLine(), 0)
	}
	before := w.snapshot()
	w.gate.arm(at)
	r := w.start(nil, line...)
	hit := w.gate.waitHeld(r)
	if hit {
		w.signal(r, syscall.SIGSTOP)
		others(w)
		w.wake(r)
	}
	w.gate.letGo()
	if done := r.wait(); done.exit != 0 && done.exit != 6 {
		w.t.Errorf("%s that was frozen ended with %d\n%s%s", line[0], done.exit, done.out, tail(done.err))
	}
	after := w.snapshot()
	for _, violation := range invariant.Compare(before, after) {
		w.t.Errorf("%s: %s", strings.Join(line, " "), violation)
	}
	w.heal()
	return hit
}

func (w *frozenWorld) signal(r *run, signal syscall.Signal) {
	w.t.Helper()
	if err := r.command.Process.Signal(signal); err != nil {
		w.t.Fatal(err)
	}
}

// wake lets the request that is held reach the store and the run go on, in either order: a request
// can arrive late while its sender still sleeps.
func (w *frozenWorld) wake(r *run) {
	w.t.Helper()
	if w.random.IntN(2) == 0 {
		passed := w.gate.passed
		w.gate.letGo()
		select {
		case <-passed:
		case <-time.After(10 * time.Second):
			w.t.Error("the request that was held got no answer")
		}
	}
	w.signal(r, syscall.SIGCONT)
}

// heal lets a person and a last sync end everything: nothing may be left to do.
func (w *frozenWorld) heal() {
	w.t.Helper()
	w.ends([]string{"prune", "--resume"}, 0)
	w.ends(syncLine(), 0)
	for w.waits() {
		w.ends([]string{"approve", permits}, 0)
		w.ends(syncLine(), 0)
	}
	w.published(permits, w.permits.Current())
	w.published(bulky, w.bulky.Current())
	w.run(0, "verify", "--level", "bytes")
	if w.t.Failed() {
		w.t.FailNow()
	}
}

// waits reports whether permits waits for a person.
func (w *frozenWorld) waits() bool {
	w.t.Helper()
	var p pointer
	w.document("current/"+permits+".json", &p)
	return p.Held != nil || p.Pinned
}

// TestASyncThatWakesUpHarmsNobody freezes a sync past its lease before what matters.
func TestASyncThatWakesUpHarmsNobody(t *testing.T) {
	t.Parallel()
	tally := evidence.Count(t, "frozen-sync")
	seed := newSeed(t, tally)
	points := map[string]func(*http.Request, int) bool{
		"record": puts("versions/"+permits, "/record.json"), "pointer": puts("current/"+permits, ".json"), "manifest": puts("versions/"+permits, "/manifest.json"),
		"lease": puts("_mirror/leases/"+permits, ".json"), "shard": puts("_mirror/shards/", ".json"), "attachment": puts("attachments/", ""), "part": puts("snapshot/", ".parquet"),
	}
	var moves atomic.Int64
	t.Cleanup(func() { tally.Note("%d pointer moves, none back", moves.Load()) })
	short := map[string]string{"record": "a rollback", "pointer": "a release and a sync"}
	for point, at := range points {
		if !evidence.Long() && short[point] == "" {
			continue
		}
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newFrozenWorld(t, rand.New(rand.NewPCG(seed, uint64(len(point)))))
			for name, others := range meanwhile() {
				if !evidence.Long() && short[point] != name {
					continue
				}
				if !w.round(syncLine(), at, others) {
					t.Errorf("no request for the %s was made, before %s", point, name)
				}
				tally.Add(1)
			}
			moves.Add(int64(w.gate.history(t)))
		})
	}
}

// TestAnyRequestOfAFrozenRun freezes a sync and a prune at each of their requests in turn, or at some.
func TestAnyRequestOfAFrozenRun(t *testing.T) {
	t.Parallel()
	for row, line := range map[string][]string{"frozen-anywhere-sync": syncLine(), "frozen-anywhere-prune": pruneLine()} {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			tally := evidence.Count(t, row)
			seed := newSeed(t, tally)
			names := []string{"a release and a sync", "a prune", "a sync", "a rollback", "an approval"}
			if line[0] == "prune" {
				names = slices.DeleteFunc(names, func(name string) bool { return name == "a prune" })
			}
			const inOne = 8 // rounds of one bucket: each MAJOR costs its dataset a column
			stride, hits, moves := evidence.Size(29, 3), 0, 0
			for n, more := stride, true; more; {
				w := newFrozenWorld(t, rand.New(rand.NewPCG(seed, uint64(n))))
				for range inOne {
					if more = w.round(line, nth(n), meanwhile()[names[hits%len(names)]]); !more {
						break
					}
					hits++
					n += stride
					tally.Add(1)
					if more = evidence.Long(); !more {
						break
					}
				}
				moves += w.gate.history(t)
			}
			tally.Note("%d pointer moves, none back", moves)
		})
	}
}

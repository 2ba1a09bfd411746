package buckettest

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"feedmirror/internal/bucket"
)

// Process is one process of a Scenario. What it does may depend on nothing but the answers of its
// Machine: it is run again for each schedule.
type Process struct {
	Name string
	Run  func(ctx context.Context, m *Machine) error
}

// Ended is how a process of a schedule ended.
type Ended struct {
	Name    string
	Err     error
	Crashed bool // by the schedule
}

// Scenario is a bucket and processes that work on it at once, whose interleavings are explored.
type Scenario struct {
	// Begin returns the bucket and the processes before the first step, the same ones each time. A
	// bucket dates what is written by its Now.
	Begin func() (*Memory, []Process)
	// Beneath takes a promise away from the bucket; nil: it keeps all of them.
	Beneath func(bucket.Store) bucket.Store
	// Check judges each state that a request led to: key changed, and held before until then (nil:
	// nothing).
	Check func(now *Memory, key string, before []byte) error
	// End judges each schedule that was run to its end. It may go on working on the bucket.
	End func(now *Memory, ended []Ended) error
	// Switches bounds how often one schedule leaves a process that could go on; 0: no bound.
	Switches int
	// Crashes and LostAnswers bound how many of a schedule's requests end their process before they
	// reach the store, and how many writes are done but answered as if the connection had broken.
	Crashes, LostAnswers int
	// Restart begins a process that crashed once more, as the next run would.
	Restart bool
	// Delays bounds how often a schedule lets time pass while requests wait, as if their processes
	// were frozen; each time it may pass until one of those goes on. 0: it passes only when all wait
	// for it.
	Delays int
	// Limit ends the exploration after so many schedules, unfinished; 0: no limit.
	Limit int
}

// Explored says what was explored.
type Explored struct {
	Schedules int      // that were run, each to its end or to a state that was met before
	States    int      // of the bucket, with what each process has seen by then
	Longest   int      // steps of the longest schedule
	StandFor  float64  // interleavings that the schedules stand for; NaN with a bound of switches
	Finding   *Finding // the first broken promise; nil: all were kept
	Whole     bool     // nothing within the scenario's bounds is left out
}

// Explore runs every interleaving of the scenario's requests, depth first: each schedule from the
// beginning, with the choices of the one before it up to the last that has an untried alternative.
//
// Each request is one step and happens at once. Requests that one process has in flight together are
// sent in the order of their keys, those for leases beside the others. A state that was met before
// is not gone on from: the same bucket, and the same answers to each process so far. A read of what
// no other process ever writes is taken as soon as it is asked for, since its place in a schedule
// makes no difference; when such a key turns out to be written all the same, all is begun anew.
//
// Time is that of a testing/synctest bubble of its own.
func Explore(t *testing.T, s Scenario) Explored {
	t.Helper()
	var result Explored
	synctest.Test(t, func(t *testing.T) { result = ExploreHere(t, s) })
	return result
}

// ExploreHere is Explore for a test that is in a bubble already, as those are that explore several
// scenarios with things that must not leave one.
func ExploreHere(t *testing.T, s Scenario) Explored {
	t.Helper()
	e := &explorer{Scenario: s, t: t}
	return e.explore()
}

type explorer struct {
	Scenario
	t     *testing.T
	stack []branch
	seen  map[stateKey]*visit
	nodes []node // by number of visit

	written []map[string]bool // by process: keys it was seen to write
	trusted []map[string]bool // by process: keys, and prefixes of listings, that it read out of turn
	tainted bool              // a key of trusted was written by another
	result  Explored
}

// stateKey is a hash of a state.
type stateKey [16]byte

type visit struct {
	number   int
	switches int // least of the schedules that led here
}

// node is a state with those that follow on it, once for each choice.
type node struct{ next []int }

// branch is a state of the schedule at hand and the choices there.
type branch struct {
	node    int
	options []choice
	taken   int
}

func (e *explorer) explore() Explored {
	for e.begin(); ; {
		e.schedule()
		e.result.Schedules++
		switch {
		case e.result.Finding != nil || e.Limit > 0 && e.result.Schedules >= e.Limit:
			return e.result
		case e.tainted:
			e.begin()
			continue
		}
		if !e.backtrack() {
			e.result.Whole = true
			e.result.StandFor = e.paths()
			return e.result
		}
	}
}

// begin forgets all but which keys are written.
func (e *explorer) begin() {
	e.stack, e.nodes, e.seen = nil, nil, map[stateKey]*visit{}
	e.trusted, e.tainted, e.result.States = nil, false, 0
}

// backtrack takes the next choice where one is left.
func (e *explorer) backtrack() bool {
	for len(e.stack) > 0 {
		last := &e.stack[len(e.stack)-1]
		if last.taken++; last.taken < len(last.options) {
			return true
		}
		e.stack = e.stack[:len(e.stack)-1]
	}
	return false
}

// schedule runs one schedule: the choices on the stack, then the first of each.
func (e *explorer) schedule() {
	r := newCourse(e)
	defer r.abandon()
	old := len(e.stack) // what came before the last choice was judged already
	for depth := 0; ; depth++ {
		synctest.Wait()
		changes := r.takeChanges()
		if depth >= old {
			if err := e.judge(r, changes); err != nil {
				e.result.Finding = newFinding(r, err)
				return
			}
		}
		options := r.options()
		if depth == len(e.stack) {
			fresh := e.enter(r, options)
			e.result.Longest = max(e.result.Longest, depth)
			if !fresh {
				return
			}
			if len(options) == 0 {
				e.stack = e.stack[:depth] // an end is no branch
				e.finish(r)
				return
			}
		}
		here := e.stack[depth]
		if here.taken >= len(options) || options[here.taken] != here.options[here.taken] {
			e.t.Fatalf("the processes do other things when they are run again: %v, not %v, after\n%s",
				options, here.options, newFinding(r, nil))
		}
		r.take(here.options[here.taken])
		if r.starved {
			e.t.Fatalf("no process goes on after\n%s", newFinding(r, nil))
		}
	}
}

// judge checks the states that the last step led to, and keeps what was written.
func (e *explorer) judge(r *course, changes []change) error {
	for _, c := range changes {
		e.note(c.process, c.key)
		if e.Check == nil {
			continue
		}
		if err := e.Check(r.store, c.key, c.before); err != nil {
			return err
		}
	}
	return nil
}

// finish judges the end of a schedule.
func (e *explorer) finish(r *course) {
	if e.End == nil {
		return
	}
	if err := e.End(r.store, r.ended()); err != nil {
		e.result.Finding = newFinding(r, err)
	}
}

// enter notes the state that a schedule has come to. It is fresh when it was not met before.
func (e *explorer) enter(r *course, options []choice) (fresh bool) {
	key := r.state()
	at, met := e.seen[key]
	if !met {
		at = &visit{number: len(e.nodes)}
		e.seen[key] = at
		e.nodes = append(e.nodes, node{})
		e.result.States++
	}
	if depth := len(e.stack); depth > 0 {
		before := &e.nodes[e.stack[depth-1].node]
		before.next = append(before.next, at.number)
	}
	if met && at.switches <= r.switches {
		return false
	}
	at.switches = r.switches
	e.stack = append(e.stack, branch{node: at.number, options: options})
	return true
}

// note keeps that a process writes a key.
func (e *explorer) note(process int, key string) {
	for len(e.written) <= process {
		e.written = append(e.written, map[string]bool{})
	}
	if e.written[process][key] {
		return
	}
	e.written[process][key] = true
	for other, read := range e.trusted {
		if other == process {
			continue
		}
		for pattern := range read {
			e.tainted = e.tainted || covers(pattern, key)
		}
	}
}

// own reports whether no other process was seen to write what a read asks for, and keeps that it
// was taken for granted.
func (e *explorer) own(process int, pattern string) bool {
	for other, keys := range e.written {
		if other == process {
			continue
		}
		for key := range keys {
			if covers(pattern, key) {
				return false
			}
		}
	}
	for len(e.trusted) <= process {
		e.trusted = append(e.trusted, map[string]bool{})
	}
	e.trusted[process][pattern] = true
	return true
}

// covers reports whether a read touches a key: patterns of listings end in a star.
func covers(pattern, key string) bool {
	if prefix, listing := strings.CutSuffix(pattern, "*"); listing {
		return strings.HasPrefix(key, prefix)
	}
	return pattern == key
}

// paths counts the ways from the first state to an end.
func (e *explorer) paths() float64 {
	if e.Switches > 0 {
		return math.NaN() // a state can be met again, with more switches left
	}
	counts := make([]float64, len(e.nodes))
	done := make([]bool, len(e.nodes))
	var count func(at int) float64
	count = func(at int) float64 {
		if done[at] {
			return counts[at]
		}
		sum := float64(0)
		for _, next := range e.nodes[at].next {
			sum += count(next)
		}
		if len(e.nodes[at].next) == 0 {
			sum = 1
		}
		counts[at], done[at] = sum, true
		return sum
	}
	return count(0)
}

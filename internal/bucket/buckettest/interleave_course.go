package buckettest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/manifest"
)

// choice is what may happen next in a schedule.
type choice struct {
	kind    choiceKind
	process int
	op      Op
	key     string
}

type choiceKind int

const (
	step   choiceKind = iota // the request reaches the store and is answered
	lose                     // it reaches the store, and the answer is lost
	crash                    // its process dies before it is sent
	wait                     // time passes until some process wakes up
	leased = "_mirror/leases/"
)

// course is one schedule at work.
type course struct {
	*explorer
	store   *Memory
	beneath bucket.Store // the store as the scenario has it
	began   time.Time
	steps   []taken

	last            int // the process that took the last step; -1 before the first
	switches        int
	crashes, losses int
	delays          int
	frozen          map[int]bool // the processes whose requests wait while time passes
	starved         bool

	arrived chan struct{} // a request came, or a process ended; capacity 1

	mu       sync.Mutex
	machines []*Machine
	pending  []*request
	changes  []change
}

type request struct {
	machine *Machine
	op      Op
	key     string // of a listing its prefix and a star
	write   bool
	verdict chan choiceKind
}

// change is a key that a process changed, with what it held before.
type change struct {
	process int
	key     string
	before  []byte
}

func newCourse(e *explorer) *course {
	store, processes := e.Begin()
	r := &course{explorer: e, store: store, beneath: store, began: time.Now(), last: -1, arrived: make(chan struct{}, 1)}
	if e.Beneath != nil {
		r.beneath = e.Beneath(store)
	}
	for _, process := range processes {
		r.start(process)
	}
	return r
}

func (r *course) start(p Process) {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.mu.Lock()
	m := &Machine{course: r, process: p, index: len(r.machines), cancel: cancel, gone: make(chan struct{})}
	r.machines = append(r.machines, m)
	r.mu.Unlock()
	go func() {
		err := p.Run(ctx, m)
		cancel()
		r.mu.Lock()
		m.done, m.err = true, err
		r.mu.Unlock()
		r.signal()
	}()
}

func (r *course) signal() {
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

// abandon ends all processes.
func (r *course) abandon() {
	for _, m := range r.machines {
		m.die()
	}
	synctest.Wait()
}

func (r *course) takeChanges() []change {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.changes
	r.changes = nil
	return taken
}

func (r *course) ended() []Ended {
	var list []Ended
	for _, m := range r.machines {
		list = append(list, Ended{Name: m.process.Name, Err: m.err, Crashed: m.dead})
	}
	return list
}

// options returns what may happen next, the process of the last step first.
func (r *course) options() []choice {
	r.mu.Lock()
	defer r.mu.Unlock()
	ready := r.ready()
	if len(ready) == 0 {
		if slices.ContainsFunc(r.machines, func(m *Machine) bool { return !m.done }) {
			return []choice{{kind: wait, process: -1}}
		}
		return nil
	}
	passes := (r.delays < r.Delays || len(r.frozen) > 0) && slices.ContainsFunc(r.machines, func(m *Machine) bool { return !m.done && m.asleep > 0 })
	if !passes {
		if q := r.early(ready); q != nil {
			return []choice{q.choice(step)}
		}
	}
	if r.Switches > 0 && r.switches >= r.Switches && ready[0].machine.index == r.last {
		ready = slices.DeleteFunc(ready, func(q *request) bool { return q.machine.index != r.last })
	}
	list := r.choices(ready)
	if passes {
		list = append(list, choice{kind: wait, process: -1})
	}
	return list
}

// early returns a request whose place in the schedule makes no difference.
func (r *course) early(ready []*request) *request {
	for _, q := range ready {
		stays := q.machine.index == r.last || r.Switches == 0
		if stays && !q.write && r.own(q.machine.index, q.key) {
			return q
		}
	}
	return nil
}

// choices returns what may become of the requests that are ready.
func (r *course) choices(ready []*request) []choice {
	var list []choice
	for _, q := range ready {
		list = append(list, q.choice(step))
	}
	if r.losses < r.LostAnswers {
		for _, q := range ready {
			if q.write {
				list = append(list, q.choice(lose))
			}
		}
	}
	if r.crashes < r.Crashes {
		for at, q := range ready {
			if at == 0 || ready[at-1].machine != q.machine {
				list = append(list, q.choice(crash))
			}
		}
	}
	return list
}

// ready returns the requests that may be sent next: of each process the first by its key, and the
// first of those for leases. The process of the last step comes first.
func (r *course) ready() []*request {
	pending := slices.Clone(r.pending)
	rank := func(q *request) int {
		if q.machine.index == r.last {
			return -1
		}
		return q.machine.index
	}
	slices.SortStableFunc(pending, func(a, b *request) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(a.lane(), b.lane()), strings.Compare(a.key, b.key), strings.Compare(string(a.op), string(b.op)))
	})
	return slices.CompactFunc(pending, func(a, b *request) bool { return a.machine == b.machine && a.lane() == b.lane() })
}

func (q *request) lane() int {
	if strings.HasPrefix(q.key, leased) {
		return 1
	}
	return 0
}

func (q *request) choice(kind choiceKind) choice {
	return choice{kind: kind, process: q.machine.index, op: q.op, key: q.key}
}

// take lets one thing happen.
func (r *course) take(c choice) {
	if c.kind == wait {
		r.wait()
		return
	}
	r.mu.Lock()
	if r.Switches > 0 && r.last >= 0 && c.process != r.last && slices.ContainsFunc(r.pending, func(q *request) bool { return q.machine.index == r.last }) {
		r.switches++
	}
	r.last = c.process
	if r.frozen[c.process] {
		r.frozen = nil
	}
	m := r.machines[c.process]
	if c.kind == crash {
		r.crashes++
		r.steps = append(r.steps, taken{choice: c, who: m.process.Name})
		r.mu.Unlock()
		m.die()
		if r.Restart {
			again := m.process
			again.Name += " again"
			r.start(again)
		}
		return
	}
	if c.kind == lose {
		r.losses++
	}
	at := slices.IndexFunc(r.pending, func(q *request) bool { return q.choice(c.kind) == c })
	q := r.pending[at]
	r.pending = slices.Delete(r.pending, at, at+1)
	r.mu.Unlock()
	q.verdict <- c.kind
}

// wait lets time pass to the next moment for which some process waits, and on until one of them
// sends a request or ends.
func (r *course) wait() {
	r.mu.Lock()
	if len(r.pending) > 0 && r.frozen == nil {
		r.delays, r.frozen = r.delays+1, map[int]bool{}
		for _, q := range r.pending {
			r.frozen[q.machine.index] = true
		}
	}
	r.mu.Unlock()
	select {
	case <-r.arrived:
	default:
	}
	before := time.Now()
	select {
	case <-r.arrived:
	case <-time.After(time.Hour): // longer than anything here waits
		r.starved = true
	}
	r.steps = append(r.steps, taken{choice: choice{kind: wait}, answer: time.Since(before).String()})
}

// state returns the hash of all that decides how the schedule can go on.
func (r *course) state() stateKey {
	print := r.store.Fingerprint()
	text := append([]byte(nil), print[:]...)
	text = binary.AppendVarint(text, int64(time.Since(r.began)))
	text = binary.AppendVarint(text, int64(r.crashes))
	text = binary.AppendVarint(text, int64(r.losses))
	text = binary.AppendVarint(text, int64(r.delays))
	for at := range r.machines {
		text = strconv.AppendBool(text, r.frozen[at])
	}
	if r.Switches > 0 {
		text = binary.AppendVarint(text, int64(r.last))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.machines {
		text = append(text, m.history[:]...)
		if m.dead {
			text = append(text, 'd')
		}
	}
	sum := manifest.SHA256(sha256.Sum256(text))
	return stateKey(sum[:16])
}

package buckettest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// Machine is what a process of a Scenario runs on: a store whose requests wait for their turn, and a
// clock. All of it fails once the schedule has ended the process.
type Machine struct {
	course  *course
	process Process
	index   int
	cancel  context.CancelFunc
	gone    chan struct{}

	// guarded by the mutex of course
	history [16]byte // hash of all requests and answers
	asleep  int      // calls of Pause that wait
	dead    bool
	done    bool
	err     error
}

// Name returns the name of the process.
func (m *Machine) Name() string { return m.process.Name }

// Store returns the machine's way to the bucket.
func (m *Machine) Store() bucket.Store { return machineStore{m.course.beneath, m} }

// Now returns how long the schedule has run, as a time in the year 2026.
func (m *Machine) Now() time.Time {
	return time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC).Add(time.Since(m.course.began))
}

// Pause waits.
func (m *Machine) Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	m.sleep(1)
	defer m.sleep(-1)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-m.gone:
		return ErrCrashed
	}
}

func (m *Machine) sleep(by int) {
	m.course.mu.Lock()
	defer m.course.mu.Unlock()
	m.asleep += by
}

// die ends the process: what waits is never sent, and nothing is from now on.
func (m *Machine) die() {
	r := m.course
	r.mu.Lock()
	if m.dead || m.done {
		r.mu.Unlock()
		return
	}
	m.dead = true
	var left, mine []*request
	for _, q := range r.pending {
		if q.machine == m {
			mine = append(mine, q)
		} else {
			left = append(left, q)
		}
	}
	r.pending = left
	r.mu.Unlock()
	close(m.gone)
	m.cancel()
	for _, q := range mine {
		q.verdict <- crash
	}
}

// ask waits for the request's turn and says whether its answer is to be lost.
func (m *Machine) ask(op Op, key string, write bool) (lost bool, err error) {
	q := &request{machine: m, op: op, key: key, write: write, verdict: make(chan choiceKind, 1)}
	m.course.mu.Lock()
	if m.dead {
		m.course.mu.Unlock()
		return false, ErrCrashed
	}
	m.course.pending = append(m.course.pending, q)
	m.course.mu.Unlock()
	m.course.signal()
	verdict := <-q.verdict
	if verdict == crash {
		return false, ErrCrashed
	}
	return verdict == lose, nil
}

// request sends one request when its turn has come. do returns a text that is the same for the same answer.
func (m *Machine) request(op Op, key string, do func() (answer string, err error)) error {
	write := op != OpStat && op != OpOpen && op != opList
	lost, err := m.ask(op, key, write)
	if err != nil {
		return err
	}
	r := m.course
	print, before := r.store.Fingerprint(), r.store.Bytes(key)
	answer, err := do()
	if err != nil {
		answer = string(fault.KindOf(err))
		if answer == "" {
			answer = err.Error()
		}
	}
	if lost && err == nil {
		answer, err = answer+", but the answer is lost", Unavailable()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store.Fingerprint() != print {
		r.changes = append(r.changes, change{m.index, key, before})
	}
	text := append(m.history[:], op...)
	text = binary.AppendVarint(text, int64(time.Since(r.began)))
	text = append(append(append(text, key...), 0), answer...)
	sum := sha256.Sum256(text)
	m.history = [16]byte(sum[:16])
	r.steps = append(r.steps, taken{choice{step, m.index, op, key}, m.process.Name, answer, r.store.Bytes(key)})
	return err
}

const opList Op = "list"

// machineStore is a store as a machine sees it.
type machineStore struct {
	bucket.Store // Guarantees and Close need no turn
	m            *Machine
}

// Stat implements bucket.Reader.
func (s machineStore) Stat(ctx context.Context, key string) (info bucket.Info, err error) {
	err = s.m.request(OpStat, key, func() (string, error) {
		info, err = s.Store.Stat(ctx, key)
		return short(info.Tag), err
	})
	return info, err
}

// Open implements bucket.Reader.
func (s machineStore) Open(ctx context.Context, key string, offset, length int64) (body io.ReadCloser, info bucket.Info, err error) {
	err = s.m.request(OpOpen, key, func() (string, error) {
		body, info, err = s.Store.Open(ctx, key, offset, length)
		if offset != 0 || length != -1 {
			return fmt.Sprintf("%s from %d, %d", short(info.Tag), offset, length), err
		}
		return short(info.Tag), err
	})
	return body, info, err
}

// List implements bucket.Reader.
func (s machineStore) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		var list []bucket.Info
		err := s.m.request(opList, prefix+"*", func() (string, error) {
			sum := sha256.New()
			for info, err := range s.Store.List(ctx, prefix, after) {
				if err != nil {
					return "", err
				}
				list = append(list, info)
				_, _ = fmt.Fprintln(sum, info.Key, info.Tag) // a hash takes everything
			}
			return fmt.Sprintf("%d keys (%x)", len(list), sum.Sum(nil)[:4]), nil
		})
		if err != nil {
			yield(bucket.Info{}, err)
			return
		}
		for _, info := range list {
			if !yield(info, nil) {
				return
			}
		}
	}
}

// Create implements bucket.Writer.
func (s machineStore) Create(ctx context.Context, key string, content bucket.Content) (info bucket.Info, err error) {
	err = s.m.request(OpCreate, key, func() (string, error) {
		info, err = s.Store.Create(ctx, key, content)
		return "done", err
	})
	return info, err
}

// Swap implements bucket.Swapper.
func (s machineStore) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (tag bucket.Tag, err error) {
	err = s.m.request(OpSwap, key, func() (string, error) {
		tag, err = s.Store.Swap(ctx, key, old, data)
		return "done", err
	})
	return tag, err
}

// Replace implements bucket.Replacer.
func (s machineStore) Replace(ctx context.Context, key string, old bucket.Tag, content bucket.Content) (info bucket.Info, err error) {
	err = s.m.request(OpReplace, key, func() (string, error) {
		info, err = s.Store.Replace(ctx, key, old, content)
		return "done", err
	})
	return info, err
}

// Delete implements bucket.Deleter.
func (s machineStore) Delete(ctx context.Context, key string, tag bucket.Tag) error {
	return s.m.request(OpDelete, key, func() (string, error) { return "done", s.Store.Delete(ctx, key, tag) })
}

// short returns the beginning of a tag: enough to tell states of one key apart.
func short(tag bucket.Tag) string { return string(tag[:min(8, len(tag))]) }

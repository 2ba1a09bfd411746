package interleavings_test

import (
	"bytes"
	"context"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// blind sees no prune.json: a process that does not look whether a prune is under way.
type blind struct{ bucket.Store }

func (b blind) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	if key == manifest.PruneKey {
		return nil, bucket.Info{}, &fault.Error{Op: "read object", Object: key, Side: fault.SideBucket, Kind: fault.NotFound}
	}
	return b.Store.Open(ctx, key, offset, length)
}

// mindful looks at what a prune means to take once, and answers from memory from then on.
type mindful struct {
	bucket.Store
	mu    sync.Mutex
	known map[string]answer
}

type answer struct {
	data []byte
	info bucket.Info
	err  error
}

func (m *mindful) once(key string, ask func() answer) answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.known[key]; !ok {
		if m.known == nil {
			m.known = map[string]answer{}
		}
		m.known[key] = ask()
	}
	return m.known[key]
}

func (m *mindful) Stat(ctx context.Context, key string) (bucket.Info, error) {
	if !strings.HasSuffix(key, "/pruned.json") {
		return m.Store.Stat(ctx, key)
	}
	got := m.once(key, func() (a answer) {
		a.info, a.err = m.Store.Stat(ctx, key)
		return a
	})
	return got.info, got.err
}

func (m *mindful) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	if key != manifest.PruneKey {
		return m.Store.Open(ctx, key, offset, length)
	}
	got := m.once(key, func() (a answer) {
		a.data, a.info, a.err = bucket.ReadAll(ctx, m.Store, key, 1<<20)
		return a
	})
	if got.err != nil {
		return nil, bucket.Info{}, got.err
	}
	return io.NopCloser(bytes.NewReader(got.data)), got.info, nil
}

// unfencing leaves pointers alone and sees no decision: a prune that neither tells those who read a
// pointer before nor asks what was decided. Either of the two would do.
type unfencing struct{ bucket.Store }

func (u unfencing) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	if prefix == manifest.DecisionsPrefix(permits) {
		return func(func(bucket.Info, error) bool) {}
	}
	return u.Store.List(ctx, prefix, after)
}

func (u unfencing) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	if strings.HasPrefix(key, "current/") {
		return old, nil
	}
	return u.Store.Swap(ctx, key, old, data)
}

// hasty reads which versions there are once, before prune.json stands.
type hasty struct {
	bucket.Store
	mu    sync.Mutex
	known map[string][]bucket.Info
}

func (h *hasty) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		list, err := h.listed(ctx, prefix, after)
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

func (h *hasty) listed(ctx context.Context, prefix, after string) ([]bucket.Info, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if list, ok := h.known[prefix+after]; ok {
		return list, nil
	}
	list := []bucket.Info{}
	for info, err := range h.Store.List(ctx, prefix, after) {
		if err != nil {
			return nil, err
		}
		list = append(list, info)
	}
	if strings.HasPrefix(prefix, "versions/") {
		if h.known == nil {
			h.known = map[string][]bucket.Info{}
		}
		h.known[prefix+after] = list
	}
	return list, nil
}

// TestRulesThatAreTakenOutAreMissed takes rules of a prune out, one at a time, and wants a schedule
// that breaks a promise.
func TestRulesThatAreTakenOutAreMissed(t *testing.T) {
	tests := []struct {
		rule, says              string
		sync, rollback, pruning func(bucket.Store) bucket.Store
	}{
		{rule: "a rollback looks at prune.json again after it read the pointer", says: "pruned",
			rollback: func(s bucket.Store) bucket.Store { return &mindful{Store: s} }},
		{rule: "a prune swaps the pointers, and looks at decisions", says: "pruned",
			pruning: func(s bucket.Store) bucket.Store { return unfencing{s} }},
		{rule: "a pass looks at prune.json after its claim", says: "missing-object",
			sync: func(s bucket.Store) bucket.Store { return blind{s} }},
		{rule: "a prune reads what versions name once prune.json stands", says: "missing-object",
			pruning: func(s bucket.Store) bucket.Store { return &hasty{Store: s} }},
	}
	tests = tests[:evidence.Size(2, 4)] // the others take longer
	bubble(t, func(t *testing.T) {
		versions := comeback()
		three := beginning(t, versions[:3])
		for _, test := range tests {
			other := runs("sync", test.sync, passOver(versions...))
			if strings.Contains(test.says, "pruned") {
				other = runs("rollback", test.rollback, rollbackTo(2))
			}
			found(t, test.rule, test.says, buckettest.Scenario{Check: inOrder(), Begin: begins(three, other, runs("prune", test.pruning, pruning))})
		}
	})
}

// found explores with ever more switches and wants the broken promise to say this.
func found(t *testing.T, rule, says string, s buckettest.Scenario) {
	t.Helper()
	for s.Switches = 1; s.Switches <= 3; s.Switches++ {
		got := buckettest.ExploreHere(t, s)
		if got.Finding == nil {
			continue
		}
		t.Logf("without %q, found in schedule %d, with %d switches:\n%s", rule, got.Schedules, s.Switches, got.Finding)
		if !strings.Contains(got.Finding.Err.Error(), says) {
			t.Errorf("want it to say %q", says)
		}
		return
	}
	t.Errorf("nothing is found without %q", rule)
}

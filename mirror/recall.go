package mirror

import (
	"context"
	"maps"

	"feedmirror/manifest"
	"feedmirror/state"
)

// recalled are the records of one dataset that a pass read or wrote: the last one whole, and those
// above the pointer, which each publication asks for, without their files. A first pass over a
// chain of thousands of versions keeps the last one only.
type recalled struct {
	last  state.Committed
	brief map[manifest.Number]state.Committed
}

func (r *recalled) find(n manifest.Number) (state.Committed, bool) {
	if n != 0 && r.last.Record().Version == n {
		return r.last, true
	}
	committed, ok := r.brief[n]
	return committed, ok
}

// remember keeps a record as long as something can ask for it.
func (r *recalled) remember(committed state.Committed, pointer *state.Pointer) {
	r.last = committed
	n := committed.Record().Version
	if pointer == nil || n <= pointer.Version {
		return
	}
	if r.brief == nil {
		r.brief = map[manifest.Number]state.Committed{}
	}
	r.brief[n] = committed.Brief()
}

// moved forgets what the pointer left behind.
func (r *recalled) moved(pointer *state.Pointer) {
	if pointer != nil {
		maps.DeleteFunc(r.brief, func(n manifest.Number, _ state.Committed) bool { return n <= pointer.Version })
	}
}

// recall returns a committed version. What it returns may lack the version's files.
func (w *worker) recall(ctx context.Context, n manifest.Number) (state.Committed, error) {
	if committed, ok := w.committed.find(n); ok {
		return committed, nil
	}
	committed, err := state.Recall(ctx, w.Store, w.target.dataset, n)
	if err != nil {
		return state.Committed{}, err
	}
	w.committed.remember(committed, w.pointer)
	return committed, nil
}

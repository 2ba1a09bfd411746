package bucket

import (
	"context"
	"fmt"

	"feedmirror/internal/fault"
)

// WithLook returns store with a look before each write, for a store that ignores conditions: what
// stands is compared by us. Another writer can come between the look and the write, so that it
// keeps the promises of Writer, Swapper, Replacer and Deleter to a single writer only. It costs a
// Stat for each write.
func WithLook(store Store) Store { return &looking{store} }

type looking struct{ Store }

// Guarantees says that two writers can both win.
func (l *looking) Guarantees() Guarantees {
	guarantees := l.Store.Guarantees()
	guarantees.AtomicCreate, guarantees.CompareAndSwap = false, false
	return guarantees
}

func (l *looking) Create(ctx context.Context, key string, content Content) (Info, error) {
	if err := l.look(ctx, "create object", key, Absent, fault.Exists); err != nil {
		return Info{}, err
	}
	return l.Store.Create(ctx, key, content)
}

func (l *looking) Swap(ctx context.Context, key string, old Tag, data []byte) (Tag, error) {
	if err := l.look(ctx, "swap document", key, old, fault.Conflict); err != nil {
		return Absent, err
	}
	return l.Store.Swap(ctx, key, old, data)
}

func (l *looking) Replace(ctx context.Context, key string, old Tag, content Content) (Info, error) {
	if err := l.look(ctx, "replace object", key, old, fault.Conflict); err != nil {
		return Info{}, err
	}
	return l.Store.Replace(ctx, key, old, content)
}

func (l *looking) Delete(ctx context.Context, key string, tag Tag) error {
	standing, err := l.tag(ctx, key)
	if err != nil || standing == Absent { // a key that is gone is no error
		return err
	}
	if standing != tag {
		return changed("delete object", key, standing, tag, fault.Conflict)
	}
	return l.Store.Delete(ctx, key, tag)
}

func (l *looking) look(ctx context.Context, op, key string, want Tag, kind fault.Kind) error {
	standing, err := l.tag(ctx, key)
	if err == nil && standing != want {
		err = changed(op, key, standing, want, kind)
	}
	return err
}

func (l *looking) tag(ctx context.Context, key string) (Tag, error) {
	info, err := l.Stat(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return Absent, nil
	}
	return info.Tag, err
}

func changed(op, key string, standing, want Tag, kind fault.Kind) error {
	return &fault.Error{Op: op, Object: key, Side: fault.SideBucket, Kind: kind,
		Err: fmt.Errorf("the key holds %q, expected %q", standing, want)}
}

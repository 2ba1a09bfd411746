package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// Leases takes and gives back leases for one run. A lease only saves double work: two holders
// at once waste requests and harm nothing.
type Leases struct {
	Docs  Documents
	Owner string // run id
	Host  string
	TTL   time.Duration
	Now   func() time.Time
	Pause Pause
}

// BusyError says who holds a lease.
type BusyError struct {
	Dataset string
	Lease   Lease
	tag     bucket.Tag
}

// Error names the holder and until when.
func (e *BusyError) Error() string {
	return fmt.Sprintf("%s is being worked on by run %s on %s until %s", e.Dataset, e.Lease.Owner, e.Lease.Host, e.Lease.Until.UTC().Format(time.RFC3339))
}

// Acquire takes the lease of a dataset, or returns a *BusyError at once.
func (l *Leases) Acquire(ctx context.Context, dataset string) (*Holder, error) {
	return l.acquire(ctx, dataset, bucket.Absent)
}

// AcquireAfter takes a lease that was busy as soon as it is given back, or when its holder gives no
// sign of life: it watches for what is left of the lease, at most one TTL, and takes it over when
// the same document still stands then. A holder that renews it is busy. Own elapsed time counts,
// not the holder's clock.
func (l *Leases) AcquireAfter(ctx context.Context, busy *BusyError) (*Holder, error) {
	left := min(max(busy.Lease.Until.Sub(l.Now()), 0), l.TTL)
	look := max(l.TTL/12, time.Millisecond)
	for left > 0 {
		wait := min(look, left)
		if err := l.Pause(ctx, wait); err != nil {
			return nil, err
		}
		left -= wait
		standing, tag, err := Read[Lease](ctx, l.Docs, manifest.LeaseKey(busy.Dataset))
		if err != nil {
			return nil, err
		}
		if standing == nil || tag != busy.tag {
			return l.acquire(ctx, busy.Dataset, bucket.Absent)
		}
	}
	return l.acquire(ctx, busy.Dataset, busy.tag)
}

func (l *Leases) acquire(ctx context.Context, dataset string, dead bucket.Tag) (*Holder, error) {
	key := manifest.LeaseKey(dataset)
	standing, tag, err := Read[Lease](ctx, l.Docs, key)
	if err != nil {
		return nil, err
	}
	now := l.Now()
	if standing != nil && standing.Owner != l.Owner && now.Before(standing.Until) && (dead == bucket.Absent || tag != dead) {
		return nil, &BusyError{Dataset: dataset, Lease: *standing, tag: tag}
	}
	h := &Holder{leases: l, key: key, since: now}
	if err := h.write(ctx, standing, tag, now.Add(l.TTL)); err != nil {
		if ctx.Err() != nil {
			return nil, errors.Join(err, h.abandon(ctx))
		}
		if hopeless(ctx, err) {
			return nil, err
		}
		// A rival may have won, or our own write landed although its answer was lost.
		winner, tag, readErr := Read[Lease](ctx, l.Docs, key)
		if readErr != nil || winner == nil {
			return nil, err
		}
		if winner.Owner != l.Owner {
			return nil, &BusyError{Dataset: dataset, Lease: *winner, tag: tag}
		}
		h.lease, h.tag = winner, tag
	}
	return h, nil
}

// abandonLimit bounds what is done about a lease after its context ended.
const abandonLimit = 3 * time.Second

// abandon gives back a lease whose write was cut off when ctx ended: the request may have arrived, or
// arrive yet. Writing over what stands makes it too late.
func (h *Holder) abandon(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonLimit)
	defer cancel()
	standing, tag, err := Read[Lease](ctx, h.leases.Docs, h.key)
	if err != nil {
		return err
	}
	h.lease, h.tag = standing, tag
	if h.taken() { // whatever was sent expected another document
		return nil
	}
	return h.Release(ctx)
}

// taken reports whether the lease that was last read is another run's.
func (h *Holder) taken() bool {
	return h.lease != nil && h.lease.Owner != h.leases.Owner && h.leases.Now().Before(h.lease.Until)
}

// Holder is a lease in hand.
type Holder struct {
	leases *Leases
	key    string
	since  time.Time
	lease  *Lease
	tag    bucket.Tag
}

func (h *Holder) write(ctx context.Context, standing *Lease, tag bucket.Tag, until time.Time) error {
	next := &Lease{Owner: h.leases.Owner, Host: h.leases.Host, Since: h.since, Until: until}
	body, err := revise[Lease](next, standing)
	if err != nil {
		return err
	}
	newTag, err := h.leases.Docs.Swap(ctx, h.key, tag, body)
	if err != nil {
		return err
	}
	h.lease, h.tag = next, newTag
	return nil
}

// Keep renews the lease three times a TTL until the returned stop is called, and cancels the
// returned context when the lease is lost, so that work under it ends.
func (h *Holder) Keep(ctx context.Context) (work context.Context, stop func()) {
	work, cancel := context.WithCancelCause(ctx)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(max(h.leases.TTL/3, time.Millisecond))
		defer ticker.Stop()
		good := h.leases.Now()
		for {
			select {
			case <-quit:
				return
			case <-work.Done():
				return
			case <-ticker.C:
				if over(quit) || work.Err() != nil { // where both are due, a lease is not renewed before it is given back
					return
				}
			}
			err := h.write(work, h.lease, h.tag, h.leases.Now().Add(h.leases.TTL))
			switch {
			case err == nil:
				good = h.leases.Now()
			case fault.Is(err, fault.Conflict) || h.leases.Now().Sub(good) > h.leases.TTL:
				if !h.reread(work) {
					cancel(&fault.Error{Op: "renew lease", Object: h.key, Side: fault.SideBucket, Kind: fault.Conflict, Err: err,
						Hint: "Another run took the dataset over; it will finish the work."})
					return
				}
			}
		}
	}()
	return work, func() { close(quit); <-done; cancel(context.Canceled) }
}

func over(quit <-chan struct{}) bool {
	select {
	case <-quit:
		return true
	default:
		return false
	}
}

// reread reports whether the lease that stands is still ours: a renewal whose answer was lost.
func (h *Holder) reread(ctx context.Context) bool {
	standing, tag, err := Read[Lease](ctx, h.leases.Docs, h.key)
	if err != nil || standing == nil || standing.Owner != h.leases.Owner {
		return false
	}
	h.lease, h.tag = standing, tag
	return true
}

// Release gives the lease back by writing it expired; it is never deleted, since some buckets
// refuse deletes. A lease that was lost meanwhile is left alone. One that was renewed by a request
// whose answer nobody waited for is still ours.
func (h *Holder) Release(ctx context.Context) error {
	err := h.write(ctx, h.lease, h.tag, h.leases.Now().Add(-time.Second))
	if !fault.Is(err, fault.Conflict) || !h.reread(ctx) {
		return keepUnlessConflict(err)
	}
	return keepUnlessConflict(h.write(ctx, h.lease, h.tag, h.leases.Now().Add(-time.Second)))
}

// keepUnlessConflict drops what says that somebody else holds the lease.
func keepUnlessConflict(err error) error {
	if fault.Is(err, fault.Conflict) {
		return nil
	}
	return err
}

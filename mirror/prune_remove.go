package mirror

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

const (
	// deletesAtOnce bounds the deletes in flight; at 20 ms each that is 800 a second.
	deletesAtOnce = 16
	// deleteBatch objects are listed, then deleted; a listing's page has as many.
	deleteBatch = 1000
	// maxRefusals bounds the refused deletes that a report names; all are counted.
	maxRefusals = 1000
	// hopelessAfter refusals without one success no more is tried: the bucket refuses deletes as
	// such, by retention or for want of a right.
	hopelessAfter = 100
)

// removals sum up the deletes of a prune.
type removals struct {
	mu           sync.Mutex
	deleted      ObjectCounts
	refused      []Failure
	refusedCount int64
}

func (r *removals) done(size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deleted.add(size)
}

func (r *removals) refuse(key string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusedCount++; len(r.refused) < maxRefusals {
		dataset, version := "", int64(0)
		if parsed, ok := manifest.ParseDataKey(key); ok {
			dataset, version = parsed.Dataset, int64(parsed.Version)
		}
		f := failureOf(dataset, version, err)
		f.Object = key
		r.refused = append(r.refused, f)
	}
}

// allDenied reports whether the right to delete was missing, as far as the refusals that are named tell.
func (r *removals) allDenied() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(r.refused, func(f Failure) bool { return f.Kind != string(fault.Denied) })
}

func (r *removals) hopeless() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deleted.Objects == 0 && r.refusedCount >= hopelessAfter
}

// remove deletes objects in the state in which they are listed, a batch at a time. A delete that the
// store refuses is named and the others go on; anything else ends the prune, which then is
// unfinished.
func (p *pruner) remove(ctx context.Context, objects iter.Seq2[bucket.Info, error]) error {
	batch := make([]bucket.Info, 0, deleteBatch)
	for info, err := range objects {
		if err != nil {
			return err
		}
		if batch = append(batch, info); len(batch) < deleteBatch {
			continue
		}
		if err := p.removeBatch(ctx, batch); err != nil {
			return err
		}
		batch = batch[:0]
	}
	return p.removeBatch(ctx, batch)
}

func (p *pruner) removeBatch(ctx context.Context, batch []bucket.Info) error {
	if len(batch) == 0 || p.tally.hopeless() {
		return nil
	}
	if err := p.confirm(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deletesAtOnce)
	for _, info := range batch {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if p.tally.hopeless() {
				return nil
			}
			err := p.Store.Delete(ctx, info.Key, info.Tag)
			switch fault.KindOf(err) {
			case fault.Denied, fault.Conflict, fault.Unsupported:
				p.tally.refuse(info.Key, err)
				return nil
			}
			if err == nil {
				p.tally.done(info.Size)
			}
			return err
		})
	}
	return group.Wait()
}

// Reports of runs and audits are kept while they are young or among the newest.
const (
	keepReports    = 100
	keepReportsFor = 90 * 24 * time.Hour
)

const ledgerPrefix = manifest.AuditsPrefix + "ledger/"

// oldReports returns the reports of runs and audits that go.
func (p *pruner) oldReports(ctx context.Context) ([]bucket.Info, error) {
	var old []bucket.Info
	for _, prefix := range []string{manifest.RunsPrefix, manifest.AuditsPrefix} {
		var all []bucket.Info
		for info, err := range p.Store.List(ctx, prefix, "") {
			if err != nil {
				return nil, err
			}
			if !strings.HasPrefix(info.Key, ledgerPrefix) {
				all = append(all, info)
			}
		}
		slices.SortStableFunc(all, func(a, b bucket.Info) int { return b.Modified.Compare(a.Modified) })
		for _, info := range all[min(keepReports, len(all)):] {
			if p.Now().Sub(info.Modified) >= keepReportsFor {
				old = append(old, info)
			}
		}
	}
	return old, nil
}

// trimReports deletes old reports. Nobody needs them, so they need no claim; a delete that is
// refused is named like any other.
func (p *pruner) trimReports(ctx context.Context) error {
	old, err := p.oldReports(ctx)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(deletesAtOnce)
	for _, info := range old {
		group.Go(func() error {
			err := p.Store.Delete(groupCtx, info.Key, info.Tag)
			switch {
			case err == nil:
				p.tally.done(info.Size)
			case groupCtx.Err() != nil:
				return errors.Join(groupCtx.Err(), err)
			default:
				p.tally.refuse(info.Key, err)
			}
			return nil
		})
	}
	return group.Wait()
}

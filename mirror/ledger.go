package mirror

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"feedmirror/internal/audit/ledger"
	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

const (
	// maxLedger bounds what is read of one document of the ledger, in bytes.
	maxLedger = 512 << 20
	// ledgerTries bounds the swaps of one document.
	ledgerTries = 24
	// ledgerTime is what an audit that was told to stop may still take to keep what it checked.
	ledgerTime = 5 * time.Second
)

// saveLedger adds what an audit found good to the ledger, also when the audit was stopped.
func (o VerifyOptions) saveLedger(ctx context.Context, book *ledger.Book) error {
	ctx, cancel := lasting(ctx, ledgerTime)
	defer cancel()
	// Twice the age is kept, so that what is due is still known by how stale it is.
	oldest := o.Audit.Now().Add(-2 * o.MaxAge)
	fresh := book.Fresh()
	for _, key := range slices.Sorted(maps.Keys(fresh)) {
		if err := o.addToLedger(ctx, key, fresh[key], oldest); err != nil {
			return err
		}
	}
	return nil
}

// addToLedger merges entries into one document by the rule of conditional writes.
func (o VerifyOptions) addToLedger(ctx context.Context, key string, fresh []ledger.Entry, oldest time.Time) error {
	var last error
	for try := range ledgerTries {
		if try > 0 {
			if err := o.Pause(ctx, time.Duration(try)*50*time.Millisecond+fault.RetryAfter(last)); err != nil {
				return err
			}
		}
		raw, info, err := bucket.ReadAll(ctx, o.Store, key, maxLedger)
		if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Malformed) {
			return err
		}
		standing, decodeErr := ledger.Decode(raw)
		if decodeErr != nil {
			standing = nil // damaged: told by the audit, and written anew
		}
		body, err := ledger.Encode(ledger.Merge(standing, fresh, oldest))
		if err != nil {
			return err
		}
		if bytes.Equal(body, raw) { // an earlier try arrived although its answer did not
			return nil
		}
		if _, last = o.Store.Swap(ctx, key, info.Tag, body); last == nil {
			return nil
		}
		switch fault.KindOf(last) {
		case fault.Denied, fault.BucketUnfit, fault.NoSpace, fault.Unsupported:
			return unfitBucket(last)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return last
}

package state

import (
	"context"
	"errors"
	"fmt"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// LoadLayout returns the bucket's layout, or nil for a bucket that no mirror has used. A newer
// layout than this program knows is a fault.Usage: nothing may be written to it.
func LoadLayout(ctx context.Context, docs Documents) (*Layout, error) {
	layout, _, err := Read[Layout](ctx, docs, manifest.LayoutKey)
	if err != nil || layout == nil {
		return nil, err
	}
	if layout.Layout > manifest.LayoutVersion {
		return nil, &fault.Error{Op: "read layout", Object: manifest.LayoutKey, Side: fault.SideBucket, Kind: fault.Usage,
			Err:  fmt.Errorf("the bucket has layout %d, this mirror knows %d", layout.Layout, manifest.LayoutVersion),
			Hint: "A newer mirror writes this bucket. Upgrade this one."}
	}
	return layout, nil
}

// CheckLocking refuses a bucket whose store ignores conditional writes, unless the operator accepted
// to be its only writer: a fault.BucketUnfit. A nil layout is fit, since nothing is known of it.
func (l *Layout) CheckLocking(accepted bool) error {
	if l == nil || accepted || !l.Guarantees.WeakLocking() {
		return nil
	}
	return &fault.Error{Op: "use bucket", Object: manifest.LayoutKey, Side: fault.SideBucket, Kind: fault.BucketUnfit,
		Err: errors.New("its store ignores conditional writes: two processes at once can overwrite each other"), Hint: bucket.WeakLockingHint}
}

// SaveLayout writes the layout of a new or a moved bucket.
func SaveLayout(ctx context.Context, docs Documents, pause Pause, layout Layout) (*Layout, error) {
	return Update(ctx, docs, pause, manifest.LayoutKey, func(standing *Layout) (*Layout, error) {
		if standing != nil && standing.Layout > layout.Layout {
			return nil, fmt.Errorf("save layout: the bucket has layout %d", standing.Layout)
		}
		next := layout
		if standing != nil {
			next.CreatedAt = standing.CreatedAt
			if next.Store == standing.Store && next.FeedURL == standing.FeedURL && next.Guarantees == standing.Guarantees {
				return nil, nil //nolint:nilnil // another run was first
			}
		}
		return &next, nil
	})
}

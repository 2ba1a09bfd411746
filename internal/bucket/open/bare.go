package open

import (
	"context"

	"feedmirror/internal/bucket"
)

// Bare is Open without the layers that count and repeat requests: for a probe, which wants to see
// what the store itself does.
func Bare(ctx context.Context, rawURL string, options Options) (bucket.Store, error) {
	address, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	return adapter(ctx, address, options)
}

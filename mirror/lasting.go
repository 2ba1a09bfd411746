package mirror

import (
	"context"
	"time"
)

// lasting returns a context for what must still be done when ctx ends: it ends that much later. While
// ctx goes on there is no limit: a store that is slow, or a process that was frozen, has as much time
// to save what a pass achieved as to achieve it.
func lasting(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(context.DeadlineExceeded)
		case <-longer.Done():
		}
	})
	return longer, func() {
		stop()
		cancel(context.Canceled)
	}
}

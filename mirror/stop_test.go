package mirror_test

import (
	"context"
	"sync/atomic"
	"testing"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// TestAStoppedPassSaysSoAndLosesNothing stops a pass at each of its requests to the feed in turn.
func TestAStoppedPassSaysSoAndLosesNothing(t *testing.T) {
	causes := map[error]int{mirror.ErrInterrupted: 130, mirror.ErrTerminated: 143, mirror.ErrBudget: 6}
	for nth := 1; nth <= 9; nth++ {
		for cause, exit := range causes {
			t.Run(cause.Error()+" at request "+manifest.Number(nth).Padded(), func(t *testing.T) {
				w, _ := permitsWorld(t)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var calls atomic.Int64
				w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Times: feedsim.Always, Match: func(feedsim.Request) bool {
					if calls.Add(1) == int64(nth) {
						cancel(cause)
					}
					return false
				}}, feedsim.HTML())
				report := mirror.Run(ctx, w.options())
				if calls.Load() >= int64(nth) && report.Exit != exit {
					t.Errorf("ended with %d (%s), want %d: %+v", report.Exit, report.Status, exit, report.Failures)
				}
				w.feed.ClearScript()
				w.sync(0)
				w.published(permits, 2)
			})
		}
	}
}

package mirror

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestALastingContextEndsAWhileAfterItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		longer, cancel := lasting(ctx, 5*time.Second)
		defer cancel()
		time.Sleep(time.Hour)
		if err := longer.Err(); err != nil {
			t.Errorf("it ended before its own did: %v", err)
		}
		end()
		time.Sleep(4 * time.Second)
		if err := longer.Err(); err != nil {
			t.Errorf("it ended at once: %v", err)
		}
		time.Sleep(2 * time.Second)
		if cause := context.Cause(longer); !errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("it goes on, or ended for %v", cause)
		}
		over, cancel := lasting(ctx, time.Second)
		defer cancel()
		synctest.Wait()
		if err := over.Err(); err != nil {
			t.Errorf("one of a context that is over ended at once: %v", err)
		}
	})
}

package feedsim

import (
	"sync"
	"time"
)

// Clock is the feed's time. It can be moved forward by hand, also when it follows the system's.
type Clock struct {
	mu      sync.Mutex
	now     time.Time // the fixed time, when base is nil
	base    func() time.Time
	forward time.Duration
}

// NewClock returns a clock that stands at start until it is advanced.
func NewClock(start time.Time) *Clock { return &Clock{now: start.UTC()} }

// NewSystemClock returns a clock that follows the system's.
func NewSystemClock() *Clock { return &Clock{base: time.Now} }

// Now returns the feed's time in UTC.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.base != nil {
		return c.base().Add(c.forward).UTC()
	}
	return c.now.Add(c.forward)
}

// Advance moves the clock forward by d.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forward += d
}

package soak_test

import (
	"math/rand/v2"
	"sync"
	"time"
)

// chance is a source of accidents. It is safe for several goroutines.
type chance struct {
	mu     sync.Mutex
	random *rand.Rand
}

// newChance returns the accidents of one actor; each has its own, so that one's pace does not change another's.
func newChance(seed uint64, actor uint64) *chance {
	return &chance{random: rand.New(rand.NewPCG(seed, actor))}
}

// hits is true with this probability.
func (c *chance) hits(probability float64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.Float64() < probability
}

// number returns one from 0 to n-1.
func (c *chance) number(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

// between returns a time from least to most.
func (c *chance) between(least, most time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return least + time.Duration(c.random.Int64N(int64(most-least)+1))
}

package transfer

import (
	"math"
	"time"
)

const (
	// maxBatch is how many names the feed signs in one call.
	maxBatch = 200
	// longLife is a lifetime above which a full batch is asked for without a look at the rate.
	longLife = 10 * time.Minute
	// standardLife is what the feed documents, for answers that do not say.
	standardLife = time.Hour
	// paceMemory is how many ends of files the rate is measured over.
	paceMemory = 64
)

// pace measures how fast a job uses links, and says how many to ask for.
type pace struct {
	workers  int
	lifetime time.Duration // of links
	latency  time.Duration // of the call that signs them, smoothed
	ends     []time.Time   // the newest paceMemory ends of files, after the job's first start
}

func (p *pace) begin(now time.Time) {
	if len(p.ends) == 0 {
		p.ends = append(p.ends, now)
	}
}

func (p *pace) end(now time.Time) {
	if len(p.ends) > paceMemory {
		copy(p.ends, p.ends[1:])
		p.ends = p.ends[:paceMemory]
	}
	p.ends = append(p.ends, now)
}

func (p *pace) answered(took, lifetime time.Duration) {
	if lifetime > 0 {
		p.lifetime = lifetime
	}
	if p.latency == 0 {
		p.latency = took
		return
	}
	p.latency += (took - p.latency) / 4
}

// used returns how many links are used within the duration, -1 while that is not known. A job
// that stands still uses ever fewer.
func (p *pace) used(within time.Duration, now time.Time) int {
	if len(p.ends) < 2 {
		return -1
	}
	elapsed := max(now.Sub(p.ends[0]), time.Microsecond)
	count := float64(len(p.ends)-1) * (float64(within) / float64(elapsed))
	return int(math.Min(count, maxBatch))
}

// batch returns how many links to ask for at once: a full call when they live long, else what
// is used within half a lifetime, so that none waits in a queue until it has expired.
func (p *pace) batch(now time.Time) int {
	if p.lifetime >= longLife {
		return maxBatch
	}
	return p.measured(now)
}

// measured is batch without the exception for links that live long.
func (p *pace) measured(now time.Time) int {
	count := p.used(p.lifetime/2, now)
	if count < 0 {
		count = p.workers
	}
	return min(max(count, 1), maxBatch)
}

// reserve returns how many signed files must be left when the next batch is asked for: what is
// used while two calls are answered.
func (p *pace) reserve(now time.Time) int {
	count := p.used(2*p.latency, now)
	if p.lifetime >= longLife {
		return min(max(count+1, p.workers), maxBatch)
	}
	if count < 0 || p.used(p.lifetime/2, now) < 1 {
		return 0 // a link that is signed ahead would have expired when its turn comes
	}
	return min(count+1, max(p.batch(now)/2, 1))
}

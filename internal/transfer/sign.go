package transfer

import (
	"context"
	"fmt"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
)

// take returns the files whose links are asked for in the next call, none when none is needed
// now. over says that every file has ended.
func (j *job) take(now time.Time) (batch []*task, over bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended && j.pending == 0 {
		return nil, true
	}
	if !j.dueLocked(now) {
		return nil, false
	}
	size := min(max(j.pace.batch(now), len(j.renew)+j.waiting), maxBatch)
	ahead := j.aheadLocked(now)
	batch = j.takeRenewedLocked(size, now)
	// A refused link alone is no reason to sign further ahead: where the source refuses every
	// first link, the signed files would pile up.
	for ahead && len(batch) < size && len(j.fresh) > 0 {
		t := j.fresh[0]
		j.fresh[0] = nil
		j.fresh = j.fresh[1:]
		if t.started {
			j.waiting--
		}
		batch = append(batch, t)
	}
	for _, t := range batch {
		t.state = asked
	}
	return batch, false
}

// takeRenewedLocked returns the files that need another link: those of waiting workers, and of
// the ones queued behind them whose link has expired as many as will be used soon.
func (j *job) takeRenewedLocked(size int, now time.Time) []*task {
	count := min(len(j.renew), size)
	batch := make([]*task, count, size)
	copy(batch, j.renew)
	j.renew = append(j.renew[:0], j.renew[count:]...)
	if count == 0 {
		return batch
	}
	room := min(j.pace.measured(now), size-count)
	for _, waiting := range [...]*queue{&j.big, &j.small} {
		for _, t := range waiting.tasks {
			if room <= 0 {
				return batch
			}
			if t.state == signed && t.err == nil && !now.Before(t.link.expires) {
				j.ready--
				room--
				batch = append(batch, t)
			}
		}
	}
	return batch
}

// sign asks the feed for the batch's links and hands them out.
func (j *job) sign(batch []*task) error {
	byName := make(map[string][]*task, len(batch))
	names := make([]string, 0, len(batch))
	renewed := 0
	for _, t := range batch {
		if byName[t.Name] == nil {
			names = append(names, t.Name)
		}
		byName[t.Name] = append(byName[t.Name], t)
		if t.signed > 0 {
			renewed++
		}
	}
	opts := j.engine.opts
	opts.Counts.LinkCalls.Add(1)
	opts.Counts.Links.Add(int64(len(names)))
	opts.Counts.Renewed.Add(int64(renewed))
	began := opts.Now()
	links, err := opts.Linker.Links(j.ctx, j.Dataset, j.Version, names)
	if err != nil {
		if j.ctx.Err() != nil {
			return context.Cause(j.ctx)
		}
		return fmt.Errorf("sign %d links of %s version %d: %w", len(names), j.Dataset, j.Version, err)
	}
	if links.Received.IsZero() {
		links.Received = began
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pace.answered(opts.Now().Sub(began), links.Lifetime)
	j.handOutLocked(byName, links)
	return nil
}

func (j *job) handOutLocked(byName map[string][]*task, links feed.Links) {
	// A link is left alone in the last tenth of its life, half a minute at most: a request must
	// reach the source before the end.
	life := j.pace.lifetime
	expires := links.Received.Add(life - min(life/10, 30*time.Second))
	for _, entry := range links.Entries {
		for _, t := range byName[entry.Name] {
			if t.state == asked {
				j.deliverLocked(t, link{url: entry.URL, expires: expires}, j.checkEntry(t, entry))
			}
		}
	}
	for _, name := range links.Missing {
		for _, t := range byName[name] {
			if t.state == asked {
				j.deliverLocked(t, link{}, j.linkFault(t, fault.Missing,
					"the feed has no file of this name any more",
					"It may be lost to the feed's retention, or the version is being rebuilt; the next pass asks again."))
			}
		}
	}
	for name, tasks := range byName {
		for _, t := range tasks {
			if t.state == asked {
				j.deliverLocked(t, link{}, j.linkFault(t, fault.Malformed,
					fmt.Sprintf("the answer neither links %q nor calls it missing", name),
					"Report it to the feed's operator; the next pass asks again."))
			}
		}
	}
}

// checkEntry refuses a link to other bytes than those wanted, before any is fetched.
func (j *job) checkEntry(t *task, entry feed.Entry) error {
	if entry.Size == t.Size && entry.SHA256 == t.SHA256 {
		return nil
	}
	return j.linkFault(t, fault.Malformed,
		fmt.Sprintf("the feed links to %d bytes with sha256 %s, the manifest names %d bytes with sha256 %s",
			entry.Size, entry.SHA256, t.Size, t.SHA256),
		"The feed contradicts its own manifest: report it to the feed's operator.")
}

func (j *job) linkFault(t *task, kind fault.Kind, cause, hint string) error {
	return &fault.Error{
		Op: "sign link", Object: t.Name, Side: fault.SideFeed, Kind: kind, Hint: hint,
		Dataset: j.Dataset, Version: int64(j.Version), Err: fmt.Errorf("%s", cause),
	}
}

// deliverLocked gives a file its link, or the reason why there is none.
func (j *job) deliverLocked(t *task, l link, err error) {
	t.link, t.err, t.state = l, err, signed
	t.signed++
	if !t.started {
		j.ready++
	}
	if t.ready != nil {
		close(t.ready)
		t.ready = nil
	}
}

// link returns a link for a file that a worker holds. It waits for one when there is none, when
// it has expired, or when stale says that the source refused it. A link that was waited for is
// returned whatever its lifetime, so that a feed whose links are born expired ends in a try.
func (j *job) link(ctx context.Context, t *task, stale bool) (link, error) {
	j.mu.Lock()
	if t.state == signed {
		if t.err != nil {
			defer j.mu.Unlock()
			return link{}, t.err
		}
		if !stale && j.engine.opts.Now().Before(t.link.expires) {
			defer j.mu.Unlock()
			return t.link, nil
		}
		j.renew = append(j.renew, t)
	}
	ready := make(chan struct{})
	t.ready = ready
	j.signal()
	j.mu.Unlock()
	select {
	case <-ready:
	case <-ctx.Done():
		return link{}, context.Cause(ctx)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return t.link, t.err
}

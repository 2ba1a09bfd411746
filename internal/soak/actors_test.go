package soak_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// The datasets: two with documents that versions share, one with sources and an original, and a bulky
// one whose attachments come, go and come back.
const (
	permits = "ds_permits"
	parcels = "ds_parcels"
	archive = "ds_archive"
	bulk    = "ds_bulk"
)

// releaser releases versions all the time.
type releaser struct {
	world  *world
	chance *chance
	mu     sync.Mutex
	// released are the versions of each dataset that the feed did not withdraw.
	released map[string][]int64
	awaits   map[string]bool // datasets with a withdrawn version that has not been rebuilt
}

// datasets returns the ids.
func datasets() []string { return []string{permits, parcels, archive, bulk} }

func newReleaser(w *world, c *chance) (*releaser, error) {
	r := &releaser{world: w, chance: c, released: map[string][]int64{}, awaits: map[string]bool{}}
	for id, character := range map[string]feedsim.Character{permits: feedsim.Points, parcels: feedsim.Polygons, archive: feedsim.Archive} {
		d, err := w.feed.AddDataset(feedsim.DatasetSpec{ID: id, Character: character, Rows: 8})
		if err != nil {
			return nil, err
		}
		n, err := d.Release(feedsim.ReleaseSpec{})
		if err != nil {
			return nil, err
		}
		r.released[id] = []int64{n}
	}
	d, err := w.feed.AddBulk(r.bulkSpec())
	if err != nil {
		return nil, err
	}
	r.released[bulk] = []int64{d.Current()}
	return r, nil
}

// bulkSpec names some of a few attachments, so that each comes back again and again.
func (r *releaser) bulkSpec() feedsim.BulkSpec {
	return feedsim.BulkSpec{Dataset: bulk, Parts: 1 + r.chance.number(3), PartBytes: 20 << 10, Attachments: 5 + r.chance.number(20),
		AttachmentBytes: 2000, FirstAttachment: r.chance.number(40)}
}

// spec draws what a release brings. Rows that come and go hold the balance.
func (r *releaser) spec() feedsim.ReleaseSpec {
	spec := feedsim.ReleaseSpec{Add: 2, Change: 2, Remove: 2, Parts: 1 + r.chance.number(3)}
	switch n := r.chance.number(100); {
	case n < 10:
		return feedsim.ReleaseSpec{Empty: true}
	case n < 18:
		spec.Minor = true
	case n < 23:
		spec.Major = true
	case n < 28:
		spec.ReplaceIDs = true
	case n < 33:
		spec.SkipNumbers = 3
	case n < 36:
		spec.RowCountOff = 1
	case n < 39:
		spec.Resync = true
	case n < 42:
		spec.ChangeSource = true
	}
	return spec
}

// step releases, withdraws or rebuilds one version.
func (r *releaser) step() {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := datasets()[r.chance.number(len(datasets()))]
	d := r.world.feed.Dataset(id)
	var n int64
	var err error
	switch known := r.released[id]; {
	case id == bulk:
		n, err = d.ReleaseBulk(r.bulkSpec())
	case r.awaits[id]:
		n, err = d.ReleaseRebuild()
		r.awaits[id] = false
	case len(known) > 1 && r.chance.hits(0.07):
		r.released[id], r.awaits[id] = known[:len(known)-1], true
		err = d.ReleaseAgain(known[len(known)-1])
		r.world.count("withdrawn")
	default:
		n, err = d.Release(r.spec())
	}
	if err != nil {
		r.world.violated("release of %s: %v", id, err)
	}
	if n != 0 {
		r.released[id] = append(r.released[id], n)
		r.world.count("released")
	}
}

// finish leaves no dataset without its rebuild, and each with a version that nothing speaks against.
func (r *releaser) finish() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range datasets() {
		d := r.world.feed.Dataset(id)
		if r.awaits[id] {
			n, err := d.ReleaseRebuild()
			if err != nil {
				return err
			}
			r.released[id] = append(r.released[id], n)
		}
		if id == bulk {
			continue
		}
		n, err := d.Release(feedsim.ReleaseSpec{Change: 1})
		if err != nil {
			return err
		}
		r.released[id] = append(r.released[id], n)
	}
	return nil
}

// any returns a dataset and one of its newest versions.
func (r *releaser) any(c *chance) (string, int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := datasets()[c.number(len(datasets()))]
	known := r.released[id]
	return id, known[len(known)-1-c.number(min(6, len(known)))]
}

// work releases until the time is up.
func (r *releaser) work(ctx context.Context) {
	for pause(ctx, r.chance.between(300*time.Millisecond, 2*time.Second)) {
		r.step()
	}
}

// syncing makes passes until the time is up.
func (w *world) syncing(ctx context.Context, c *chance) {
	for ctx.Err() == nil {
		args := []string{"sync", "--output", "json"}
		if c.hits(0.25) {
			args = append(args, "--full")
		}
		if c.hits(0.1) {
			args = append(args, "--max-duration", c.between(200*time.Millisecond, 2*time.Second).String())
		}
		w.run(ctx, drawFate(c), args...)
		pause(ctx, c.between(0, 300*time.Millisecond))
	}
}

// deciding approves and rolls back, until the time is up.
func (w *world) deciding(ctx context.Context, c *chance, r *releaser) {
	for pause(ctx, c.between(0, 700*time.Millisecond)) {
		id, version := r.any(c)
		if c.hits(0.3) {
			w.run(ctx, drawFate(c), "rollback", id, strconv.FormatInt(version, 10), "--reason", "soak")
		} else {
			w.run(ctx, drawFate(c), "approve", id, "--reason", "soak")
		}
	}
}

// tending prunes, audits and looks, until the time is up. A prune that was killed is finished before
// another begins: its process is known to be gone.
func (w *world) tending(ctx context.Context, c *chance) {
	rules := [][]string{{"--keep-versions", "1"}, {"--keep-versions", "3"}, {"--keep-majors", "1"}, {"--keep-majors", "2", "--keep-versions", "1"}}
	unfinished := false
	for pause(ctx, c.between(0, 700*time.Millisecond)) {
		switch n := c.number(100); {
		case n < 50:
			args := append([]string{"prune", "--output", "json", "--apply", "--grace", "1s"}, rules[c.number(len(rules))]...)
			if unfinished {
				args = []string{"prune", "--output", "json", "--resume"}
			}
			unfinished = w.run(ctx, drawFate(c), args...).exit != 0
		case n < 70:
			w.audit(ctx, drawFate(c), "--budget", "300KiB", "--max-age", "1s")
		case n < 85:
			w.audit(ctx, drawFate(c), "--level", "inventory")
		case n < 93:
			w.run(ctx, drawFate(c), "status", "--output", "json")
		default:
			w.run(ctx, drawFate(c), "plan", "--output", "json")
		}
	}
}

// finding is a finding of an audit.
type finding struct{ Kind, Key, Detail string }

// audit runs an audit. While requests fail an object can be unreadable, and it says so; nothing else may
// be found, whoever writes and deletes meanwhile.
func (w *world) audit(ctx context.Context, f fate, args ...string) ended {
	e := w.run(ctx, f, append([]string{"verify", "--output", "json"}, args...)...)
	var report struct{ Findings []finding }
	if e.exit != 3 {
		return e
	}
	if err := json.Unmarshal(e.out, &report); err != nil || len(report.Findings) == 0 {
		w.violated("verify ended with 3 and printed %v: %s", err, short(e.out))
	}
	for _, one := range report.Findings {
		if one.Kind != "unreadable" || w.place.noise == nil {
			w.violated("an audit found %+v", one)
		}
	}
	return e
}

// settle wants everything in order once the accidents have ended.
func (w *world) settle(ctx context.Context, r *releaser) {
	if err := r.finish(); err != nil {
		w.violated("last releases: %v", err)
	}
	w.must(ctx, "prune", "--output", "json", "--resume")
	w.must(ctx, "sync", "--output", "json", "--full")
	for _, id := range datasets() {
		w.approveAll(ctx, id)
	}
	w.must(ctx, "sync", "--output", "json")
	for _, id := range datasets() {
		p, err := w.pointer(ctx, id)
		if want := w.feed.Dataset(id).Current(); err != nil || p.Version != want {
			w.violated("in the end the pointer of %s is %+v (%v), the feed is at %d", id, p, err, want)
		}
		for _, n := range r.released[id] {
			if _, err := w.place.read(ctx, recordKey(id, n)); err != nil {
				w.violated("in the end version %d of %s has no record: %v", n, id, err)
			}
		}
	}
	for _, level := range []string{"inventory", "bytes"} {
		w.must(ctx, "verify", "--output", "json", "--level", level)
	}
}

// approveAll approves what is held and lifts a pin, until nothing is: each further MAJOR is a new hold.
func (w *world) approveAll(ctx context.Context, id string) {
	for range 20 {
		if p, err := w.pointer(ctx, id); err != nil || p.Held == nil && !p.Pinned {
			return
		}
		w.must(ctx, "approve", id, "--reason", "soak")
	}
}

// must wants a command to succeed.
func (w *world) must(ctx context.Context, args ...string) {
	if e := w.run(ctx, fate{}, args...); e.exit != 0 {
		w.violated("in the end %v ended with %d: %s\n%s", args, e.exit, short(e.out), short(e.err))
	}
}

func recordKey(dataset string, version int64) string {
	return fmt.Sprintf("versions/%s/%010d/record.json", dataset, version)
}

package mirror

import (
	"context"
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strings"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
	"feedmirror/manifest"
	"feedmirror/state"
)

// target is a dataset that a pass works on.
type target struct {
	dataset string
	current manifest.Number // by the list of datasets; zero when it did not say
	since   time.Time       // when current was published; zero when the list did not say
	full    bool            // compare the whole chain
	owed    bool
}

// InShard reports whether a dataset belongs to shard index of of: by a hash of its id, so that
// every run agrees without talking.
func InShard(dataset string, index, of int) bool {
	if of <= 1 {
		return true
	}
	hash := fnv.New64a()
	hash.Write([]byte(dataset))
	return int(hash.Sum64()%uint64(of)) == index
}

// InFilter reports whether a dataset matches one of the globs; no glob matches all.
func InFilter(dataset string, globs []string) bool {
	if len(globs) == 0 {
		return true
	}
	return slices.ContainsFunc(globs, func(glob string) bool {
		ok, err := path.Match(glob, dataset)
		return err == nil && ok
	})
}

// selectTargets reads the list of datasets and returns those to work on, sorted by id.
func (p *pass) selectTargets(ctx context.Context) ([]target, error) {
	var since time.Time
	if !p.full {
		since = p.seen.Watermark
	}
	items := map[string]feed.Dataset{}
	listing, err := p.Feed.Datasets(ctx, since, func(d feed.Dataset) error {
		if _, twice := items[d.ID]; twice {
			return nil
		}
		items[d.ID] = d
		return nil
	})
	if err != nil {
		return nil, unfitFeed(err)
	}
	for _, bad := range listing.Bad {
		p.tally.fail(failureOf("", 0, bad))
	}
	p.hasList, p.feedNow = true, listing.Date
	p.next = p.watermark(listing)
	targets := map[string]target{}
	for id, item := range items {
		switch {
		case !InFilter(id, p.Filter):
			p.leftOut = append(p.leftOut, id)
		case !InShard(id, p.ShardIndex, p.ShardOf):
		case !p.full && p.settled(item):
			p.keepRecent(item)
		default:
			targets[id] = target{dataset: id, current: item.Current, since: item.PublishedAt, full: p.full}
		}
	}
	slices.Sort(p.leftOut)
	if !p.full {
		p.leftOut = p.seen.LeftOut
	}
	p.addOwed(targets)
	if p.full {
		if err := p.askForMissing(ctx, items, targets); err != nil {
			return nil, err
		}
	}
	list := make([]target, 0, len(targets))
	for _, t := range targets {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b target) int { return strings.Compare(a.dataset, b.dataset) })
	p.tally.update(func(r *Report) { r.Datasets.Seen = len(list) })
	return list, nil
}

// watermark returns where the next incremental pass begins: by the feed's clock, never by ours,
// and never by a time met after the first page.
func (p *pass) watermark(listing feed.Listing) time.Time {
	base := listing.Date
	if base.IsZero() {
		base = listing.Greatest
	}
	var before time.Time
	if p.seen != nil {
		before = p.seen.Watermark
	}
	next := base.Add(-p.Overlap)
	if base.IsZero() || next.Before(before) {
		return before
	}
	return next
}

// settled reports whether the version that the list names was settled by an earlier pass, so that
// meeting it again inside the overlap costs nothing.
func (p *pass) settled(item feed.Dataset) bool {
	at, found := slices.BinarySearchFunc(p.seen.Recent, item.ID, func(r state.Recent, id string) int { return strings.Compare(r.Dataset, id) })
	return found && item.Current != 0 && p.seen.Recent[at].Version == item.Current
}

func (p *pass) keepRecent(item feed.Dataset) {
	published := item.PublishedAt
	if published.IsZero() {
		published = p.feedNow
	}
	if published.Before(p.next) {
		return
	}
	p.recent = append(p.recent, state.Recent{Dataset: item.ID, Version: item.Current, PublishedAt: published})
}

func (p *pass) addOwed(targets map[string]target) {
	if p.seen == nil {
		return
	}
	for _, owed := range p.seen.Owed {
		if !InFilter(owed.Dataset, p.Filter) || !InShard(owed.Dataset, p.ShardIndex, p.ShardOf) {
			continue
		}
		t, listed := targets[owed.Dataset]
		if !listed {
			t = target{dataset: owed.Dataset}
		}
		t.owed, t.full = true, t.full || owed.Full
		targets[owed.Dataset] = t
	}
}

// askForMissing asks by name for each dataset that the bucket has and a full list lacks. Only a
// refusal by name says anything, and even that changes no data.
func (p *pass) askForMissing(ctx context.Context, items map[string]feed.Dataset, targets map[string]target) error {
	known, err := p.knownDatasets(ctx)
	if err != nil {
		return unfitBucket(err)
	}
	if len(items) == 0 {
		p.emptyList(len(known))
	}
	for _, id := range known {
		if _, listed := items[id]; listed {
			continue
		}
		delete(targets, id)
		if line := p.lineOf(id); line.State == "retired" {
			p.settle(line)
			continue
		}
		if item, ok := p.askByName(ctx, id); ok {
			targets[id] = target{dataset: id, current: item.Current, since: item.PublishedAt, full: true}
		}
		if cause := ctx.Err(); cause != nil {
			return cause
		}
	}
	return nil
}

func (p *pass) emptyList(known int) {
	if known == 0 {
		p.tally.note(Note{Kind: "empty-list", Message: "the feed lists no dataset for this key"})
		return
	}
	p.tally.fail(failureOf("", 0, &fault.Error{Op: "list datasets", Side: fault.SideFeed, Kind: fault.Malformed,
		Err:  fmt.Errorf("the list is empty, while the bucket has %d datasets", known),
		Hint: "Nothing was changed. Check the subscription of this API key with Ploti."}))
}

func (p *pass) askByName(ctx context.Context, id string) (feed.Dataset, bool) {
	item, err := p.Feed.Dataset(ctx, id)
	line := p.lineOf(id)
	line.CheckedAt = p.Now()
	switch {
	case err == nil:
		p.tally.note(Note{Dataset: id, Kind: "not-listed", Message: "the full list lacks it, but the feed still knows it by name"})
		return item, true
	case fault.Is(err, fault.NotFound):
		line.State, line.Message = "unknown", "the feed no longer knows it; what is mirrored stays"
	case fault.Is(err, fault.NotSubscribed):
		line.State, line.Message = "not-subscribed", "no subscription delivers it any more; what is mirrored stays"
	default:
		p.tally.fail(failureOf(id, 0, err))
		p.leave(target{dataset: id, full: true}, "could not be asked for")
		return feed.Dataset{}, false
	}
	p.tally.update(func(r *Report) { r.Datasets.NotSubscribed++ })
	p.tally.note(Note{Dataset: id, Kind: line.State, Message: line.Message})
	p.settle(line)
	return feed.Dataset{}, false
}

// knownDatasets returns the datasets of this filter and shard that the bucket has: those of the
// shard's document, and those with a pointer.
func (p *pass) knownDatasets(ctx context.Context) ([]string, error) {
	known := map[string]bool{}
	if p.seen != nil {
		for _, line := range p.seen.Datasets {
			known[line.Dataset] = line.Newest != 0
		}
	}
	for info, err := range p.Store.List(ctx, "current/", "") {
		if err != nil {
			return nil, err
		}
		if id := state.DatasetOfKey(info.Key); id != "" {
			known[id] = true
		}
	}
	var list []string
	for id, has := range known {
		if has && InFilter(id, p.Filter) && InShard(id, p.ShardIndex, p.ShardOf) {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list, nil
}

// lineOf returns what was known of a dataset before this pass.
func (p *pass) lineOf(dataset string) state.Line {
	if p.seen != nil {
		at, found := slices.BinarySearchFunc(p.seen.Datasets, dataset, func(l state.Line, id string) int { return strings.Compare(l.Dataset, id) })
		if found {
			return p.seen.Datasets[at]
		}
	}
	return state.Line{Dataset: dataset}
}

// settle keeps a dataset's new line and counts it as finished.
func (p *pass) settle(line state.Line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line)
	p.finished = append(p.finished, line.Dataset)
}

// unfitFeed marks an error of the list of datasets as one of the feed as a whole.
func unfitFeed(err error) error {
	if fault.Is(err, fault.FeedUnfit) {
		return err
	}
	hint := "Check --feed-url and the way out to the network."
	if fault.Is(err, fault.Denied) {
		hint = "Check the API key in PLOTI_API_KEY or the file of --feed-api-key-file: it must be valid and hold the Data Feeds permission."
	}
	return &fault.Error{Op: "use feed", Side: fault.SideFeed, Kind: fault.FeedUnfit, Err: err, Hint: hint}
}

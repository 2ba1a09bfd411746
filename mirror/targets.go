package mirror

import (
	"context"
	"errors"
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

// mine reports whether a dataset belongs to the part of the feed that this pass looks after.
func (p *pass) mine(dataset string) bool {
	return InFilter(dataset, p.Filter) && InShard(dataset, p.ShardIndex, p.ShardOf)
}

// selectTargets reads the list of datasets and returns those to work on, sorted by id.
func (p *pass) selectTargets(ctx context.Context) ([]target, error) {
	var since time.Time
	if !p.full {
		since = p.seen.Watermark
	}
	items := map[string]feed.Dataset{}
	listing, err := p.Feed.Datasets(ctx, since, func(d feed.Dataset) error {
		if _, twice := items[d.ID]; !twice {
			items[d.ID] = d
		}
		return nil
	})
	if err != nil {
		return nil, unfitFeed(err)
	}
	p.feedNow = listing.Date
	p.next = p.watermark(listing)
	targets := map[string]target{}
	p.addBad(listing.Bad, targets)
	p.addListed(items, targets)
	p.addOwed(targets)
	if p.full {
		if err := p.checkFilter(items); err != nil {
			return nil, err
		}
		if err := p.askForMissing(ctx, items, targets); err != nil {
			return nil, err
		}
	}
	list := make([]target, 0, len(targets))
	for _, t := range targets {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b target) int { return strings.Compare(a.dataset, b.dataset) })
	p.tally.update(func(r *Report) { r.Datasets.Seen = len(list) + p.refusedByName })
	return list, nil
}

// addListed adds the datasets of the list that are this pass's and not settled yet.
func (p *pass) addListed(items map[string]feed.Dataset, targets map[string]target) {
	for id, item := range items {
		switch {
		case !InFilter(id, p.Filter):
			p.leftOut = append(p.leftOut, id)
		case !InShard(id, p.ShardIndex, p.ShardOf):
		case !p.full && p.neverSubscribed(id):
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
}

// addBad tells of items that cannot be used. A dataset whose id can be is asked for by name: the
// watermark moves past its item all the same.
func (p *pass) addBad(list []error, targets map[string]target) {
	for _, bad := range list {
		var at *fault.Error
		if errors.As(bad, &at) && at.Dataset != "" && p.mine(at.Dataset) {
			targets[at.Dataset] = target{dataset: at.Dataset, full: p.full}
		}
		p.tally.fail(failureOf("", 0, bad))
	}
}

// neverSubscribed reports whether an earlier pass found that no subscription delivers a dataset of
// which nothing is held. Only a full pass asks again.
func (p *pass) neverSubscribed(dataset string) bool {
	line := p.lineOf(dataset)
	return line.State == "not-subscribed" && line.Newest == 0
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
	switch {
	case base.IsZero():
		return before
	case next.Before(before) && !p.full:
		return before
	}
	// A full pass asked for everything, so it may also take back a time that the feed never had: one
	// answer with a clock of next year would blind every incremental pass until then.
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
		if !p.mine(owed.Dataset) {
			// A decision is owed by every shard. Here nobody would ever pay it.
			p.finished = append(p.finished, owed.Dataset)
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
		if line := p.lineOf(id); line.State == "retired" {
			if !targets[id].owed { // else a decision may take it up again: its worker asks
				delete(targets, id)
				p.settle(line, true)
			}
			continue
		}
		delete(targets, id)
		item, found, err := p.askByName(ctx, id)
		if err != nil {
			return err
		}
		if found {
			targets[id] = target{dataset: id, current: item.Current, since: item.PublishedAt, full: true}
		} else {
			p.refusedByName++
		}
		if cause := ctx.Err(); cause != nil {
			return cause
		}
	}
	return nil
}

// checkFilter tells of globs that match nothing: a mistyped one would mirror nothing in silence.
func (p *pass) checkFilter(items map[string]feed.Dataset) error {
	var idle []string
	for _, glob := range p.Filter {
		matches := false
		for id := range items {
			matches = matches || InFilter(id, []string{glob})
		}
		if !matches {
			idle = append(idle, glob)
		}
	}
	switch {
	case len(idle) == 0 || len(items) == 0:
		return nil
	case len(idle) < len(p.Filter):
		p.tally.note(Note{Kind: "idle-filter", Message: fmt.Sprintf("--datasets: nothing that the feed lists matches %s", strings.Join(idle, ", "))})
		return nil
	}
	return &fault.Error{Op: "select datasets", Object: strings.Join(idle, ", "), Side: fault.SideConfig, Kind: fault.Usage,
		Err:  fmt.Errorf("--datasets matches none of the %d datasets that the feed lists for this key", len(items)),
		Hint: "They are, for example: " + strings.Join(someOf(p.leftOut, 5), ", ")}
}

func someOf(list []string, most int) []string { return list[:min(len(list), most)] }

func (p *pass) emptyList(known int) {
	if known == 0 {
		p.tally.note(Note{Kind: "empty-list", Message: "the feed lists no dataset for this key"})
		return
	}
	p.doubtful, p.next = true, time.Time{}
	if p.seen != nil {
		p.next = p.seen.Watermark
	}
	p.tally.fail(failureOf("", 0, &fault.Error{Op: "list datasets", Side: fault.SideFeed, Kind: fault.Malformed,
		Err:  fmt.Errorf("the list is empty, while the bucket has %d datasets", known),
		Hint: "Nothing was changed. Check the subscription of this API key with Ploti."}))
}

// askByName reports whether the feed knows a dataset by name. Its error ends the pass.
func (p *pass) askByName(ctx context.Context, id string) (feed.Dataset, bool, error) {
	item, err := p.Feed.Dataset(ctx, id)
	line := p.lineOf(id)
	line.CheckedAt = p.Now()
	switch {
	case err == nil:
		p.tally.note(Note{Dataset: id, Kind: "not-listed", Message: "the full list lacks it, but the feed still knows it by name"})
		return item, true, nil
	case endsPass(err):
		return item, false, unfitFeed(err)
	case fault.Is(err, fault.NotFound):
		line.State, line.Message = "unknown", "the feed no longer knows it; what is mirrored stays"
	case fault.Is(err, fault.NotSubscribed):
		line.State, line.Message = "not-subscribed", "no subscription delivers it any more; what is mirrored stays"
	default:
		p.tally.fail(failureOf(id, 0, err))
		p.leave(target{dataset: id, full: true}, "could not be asked for")
		p.tally.update(func(r *Report) { r.Datasets.Failed++ })
		return item, false, nil
	}
	p.tally.update(func(r *Report) { r.Datasets.NotSubscribed++ })
	p.tally.note(Note{Dataset: id, Kind: line.State, Message: line.Message})
	p.settle(line, !p.doubtful)
	return item, false, nil
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
		if has && p.mine(id) {
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

// settle keeps a dataset's new line. What was owed of it stays owed unless it is finished.
func (p *pass) settle(line state.Line, finished bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line)
	if finished {
		p.finished = append(p.finished, line.Dataset)
	}
}

// endsPass reports whether the feed refused the key, or there is none to be had: every other call
// would meet the same.
func endsPass(err error) bool {
	return fault.Is(err, fault.FeedUnfit) || fault.Is(err, fault.Denied) && fault.SideOf(err) == fault.SideFeed
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

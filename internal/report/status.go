package report

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// Status is what mirror status shows.
type Status struct {
	At       time.Time       `json:"at"`
	Shards   []ShardStatus   `json:"shards"`
	Datasets []DatasetStatus `json:"datasets"`
	LeftOut  []string        `json:"leftOut"` // subscribed datasets that no shard's filter takes
	Prune    *PruneStatus    `json:"prune"`   // one that is not finished; null where there is none
}

// PruneStatus is a prune that is under way, or died.
type PruneStatus struct {
	State     string    `json:"state"` // deciding or deleting
	Run       string    `json:"run"`
	Host      string    `json:"host"`
	StartedAt time.Time `json:"startedAt"`
	At        time.Time `json:"at"`       // its last sign of life
	Versions  int       `json:"versions"` // that it takes
	Next      string    `json:"next"`     // the command to type if it died
}

// ShardStatus is when one shard's passes came by.
type ShardStatus struct {
	Key         string     `json:"key"`
	LastAttempt time.Time  `json:"lastAttempt"`
	LastSuccess *time.Time `json:"lastSuccess"` // null while no pass went through without a failure
	LastExit    int        `json:"lastExit"`
	Owed        int        `json:"owed"`         // datasets that the next pass looks at whatever the feed lists
	OwedSome    []string   `json:"owedDatasets"` // the first ten of them
	Filter      []string   `json:"filter"`       // globs; empty: all datasets
	History     string     `json:"history"`
	Idle        bool       `json:"idle"` // no run uses these settings any more, so that what is owed there does not count
}

// DatasetStatus is one dataset at a glance.
type DatasetStatus struct {
	Dataset     string          `json:"dataset"`
	State       string          `json:"state"`     // ok, held, pinned, retired, withdrawn, failed, owed, not-subscribed, unknown
	Published   manifest.Number `json:"published"` // zero while nothing is
	Newest      manifest.Number `json:"newest"`    // highest version that is mirrored whole
	FeedCurrent manifest.Number `json:"feedCurrent"`
	Schema      string          `json:"schemaVersion"`
	PublishedAt *time.Time      `json:"publishedAt"` // when the feed released the published version
	Held        *state.Held     `json:"held"`
	Withdrawn   bool            `json:"withdrawn"`
	Pinned      bool            `json:"pinned"`
	Retired     bool            `json:"retired"`
	Lag         Lag             `json:"lag"`
	Message     string          `json:"message"` // in words
	Table       string          `json:"table"`   // why engines see no table of it, or a stale one; empty when they see it
	Next        string          `json:"next"`    // the command to type; empty when there is none
	Notices     []state.Notice  `json:"notices"` // worth knowing; nothing waits for it
	CheckedAt   time.Time       `json:"checkedAt"`
}

// Lag is how far readers are behind what the feed was seen to have released.
type Lag struct {
	Versions int     `json:"versions"`
	AtLeast  bool    `json:"atLeast"` // there may be more: the feed's numbers skip, and only its newest was seen
	Seconds  float64 `json:"seconds"` // since the oldest of them, or the newest where that is not known
}

// BuildStatus reads shard documents and pointers. selected narrows it; nil takes all.
func BuildStatus(ctx context.Context, r bucket.Reader, selected func(string) bool, now time.Time) (Status, error) {
	status := Status{At: now, Shards: []ShardStatus{}, Datasets: []DatasetStatus{}, LeftOut: []string{}}
	lines, err := status.readShards(ctx, r)
	if err != nil {
		return status, err
	}
	pointers, err := readPointers(ctx, r)
	if err != nil {
		return status, err
	}
	for dataset := range pointers {
		if _, known := lines[dataset]; !known {
			lines[dataset] = state.Line{Dataset: dataset}
		}
	}
	for dataset, line := range lines {
		if selected != nil && !selected(dataset) {
			continue
		}
		read := pointers[dataset]
		if read.pointer == nil && !read.damaged {
			pending, err := state.PendingDecisions(ctx, r, dataset, nil)
			if err != nil {
				return status, err
			}
			read.retired = state.Retires(pending)
		}
		status.Datasets = append(status.Datasets, datasetStatus(line, read, now))
	}
	if status.Prune, err = pruneStatus(ctx, r); err != nil {
		return status, err
	}
	slices.SortFunc(status.Datasets, func(a, b DatasetStatus) int { return strings.Compare(a.Dataset, b.Dataset) })
	status.LeftOut = slices.DeleteFunc(status.LeftOut, func(dataset string) bool { _, mirrored := lines[dataset]; return mirrored })
	slices.Sort(status.LeftOut)
	status.LeftOut = slices.Compact(status.LeftOut)
	return status, nil
}

// pruneStatus returns the prune that is not finished, or nil.
func pruneStatus(ctx context.Context, r bucket.Reader) (*PruneStatus, error) {
	prune, _, err := state.LoadPrune(ctx, r)
	if err != nil || !prune.Running() {
		return nil, err
	}
	return &PruneStatus{State: string(prune.State), Run: prune.Run, Host: prune.Host, StartedAt: prune.StartedAt, At: prune.At,
		Versions: len(prune.Versions), Next: "mirror prune --resume"}, nil
}

func (s *Status) readShards(ctx context.Context, r bucket.Reader) (map[string]state.Line, error) {
	lines := map[string]state.Line{}
	for info, err := range r.List(ctx, manifest.ShardsPrefix, "") {
		if err != nil {
			return nil, err
		}
		shard, _, err := state.Read[state.Shard](ctx, r, info.Key)
		if err != nil {
			return nil, err
		}
		if shard == nil {
			continue
		}
		one := ShardStatus{Key: info.Key, LastAttempt: shard.LastAttempt, LastExit: shard.LastExit, Owed: len(shard.Owed), OwedSome: []string{},
			Filter: append([]string{}, shard.Filter...), History: string(shard.History)}
		for _, owed := range shard.Owed[:min(len(shard.Owed), 10)] {
			one.OwedSome = append(one.OwedSome, owed.Dataset)
		}
		if !shard.LastSuccess.IsZero() {
			success := shard.LastSuccess
			one.LastSuccess = &success
		}
		s.Shards = append(s.Shards, one)
		s.LeftOut = append(s.LeftOut, shard.LeftOut...)
		for _, line := range shard.Datasets {
			if known, ok := lines[line.Dataset]; !ok || line.CheckedAt.After(known.CheckedAt) {
				lines[line.Dataset] = line
			}
		}
	}
	s.markIdle()
	return lines, nil
}

// markIdle tells documents that no run uses any more from those of this week's runs.
func (s *Status) markIdle() {
	var newest time.Time
	for _, shard := range s.Shards {
		if shard.LastAttempt.After(newest) {
			newest = shard.LastAttempt
		}
	}
	for at := range s.Shards {
		s.Shards[at].Idle = (&state.Shard{LastAttempt: s.Shards[at].LastAttempt}).Idle(newest)
	}
}

// readPointer is a pointer as it was found.
type readPointer struct {
	pointer *state.Pointer // nil where there is none that can be read
	damaged bool           // something stands under its key
	retired bool           // by a decision, where nothing is published
}

// readPointers reads every pointer: an operator may have moved one since the last pass.
func readPointers(ctx context.Context, r bucket.Reader) (map[string]readPointer, error) {
	pointers := map[string]readPointer{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for info, err := range r.List(ctx, "current/", "") {
		if err != nil {
			_ = group.Wait() // where it failed first, this error is its consequence
			return nil, err
		}
		dataset := state.DatasetOfKey(info.Key)
		if dataset == "" {
			continue
		}
		group.Go(func() error {
			pointer, _, err := state.Read[state.Pointer](ctx, r, info.Key)
			damaged := fault.Is(err, fault.Malformed)
			if err != nil && !damaged {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			pointers[dataset] = readPointer{pointer: pointer, damaged: damaged}
			return nil
		})
	}
	return pointers, group.Wait()
}

func datasetStatus(line state.Line, read readPointer, now time.Time) DatasetStatus {
	d := DatasetStatus{Dataset: line.Dataset, State: line.State, Held: line.Held, Newest: line.Newest, FeedCurrent: line.FeedCurrent, Message: line.Message, Table: line.Table, CheckedAt: line.CheckedAt,
		Notices: append([]state.Notice{}, line.Notices...)}
	if pointer := read.pointer; pointer != nil {
		published := pointer.PublishedAt
		d.Published, d.Schema, d.PublishedAt = pointer.Version, pointer.SchemaVersion.String(), &published
		d.Held, d.Withdrawn, d.Pinned, d.Retired = pointer.Held, pointer.Withdrawn, pointer.Pinned, pointer.Retired
		d.Newest = max(d.Newest, pointer.Version)
	}
	d.Retired = d.Retired || read.retired
	switch d.State {
	case "", "held", "withdrawn", "retired": // the pointer says it, which a person may have moved since the last pass
		d.State = "ok"
	}
	d.Lag = lagOf(d, line, now)
	if read.damaged || (read.pointer == nil && line.Published != 0) {
		d.lostPointer(read.damaged)
		return d
	}
	d.explain()
	return d
}

// lagOf says how far readers are behind the version that the feed last called current.
func lagOf(d DatasetStatus, line state.Line, now time.Time) Lag {
	var lag Lag
	switch {
	case line.Published == d.Published:
		lag.Versions = line.Waiting
	case d.Newest > d.Published: // moved by a person since the versions were counted
		lag.Versions, lag.AtLeast = 1, true
	}
	if d.FeedCurrent > d.Newest {
		lag.Versions, lag.AtLeast = lag.Versions+1, true
	}
	if lag.Versions > 0 && line.FeedSince != nil {
		lag.Seconds = now.Sub(*line.FeedSince).Seconds()
	}
	return lag
}

// lostPointer explains a dataset whose pointer is gone or cannot be read, while its versions stand.
func (d *DatasetStatus) lostPointer(damaged bool) {
	d.State, d.Next = "damaged", "mirror sync --full"
	d.Message = "its pointer current/" + d.Dataset + ".json is gone"
	if damaged {
		d.Message = "its pointer current/" + d.Dataset + ".json cannot be read: restore it, or remove it first"
	}
}

// explain puts a dataset's state into words, with what to type next.
func (d *DatasetStatus) explain() {
	switch {
	case d.Retired:
		d.State, d.Message, d.Next = "retired", "no longer mirrored, by a decision; what is mirrored stays", "mirror approve "+d.Dataset
	case d.State == "failed" || d.State == "owed":
		d.Next = "mirror sync"
	case d.State == "not-subscribed" || d.State == "unknown":
	case d.Pinned:
		d.State, d.Message, d.Next = "pinned", "rolled back and kept there", "mirror approve "+d.Dataset
		if d.Held != nil {
			d.Message += fmt.Sprintf("; an approval also accepts that version %d %s", d.Held.Version, holdText(d.Held))
		}
	case d.Held != nil:
		d.State, d.Message, d.Next = "held", fmt.Sprintf("version %d %s", d.Held.Version, holdText(d.Held)), "mirror approve "+d.Dataset
	case d.Withdrawn:
		d.State, d.Message = "withdrawn", "the feed took the published version back; its rebuild will follow by itself, mirror rollback leads readers away until then"
	case d.Published == 0:
		d.Message, d.Next = "nothing is published yet", "mirror sync"
	case d.Lag.Versions == 0 && d.PublishedAt != nil:
		d.Message = "no newer release since " + d.PublishedAt.UTC().Format("2006-01-02 15:04 MST")
	case d.Lag.Versions > 0:
		d.Message, d.Next = "newer versions are to be published", "mirror sync"
	}
}

func holdText(held *state.Held) string {
	switch held.Reason {
	case manifest.HoldMajor:
		return "changes the schema to " + held.Schema.String()
	case manifest.HoldContent:
		return "contradicts the feed's own facts (see doubts in its record)"
	case manifest.HoldFork:
		return "continues an older version than the newest one mirrored"
	}
	return string(held.Reason)
}

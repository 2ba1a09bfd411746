package state

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/manifest"
)

// ShardID names the part of the feed that one run looks after. Runs with another filter or history
// mode keep documents of their own, since what one of them settled the other never looked at.
type ShardID struct {
	Index   int      // from 0
	Of      int      // at least 1
	Filter  []string // globs of dataset ids; empty: all
	History manifest.History
}

// Key returns the key of the shard's document.
func (s ShardID) Key() string {
	filter := slices.Clone(s.Filter)
	slices.Sort(filter)
	sum := manifest.SumBytes([]byte(strings.Join(filter, "\n") + "\n" + string(s.History)))
	return fmt.Sprintf("%s%d-of-%d-%s.json", manifest.ShardsPrefix, s.Index, s.Of, sum.String()[:8])
}

// Shard is the document of one shard: how far its passes came and what they still owe.
type Shard struct {
	Revised
	Filter      []string         `json:"filter"`
	History     manifest.History `json:"history"`
	Watermark   time.Time        `json:"watermark"` // the next pass asks for what moved since
	LastFull    time.Time        `json:"lastFull"`  // when the last full pass began
	LastAttempt time.Time        `json:"lastAttempt"`
	LastSuccess time.Time        `json:"lastSuccess"` // when nothing was left owed but what waits for a person
	LastRun     string           `json:"lastRun"`
	LastExit    int              `json:"lastExit"`
	Owed        []Owed           `json:"owed"`
	Recent      []Recent         `json:"recent"`
	Outbox      json.RawMessage  `json:"outbox,omitempty"`
	LeftOut     []string         `json:"leftOut,omitempty"` // subscribed datasets that the filter leaves out
	Datasets    []Line           `json:"datasets"`
}

// Owed is a dataset that a pass must look at although the feed may not name it.
type Owed struct {
	Dataset string    `json:"dataset"`
	Reason  string    `json:"reason"`
	Full    bool      `json:"full,omitempty"` // compare the whole chain, not only what is new
	Since   time.Time `json:"since"`
	Run     string    `json:"run"`
	// Decision tells that the run is an operator's command, which writes its decision after this.
	// Until that stands the debt is not paid, whoever looked at the dataset meanwhile.
	Decision bool `json:"decision,omitempty"`
}

// Recent is a version that is settled, inside the overlap of two passes.
type Recent struct {
	Dataset     string          `json:"dataset"`
	Version     manifest.Number `json:"version"`
	PublishedAt time.Time       `json:"publishedAt"`
}

// Line is what the last pass knew of a dataset.
type Line struct {
	Dataset     string          `json:"dataset"`
	State       string          `json:"state"` // ok, held, withdrawn, failed, owed, retired, not-subscribed, unknown
	Published   manifest.Number `json:"published"`
	Newest      manifest.Number `json:"newest"`      // highest committed
	Waiting     int             `json:"waiting"`     // committed versions above the published one
	FeedCurrent manifest.Number `json:"feedCurrent"` // as the feed said when it was last asked
	FeedSince   *time.Time      `json:"feedSince,omitempty"`
	Schema      string          `json:"schema,omitempty"`
	PublishedAt *time.Time      `json:"publishedAt,omitempty"`
	Held        *Held           `json:"held,omitempty"`
	Withdrawn   bool            `json:"withdrawn,omitempty"`
	Pinned      bool            `json:"pinned,omitempty"`
	Message     string          `json:"message,omitempty"`
	Table       string          `json:"table,omitempty"`         // why engines see no table of it, or a stale one
	Expired     Ranges          `json:"expiredRanges,omitempty"` // committed versions that the feed no longer has, by its retention
	Notices     []Notice        `json:"notices,omitempty"`       // at most one of a kind
	CheckedAt   time.Time       `json:"checkedAt"`
}

// Notice is what a person should know of a dataset although nothing waits for it.
type Notice struct {
	Kind     string          `json:"kind"`     // history-changed, feed-behind
	Version  manifest.Number `json:"version"`  // the highest that it is about
	Versions int             `json:"versions"` // how many it is about
	Message  string          `json:"message"`
}

// idleAfter is for how long runs with other settings have to go on without a shard's document
// before it counts as one that nobody uses any more.
const idleAfter = 14 * 24 * time.Hour

// Idle reports whether nobody uses the document any more: its filter, shard or history mode was
// given up, and runs with others went on. newest is the last attempt of all documents of the
// bucket. What an idle document owes counts nowhere, until a run with its settings takes it up.
func (s *Shard) Idle(newest time.Time) bool { return newest.Sub(s.LastAttempt) > idleAfter }

// LoadShard returns a shard's document and its tag, or nil when there was no pass yet.
func LoadShard(ctx context.Context, r bucket.Reader, id ShardID) (*Shard, bucket.Tag, error) {
	return Read[Shard](ctx, r, id.Key())
}

// Progress is what one pass adds to a shard's document.
type Progress struct {
	ID        ShardID
	Run       string
	Seen      *Shard // the document that the pass began with; nil when there was none
	SeenTag   bucket.Tag
	Watermark time.Time
	LastFull  time.Time
	Attempt   time.Time
	Success   bool
	Exit      int
	Finished  []string // datasets of Seen.Owed, or new ones, with nothing left to do
	Owed      []Owed   // what this pass leaves behind
	Recent    []Recent
	Lines     []Line
	LeftOut   []string
}

// SaveShard merges what a pass achieved into the document that stands.
func SaveShard(ctx context.Context, docs Documents, pause Pause, p Progress) (*Shard, bucket.Tag, error) {
	return UpdateFrom(ctx, docs, pause, p.ID.Key(), p.Seen, p.SeenTag, func(standing *Shard) (*Shard, error) {
		return p.Merge(standing), nil
	})
}

// Merge returns the document that should stand. Where another writer was there since the pass
// began, the older watermark stays, and what was owed is the union less what this pass finished.
func (p Progress) Merge(standing *Shard) *Shard {
	next := &Shard{Filter: p.ID.Filter, History: p.ID.History, Watermark: p.Watermark, LastFull: p.LastFull, LeftOut: p.LeftOut}
	if standing != nil {
		next.LastSuccess, next.Outbox = standing.LastSuccess, standing.Outbox
	}
	if standing != nil && !p.unchanged(standing) {
		next.Watermark = older(standing.Watermark, p.Watermark)
		next.LastFull = older(standing.LastFull, p.LastFull)
	}
	next.LastAttempt, next.LastRun, next.LastExit = p.Attempt, p.Run, p.Exit
	if p.Success {
		next.LastSuccess = p.Attempt
	}
	next.Owed = p.mergeOwed(standing)
	next.Recent = p.mergeRecent(standing, next.Watermark)
	next.Datasets = p.mergeLines(standing)
	return next
}

func (p Progress) unchanged(standing *Shard) bool {
	return p.Seen != nil && p.Seen.Revision == standing.Revision
}

func (p Progress) mergeOwed(standing *Shard) []Owed {
	merged := slices.Clone(p.Owed)
	has := make(map[string]int, len(merged))
	for at, owed := range merged {
		has[owed.Dataset] = at + 1
	}
	finished := make(map[string]bool, len(p.Finished))
	for _, dataset := range p.Finished {
		finished[dataset] = true
	}
	if standing != nil {
		for _, owed := range standing.Owed {
			at := has[owed.Dataset] - 1
			switch {
			case at >= 0 && !p.saw(owed): // added since: it stays, so that only who sees it pays it
				owed.Full = owed.Full || merged[at].Full
				merged[at] = owed
			case at >= 0 && owed.Decision: // seen, but not paid: it stays what it is
				owed.Full, owed.Reason = owed.Full || merged[at].Full, merged[at].Reason
				merged[at] = owed
			case at < 0 && (!finished[owed.Dataset] || !p.saw(owed)):
				merged = append(merged, owed)
			}
		}
	}
	slices.SortFunc(merged, func(a, b Owed) int { return strings.Compare(a.Dataset, b.Dataset) })
	return merged
}

// saw reports whether the pass knew of this very debt when it began: one that an operator added
// since has not been paid by it.
func (p Progress) saw(owed Owed) bool {
	if p.Seen == nil {
		return owed.Run == p.Run
	}
	return owed.Run == p.Run || slices.ContainsFunc(p.Seen.Owed, func(o Owed) bool {
		return o.Dataset == owed.Dataset && o.Run == owed.Run && o.Since.Equal(owed.Since)
	})
}

func (p Progress) mergeRecent(standing *Shard, watermark time.Time) []Recent {
	merged := slices.Clone(p.Recent)
	has := make(map[string]bool, len(merged))
	for _, recent := range merged {
		has[recent.Dataset] = true
	}
	if standing != nil {
		for _, recent := range standing.Recent {
			if !has[recent.Dataset] && !recent.PublishedAt.Before(watermark) {
				merged = append(merged, recent)
			}
		}
	}
	slices.SortFunc(merged, func(a, b Recent) int { return strings.Compare(a.Dataset, b.Dataset) })
	return merged
}

func (p Progress) mergeLines(standing *Shard) []Line {
	merged := slices.Clone(p.Lines)
	has := make(map[string]bool, len(merged))
	for _, line := range merged {
		has[line.Dataset] = true
	}
	if standing != nil {
		for _, line := range standing.Datasets {
			if !has[line.Dataset] {
				merged = append(merged, line)
			}
		}
	}
	slices.SortFunc(merged, func(a, b Line) int { return strings.Compare(a.Dataset, b.Dataset) })
	return merged
}

func older(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Owe adds a dataset to what every shard of the bucket owes, so that a decision about it is
// finished by the next pass whoever runs it. Owed twice is owed once.
func Owe(ctx context.Context, docs Documents, pause Pause, owed Owed) error {
	for info, err := range docs.List(ctx, manifest.ShardsPrefix, "") {
		if err != nil {
			return err
		}
		_, err = Update(ctx, docs, pause, info.Key, func(standing *Shard) (*Shard, error) {
			if standing == nil {
				return nil, nil //nolint:nilnil // vanished since it was listed
			}
			next := *standing
			next.Owed = slices.DeleteFunc(slices.Clone(standing.Owed), func(o Owed) bool { return o.Dataset == owed.Dataset })
			next.Owed = append(next.Owed, owed)
			return &next, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// NoteTable writes into the line of a dataset, in every shard that has one, why engines see no table of
// it or a stale one; empty: they see it. Lines that say so already are left alone.
func NoteTable(ctx context.Context, docs Documents, pause Pause, dataset, reason string) error {
	for info, err := range docs.List(ctx, manifest.ShardsPrefix, "") {
		if err != nil {
			return err
		}
		_, err = Update(ctx, docs, pause, info.Key, func(standing *Shard) (*Shard, error) {
			at := -1
			if standing != nil {
				at = slices.IndexFunc(standing.Datasets, func(l Line) bool { return l.Dataset == dataset })
			}
			if at < 0 || standing.Datasets[at].Table == reason {
				return nil, nil //nolint:nilnil // nothing to write
			}
			next := *standing
			next.Datasets = slices.Clone(standing.Datasets)
			next.Datasets[at].Table = reason
			return &next, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

package mirror

import (
	"context"
	"io"
	"time"

	"github.com/rs/zerolog"

	"feedmirror/internal/bucket"
	"feedmirror/internal/feed"
	"feedmirror/internal/tables"
	"feedmirror/internal/transfer"
	"feedmirror/manifest"
	"feedmirror/state"
)

// Catalog lists what the feed has.
type Catalog interface {
	Datasets(ctx context.Context, since time.Time, visit func(feed.Dataset) error) (feed.Listing, error)
	Dataset(ctx context.Context, id string) (feed.Dataset, error)
	Versions(ctx context.Context, id string, after manifest.Number, visit func(manifest.Version) error) error
}

// Signer hands over a version with its links, and fresh links to some of its files.
type Signer interface {
	Version(ctx context.Context, id string, n manifest.Number, visit func(feed.Entry) error) (feed.Answer, error)
	Links(ctx context.Context, id string, n manifest.Number, names []string) (feed.Links, error)
}

// Feed is the feed as a pass needs it.
type Feed interface {
	Catalog
	Signer
}

// Copier moves files from signed links to keys: the transfer engine.
type Copier interface {
	Copy(ctx context.Context, job transfer.Job, done func(transfer.File, transfer.Outcome)) (transfer.Summary, error)
}

// Manifests reads a version's manifest from its link, verified, without storing it.
type Manifests interface {
	Read(ctx context.Context, job transfer.Job, linker transfer.Linker, read func(io.Reader) error) error
}

// Observer is told what a pass is doing, for people who watch. Its methods are called by many
// goroutines and must be quick.
type Observer interface {
	// Planned adds to what is known to lie ahead.
	Planned(dataset string, files, bytes int64)
	// Finished tells of one file that ended well; bytes were told as they arrived.
	Finished(dataset string)
	// Stage names what a dataset is at, in a few words.
	Stage(dataset, stage string)
}

// Settings say how a pass decides.
type Settings struct {
	Filter      []string // globs of dataset ids; empty: all
	ShardIndex  int
	ShardOf     int
	History     manifest.History
	Full        bool
	FullEvery   time.Duration // a full pass is due when the last one is older; 24 h
	Overlap     time.Duration // feed.overlap
	RebuildWait time.Duration // feed.rebuild_wait
	LeaseTTL    time.Duration
	OnMajor     manifest.OnMajor
	// AcceptWeakLocking goes on with a store that ignores conditional writes. Store must then look
	// before it writes: bucket.WithLook.
	AcceptWeakLocking bool
	AtOnce            int // datasets worked on at the same time
	// ManifestMemory bounds the manifests that are kept in memory over all datasets, in bytes; 32 MiB
	// when zero. One that is larger than half of it, or finds it used up, is streamed from its link
	// twice (to be checked, then to be stored) and read back from the bucket afterwards.
	ManifestMemory int64
}

// defaultManifestMemory holds two manifests of some 60,000 attachments.
const defaultManifestMemory = 32 << 20

// Options are what a pass works with. Everything that acts on the world is handed in.
type Options struct {
	Settings
	Feed     Feed
	FeedURL  string
	Store    bucket.Store // counted and retrying
	StoreURL string       // without credentials, as layout.json names it
	// Probe finds out what the store really guarantees, before the first pass over a bucket and
	// after a move. It must see the store without the layer that repeats requests.
	Probe     func(ctx context.Context) (bucket.ProbeReport, error)
	Mover     Copier
	Manifests Manifests
	Observer  Observer
	Log       zerolog.Logger
	Run       string // this run's id, unique
	Host      string
	Tool      string // "mirror 1.2.3"
	Now       func() time.Time
	Pause     state.Pause
	Requests  Requests          // where the requests of this pass are counted
	Tables    *tables.Projector // what writes the bucket's tables; nil: nobody does
}

// Requests reads what a pass asked of each side so far.
type Requests interface {
	Counts() RequestCounts
}

func (o Options) shard() state.ShardID {
	return state.ShardID{Index: o.ShardIndex, Of: max(o.ShardOf, 1), Filter: o.Filter, History: o.History}
}

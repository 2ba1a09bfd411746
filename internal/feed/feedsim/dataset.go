package feedsim

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"feedmirror/internal/feed/feedsim/records"
)

// Character says what a dataset is like.
type Character = records.Character

// The characters of datasets. Each is deterministic from the feed's seed, the dataset's id and the clock.
const (
	Points   = records.Points   // keyed, point geometry, a PDF per row, the same bytes under two names
	Polygons = records.Polygons // keyed, polygons, an original and an archived source
	Plain    = records.Plain    // no geometry, no key, no attachments, a column that moves at every read
	Archive  = records.Archive  // keyed, lines, archived sources (one of zero bytes) and an original
)

// DatasetSpec describes a dataset to add.
type DatasetSpec struct {
	ID            string
	Name          string // default: the id
	Place         string // empty: a dataset with no place
	Character     Character
	Rows          int  // of the first version; default 40
	Parts         int  // of a snapshot; default 1
	DocumentBytes int  // of a row's PDF, about; default: the smallest
	NoSource      bool // sourceUrl and fetchedAt are null
	// TwinOf is the id of a dataset whose rows and documents this one has too, release by release: the
	// attachments of both are the same bytes. Empty: it has its own.
	TwinOf string
}

// Dataset is one dataset of the feed. Its methods are safe for concurrent use.
type Dataset struct {
	feed *Feed
	spec DatasetSpec

	building sync.Mutex // held while a version is built; guards what follows
	next     int64      // the number that the next version takes
	schemas  numbering
	table    records.Table
	known    map[string]file // attachments that the feed holds for the dataset
	bulk     *bulkSource

	// Guarded by feed.mu.
	versions     []*version // released ones, oldest first, withdrawn ones included
	unsubscribed bool
	rebuilding   bool
	removed      bool
}

// numbering is where a dataset's schema versions stand.
type numbering struct{ major, minor int }

func (n numbering) String() string { return fmt.Sprintf("%d.%d", n.major, n.minor) }

// version is a released version. Its files never change after the release, except by RewriteHistory.
type version struct {
	dataset     *Dataset
	number      int64
	previous    int64 // 0 for none
	schema      schemaResource
	builtAt     time.Time
	publishedAt time.Time
	sourceURL   *string
	fetchedAt   *time.Time
	rowCount    int64
	counts      *counts // nil when resync
	resync      bool
	idsChanged  bool
	files       []file // all but attachments; the manifest last
	attachments fileSet
	table       records.Table // as published; empty for a bulk version

	withdrawn      bool
	awaitsRebuild  bool // withdrawn, and no later release has named it yet
	changesDropped bool
	change         func([]byte) []byte // of the answer, nil for none
}

type counts struct {
	Added   int64 `json:"added"`
	Changed int64 `json:"changed"`
	Removed int64 `json:"removed"`
}

func (c *counts) none() bool { return c == nil || *c == counts{} }

// AddDataset adds a dataset that has no version yet.
func (f *Feed) AddDataset(spec DatasetSpec) (*Dataset, error) {
	spec.Name = cmp.Or(spec.Name, spec.ID)
	spec.Rows = cmp.Or(spec.Rows, 40)
	spec.Parts = cmp.Or(spec.Parts, 1)
	schema, err := records.NewSchema(spec.Character)
	if err != nil {
		return nil, fmt.Errorf("add dataset %q: %w", spec.ID, err)
	}
	dataset := &Dataset{
		feed: f, spec: spec, next: 1, schemas: numbering{major: 1},
		table: records.Table{Schema: schema}, known: map[string]file{},
	}
	return dataset, f.add(dataset)
}

func (f *Feed) add(dataset *Dataset) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, taken := f.datasets[dataset.spec.ID]; taken || dataset.spec.ID == "" {
		return fmt.Errorf("add dataset %q: the id is empty or taken", dataset.spec.ID)
	}
	f.datasets[dataset.spec.ID] = dataset
	f.order = append(f.order, dataset.spec.ID)
	return nil
}

// Dataset returns the dataset of that id, nil for none.
func (f *Feed) Dataset(id string) *Dataset {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.datasets[id]
}

// ID returns the dataset's id.
func (d *Dataset) ID() string { return d.spec.ID }

// Current returns the number of the current version, 0 for none.
func (d *Dataset) Current() int64 {
	d.feed.mu.Lock()
	defer d.feed.mu.Unlock()
	if current := d.current(); current != nil {
		return current.number
	}
	return 0
}

// current returns the newest version that was not withdrawn, nil for none. The feed is locked.
func (d *Dataset) current() *version {
	for _, v := range slices.Backward(d.versions) {
		if !v.withdrawn {
			return v
		}
	}
	return nil
}

// find returns a released version, nil for none. The feed is locked.
func (d *Dataset) find(number int64) *version {
	for _, v := range d.versions {
		if v.number == number {
			return v
		}
	}
	return nil
}

// updatedAt is the newest release time, which a withdrawal does not move. The feed is locked.
func (d *Dataset) updatedAt() time.Time {
	var newest time.Time
	for _, v := range d.versions {
		if v.publishedAt.After(newest) {
			newest = v.publishedAt
		}
	}
	return newest
}

// Unsubscribe takes the dataset out of the subscription: no links are signed any more.
func (d *Dataset) Unsubscribe() { d.set(func() { d.unsubscribed = true }) }

// Subscribe puts the dataset back into the subscription.
func (d *Dataset) Subscribe() { d.set(func() { d.unsubscribed = false }) }

// Rebuilding makes the current version answer 410 while its files are being rebuilt, until it is called with false.
func (d *Dataset) Rebuilding(on bool) { d.set(func() { d.rebuilding = on }) }

// Remove makes the dataset unknown to the API. Links already issued keep working.
func (d *Dataset) Remove() { d.set(func() { d.removed = true }) }

// Restore undoes Remove.
func (d *Dataset) Restore() { d.set(func() { d.removed = false }) }

func (d *Dataset) set(change func()) {
	d.feed.mu.Lock()
	defer d.feed.mu.Unlock()
	change()
}

// ReleaseAgain withdraws a released version, as the feed does before it rebuilds it under a new number: the old
// number answers 410 and current can step back. The next release is the rebuild, or stands in for it.
func (d *Dataset) ReleaseAgain(number int64) error {
	d.feed.mu.Lock()
	defer d.feed.mu.Unlock()
	v := d.find(number)
	if v == nil {
		return fmt.Errorf("release version %d of %q again: %w", number, d.spec.ID, errNeverReleased)
	}
	v.withdrawn, v.awaitsRebuild = true, true
	return nil
}

// DropChanges makes the feed lose a version's changes files before the rules of retention say so.
func (d *Dataset) DropChanges(number int64) error {
	d.feed.mu.Lock()
	defer d.feed.mu.Unlock()
	v := d.find(number)
	if v == nil {
		return fmt.Errorf("drop changes of version %d of %q: %w", number, d.spec.ID, errNeverReleased)
	}
	v.changesDropped = true
	return nil
}

// availability says whether a version answers and, if not, why. The feed is locked.
func (d *Dataset) availability(v *version) *refusal {
	now := d.feed.clock.Now()
	current := d.current()
	switch {
	case v.withdrawn:
		return &refusal{http.StatusGone, "expired", fmt.Sprintf(
			"Version %d was released again and is being rebuilt under a new number.", v.number)}
	case v == current && d.rebuilding:
		return &refusal{http.StatusGone, "expired", "The files of this version are being rebuilt. Try again in a few minutes."}
	case v == current || now.Before(v.builtAt.Add(d.feed.options.Retention)):
		return nil
	case d.lastOfMajor(v) && (v.counts.none() || d.feed.options.Assume.KeptWithoutChanges):
		return nil
	}
	return &refusal{http.StatusGone, "expired", fmt.Sprintf("Version %d is past retention.", v.number)}
}

// lastOfMajor tells whether no later version that still stands has the same MAJOR schema. The feed is locked.
func (d *Dataset) lastOfMajor(v *version) bool {
	return !slices.ContainsFunc(d.versions, func(other *version) bool {
		return other.number > v.number && !other.withdrawn && other.schema.number.major == v.schema.number.major
	})
}

// hasChanges tells whether the version's changes files are still there. The feed is locked.
func (d *Dataset) hasChanges(v *version) bool {
	if v.changesDropped {
		return false
	}
	return v == d.current() || d.feed.clock.Now().Before(v.builtAt.Add(d.feed.options.Retention))
}

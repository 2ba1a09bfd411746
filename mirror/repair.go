package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"feedmirror/internal/audit"
	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/transfer"
	"feedmirror/manifest"
	"feedmirror/state"
)

// RepairOptions are what a repair works with.
type RepairOptions struct {
	Store bucket.Store
	// Versions reads older versions of objects; nil: the store keeps none.
	Versions bucket.Versioned
	// Feed opens the way to the feed. It is called at most once, and only when there is something
	// that nothing else could restore.
	Feed    func() (RepairFeed, error)
	FeedURL string // the feed that Feed leads to
	Select  func(dataset string) bool
	Pause   state.Pause
	Now     func() time.Time
}

// RepairFeed is the feed as a repair needs it.
type RepairFeed struct {
	Signer
	Transfer transfer.Options // as for the engine of a pass; Sink and Linker are set by the repair
}

// RepairReport says what became of each object that an audit found missing or wrong.
type RepairReport struct {
	Restored   []Restored   `json:"restored"`
	Lost       []Unrestored `json:"lost"`       // nobody that was asked has the bytes any more
	Unresolved []Unrestored `json:"unresolved"` // it was not possible to find out or to write: worth another run
}

// Restored is an object that holds the right bytes again; it was read back.
type Restored struct {
	Key     string          `json:"key"`
	Dataset string          `json:"dataset,omitempty"`
	Version manifest.Number `json:"version,omitempty"`
	From    string          `json:"from"` // older-version, feed, rebuilt
	Bytes   int64           `json:"bytes"`
}

// Unrestored is an object that was not restored.
type Unrestored struct {
	Key     string          `json:"key"`
	Dataset string          `json:"dataset,omitempty"`
	Version manifest.Number `json:"version,omitempty"`
	Reason  string          `json:"reason"`
}

// versionRef names a version of a dataset.
type versionRef struct {
	dataset string
	number  manifest.Number
}

func compareRefs(a, b versionRef) int {
	return cmp.Or(strings.Compare(a.dataset, b.dataset), cmp.Compare(a.number, b.number))
}

// repairer restores what an audit found missing or wrong.
type repairer struct {
	RepairOptions
	report  RepairReport
	feed    *RepairFeed
	feedErr error               // why the feed could not be asked
	rebuild map[versionRef]bool // versions whose stored.json is to be written anew
	done    map[string]bool     // keys that were restored
	well    map[string]bool     // keys whose bytes are right now: another repair was faster
}

// wounds are what findings name, in the order in which it is restored.
type wounds struct {
	records     map[string]bool // datasets whose records do not lead to each other
	versions    map[versionRef]map[string]bool
	attachments map[manifest.SHA256]bool
}

// repair restores what it can of the objects that findings name. The error is what ended it early;
// the report tells what was done until then.
func repair(ctx context.Context, o RepairOptions, findings []audit.Finding) (*repairer, error) {
	r := &repairer{RepairOptions: o, rebuild: map[versionRef]bool{}, done: map[string]bool{}, well: map[string]bool{}}
	r.report = RepairReport{Restored: []Restored{}, Lost: []Unrestored{}, Unresolved: []Unrestored{}}
	err := r.run(ctx, woundsOf(findings))
	slices.SortFunc(r.report.Restored, func(a, b Restored) int { return strings.Compare(a.Key, b.Key) })
	for _, list := range [][]Unrestored{r.report.Lost, r.report.Unresolved} {
		slices.SortFunc(list, func(a, b Unrestored) int { return strings.Compare(a.Key, b.Key) })
	}
	return r, err
}

func (r *repairer) run(ctx context.Context, w wounds) error {
	if err := r.noPrune(ctx); err != nil {
		return err
	}
	for _, dataset := range slices.Sorted(maps.Keys(w.records)) {
		if err := r.records(ctx, dataset); err != nil {
			return err
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(w.versions), compareRefs) {
		if err := r.version(ctx, ref, w.versions[ref]); err != nil {
			return err
		}
	}
	if err := r.attachments(ctx, w.attachments); err != nil {
		return err
	}
	for _, ref := range slices.SortedFunc(maps.Keys(r.rebuild), compareRefs) {
		if err := r.rebuildStored(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// noPrune refuses to work while a prune is under way: what it deletes looks missing. A finished prune
// leaves its document behind.
func (r *repairer) noPrune(ctx context.Context) error {
	prune, _, err := state.LoadPrune(ctx, r.Store)
	if err == nil && prune.Running() {
		return &fault.Error{Op: "repair", Object: manifest.PruneKey, Side: fault.SideBucket, Kind: fault.Budget,
			Err: errors.New("a prune of this bucket is not finished"), Hint: "Repair once it is. If it died, finish it with: mirror prune --resume"}
	}
	return err
}

// woundsOf sorts findings by what is to be done about them. Findings about documents that nobody
// but the mirror itself can write are left to people.
func woundsOf(findings []audit.Finding) wounds {
	w := wounds{records: map[string]bool{}, versions: map[versionRef]map[string]bool{}, attachments: map[manifest.SHA256]bool{}}
	for _, f := range findings {
		switch f.Kind {
		case audit.KindRecord, audit.KindChain, audit.KindPointer:
			w.records[f.Dataset] = true
			continue
		case audit.KindMissing, audit.KindWrongSize, audit.KindCorrupt, audit.KindChecksum, audit.KindUnreadable,
			audit.KindSums, audit.KindIndex, audit.KindManifest, audit.KindDocument:
		default:
			continue
		}
		key, ok := manifest.ParseDataKey(f.Key)
		switch {
		case !ok:
		case key.Kind == manifest.KeyAttachment:
			w.attachments[key.SHA256] = true
		case key.Version != 0:
			ref := versionRef{key.Dataset, key.Version}
			if w.versions[ref] == nil {
				w.versions[ref] = map[string]bool{}
			}
			w.versions[ref][f.Key] = true
		}
	}
	return w
}

// damaged is an object that is missing or whose bytes were proven wrong.
type damaged struct {
	versionRef // zero for an attachment that no version was found for yet
	key        string
	name       string // what the feed is asked for; empty: the feed does not have it
	size       int64  // bytes; unknownSize where the record does not say
	sum        manifest.SHA256
	class      bucket.ContentClass
	tag        bucket.Tag // of the wrong object; bucket.Absent: nothing stands there
	reasons    []string   // what was tried, and why it did not help
	again      bool       // one of the reasons may pass
	restored   bool
}

const unknownSize = -1

// failed notes why one way did not help.
func (d *damaged) failed(again bool, format string, values ...any) {
	d.reasons = append(d.reasons, fault.RedactText(fmt.Sprintf(format, values...)))
	d.again = d.again || again
}

// close enters what became of an object.
func (r *repairer) close(d *damaged) {
	if d.restored {
		return
	}
	entry := Unrestored{Key: d.key, Dataset: d.dataset, Version: d.number, Reason: strings.Join(slices.Compact(d.reasons), "; ")}
	if d.again {
		r.report.Unresolved = append(r.report.Unresolved, entry)
	} else {
		r.report.Lost = append(r.report.Lost, entry)
	}
}

// examine reads an object until it is known what is wrong with it, and reports whether it is to be
// restored. A bad read is repeated; what cannot be read is not replaced.
func (r *repairer) examine(ctx context.Context, d *damaged) (bool, error) {
	p := prove(ctx, r.Store, d.key, d.sum)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	switch {
	case p.err != nil:
		d.failed(true, "it stays as it is, since it cannot be read: %v", p.err)
		r.close(d)
		return false, nil
	case p.good:
		r.well[d.key] = true
		return false, nil
	}
	d.tag = p.tag
	return true, nil
}

// proof is what reading an object showed.
type proof struct {
	good bool
	tag  bucket.Tag // of the object with wrong bytes; bucket.Absent when there is none
	err  error      // why nothing was shown
}

// prove tells right, wrong and missing bytes apart from what cannot be read. Wrong means: twice the
// same wrong bytes, of the very same object.
func prove(ctx context.Context, r bucket.Reader, key string, want manifest.SHA256) proof {
	first, tag, err := hashObject(ctx, r, key)
	absent := fault.Is(err, fault.NotFound)
	if err != nil && !absent {
		first, tag, err = hashObject(ctx, r, key)
		absent = fault.Is(err, fault.NotFound)
	}
	if err != nil && !absent {
		return proof{err: err}
	}
	if !absent && first == want {
		return proof{good: true, tag: tag}
	}
	second, again, err := hashObject(ctx, r, key)
	switch {
	case absent && fault.Is(err, fault.NotFound):
		return proof{}
	case err != nil:
		return proof{err: err}
	case second == want:
		return proof{good: true, tag: again}
	case absent || again != tag:
		return proof{err: errors.New("it changed while it was looked at")}
	case second != first:
		return proof{err: errors.New("it was read twice, and had other bytes each time")}
	}
	return proof{tag: tag}
}

func hashObject(ctx context.Context, r bucket.Reader, key string) (manifest.SHA256, bucket.Tag, error) {
	body, info, err := r.Open(ctx, key, 0, -1)
	if err != nil {
		return manifest.SHA256{}, bucket.Absent, err
	}
	defer body.Close() // only read from: nothing can be lost
	sum, _, err := manifest.SumReader(body)
	if err != nil {
		return manifest.SHA256{}, bucket.Absent, fmt.Errorf("read object %s: %w", key, err)
	}
	return sum, info.Tag, nil
}

// put writes the right bytes where nothing or the wrong object stands.
func (r *repairer) put(ctx context.Context, d *damaged, content bucket.Content) error {
	if d.tag == bucket.Absent {
		_, err := r.Store.Create(ctx, d.key, content)
		return err
	}
	_, err := r.Store.Replace(ctx, d.key, d.tag, content)
	return err
}

// settle reads back what was written, or what another process was faster to write.
func (r *repairer) settle(ctx context.Context, d *damaged, from string, size int64) error {
	p := prove(ctx, r.Store, d.key, d.sum)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !p.good {
		d.failed(true, "what was put in its place (%s) could not be read back well", from)
		return nil
	}
	d.restored, r.done[d.key] = true, true
	if d.number != 0 {
		r.rebuild[d.versionRef] = true
	}
	r.report.Restored = append(r.report.Restored, Restored{Key: d.key, Dataset: d.dataset, Version: d.number, From: from, Bytes: size})
	return nil
}

// written decides a write: done, left to another way, or (an error) the end of the repair.
func (r *repairer) written(ctx context.Context, d *damaged, from string, size int64, err error) error {
	switch {
	case err == nil, fault.Is(err, fault.Exists), fault.Is(err, fault.Conflict):
		return r.settle(ctx, d, from, size)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case endsRepair(err):
		return unfitBucket(err)
	}
	d.failed(!fault.Is(err, fault.WrongBytes), "%s: %v", from, err)
	return nil
}

// endsRepair tells errors of a write that every other write will meet too.
func endsRepair(err error) bool {
	if side := fault.SideOf(err); side != fault.SideBucket && side != "" {
		return false
	}
	switch fault.KindOf(err) {
	case fault.Denied, fault.NoSpace, fault.BucketUnfit, fault.Unsupported:
		return true
	}
	return false
}

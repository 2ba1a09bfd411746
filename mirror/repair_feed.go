package mirror

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
	"feedmirror/internal/transfer"
	"feedmirror/manifest"
	"feedmirror/state"
)

// source opens the feed once. A bucket that mirrors another feed is a fault.Usage.
func (r *repairer) source(ctx context.Context) (*RepairFeed, error) {
	if r.feed != nil || r.feedErr != nil {
		return r.feed, r.feedErr
	}
	layout, err := state.LoadLayout(ctx, r.Store)
	if err != nil {
		return nil, err
	}
	if layout != nil && layout.FeedURL != r.FeedURL {
		r.feedErr = &fault.Error{Op: "repair", Object: manifest.LayoutKey, Side: fault.SideConfig, Kind: fault.Usage,
			Err:  fmt.Errorf("the bucket mirrors %s, not %s", layout.FeedURL, r.FeedURL),
			Hint: "Set --feed-url to the feed that this bucket mirrors."}
		return nil, r.feedErr
	}
	opened, err := r.Feed()
	if err != nil {
		r.feedErr = err
		return nil, err
	}
	r.feed = &opened
	return r.feed, nil
}

// fromFeed fetches files of one version by fresh links, pinned to it. Each has to be what our record
// names: the feed's word about it is not asked.
func (r *repairer) fromFeed(ctx context.Context, ref versionRef, list []*damaged) error {
	if len(list) == 0 {
		return nil
	}
	source, err := r.source(ctx)
	if err != nil {
		for _, d := range list {
			d.failed(true, "the feed cannot be asked: %v", err)
		}
		return nil
	}
	sink := &repairSink{Store: r.Store, wrong: map[string]bucket.Tag{}}
	byKey := map[string]*damaged{}
	for _, d := range list {
		byKey[d.key] = d
		if d.tag != bucket.Absent {
			sink.wrong[d.key] = d.tag
		}
	}
	options := source.Transfer
	options.Sink, options.Linker = sink, source.Signer
	var arrived []*damaged
	_, err = transfer.New(options).Copy(ctx, transfer.Job{Dataset: ref.dataset, Version: ref.number, Files: filesOf(list)},
		func(file transfer.File, outcome transfer.Outcome) {
			d := byKey[file.Key]
			if outcome.Status != transfer.Failed {
				arrived = append(arrived, d)
				return
			}
			kind := fault.KindOf(outcome.Err)
			d.failed(kind != fault.Missing && kind != fault.Malformed, "version %d at the feed: %v", ref.number, outcome.Err)
		})
	for _, d := range arrived {
		if err := r.settle(ctx, d, "feed", d.size); err != nil {
			return err
		}
	}
	return r.jobEnded(ctx, ref, list, err)
}

func filesOf(list []*damaged) func(func(transfer.File, error) bool) {
	return func(yield func(transfer.File, error) bool) {
		for _, d := range list {
			if !yield(transfer.File{Name: d.name, Key: d.key, Size: d.size, SHA256: d.sum}, nil) {
				return
			}
		}
	}
}

// jobEnded tells why a version's files could not be asked for at all.
func (r *repairer) jobEnded(ctx context.Context, ref versionRef, list []*damaged, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case endsRepair(err) && fault.SideOf(err) == fault.SideBucket:
		return unfitBucket(err)
	}
	gone := r.refusal(err)
	for _, d := range list {
		if !d.restored {
			d.failed(!gone, "version %d at the feed: %v", ref.number, err)
		}
	}
	return nil
}

// refusal reports whether the feed said that it does not have what was asked for. Anything else
// means that it could not be asked, which the exit code tells.
func (r *repairer) refusal(err error) (gone bool) {
	switch fault.KindOf(err) {
	case fault.Gone, fault.NotFound, fault.NotSubscribed, fault.Missing:
		return true
	case fault.FeedUnfit, fault.Denied, fault.Transient:
		r.feedErr = unfitFeed(err)
	}
	return false
}

// manifestFromFeed fetches a version's manifest by the link in the version's own answer.
func (r *repairer) manifestFromFeed(ctx context.Context, d *damaged) error {
	source, err := r.source(ctx)
	if err != nil {
		d.failed(true, "the feed cannot be asked: %v", err)
		return nil
	}
	answer, err := source.Version(ctx, d.dataset, d.number, func(feed.Entry) error { return nil })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return r.jobEnded(ctx, d.versionRef, []*damaged{d}, err)
	}
	if answer.Manifest.SHA256 != d.sum {
		d.failed(false, "the feed now serves another manifest (sha256 %s)", answer.Manifest.SHA256)
		return nil
	}
	file := transfer.File{Name: manifestName, Key: d.key, Size: d.size, SHA256: d.sum}
	job := transfer.Job{Dataset: d.dataset, Version: d.number, Lifetime: answer.Lifetime, Files: one(file)}
	reader := ManifestReader{Options: source.Transfer}
	err = reader.Read(ctx, job, &manifestLinker{feed: source.Signer, answer: answer}, func(in io.Reader) error {
		return r.put(ctx, d, bucket.Content{Size: d.size, SHA256: d.sum, Class: bucket.Data, Body: in})
	})
	return r.written(ctx, d, "feed", d.size, err)
}

// repairSink writes what arrives over the object that was proven wrong, by its tag, or where nothing
// stands. An object that is to be replaced counts as absent.
type repairSink struct {
	bucket.Store
	mu    sync.Mutex
	wrong map[string]bucket.Tag
}

func (s *repairSink) tag(key string) (bucket.Tag, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tag, ok := s.wrong[key]
	return tag, ok
}

// Create implements bucket.Writer.
func (s *repairSink) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	tag, wrong := s.tag(key)
	if !wrong {
		return s.Store.Create(ctx, key, content)
	}
	info, err := s.Replace(ctx, key, tag, content)
	if fault.Is(err, fault.Conflict) { // another repair was faster: what stands decides
		return info, &fault.Error{Op: "replace object", Object: key, Side: fault.SideBucket, Kind: fault.Exists, Err: err}
	}
	return info, err
}

// Stat implements bucket.Reader.
func (s *repairSink) Stat(ctx context.Context, key string) (bucket.Info, error) {
	info, err := s.Store.Stat(ctx, key)
	if tag, wrong := s.tag(key); err == nil && wrong && info.Tag == tag {
		return bucket.Info{}, absent(key)
	}
	return info, err
}

// attachments restores attachment objects: from older versions, else from the newest version at the
// feed that names them. Every record is looked at until all are found, since equal bytes are stored
// once and any version may be the one that the feed still has.
func (r *repairer) attachments(ctx context.Context, sums map[manifest.SHA256]bool) error {
	pending := map[manifest.SHA256]*damaged{}
	for sum := range sums {
		d := &damaged{key: manifest.AttachmentKey(sum), size: unknownSize, sum: sum}
		bad, err := r.examine(ctx, d)
		if err == nil && bad {
			err = r.fromOlder(ctx, d)
		}
		if err != nil {
			return err
		}
		if bad && !d.restored {
			pending[sum] = d
		}
	}
	if len(pending) == 0 {
		return nil
	}
	datasets, err := r.datasets(ctx)
	if err != nil {
		return err
	}
	for _, dataset := range datasets {
		if err := r.attachmentsOf(ctx, dataset, pending); err != nil {
			return err
		}
	}
	for _, d := range pending {
		d.failed(false, "no version that the feed still has names it")
		r.close(d)
	}
	return nil
}

func (r *repairer) datasets(ctx context.Context) ([]string, error) {
	var list []string
	for info, err := range r.Store.List(ctx, "versions/", "") {
		if err != nil {
			return nil, err
		}
		key, ok := manifest.ParseDataKey(info.Key)
		if ok && key.Rest == "record.json" && (len(list) == 0 || list[len(list)-1] != key.Dataset) && (r.Select == nil || r.Select(key.Dataset)) {
			list = append(list, key.Dataset)
		}
	}
	return list, nil
}

// attachmentsOf asks for what is pending version by version, the newest first.
func (r *repairer) attachmentsOf(ctx context.Context, dataset string, pending map[manifest.SHA256]*damaged) error {
	holding, err := state.LoadHolding(ctx, r.Store, dataset)
	if err != nil {
		return err
	}
	for _, held := range slices.Backward(holding) {
		if len(pending) == 0 {
			return nil
		}
		if !held.Record || held.Pruned {
			continue
		}
		committed, err := state.Recall(ctx, r.Store, dataset, held.Number)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			for _, d := range pending {
				d.failed(!noRecord(err), "version %d of %s may name it, and its record cannot be used: %v", held.Number, dataset, err)
			}
			continue
		}
		named, err := r.named(ctx, committed.Record(), pending)
		if err != nil {
			return err
		}
		if err := r.fromFeed(ctx, versionRef{dataset, held.Number}, named); err != nil {
			return err
		}
		for _, d := range named {
			if d.restored {
				delete(pending, d.sum)
			}
		}
	}
	return nil
}

// named returns what is pending and a version names, with names and sizes by its manifest. A manifest
// that cannot be read names nothing.
func (r *repairer) named(ctx context.Context, record manifest.Record, pending map[manifest.SHA256]*damaged) ([]*damaged, error) {
	found := map[manifest.SHA256]manifest.Attachment{}
	for a, err := range storedAttachments(ctx, r.Store, record) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, nil
		}
		if _, wanted := pending[a.SHA256]; wanted {
			if _, twice := found[a.SHA256]; !twice {
				found[a.SHA256] = a
			}
		}
	}
	var list []*damaged
	for sum, a := range found {
		d := pending[sum]
		d.name, d.size = a.Name, a.Size
		list = append(list, d)
	}
	return list, nil
}

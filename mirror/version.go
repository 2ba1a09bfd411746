package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"

	"feedmirror/attachments"
	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
	"feedmirror/internal/transfer"
	"feedmirror/manifest"
	"feedmirror/state"
)

const (
	// maxFiles bounds the files of one version that are no attachments.
	maxFiles = 100_000
)

// versionCopy brings one version into the bucket: plan, copy, verify, commit.
type versionCopy struct {
	*worker
	step
	answer   feed.Answer
	names    *attachments.Names
	answered []feed.Entry // the answer's files that are no attachments
	manifest manifest.Manifest
	body     []byte // the manifest's bytes, when they are few
	reserved int64  // bytes of Settings.ManifestMemory
	wanted   *attachments.Wanted
	claimed  bool // an earlier try stored the manifest; some files may stand

	mu          sync.Mutex
	streamed    map[string]bool // keys of the version's own files whose bytes this process hashed on their way in
	lostChanges bool
	failures    []error // at most maxFailures of each severity: a version can list a million files
}

func newVersionCopy(w *worker, s step) *versionCopy {
	held, _ := w.holding.Find(s.number)
	return &versionCopy{worker: w, step: s, claimed: held.Claimed, streamed: map[string]bool{}}
}

// copyVersion returns the committed version, or why it could not be committed.
func (w *worker) copyVersion(ctx context.Context, s step) (*state.Committed, error) {
	c := newVersionCopy(w, s)
	defer c.release()
	w.Observer.Stage(w.target.dataset, fmt.Sprintf("version %d", s.number))
	for _, stage := range []func(context.Context) error{c.readAnswer, c.readManifest, c.crossCheck, c.claim, c.copyFiles} {
		if err := stage(ctx); err != nil {
			return nil, err
		}
	}
	return c.commit(ctx)
}

// readAnswer asks for the version once. Its attachments are kept as hashes only.
func (c *versionCopy) readAnswer(ctx context.Context) error {
	c.names = new(attachments.Names)
	c.answered = nil
	answer, err := c.Feed.Version(ctx, c.target.dataset, c.number, func(e feed.Entry) error {
		if e.Kind == "" {
			c.names.Add(attachmentOf(e))
			return nil
		}
		if len(c.answered) == maxFiles {
			return c.malformed(c.number, fmt.Sprintf("its answer lists more than %d files", maxFiles))
		}
		e.URL = "" // signed afresh when it is needed; not kept
		c.answered = append(c.answered, e)
		return nil
	})
	if err != nil {
		return err
	}
	v := answer.Version
	switch {
	case v.Dataset != c.target.dataset || v.Number != c.number:
		return c.malformed(c.number, fmt.Sprintf("its answer is about %s version %d", v.Dataset, v.Number))
	case v.Previous >= v.Number:
		return c.malformed(c.number, fmt.Sprintf("its previousVersion %d is not lower", v.Previous))
	case c.facts != nil && c.facts.Previous != v.Previous:
		return c.malformed(c.number, fmt.Sprintf("its previousVersion is %d, the list says %d", v.Previous, c.facts.Previous))
	case answer.Manifest.SHA256.IsZero():
		return c.malformed(c.number, "its answer links no manifest")
	}
	c.answer = answer
	return c.names.Seal()
}

func attachmentOf(e feed.Entry) manifest.Attachment {
	return manifest.Attachment{Name: e.Name, Filename: e.Filename, ContentType: e.ContentType, Size: e.Size, SHA256: e.SHA256}
}

// readManifest fetches and decodes the manifest and compares its attachments with the answer's.
func (c *versionCopy) readManifest(ctx context.Context) error {
	entry := c.answer.Manifest
	err := c.fetchManifest(ctx, func(in io.Reader) error {
		if c.keep(entry.Size) {
			body := make([]byte, entry.Size)
			if _, err := io.ReadFull(in, body); err != nil {
				return err
			}
			c.body = body
			in = bytes.NewReader(body)
		}
		return c.decodeManifest(in)
	})
	if err != nil {
		return c.manifestFault(err)
	}
	unmatched, err := c.names.Finish()
	if err != nil {
		return c.manifestFault(err)
	}
	if unmatched > 0 {
		return c.manifestFault(fmt.Errorf("the version's answer names %d attachments that its manifest does not", unmatched))
	}
	c.names = nil
	return nil
}

// keep reports whether a manifest of this size is kept in memory, and reserves it.
func (c *versionCopy) keep(size int64) bool {
	if c.reserved == 0 && size <= c.ManifestMemory/2 && c.kept.TryAcquire(size) {
		c.reserved = size
	}
	return c.reserved > 0
}

// release gives back what the manifest took.
func (c *versionCopy) release() {
	c.kept.Release(c.reserved)
	c.reserved, c.body = 0, nil
}

// manifestFault tells which manifest it is about; errors that say so themselves pass.
func (c *versionCopy) manifestFault(err error) error {
	if err == nil || fault.KindOf(err) != "" && fault.KindOf(err) != fault.Malformed || errors.Is(err, context.Canceled) {
		return err
	}
	return &fault.Error{Op: "read manifest", Object: manifest.ManifestKey(c.target.dataset, c.number), Side: fault.SideFeed, Kind: fault.Malformed,
		Dataset: c.target.dataset, Version: int64(c.number), Err: err,
		Hint: "The version cannot be mirrored as the feed describes it; nothing of it was stored. Report it to Ploti."}
}

func (c *versionCopy) decodeManifest(in io.Reader) error {
	c.names.Restart()
	wanted := new(attachments.Wanted)
	m, err := manifest.DecodeManifest(in, func(a manifest.Attachment) error {
		if _, err := c.names.Match(a); err != nil {
			return err
		}
		wanted.Add(a)
		return nil
	})
	if err != nil {
		return err
	}
	if err := m.CheckFor(c.target.dataset, c.number); err != nil {
		return err
	}
	c.manifest, c.wanted = m, wanted
	return wanted.Seal()
}

func (c *versionCopy) fetchManifest(ctx context.Context, read func(io.Reader) error) error {
	entry := c.answer.Manifest
	file := transfer.File{Name: manifestName, Key: manifest.ManifestKey(c.target.dataset, c.number), Size: entry.Size, SHA256: entry.SHA256}
	job := transfer.Job{Dataset: c.target.dataset, Version: c.number, Lifetime: c.answer.Lifetime, Files: one(file)}
	return c.Manifests.Read(ctx, job, &manifestLinker{feed: c.Feed, answer: c.answer}, read)
}

func one(file transfer.File) iter.Seq2[transfer.File, error] {
	return func(yield func(transfer.File, error) bool) { yield(file, nil) }
}

// crossCheck compares the answer's files with the manifest's: a name in both must agree, a name
// only in the answer is an error. One only in the manifest may be lost to retention; its link
// decides.
func (c *versionCopy) crossCheck(context.Context) error {
	byPath := make(map[string]manifest.File, len(c.manifest.Files))
	for _, f := range c.manifest.Files {
		byPath[f.Path] = f
	}
	for _, e := range c.answered {
		f, ok := byPath[e.Name]
		switch {
		case !ok:
			return c.manifestFault(fmt.Errorf("the version's answer names %s, its manifest does not", manifest.Quote(e.Name)))
		case f.Size != e.Size || f.SHA256 != e.SHA256:
			return c.manifestFault(fmt.Errorf("the version's answer and its manifest differ on %s: %d bytes with sha256 %s, and %d bytes with sha256 %s",
				manifest.Quote(e.Name), e.Size, e.SHA256, f.Size, f.SHA256))
		}
	}
	c.answered = nil
	return nil
}

// claim stores the manifest, which says from then on what the version will name, and then looks
// whether a prune is under way: it may delete what we would count as present. The order matters: a
// prune writes what it means to delete before it reads what versions name, so one sees the other.
func (c *versionCopy) claim(ctx context.Context) error {
	if err := c.storeManifest(ctx); err != nil {
		return err
	}
	prune, _, err := state.LoadPrune(ctx, c.Store)
	if err != nil {
		return err
	}
	taken, err := c.isTakenBy(ctx, prune)
	if err != nil || !taken {
		return err
	}
	return &fault.Error{Op: "copy version", Object: manifest.PruneKey, Side: fault.SideBucket, Kind: fault.Budget,
		Dataset: c.target.dataset, Version: int64(c.number), Err: errors.New("a prune that is not finished means to delete what this version names"),
		Hint: "The next pass goes on by itself once it is. If it died, finish it with: mirror prune --resume"}
}

// isTakenBy reports whether a prune means to delete anything that the version names. That counts as
// absent until the prune is over: what is found now can be gone a moment later.
func (c *versionCopy) isTakenBy(ctx context.Context, prune *state.Prune) (bool, error) {
	if !prune.Running() || prune.Takes(c.target.dataset, c.number) {
		return prune.Running(), nil
	}
	if c.wanted.Counts().Objects == 0 || len(prune.Attachments) == 0 {
		return false, nil
	}
	for a, err := range c.attachments(ctx) {
		if err != nil {
			return false, err
		}
		if prune.TakesAttachment(a.SHA256) {
			return true, nil
		}
	}
	return false, nil
}

func (c *versionCopy) storeManifest(ctx context.Context) error {
	entry := c.answer.Manifest
	key := manifest.ManifestKey(c.target.dataset, c.number)
	create := func(in io.Reader) error {
		_, err := c.Store.Create(ctx, key, bucket.Content{Size: entry.Size, SHA256: entry.SHA256, Class: bucket.Data, Body: in})
		return err
	}
	var err error
	switch {
	case c.claimed:
		err = &fault.Error{Op: "put object", Object: key, Side: fault.SideBucket, Kind: fault.Exists}
	case c.body != nil || entry.Size == 0:
		err = create(bytes.NewReader(c.body))
	default:
		err = c.fetchManifest(ctx, create)
	}
	if err == nil {
		c.streamed[key] = true
		return nil
	}
	if !fault.Is(err, fault.Exists) {
		return err
	}
	c.claimed = true
	_, same, err := bucket.Holds(ctx, c.Store, key, entry.Size, entry.SHA256)
	if err != nil {
		return err
	}
	if !same {
		return c.otherManifest(ctx)
	}
	return nil
}

// otherManifest tells a rewritten history, where a record stands, from a version that was rebuilt
// between two tries.
func (c *versionCopy) otherManifest(ctx context.Context) error {
	key := manifest.ManifestKey(c.target.dataset, c.number)
	_, err := c.Store.Stat(ctx, manifest.RecordKey(c.target.dataset, c.number))
	if fault.Is(err, fault.NotFound) {
		return &fault.Error{Op: "put object", Object: key, Side: fault.SideBucket, Kind: fault.Conflict,
			Dataset: c.target.dataset, Version: int64(c.number), Err: errors.New("an earlier try stored another manifest: the feed rebuilt the version in between"),
			Hint: fmt.Sprintf("mirror prune --uncommitted %s %d clears the earlier try", c.target.dataset, c.number)}
	}
	if err != nil {
		return err
	}
	if err := c.keepOtherManifest(ctx); err != nil {
		return err
	}
	held, _ := c.holding.Find(c.number)
	held.Rewritten = true
	c.holding = c.holding.With(held)
	return &fault.Error{Op: "commit version", Object: key, Side: fault.SideFeed, Kind: fault.History,
		Dataset: c.target.dataset, Version: int64(c.number), Err: fmt.Errorf("history-changed: the feed now serves manifest %s under this number", c.answer.Manifest.SHA256),
		Hint: "The bucket keeps the first manifest and what it names. Ask Ploti why a published version changed."}
}

// keepOtherManifest keeps what the feed now serves beside what it served first.
func (c *versionCopy) keepOtherManifest(ctx context.Context) error {
	if c.body != nil {
		_, err := state.KeepOtherManifest(ctx, c.Store, c.target.dataset, c.number, c.body)
		return err
	}
	entry := c.answer.Manifest
	err := c.fetchManifest(ctx, func(in io.Reader) error {
		_, err := c.Store.Create(ctx, manifest.OtherManifestKey(c.target.dataset, c.number, entry.SHA256),
			bucket.Content{Size: entry.Size, SHA256: entry.SHA256, Class: bucket.Document, Body: in})
		return err
	})
	if fault.Is(err, fault.Exists) {
		return nil // kept by an earlier pass
	}
	return err
}

// copyFiles copies what the manifest names and the bucket lacks: one sequence of files, so that
// links are asked for in full batches.
func (c *versionCopy) copyFiles(ctx context.Context) error {
	if err := c.lookUpAttachments(ctx); err != nil {
		return err
	}
	c.plan(ctx)
	summary, err := c.Mover.Copy(ctx, transfer.Job{
		Dataset: c.target.dataset, Version: c.number, Lifetime: c.answer.Lifetime, Files: c.missing(ctx),
	}, c.fileDone)
	c.tally.update(func(r *Report) {
		r.Files.Copied += summary.Copied
		r.Files.Present += summary.Present
		r.Bytes.Copied += summary.CopiedBytes
	})
	if err != nil {
		return err
	}
	return c.afterCopy()
}

// fileDone notes the end of one file. It is called by many goroutines.
func (c *versionCopy) fileDone(file transfer.File, outcome transfer.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case outcome.Status == transfer.Copied:
		if !isAttachment(file) { // a million keys would not fit into memory, and their verification does not ask
			c.streamed[file.Key] = true
		}
		c.Observer.Finished(c.target.dataset)
	case outcome.Status == transfer.Present:
		c.Observer.Finished(c.target.dataset)
	case fault.Is(outcome.Err, fault.Missing) && !isAttachment(file) && manifest.KindOf(file.Name) == manifest.KindChanges && c.changesMayExpire():
		c.lostChanges = true
	default:
		c.keepFailure(outcome.Err)
		c.tally.update(func(r *Report) { r.Files.Failed++ })
	}
}

func isAttachment(file transfer.File) bool {
	return strings.HasPrefix(file.Key, manifest.AttachmentPrefix)
}

// maxFailures bounds how many failed files of a version are told one by one; all are counted.
const maxFailures = 20

func (c *versionCopy) keepFailure(err error) {
	same := 0
	for _, kept := range c.failures {
		if severity(kept) == severity(err) {
			same++
		}
	}
	if same < maxFailures {
		c.failures = append(c.failures, err)
	}
}

// changesMayExpire reports whether the feed may have dropped this version's changes by its own
// rules: not those of its newest version.
func (c *versionCopy) changesMayExpire() bool { return c.number != c.current }

// afterCopy tells of every file that failed and returns the failure that says most about what to
// do next: one that would meet other versions too comes first.
func (c *versionCopy) afterCopy() error {
	if len(c.failures) == 0 {
		return nil
	}
	slices.SortStableFunc(c.failures, func(a, b error) int { return severity(a) - severity(b) })
	for _, other := range c.failures[1:min(len(c.failures), maxFailures)] {
		c.fail(c.number, other)
	}
	return c.failures[0]
}

func severity(err error) int {
	switch fault.KindOf(err) {
	case fault.Missing, fault.Malformed, fault.WrongBytes, fault.Conflict:
		return 1
	default:
		return 0
	}
}

// plan tells the observer what lies ahead; of a very long list only how many objects.
func (c *versionCopy) plan(ctx context.Context) {
	var files, size int64
	for _, f := range c.manifest.Files {
		files++
		size += f.Size
	}
	counts := c.wanted.Counts()
	files += int64(counts.Objects - counts.Held - counts.Present)
	if c.body != nil && counts.Objects > 0 {
		for a, err := range c.wanted.Missing(c.attachments(ctx)) {
			if err != nil {
				break // met again, and told, where it is used
			}
			size += a.Size
		}
	}
	c.Observer.Planned(c.target.dataset, files, size)
}

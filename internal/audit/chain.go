package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/manifest"
	"feedmirror/state"
)

// version is what the audit knows of one version of a dataset.
type version struct {
	held      manifest.Held
	changed   time.Time // when the newest of its documents was written
	committed *state.Committed
	named     bool // a later record names it
	unread    bool // its record stands and could not be read: nothing is known of it
}

// dataset audits one dataset.
func (a *auditor) dataset(ctx context.Context, dataset string) error {
	a.Stage(dataset)
	// The pointer comes first: a pass that publishes meanwhile put the record before it, so that what
	// the pointer names is in the listing.
	pointer, known, err := a.readPointer(ctx, dataset)
	if err != nil {
		return err
	}
	versions, err := a.versions(ctx, dataset)
	if err != nil {
		return err
	}
	if err := a.records(ctx, dataset, versions); err != nil {
		return err
	}
	if pointer != nil {
		if err := a.pointer(ctx, dataset, pointer, versions); err != nil {
			return err
		}
	}
	a.unlinked(dataset, versions)
	if known {
		if err := a.logs(ctx, dataset, pointer, versions); err != nil {
			return err
		}
	}
	if a.Level.includes(LevelInventory) {
		return a.inventory(ctx, dataset, versions)
	}
	return nil
}

func (a *auditor) versions(ctx context.Context, dataset string) ([]*version, error) {
	var list []*version
	for info, err := range a.Reader.List(ctx, manifest.RecordsPrefix(dataset), "") {
		if err != nil {
			return nil, err
		}
		n, document, ok := manifest.ParseVersionKey(dataset, info.Key)
		if !ok {
			a.note(Finding{Kind: KindForeign, Key: info.Key, Dataset: dataset, Detail: "no document of a version"})
			continue
		}
		if len(list) == 0 || list[len(list)-1].held.Number != n {
			list = append(list, &version{held: manifest.Held{Number: n}})
		}
		v := list[len(list)-1]
		if info.Modified.After(v.changed) {
			v.changed = info.Modified
		}
		a.noteDocument(v, dataset, document, info)
	}
	return list, nil
}

func (a *auditor) noteDocument(v *version, dataset, document string, info bucket.Info) {
	switch document {
	case "manifest.json":
		v.held.Claimed = true
	case "record.json":
		v.held.Record = true
	case "gone.json":
		v.held.Gone = true
	case "withdrawn.json":
		v.held.Withdrawn = true
		a.note(Finding{Kind: KindWithdrawnRecord, Key: info.Key, Dataset: dataset, Version: int64(v.held.Number), Detail: "the feed released this version again under another number"})
	case "pruned.json":
		v.held.Pruned = true
	default:
		if isOtherManifest(document) {
			a.note(Finding{Kind: KindHistoryChanged, Key: info.Key, Dataset: dataset, Version: int64(v.held.Number),
				Detail: "the feed later published another manifest under this number; the first one is kept"})
		}
	}
}

func isOtherManifest(document string) bool {
	const name = "manifest.00000000.json"
	return len(document) == len(name) && document[:9] == "manifest." && document != "manifest.json"
}

// records reads every record and checks that each leads to the one it names.
func (a *auditor) records(ctx context.Context, dataset string, versions []*version) error {
	byNumber := make(map[manifest.Number]*version, len(versions))
	for _, v := range versions {
		if !v.held.Record {
			continue
		}
		key := manifest.RecordKey(dataset, v.held.Number)
		committed, err := a.recall(ctx, dataset, v.held.Number)
		if err != nil {
			v.unread, a.namesUnknown = !provesDamage(err), true
			if err := a.tell(ctx, KindRecord, key, dataset, v.held.Number, err); err != nil {
				return err
			}
			continue
		}
		v.committed = &committed
		byNumber[v.held.Number] = v
		a.count(func(c *Checked, n *NotChecked) {
			c.Records++
			if carried := committed.Record().Attachments.Carried; a.Level.includes(LevelInventory) {
				c.Carried += carried
			} else {
				n.Carried += carried
			}
		})
		if err := a.follow(ctx, dataset, v, versions, byNumber); err != nil {
			return err
		}
		a.doubts(dataset, v)
	}
	return nil
}

// recall reads a record, once more where it went wrong.
func (a *auditor) recall(ctx context.Context, dataset string, n manifest.Number) (state.Committed, error) {
	return twice(ctx, func() (state.Committed, error) { return state.Recall(ctx, a.Reader, dataset, n) })
}

// twice reads once more where the first reading went wrong: a bad read accuses nobody.
func twice[T any](ctx context.Context, read func() (T, error)) (T, error) {
	value, err := read()
	if err == nil || ctx.Err() != nil {
		return value, err
	}
	return read()
}

// readDocument reads a document, nil where there is none, once more where it went wrong.
func readDocument[T any](ctx context.Context, r bucket.Reader, key string) (*T, error) {
	return twice(ctx, func() (*T, error) {
		document, _, err := state.Read[T](ctx, r, key)
		return document, err
	})
}

func (a *auditor) doubts(dataset string, v *version) {
	for _, doubt := range v.committed.Record().Doubts {
		a.note(Finding{Kind: KindDoubt, Key: manifest.RecordKey(dataset, v.held.Number), Dataset: dataset, Version: int64(v.held.Number), Facts: doubt, Detail: doubt})
	}
}

// follow checks previousRecord, which names a lower version that was read before. One whose record
// could not be read proves nothing.
func (a *auditor) follow(ctx context.Context, dataset string, v *version, versions []*version, byNumber map[manifest.Number]*version) error {
	previous := v.committed.Record().PreviousRecord
	if previous == nil {
		return nil
	}
	finding := Finding{Kind: KindChain, Key: manifest.RecordKey(dataset, v.held.Number), Dataset: dataset, Version: int64(v.held.Number),
		Facts: fmt.Sprintf("names %d %s", previous.Version, previous.SHA256),
		Hint:  "A record was changed or removed after it was written. Restore it from the bucket's own history."}
	before, ok := byNumber[previous.Version]
	switch {
	case previous.Version >= v.held.Number:
		finding.Detail = fmt.Sprintf("it names version %d as the one before it", previous.Version)
	case !ok && slices.ContainsFunc(versions, func(other *version) bool { return other.held.Number == previous.Version && other.unread }):
		return nil // told as unreadable
	case !ok:
		finding.Detail = fmt.Sprintf("the record of version %d, which it names, is not there or cannot be used", previous.Version)
	case before.committed.SHA256() != previous.SHA256:
		stands, err := a.sameRecord(ctx, dataset, v, before, previous.SHA256)
		if err != nil || stands {
			before.named = stands
			return err
		}
		finding.Facts += " found " + before.committed.SHA256().String()
		finding.Detail = fmt.Sprintf("it names the record of version %d with sha256 %s, the one that stands has %s", previous.Version, previous.SHA256, before.committed.SHA256())
	default:
		before.named = true
		return nil
	}
	a.find(finding)
	return nil
}

// sameRecord reads two records that contradict each other once more, and reports whether they still
// do not lead to each other. What cannot be read is told as such.
func (a *auditor) sameRecord(ctx context.Context, dataset string, v, before *version, want manifest.SHA256) (bool, error) {
	for _, one := range []*version{v, before} {
		again, err := state.Recall(ctx, a.Reader, dataset, one.held.Number)
		if err != nil {
			return true, a.tell(ctx, KindRecord, manifest.RecordKey(dataset, one.held.Number), dataset, one.held.Number, err)
		}
		one.committed = &again
	}
	previous := v.committed.Record().PreviousRecord
	return previous != nil && previous.SHA256 == before.committed.SHA256() || before.committed.SHA256() == want, nil
}

// unlinked notes records that no later one names, but for the newest.
func (a *auditor) unlinked(dataset string, versions []*version) {
	newest := true
	for at := len(versions) - 1; at >= 0; at-- {
		v := versions[at]
		if v.committed == nil {
			continue
		}
		if !newest && !v.named {
			a.note(Finding{Kind: KindUnlinked, Key: manifest.RecordKey(dataset, v.held.Number), Dataset: dataset, Version: int64(v.held.Number),
				Detail: "no later record names it: it was filled in later, or two mirrors raced"})
		}
		newest = false
	}
}

// readPointer returns current/<dataset>.json, nil when there is none. One that cannot be used is told, and
// not known.
func (a *auditor) readPointer(ctx context.Context, dataset string) (pointer *state.Pointer, known bool, err error) {
	key := manifest.PointerKey(dataset)
	if pointer, err = readDocument[state.Pointer](ctx, a.Reader, key); err != nil {
		return nil, false, a.tell(ctx, KindPointer, key, dataset, 0, err)
	}
	return pointer, true, nil
}

// pointer checks that a pointer leads to a whole version. One that moved meanwhile is not judged: what
// it names now was not looked at.
func (a *auditor) pointer(ctx context.Context, dataset string, pointer *state.Pointer, versions []*version) error {
	problem := pointerProblem(dataset, pointer, versions)
	if problem.code == "" {
		return nil
	}
	again, _, err := a.readPointer(ctx, dataset)
	if err != nil || again == nil {
		return err
	}
	key := manifest.PointerKey(dataset)
	if again.Revision != pointer.Revision {
		a.note(Finding{Kind: KindMoved, Key: key, Dataset: dataset, Version: int64(again.Version), Detail: "it was moved while the audit looked, and was not judged"})
		return nil
	}
	if problem = pointerProblem(dataset, again, versions); problem.code != "" {
		a.find(Finding{Kind: KindPointer, Key: key, Dataset: dataset, Version: int64(again.Version),
			Facts: problem.code + " " + again.Record.SHA256.String(), Detail: problem.detail,
			Hint: "Readers are led wrong. Move them with: mirror rollback " + dataset + " VERSION"})
	}
	return nil
}

// misled says how a pointer leads readers wrong; without a code it does not.
type misled struct{ code, detail string }

func pointerProblem(dataset string, pointer *state.Pointer, versions []*version) misled {
	if pointer.Dataset != dataset {
		return misled{"other-dataset", fmt.Sprintf("it is the pointer of %q", pointer.Dataset)}
	}
	for _, v := range versions {
		if v.held.Number != pointer.Version {
			continue
		}
		switch {
		case v.unread:
			return misled{} // told as unreadable
		case v.committed == nil:
			return misled{"no-record", fmt.Sprintf("version %d has no record that can be used", pointer.Version)}
		case v.held.Pruned:
			return misled{"pruned", fmt.Sprintf("the files of version %d were pruned", pointer.Version)}
		case pointer.Record.SHA256 != v.committed.SHA256() || pointer.Record.Key != manifest.RecordKey(dataset, pointer.Version):
			return misled{"other-record", fmt.Sprintf("it names record %s with sha256 %s, the one that stands has %s", pointer.Record.Key, pointer.Record.SHA256, v.committed.SHA256())}
		}
		return snapshotProblem(pointer, v.committed.Record())
	}
	return misled{"no-version", fmt.Sprintf("the bucket has no version %d", pointer.Version)}
}

func snapshotProblem(pointer *state.Pointer, record manifest.Record) misled {
	if pointer.Manifest != record.Manifest {
		return misled{"other-manifest", "it names another manifest than the record"}
	}
	parts := []string{}
	for _, file := range record.Files {
		if file.Kind == manifest.KindSnapshot {
			parts = append(parts, file.Key)
		}
	}
	if !slices.Equal(parts, pointer.Snapshot) {
		return misled{"other-parts", "it names other snapshot parts than the record"}
	}
	return misled{}
}

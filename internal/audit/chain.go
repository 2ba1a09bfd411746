package audit

import (
	"context"
	"fmt"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/state"
)

// version is what the audit knows of one version of a dataset.
type version struct {
	held      manifest.Held
	changed   time.Time // when the newest of its documents was written
	committed *state.Committed
	named     bool // a later record names it
}

// dataset audits one dataset.
func (a *auditor) dataset(ctx context.Context, dataset string) error {
	a.Stage(dataset)
	// The pointer comes first: a pass that publishes meanwhile put the record before it, so that what
	// the pointer names is in the listing.
	pointer, err := a.readPointer(ctx, dataset)
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
		a.pointer(dataset, pointer, versions)
	}
	a.unlinked(dataset, versions)
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
		committed, err := state.Recall(ctx, a.Reader, dataset, v.held.Number)
		if err != nil {
			if err := a.tell(KindRecord, key, dataset, v.held.Number, err); err != nil {
				return err
			}
			continue
		}
		v.committed = &committed
		byNumber[v.held.Number] = v
		a.count(func(c *Checked, _ *NotChecked) { c.Records++ })
		a.follow(dataset, v, byNumber)
		a.doubts(dataset, v)
	}
	return nil
}

func (a *auditor) doubts(dataset string, v *version) {
	for _, doubt := range v.committed.Record().Doubts {
		a.note(Finding{Kind: KindDoubt, Key: manifest.RecordKey(dataset, v.held.Number), Dataset: dataset, Version: int64(v.held.Number), Detail: doubt})
	}
}

// follow checks previousRecord, which names a lower version that was read before.
func (a *auditor) follow(dataset string, v *version, byNumber map[manifest.Number]*version) {
	previous := v.committed.Record().PreviousRecord
	if previous == nil {
		return
	}
	finding := Finding{Kind: KindChain, Key: manifest.RecordKey(dataset, v.held.Number), Dataset: dataset, Version: int64(v.held.Number),
		Hint: "A record was changed or removed after it was written. Restore it from the bucket's own history."}
	before, ok := byNumber[previous.Version]
	switch {
	case previous.Version >= v.held.Number:
		finding.Detail = fmt.Sprintf("it names version %d as the one before it", previous.Version)
	case !ok:
		finding.Detail = fmt.Sprintf("the record of version %d, which it names, is not there or cannot be used", previous.Version)
	case before.committed.SHA256() != previous.SHA256:
		finding.Detail = fmt.Sprintf("it names the record of version %d with sha256 %s, the one that stands has %s", previous.Version, previous.SHA256, before.committed.SHA256())
	default:
		before.named = true
		return
	}
	a.find(finding)
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

// readPointer returns current/<dataset>.json, nil when there is none or it cannot be used.
func (a *auditor) readPointer(ctx context.Context, dataset string) (*state.Pointer, error) {
	key := manifest.PointerKey(dataset)
	pointer, _, err := state.Read[state.Pointer](ctx, a.Reader, key)
	if fault.Is(err, fault.Malformed) {
		a.find(Finding{Kind: KindPointer, Key: key, Dataset: dataset, Detail: err.Error(), Hint: fault.HintOf(err)})
		return nil, nil //nolint:nilnil // told
	}
	return pointer, err
}

// pointer checks that a pointer leads to a whole version.
func (a *auditor) pointer(dataset string, pointer *state.Pointer, versions []*version) {
	if detail := pointerProblem(dataset, pointer, versions); detail != "" {
		a.find(Finding{Kind: KindPointer, Key: manifest.PointerKey(dataset), Dataset: dataset, Version: int64(pointer.Version), Detail: detail,
			Hint: "Readers are led wrong. Move them with: mirror rollback " + dataset + " VERSION"})
	}
}

func pointerProblem(dataset string, pointer *state.Pointer, versions []*version) string {
	if pointer.Dataset != dataset {
		return fmt.Sprintf("it is the pointer of %q", pointer.Dataset)
	}
	for _, v := range versions {
		if v.held.Number != pointer.Version {
			continue
		}
		switch {
		case v.committed == nil:
			return fmt.Sprintf("version %d has no record that can be used", pointer.Version)
		case v.held.Pruned:
			return fmt.Sprintf("the files of version %d were pruned", pointer.Version)
		case pointer.Record.SHA256 != v.committed.SHA256() || pointer.Record.Key != manifest.RecordKey(dataset, pointer.Version):
			return fmt.Sprintf("it names record %s with sha256 %s, the one that stands has %s", pointer.Record.Key, pointer.Record.SHA256, v.committed.SHA256())
		}
		return snapshotProblem(pointer, v.committed.Record())
	}
	return fmt.Sprintf("the bucket has no version %d", pointer.Version)
}

func snapshotProblem(pointer *state.Pointer, record manifest.Record) string {
	if pointer.Manifest != record.Manifest {
		return "it names another manifest than the record"
	}
	at := 0
	for _, file := range record.Files {
		if file.Kind != manifest.KindSnapshot {
			continue
		}
		if at >= len(pointer.Snapshot) || pointer.Snapshot[at] != file.Key {
			return "it names other snapshot parts than the record"
		}
		at++
	}
	if at != len(pointer.Snapshot) {
		return "it names other snapshot parts than the record"
	}
	return ""
}

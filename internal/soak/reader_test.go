package soak_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// objectRef names an object and its bytes.
type objectRef struct{ Key, SHA256 string }

// pointer is what a reader takes from current/<dataset>.json.
type pointer struct {
	Dataset   string
	Version   int64
	Revision  int64
	Record    objectRef
	Manifest  objectRef
	Snapshot  []string
	Held      *struct{ Version int64 }
	Pinned    bool
	Decisions []string
}

// record is what a reader takes from a record.
type record struct {
	Dataset string
	Version int64
	Files   []struct {
		Kind, Key, SHA256 string
	}
	Attachments struct{ Index *objectRef }
}

// pointer reads a dataset's pointer.
func (w *world) pointer(ctx context.Context, dataset string) (pointer, error) {
	var p pointer
	raw, err := w.place.read(ctx, "current/"+dataset+".json")
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	return p, err
}

// reader looks at one dataset as those do who trust its pointer. It is for one goroutine.
type reader struct {
	dataset string
	read    func(ctx context.Context, key string) ([]byte, error)
	chance  *chance
	broken  func(format string, args ...any)

	raw    []byte // of the last pointer; nil: none yet
	last   pointer
	proven map[string]string // keys of immutable objects, and the hash that they were read with
	checks int
}

// rereads is the share of objects that are read although they were read before.
const rereads = 0.05

// check reads the pointer and follows it. An error is the reader's own trouble and proves nothing.
func (r *reader) check(ctx context.Context) error {
	key := "current/" + r.dataset + ".json"
	raw, err := r.read(ctx, key)
	if errors.Is(err, errAbsent) {
		if r.raw != nil {
			r.broken("%s vanished", key)
		}
		return nil
	}
	if err != nil {
		return err
	}
	var p pointer
	if err := json.Unmarshal(raw, &p); err != nil || p.Dataset != r.dataset || p.Revision < 1 || p.Version < 1 {
		r.broken("%s is no pointer of %s: %v: %.300s", key, r.dataset, err, raw)
		return nil
	}
	if r.raw != nil && !bytes.Equal(raw, r.raw) {
		if err := r.moved(ctx, p); err != nil {
			return err
		}
	}
	r.raw, r.last = raw, p
	if err := r.follow(ctx, p); err != nil {
		return err
	}
	r.checks++
	return nil
}

// moved compares a pointer with the one read before it.
func (r *reader) moved(ctx context.Context, p pointer) error {
	if p.Revision <= r.last.Revision {
		r.broken("the pointer of %s changed from revision %d to %d", r.dataset, r.last.Revision, p.Revision)
	}
	if p.Version >= r.last.Version {
		return nil
	}
	for _, key := range p.Decisions {
		if slices.Contains(r.last.Decisions, key) {
			continue
		}
		raw, err := r.read(ctx, key)
		if err != nil && !errors.Is(err, errAbsent) {
			return err
		}
		var decision struct {
			Dataset, Action string
			Version         int64
		}
		if err == nil && json.Unmarshal(raw, &decision) == nil && decision.Dataset == r.dataset && decision.Action == "rollback" && decision.Version <= p.Version {
			return nil
		}
	}
	r.broken("the pointer of %s went from version %d to %d, and no new decision says so", r.dataset, r.last.Version, p.Version)
	return nil
}

// follow wants all that a pointer names: its record, its manifest, every file of the snapshot, and some
// of the attachments.
func (r *reader) follow(ctx context.Context, p pointer) error {
	raw, err := r.object(ctx, p, p.Record, true)
	if raw == nil || err != nil {
		return err
	}
	var rec record
	if err := json.Unmarshal(raw, &rec); err != nil || rec.Dataset != p.Dataset || rec.Version != p.Version {
		r.broken("%s is not the record of version %d: %v", p.Record.Key, p.Version, err)
		return nil
	}
	objects := []objectRef{p.Manifest}
	var snapshot []string
	for _, file := range rec.Files {
		if file.Kind == "snapshot" {
			snapshot = append(snapshot, file.Key)
			objects = append(objects, objectRef{file.Key, file.SHA256})
		}
	}
	if !sameKeys(snapshot, p.Snapshot) {
		r.broken("the pointer of %s names %v, the record of version %d %v", r.dataset, p.Snapshot, p.Version, snapshot)
	}
	for _, object := range objects {
		if _, err := r.object(ctx, p, object, false); err != nil {
			return err
		}
	}
	if rec.Attachments.Index == nil {
		return nil
	}
	return r.attachments(ctx, p, *rec.Attachments.Index)
}

// attachments wants a few of those that the index names.
func (r *reader) attachments(ctx context.Context, p pointer, index objectRef) error {
	raw, err := r.object(ctx, p, index, true)
	if raw == nil || err != nil {
		return err
	}
	rows, err := parquet.Read[struct {
		SHA256 string `parquet:"sha256"`
		Key    string `parquet:"key"`
	}](bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		r.broken("%s is no index: %v", index.Key, err)
		return nil
	}
	for range min(3, len(rows)) {
		row := rows[r.chance.number(len(rows))]
		if _, err := r.object(ctx, p, objectRef{row.Key, row.SHA256}, false); err != nil {
			return err
		}
	}
	return nil
}

// object wants an object with its bytes. What was proven before is read again now and then, or always
// where its bytes are needed. It returns nil when it is not there.
func (r *reader) object(ctx context.Context, p pointer, want objectRef, needed bool) ([]byte, error) {
	if !needed && r.proven[want.Key] == want.SHA256 && !r.chance.hits(rereads) {
		return nil, nil
	}
	raw, err := r.read(ctx, want.Key)
	if errors.Is(err, errAbsent) {
		return nil, r.missing(ctx, p, want.Key)
	}
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != want.SHA256 {
		r.broken("%s, which the pointer of %s leads to at version %d, has sha256 %x, not %s", want.Key, r.dataset, p.Version, sum, want.SHA256)
		return nil, nil
	}
	r.proven[want.Key] = want.SHA256
	return raw, nil
}

// missing decides about an object that is not there. A prune may have taken it since the pointer was
// read, and only after the pointer left the version and a note was written beside its record.
func (r *reader) missing(ctx context.Context, p pointer, key string) error {
	raw, err := r.read(ctx, "current/"+r.dataset+".json")
	if err != nil && !errors.Is(err, errAbsent) {
		return err
	}
	var now pointer
	if err != nil || json.Unmarshal(raw, &now) != nil || now.Version == p.Version {
		r.broken("%s is not there, and the pointer of %s leads to it at version %d", key, r.dataset, p.Version)
		return nil
	}
	_, err = r.read(ctx, fmt.Sprintf("versions/%s/%010d/pruned.json", r.dataset, p.Version))
	if errors.Is(err, errAbsent) {
		r.broken("%s of version %d of %s is not there, and no pruned.json says so", key, p.Version, r.dataset)
		return nil
	}
	return err
}

func sameKeys(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

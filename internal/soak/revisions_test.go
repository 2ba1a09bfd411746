package soak_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
)

// revisions looks at the documents that processes swap beside the pointers. Each write makes the revision
// one higher: a document that changed and kept its revision, or went back, lost somebody's update.
type revisions struct {
	read    func(ctx context.Context, key string) ([]byte, error)
	broken  func(format string, args ...any)
	keys    []string
	last    map[string][]byte
	changes int
}

func newRevisions(w *world, shard string) *revisions {
	r := &revisions{read: w.place.read, broken: w.violated, last: map[string][]byte{},
		keys: []string{"_mirror/layout.json", "_mirror/prune.json", "_mirror/shards/" + shard}}
	for _, id := range datasets() {
		r.keys = append(r.keys, "_mirror/leases/"+id+".json")
	}
	return r
}

// check reads each document. An error is the reader's own trouble and proves nothing.
func (r *revisions) check(ctx context.Context) error {
	for _, key := range r.keys {
		raw, err := r.read(ctx, key)
		last, known := r.last[key]
		switch {
		case errors.Is(err, errAbsent) && !known:
			continue
		case errors.Is(err, errAbsent):
			r.broken("%s vanished", key)
			continue
		case err != nil:
			return err
		case bytes.Equal(raw, last):
			continue
		}
		now, err := revision(raw)
		if err != nil {
			r.broken("%s does not parse: %v", key, err)
			continue
		}
		if before, err := revision(last); known && err == nil {
			r.changes++
			if now <= before {
				r.broken("%s changed from revision %d to %d", key, before, now)
			}
		}
		r.last[key] = raw
	}
	return nil
}

func revision(raw []byte) (int64, error) {
	var document struct{ Revision int64 }
	err := json.Unmarshal(raw, &document)
	return document.Revision, err
}

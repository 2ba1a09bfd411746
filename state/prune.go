package state

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// PruneState says how far a prune came.
type PruneState string

// The states of a prune.
const (
	PruneDeciding PruneState = "deciding" // it lists more than may go in the end; nothing is deleted yet
	PruneDeleting PruneState = "deleting" // all that it lists goes, whoever finishes it
	PruneFinished PruneState = "finished"
)

// Prune is _mirror/prune.json: what a running prune means to delete. It is written before the
// prune reads what every version names, and a pass reads it after it wrote down what its version
// will name: so one of the two always sees the other. The prune then narrows it to what nobody
// names, and only then deletes: a prune that is taken over ends, whoever finishes it, with the same
// objects gone. It is never deleted itself; once finished it lists nothing.
type Prune struct {
	Revised
	State       PruneState         `json:"state"`
	Run         string             `json:"run"` // who works on it
	Host        string             `json:"host"`
	Tool        string             `json:"tool"`
	StartedAt   time.Time          `json:"startedAt"`
	At          time.Time          `json:"at"` // last sign of life
	Rules       manifest.KeepRules `json:"rules"`
	Versions    []PruneVersion     `json:"versions"`
	Attachments []HashStart        `json:"attachments"` // sorted
}

// PruneVersion is a version whose files go.
type PruneVersion struct {
	Dataset     string          `json:"dataset"`
	Version     manifest.Number `json:"version"`
	Why         string          `json:"why"`
	Uncommitted bool            `json:"uncommitted,omitempty"` // its manifest goes too
	Objects     int64           `json:"objects"`               // beside attachments
	Bytes       int64           `json:"bytes"`
}

// HashStart are the first 64 bits of a hash, 16 hex digits: a prune may list a million. Two
// hashes that begin alike only make a pass wait that need not.
type HashStart [8]byte

// StartOf returns the start of a hash.
func StartOf(sum manifest.SHA256) HashStart { return HashStart(sum[:8]) }

// MarshalText implements encoding.TextMarshaler.
func (h HashStart) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *HashStart) UnmarshalText(text []byte) error {
	if len(text) != 2*len(h) {
		return fmt.Errorf("parse start of hash: want %d hex digits, got %d characters", 2*len(h), len(text))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Compare orders starts of hashes as the hashes are ordered.
func (h HashStart) Compare(other HashStart) int { return bytes.Compare(h[:], other[:]) }

// Running reports whether a prune is not finished.
func (p *Prune) Running() bool { return p != nil && p.State != PruneFinished }

// Takes reports whether a running prune means to delete a version's files.
func (p *Prune) Takes(dataset string, n manifest.Number) bool {
	return p.Running() && slices.ContainsFunc(p.Versions, func(v PruneVersion) bool { return v.Dataset == dataset && v.Version == n })
}

// TakesAttachment reports whether a running prune means to delete an attachment's object.
func (p *Prune) TakesAttachment(sum manifest.SHA256) bool {
	if !p.Running() {
		return false
	}
	_, found := slices.BinarySearchFunc(p.Attachments, StartOf(sum), HashStart.Compare)
	return found
}

// LoadPrune returns prune.json and its tag; nil when there never was a prune.
func LoadPrune(ctx context.Context, r bucket.Reader) (*Prune, bucket.Tag, error) {
	prune, tag, err := Read[Prune](ctx, r, manifest.PruneKey)
	if err == nil && prune != nil && !slices.IsSortedFunc(prune.Attachments, HashStart.Compare) {
		slices.SortFunc(prune.Attachments, HashStart.Compare) // somebody edited it
	}
	return prune, tag, err
}

// Pruned is pruned.json: what a prune took of a version, when and why. It stands beside the record
// before the first of them is deleted.
type Pruned struct {
	Dataset string             `json:"dataset"`
	Version manifest.Number    `json:"version"`
	Why     string             `json:"why"`
	Rules   manifest.KeepRules `json:"rules"`
	Objects int64              `json:"objects"` // beside attachments, which go when no other version names them
	Bytes   int64              `json:"bytes"`
	Run     string             `json:"run"`
	Tool    string             `json:"tool"`
	At      time.Time          `json:"at"`
}

// NotePruned writes pruned.json, or leaves the one that stands.
func NotePruned(ctx context.Context, docs Documents, note Pruned) error {
	body, err := manifest.EncodeDocument(note)
	if err != nil {
		return err
	}
	_, _, err = CreateOnce(ctx, docs, manifest.PrunedKey(note.Dataset, note.Version), body)
	return err
}

// CheckPruned reports whether a version's files were pruned. Where a prune under way means to take
// them it returns a fault.Budget. Who moves a pointer to the version asks after reading the
// pointer: a prune swaps the pointer between its own first and last writing of what is asked here.
func CheckPruned(ctx context.Context, r bucket.Reader, dataset string, n manifest.Number) (bool, error) {
	prune, _, err := LoadPrune(ctx, r)
	if err != nil {
		return false, err
	}
	if prune.Takes(dataset, n) {
		return false, &fault.Error{Op: "use version", Object: manifest.PruneKey, Side: fault.SideBucket, Kind: fault.Budget,
			Dataset: dataset, Version: int64(n), Err: fmt.Errorf("a prune means to delete the files of version %d", n),
			Hint: "Try again once it is finished. If it died, finish it with: mirror prune --resume"}
	}
	_, err = r.Stat(ctx, manifest.PrunedKey(dataset, n))
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// Fence swaps a dataset's pointer without moving it, so that whoever read it before has to read it
// again, and with it prune.json. check sees the pointer that is fenced. A dataset without a
// pointer is a fault.NotFound.
func Fence(ctx context.Context, docs Documents, pause Pause, dataset string, check func(*Pointer) error) error {
	_, err := Update(ctx, docs, pause, manifest.PointerKey(dataset), func(standing *Pointer) (*Pointer, error) {
		if standing == nil {
			return nil, &fault.Error{Op: "read pointer", Object: manifest.PointerKey(dataset), Side: fault.SideBucket, Kind: fault.NotFound,
				Err: errors.New("nothing is published")}
		}
		if err := check(standing); err != nil {
			return nil, err
		}
		return clonePointer(standing), nil
	})
	return err
}

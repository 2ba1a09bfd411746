package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// Store is what a log needs of a bucket: reads, put-if-absent for commits and checkpoints, and a swap
// for _last_checkpoint alone.
type Store interface {
	bucket.Reader
	bucket.Writer
	bucket.Swapper
}

// maxCommit bounds one commit or checkpoint hint that is read, in bytes. A first commit of the
// changes log with 100,000 files stays below it.
const maxCommit = 64 << 20

// commitTries bounds how often a commit is computed anew because others got the next number first.
const commitTries = 64

// log is a Delta log in the bucket.
type log struct {
	store Store
	root  string // with the slash at its end
}

func (l log) folder() string { return l.root + "_delta_log/" }

func (l log) commitKey(n int64) string { return l.folder() + paddedLog(n) + ".json" }

// listing is what stands in a log's folder from a number on.
type listing struct {
	head       int64   // number of the newest commit; -1 when there is none
	commits    []int64 // contiguous, ascending; those after the checkpoint, or all
	checkpoint int64   // newest whole checkpoint; -1 when there is none

}

// list finds the head. It starts at the checkpoint that _last_checkpoint names, when that stands: the
// hint saves requests, and nothing rests on it.
func (l log) list(ctx context.Context) (listing, error) {
	from := l.hint(ctx)
	found := listing{head: -1, checkpoint: -1}
	after := ""
	if from > 0 {
		after = l.folder() + paddedLog(from-1) + "~" // "~" sorts behind every ending of that number
	}
	for info, err := range l.store.List(ctx, l.folder(), after) {
		if err != nil {
			return listing{}, err
		}
		l.sort(&found, strings.TrimPrefix(info.Key, l.folder()))
	}
	return found, l.checkGaps(found)
}

// sort takes one name of the folder into account. Names that are not of the protocol are passed over:
// readers pass over them too.
func (l log) sort(found *listing, name string) {
	switch kind, n := parseName(name); kind {
	case nameCommit:
		found.head = n
		found.commits = append(found.commits, n)
	case nameCheckpoint:
		found.checkpoint = n
	}
}

// checkGaps refuses a log whose commits do not follow each other: engines refuse it too, and only a
// rebuild mends it.
func (l log) checkGaps(found listing) error {
	for i := 1; i < len(found.commits); i++ {
		if found.commits[i] != found.commits[i-1]+1 {
			return l.damaged(fmt.Errorf("commit %d follows %d", found.commits[i], found.commits[i-1]))
		}
	}
	switch {
	case len(found.commits) == 0 && found.checkpoint >= 0:
		return l.damaged(fmt.Errorf("checkpoint %d stands without commits", found.checkpoint))
	case len(found.commits) > 0 && found.commits[0] > 0 && found.checkpoint < found.commits[0]:
		return l.damaged(fmt.Errorf("commits begin at %d", found.commits[0]))
	}
	return nil
}

// DamagedError says that a log cannot be gone on with. Nothing but a rebuild writes to it.
type DamagedError struct {
	Root string
	Err  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the log of %s is damaged: %v", e.Root, e.Err)
}

// Unwrap returns what is wrong with it.
func (e *DamagedError) Unwrap() error { return e.Err }

// Remedy is the command that writes the log anew.
func (e *DamagedError) Remedy() string {
	if _, dataset, own := strings.Cut(e.Root, "/ploti_dataset_id="); own {
		return "mirror publish-tables --rebuild " + strings.TrimSuffix(dataset, "/")
	}
	return "mirror publish-tables --rebuild-shared " + strings.TrimSuffix(e.Root, "/")
}

func (l log) damaged(err error) error { return &DamagedError{Root: l.root, Err: err} }

type lastCheckpoint struct {
	Version int64 `json:"version"`
	Size    int64 `json:"size"` // actions
}

// decodeHint reads what _last_checkpoint holds; version -1 when it cannot be used.
func decodeHint(text []byte) lastCheckpoint {
	last := lastCheckpoint{Version: -1}
	if json.Unmarshal(text, &last) != nil {
		return lastCheckpoint{Version: -1}
	}
	return last
}

// hint returns the number that _last_checkpoint names; 0 when there is none that can be used.
func (l log) hint(ctx context.Context) int64 {
	text, _, err := bucket.ReadAll(ctx, l.store, l.folder()+"_last_checkpoint", 64<<10)
	last := decodeHint(text)
	if err != nil || last.Version <= 0 {
		return 0
	}
	// A hint that outlived its checkpoint would hide the log: it counts only when that stands.
	if _, err := l.store.Stat(ctx, l.checkpointKey(last.Version)); err != nil {
		return 0
	}
	return last.Version
}

func (l log) read(ctx context.Context, n int64) ([]action, error) {
	text, _, err := bucket.ReadAll(ctx, l.store, l.commitKey(n), maxCommit)
	if fault.Is(err, fault.Malformed) {
		return nil, l.damaged(fmt.Errorf("commit %d: %w", n, err))
	}
	if err != nil {
		return nil, err
	}
	actions, err := decodeCommit(text)
	if err != nil {
		return nil, l.damaged(fmt.Errorf("commit %d: %w", n, err))
	}
	return actions, nil
}

// errTaken says that somebody else put the commit of that number.
var errTaken = errors.New("the commit's number is taken")

// put writes a commit at a number that must be free. What stands there afterwards decides: bytes that
// are ours are our commit, also when the answer was lost.
func (l log) put(ctx context.Context, n int64, actions []action) error {
	text, err := encodeCommit(actions)
	if err != nil {
		return err
	}
	key := l.commitKey(n)
	content := bucket.Content{Size: int64(len(text)), SHA256: manifest.SumBytes(text), Class: bucket.Document, Body: bytes.NewReader(text)}
	_, err = l.store.Create(ctx, key, content)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	standing, _, readErr := bucket.ReadAll(ctx, l.store, key, maxCommit)
	switch {
	case readErr == nil && bytes.Equal(standing, text):
		return nil
	case readErr == nil:
		return errTaken
	case fault.Is(readErr, fault.NotFound):
		return err
	default:
		return errors.Join(err, readErr)
	}
}

// commit computes a commit from what stands, and puts it behind it; refused, it computes anew. compute
// returns no actions when the log says already what it should. It is called after the head was listed:
// what it reads is then never older than the head, so that nobody puts yesterday's truth behind today's.
// The listing returned includes what was committed.
func (l log) commit(ctx context.Context, compute func(ctx context.Context, found listing) ([]action, error)) (listing, error) {
	var gone error
	for range commitTries {
		found, err := l.list(ctx)
		if err != nil {
			return listing{}, err
		}
		actions, err := compute(ctx, found)
		if gone = l.vanished(err); gone != nil {
			continue // a rebuild deleted what was listed: it is listed anew
		}
		if err != nil || len(actions) == 0 {
			return found, err
		}
		err = l.put(ctx, found.head+1, actions)
		if err == nil {
			found.head++
			found.commits = append(found.commits, found.head)
			return found, nil
		}
		if !errors.Is(err, errTaken) {
			return listing{}, err
		}
	}
	return listing{}, &fault.Error{Op: "commit table", Object: l.root, Side: fault.SideBucket, Kind: fault.Conflict,
		Err: errors.Join(errors.New("others kept changing the log"), gone), Hint: "The next pass goes on."}
}

// vanished returns an error that says that a file of the log is not there any more; nil for all others.
func (l log) vanished(err error) error {
	var missing *fault.Error
	if errors.As(err, &missing) && missing.Kind == fault.NotFound && strings.HasPrefix(missing.Object, l.folder()) {
		return err
	}
	return nil
}

// checkpointIfDue writes a checkpoint when readers would have to read many commits. It is derived: a
// failure is made good after the next commit.
func (l log) checkpointIfDue(ctx context.Context, found listing) error {
	if found.head-found.checkpoint < checkpointEvery {
		return nil
	}
	all, err := l.contents(ctx, found)
	if err != nil {
		return err
	}
	return l.checkpoint(ctx, found.head, all)
}

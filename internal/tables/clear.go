package tables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// ClearStore is what a rebuild needs beside a Store.
type ClearStore interface {
	bucket.Reader
	bucket.Deleter
}

// clearTries bounds how often what others wrote meanwhile is deleted too.
const clearTries = 8

// Clear deletes a log, so that it is written anew, and returns how many files went. Files that engines
// pass over stay.
//
// The hint goes first, then the newest commit with its checkpoints, and so on down to the first. A reader
// who comes in between sees older states of the table, each whole as it once was, or none: never a
// mixture. The other way round he would, since some engines take a log whose first commits are missing.
// Somebody who commits to the log meanwhile leaves a gap that every reader of the log refuses: the
// caller reads the log when it is written anew.
func Clear(ctx context.Context, store ClearStore, root string) (deleted int, err error) {
	for range clearTries {
		files, err := filesToClear(ctx, store, root)
		if err != nil {
			return deleted, fmt.Errorf("clear table %s: %w", root, err)
		}
		if len(files) == 0 {
			return deleted, nil
		}
		for _, info := range files {
			err := store.Delete(ctx, info.Key, info.Tag)
			if fault.Is(err, fault.Conflict) {
				break // somebody wrote it anew: it is listed again
			}
			if err != nil {
				return deleted, refused(root, info.Key, err)
			}
			deleted++
		}
	}
	return deleted, &fault.Error{Op: "clear table", Object: root, Side: fault.SideBucket, Kind: fault.Conflict,
		Err: errors.New("others keep writing to its log"), Hint: "Run it again when no pass is under way."}
}

func refused(root, key string, err error) error {
	hint := fault.HintOf(err)
	if fault.Is(err, fault.Denied) || fault.Is(err, fault.Unsupported) {
		hint = "A rebuild has to delete the files of a log: it needs that right, and no retention on " + root + "_delta_log/. Nothing newer than what is left there can be read; run it again."
	}
	return &fault.Error{Op: "clear table", Object: key, Side: fault.SideBucket, Kind: fault.KindOf(err), Err: err, Hint: hint}
}

// filesToClear lists the files of a log in the order in which they go.
func filesToClear(ctx context.Context, r bucket.Reader, root string) ([]bucket.Info, error) {
	type file struct {
		bucket.Info
		kind   nameKind
		number int64
	}
	var files []file
	folder := log{root: root}.folder()
	for info, err := range r.List(ctx, folder, "") {
		if err != nil {
			return nil, err
		}
		if kind, n := parseName(strings.TrimPrefix(info.Key, folder)); kind != nameForeign {
			files = append(files, file{info, kind, n})
		}
	}
	slices.SortStableFunc(files, func(a, b file) int {
		switch {
		case (a.kind == nameHint) != (b.kind == nameHint):
			return cmp.Compare(rank(b.kind == nameHint), rank(a.kind == nameHint))
		case a.number != b.number:
			return cmp.Compare(b.number, a.number)
		}
		return cmp.Compare(rank(a.kind == nameCommit), rank(b.kind == nameCommit)) // what rests on a commit goes before it
	})
	list := make([]bucket.Info, len(files))
	for i := range files {
		list[i] = files[i].Info
	}
	return list, nil
}

func rank(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

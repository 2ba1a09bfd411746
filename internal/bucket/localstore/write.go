package localstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// Permissions: the world sees nothing, the group reads, and data can only be replaced by removing
// it. The umask takes away from folders only what they have here.
const (
	dataMode     = 0o440
	documentMode = 0o640
	stagedMode   = 0o600
	folderMode   = 0o750
)

// lockPoll is how often a lock held by another is tried again.
const lockPoll = 2 * time.Millisecond

// Create implements bucket.Writer.
func (s *Store) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	const op = "create file"
	target, err := s.path(key)
	if err != nil {
		return bucket.Info{}, err
	}
	if err := vacant(op, key, target); err != nil { // before the body is read: it is not free
		return bucket.Info{}, s.taken(op, key, target, err)
	}
	return s.put(ctx, op, key, content, func(file *staged) error { return s.link(file, key, target) })
}

// put stages a body, lets place give it its key, and tells what stands then.
func (s *Store) put(ctx context.Context, op, key string, content bucket.Content, place func(*staged) error) (bucket.Info, error) {
	target, err := s.path(key)
	if err != nil {
		return bucket.Info{}, err
	}
	body := bucket.VerifyReader(content.Body, content.Size, content.SHA256)
	mode := fs.FileMode(documentMode)
	if content.Class == bucket.Data {
		mode = dataMode
	}
	err = s.publish(key, func(file *staged) error {
		if err := file.fill(ctx, body, mode); err != nil {
			return err
		}
		return place(file)
	})
	switch {
	case err == nil:
		return s.stat(key, target)
	case body.Failure() != nil:
		return bucket.Info{}, fmt.Errorf("%s %s: %w", op, key, body.Failure())
	case ctx.Err() != nil:
		return bucket.Info{}, fmt.Errorf("%s %s: %w", op, key, ctx.Err())
	case fault.KindOf(err) != "":
		return bucket.Info{}, err
	case errors.Is(err, fs.ErrExist):
		return bucket.Info{}, s.taken(op, key, target, exists(op, key))
	}
	return bucket.Info{}, s.linkHint(op, key, err)
}

// taken tells that a key is taken when that is on disk: whoever linked the file may have failed, or
// died, before the flush of its folder, and the caller takes what stands for stored.
func (s *Store) taken(op, key, target string, err error) error {
	if !fault.Is(err, fault.Exists) {
		return err
	}
	if err := s.system.flushFolder(filepath.Dir(target)); err != nil {
		return s.failed(op, key, err)
	}
	return err
}

// Replace implements bucket.Replacer. The lock is held only while the finished file gets its name:
// filling it may take long, and others must be able to swap and delete meanwhile.
func (s *Store) Replace(ctx context.Context, key string, old bucket.Tag, content bucket.Content) (bucket.Info, error) {
	const op = "replace file"
	target, err := s.path(key)
	if err != nil {
		return bucket.Info{}, err
	}
	if err := s.expectObject(op, key, target, old); err != nil { // before the body is read
		return bucket.Info{}, err
	}
	return s.put(ctx, op, key, content, func(file *staged) error {
		unlock, err := s.lock(ctx, op, key)
		if err != nil {
			return err
		}
		defer unlock()
		if err := s.expectObject(op, key, target, old); err != nil {
			return err
		}
		return s.system.rename(file.file.Name(), target)
	})
}

// expectObject is expect for an object that must be there.
func (s *Store) expectObject(op, key, target string, old bucket.Tag) error {
	if old == bucket.Absent {
		return conflict(op, key, "an unknown object", "a tag")
	}
	return s.expect(op, key, target, old)
}

// publish stages a file, lets use give it its key, and flushes the folder of the key.
func (s *Store) publish(key string, use func(*staged) error) error {
	file, err := s.stage()
	if err != nil {
		return err
	}
	if err := use(file); err != nil {
		_ = file.discard() // err is the reason; what is left is tidied by the next process
		return err
	}
	if err := file.discard(); err != nil {
		return err
	}
	return s.system.flushFolder(filepath.Join(s.root, filepath.FromSlash(path.Dir(key))))
}

// link gives the staged file its key. A folder that a clean-up removed is made again.
func (s *Store) link(file *staged, key, target string) error {
	folder := path.Dir(key)
	for try := 0; ; try++ {
		if err := s.folders.make(s.root, folder); err != nil {
			return err
		}
		err := s.system.link(file.file.Name(), target)
		if !errors.Is(err, fs.ErrNotExist) || try == 3 {
			return err
		}
		s.folders.forget(folder)
	}
}

func vacant(op, key, target string) error {
	info, err := os.Lstat(target)
	switch {
	case err != nil: // absent, or unreadable, which the write will tell
		return nil
	case !info.Mode().IsRegular():
		return &fault.Error{
			Op: op, Object: key, Side: fault.SideBucket, Kind: fault.Unsupported,
			Err:  errors.New("the name is taken by a folder or something else that is no file"),
			Hint: "A folder cannot hold a key and another key below it.",
		}
	}
	return exists(op, key)
}

func exists(op, key string) error {
	return &fault.Error{Op: op, Object: key, Side: fault.SideBucket, Kind: fault.Exists, Err: errors.New("the key is taken")}
}

func (s *Store) linkHint(op, key string, err error) error {
	if noHardLinks(err) {
		return &fault.Error{
			Op: op, Object: key, Side: fault.SideBucket, Kind: fault.BucketUnfit, Err: plain(err),
			Hint: "This file system has no hard links, without which two processes could overwrite each other; use another one.",
		}
	}
	return s.failed(op, key, err)
}

// Swap implements bucket.Swapper.
func (s *Store) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	const op = "swap document"
	target, err := s.path(key)
	if err != nil {
		return "", err
	}
	unlock, err := s.lock(ctx, op, key)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := s.expect(op, key, target, old); err != nil {
		return "", err
	}
	err = s.publish(key, func(file *staged) error {
		if err := file.fill(ctx, bytes.NewReader(data), documentMode); err != nil {
			return err
		}
		if old == bucket.Absent { // a create may race us without taking the lock
			return s.link(file, key, target)
		}
		return s.system.rename(file.file.Name(), target)
	})
	switch {
	case err == nil:
		info, err := s.stat(key, target)
		return info.Tag, err
	case errors.Is(err, fs.ErrExist):
		return "", conflict(op, key, "something", "nothing")
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s %s: %w", op, key, ctx.Err())
	}
	return "", s.linkHint(op, key, err)
}

// Delete implements bucket.Deleter.
func (s *Store) Delete(ctx context.Context, key string, tag bucket.Tag) error {
	const op = "delete file"
	target, err := s.path(key)
	if err != nil {
		return err
	}
	unlock, err := s.lock(ctx, op, key)
	if err != nil {
		return err
	}
	defer unlock()
	info, err := s.stat(key, target)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case err != nil:
		return err
	case info.Tag != tag:
		return conflict(op, key, info.Tag, tag)
	}
	if err := s.system.remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.failed(op, key, err)
	}
	if err := s.system.flushFolder(filepath.Dir(target)); err != nil {
		return s.failed(op, key, err)
	}
	return nil
}

// expect compares what stands at the key with what the caller read.
func (s *Store) expect(op, key, target string, old bucket.Tag) error {
	info, err := s.stat(key, target)
	switch {
	case fault.Is(err, fault.NotFound) && old == bucket.Absent:
		return nil
	case fault.Is(err, fault.NotFound):
		return conflict(op, key, "nothing", old)
	case err != nil:
		return err
	case info.Tag != old:
		return conflict(op, key, info.Tag, old)
	}
	return nil
}

func conflict(op, key string, stands, expected bucket.Tag) error {
	return &fault.Error{
		Op: op, Object: key, Side: fault.SideBucket, Kind: fault.Conflict,
		Err: fmt.Errorf("the key holds %s, expected %s", stands, expected),
	}
}

// lock keeps other processes and goroutines from swapping or deleting key. Lock files are few (a
// byte of the key's hash names one) and are never removed: removing a lock file loses the lock.
func (s *Store) lock(ctx context.Context, op, key string) (unlock func(), err error) {
	if err := s.folders.make(s.root, lockFolder); err != nil {
		return nil, s.failed(op, key, err)
	}
	sum := sha256.Sum256([]byte(key))
	name := filepath.Join(s.root, lockFolder, hex.EncodeToString(sum[:1]))
	lock := flock.New(name, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(documentMode))
	waiting, cancel := context.WithTimeout(ctx, s.lockWait)
	defer cancel()
	if _, err := lock.TryLockContext(waiting, lockPoll); err != nil {
		_ = lock.Close() // it was not taken
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%s %s: %w", op, key, ctx.Err())
		case waiting.Err() != nil:
			return nil, &fault.Error{
				// Not transient: whoever sleeps with a lock in hand does so for longer than tries last.
				Op: op, Object: key, Side: fault.SideBucket, Kind: fault.Budget,
				Hint: "Another process holds a lock in _mirror/locks; find it with lsof or fuser. If it is frozen, wake or kill it; then run this again.",
				Err:  fmt.Errorf("lock not free within %s", s.lockWait),
			}
		}
		return nil, s.failed(op, key, err)
	}
	return func() { _ = lock.Close() }, nil // closing the file frees the lock in any case
}

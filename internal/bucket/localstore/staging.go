package localstore

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gofrs/flock"
)

// copyBytes is the read size of large files; one buffer lives for each file being written.
const copyBytes = 256 << 10

var buffers = sync.Pool{New: func() any { return new([copyBytes]byte) }}

// staged is a file being written, held under flock so that others leave it alone.
type staged struct {
	file   *os.File
	lock   *flock.Flock
	system system
}

// stage creates a staging file. The gap between creating and locking it is closed by looking
// whether the name still is this file: a tidying process may have taken the lock first.
func (s *Store) stage() (*staged, error) {
	s.tidied.Do(s.tidy)
	folder := filepath.Join(s.root, stagingFolder)
	if err := s.folders.make(s.root, stagingFolder); err != nil {
		return nil, err
	}
	for {
		path := filepath.Join(folder, rand.Text()+".part")
		file, err := s.system.create(path)
		if err != nil {
			return nil, err
		}
		lock := flock.New(path, flock.SetFlag(os.O_RDWR))
		held, err := lock.TryLock()
		if err == nil && held && sameFile(file, path) {
			return &staged{file: file, lock: lock, system: s.system}, nil
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			_ = lock.Close() // another process tidied it away: nothing was written yet
			_ = file.Close()
			continue
		}
		return nil, errors.Join(err, file.Close(), os.Remove(path))
	}
}

func sameFile(file *os.File, path string) bool {
	mine, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, named)
}

// fill copies body to disk, durably, with the permissions that the key will have.
func (f *staged) fill(ctx context.Context, body io.Reader, mode fs.FileMode) error {
	buffer, _ := buffers.Get().(*[copyBytes]byte)
	defer buffers.Put(buffer)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, readErr := body.Read(buffer[:])
		if n > 0 {
			if err := f.system.write(f.file, buffer[:n]); err != nil {
				return err
			}
		}
		if readErr == io.EOF {
			break
		}
		if readErr != nil {
			return readErr
		}
	}
	if err := f.system.chmod(f.file, mode); err != nil {
		return err
	}
	if err := f.system.flush(f.file); err != nil {
		return err
	}
	return ctx.Err() // a caller that gave up must not find the key taken later
}

// discard removes the staging name. After a link the key is another name of the same file.
func (f *staged) discard() error {
	err := f.system.remove(f.file.Name())
	if errors.Is(err, fs.ErrNotExist) { // renamed to its key
		err = nil
	}
	return errors.Join(err, f.file.Close(), f.lock.Close())
}

// tidy removes staging files whose writers are gone: the lock of such a file is free. What cannot
// be removed is left: it takes space and does no harm.
func (s *Store) tidy() {
	folder := filepath.Join(s.root, stagingFolder)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !strings.HasSuffix(entry.Name(), ".part") {
			continue
		}
		path := filepath.Join(folder, entry.Name())
		lock := flock.New(path, flock.SetFlag(os.O_RDONLY)) // it may be without write permission already
		if held, err := lock.TryLock(); err == nil && held {
			_ = os.Remove(path)
		}
		_ = lock.Close()
	}
}

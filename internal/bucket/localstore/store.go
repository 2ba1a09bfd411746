package localstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// Folders of the store's own, relative to the root.
const (
	stagingFolder = "_mirror/tmp"
	lockFolder    = "_mirror/locks"
)

// maxSegmentBytes is the longest name of a file that common file systems take.
const maxSegmentBytes = 255

// Options configure New.
type Options struct {
	// Root is the folder; relative paths and symbolic links are resolved once, by New.
	Root string
	// MustExist makes New fail instead of creating the folder.
	MustExist bool
	// Before is asked before each change to the file system, which fails with its error; nil outside
	// of tests.
	Before func(step Step, path string) error
	// LockWait is how long Swap and Delete wait for another process; 0: 60 s.
	LockWait time.Duration
}

// Store is a folder as a bucket. Its methods are safe for concurrent use, and several processes
// may use one folder.
type Store struct {
	root     string
	lockWait time.Duration
	tidied   sync.Once
	folders  folders
	system   system
}

var _ bucket.Store = (*Store)(nil)

// New opens a folder, creating it unless told otherwise. A folder that cannot be used is a
// fault.BucketUnfit.
func New(options Options) (*Store, error) {
	if options.Root == "" {
		return nil, &fault.Error{
			Op: "open folder", Side: fault.SideConfig, Kind: fault.Usage,
			Hint: "Name a folder, for example file:///srv/mirror.", Err: errors.New("empty path"),
		}
	}
	root, err := resolveRoot(options)
	if err != nil {
		return nil, &fault.Error{
			Op: "open folder", Object: options.Root, Side: fault.SideBucket, Kind: fault.BucketUnfit,
			Hint: "The folder must exist or be creatable, and be writable for this user.", Err: plain(err),
		}
	}
	wait := options.LockWait
	if wait <= 0 {
		wait = time.Minute
	}
	changes := system{before: options.Before}
	return &Store{root: root, lockWait: wait, system: changes, folders: folders{system: changes}}, nil
}

func resolveRoot(options Options) (string, error) {
	root, err := filepath.Abs(options.Root)
	if err != nil {
		return "", err
	}
	if !options.MustExist {
		if err := os.MkdirAll(root, folderMode); err != nil {
			return "", err
		}
	}
	root, err = filepath.EvalSymlinks(root)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(root)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", errors.New("not a folder")
	}
	return root, nil
}

// Close implements bucket.Store; a folder holds nothing open.
func (s *Store) Close() error { return nil }

// Guarantees implements bucket.Store. Attests is empty: the stream was verified, but the file
// system keeps no checksum that could be asked for later.
func (s *Store) Guarantees() bucket.Guarantees {
	return bucket.Guarantees{
		AtomicCreate: true, CompareAndSwap: true, RefusesWrongBytes: true, ConditionalDelete: true, FreshTags: true,
	}
}

// path returns where key lies, or refuses a key that cannot be a path here.
func (s *Store) path(key string) (string, error) {
	if err := bucket.CheckKey(key); err != nil {
		return "", err
	}
	for segment := range strings.SplitSeq(key, "/") {
		if len(segment) > maxSegmentBytes {
			return "", &fault.Error{
				Op: "check key", Object: key, Side: fault.SideBucket, Kind: fault.Unsupported,
				Err: fmt.Errorf("a segment of %d bytes, a folder takes at most %d", len(segment), maxSegmentBytes),
			}
		}
	}
	if internal(key) {
		return "", &fault.Error{
			Op: "check key", Object: key, Side: fault.SideBucket, Kind: fault.Malformed,
			Err: errors.New("lies in a folder of the store's own"),
		}
	}
	return filepath.Join(s.root, filepath.FromSlash(key)), s.noLinks(key)
}

// noLinks refuses a key below a symbolic link: it may lead out of the folder, and no listing shows
// what lies there.
func (s *Store) noLinks(key string) error {
	for at := strings.IndexByte(key, '/'); at >= 0; {
		info, err := os.Lstat(filepath.Join(s.root, filepath.FromSlash(key[:at])))
		switch {
		case err != nil: // missing or unreadable, which the operation will tell
			return nil
		case info.Mode()&fs.ModeSymlink != 0:
			return &fault.Error{
				Op: "check key", Object: key, Side: fault.SideBucket, Kind: fault.Unsupported,
				Err:  fmt.Errorf("%s is a symbolic link", key[:at]),
				Hint: "Symbolic links in the bucket's folder are not followed; mount the other folder there instead.",
			}
		}
		next := strings.IndexByte(key[at+1:], '/')
		if next < 0 {
			return nil
		}
		at += 1 + next
	}
	return nil
}

// internal reports whether key is one of the store's own files, or lies where they are.
func internal(key string) bool {
	for _, own := range []string{stagingFolder, lockFolder} {
		if key == own || strings.HasPrefix(key, own+"/") {
			return true
		}
	}
	return false
}

// failed turns an error of the file system into one of ours.
func (s *Store) failed(op, key string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if gone := s.gone(op); gone != nil {
			return gone
		}
	}

	out := &fault.Error{Op: op, Object: key, Side: fault.SideBucket, Kind: fault.Internal, Err: plain(err)}
	switch {
	case noSpace(err):
		out.Kind, out.Hint = fault.NoSpace, "Free space in the folder or raise its quota; finished files are kept."
	case errors.Is(err, fs.ErrNotExist):
		out.Kind = fault.NotFound
	case errors.Is(err, fs.ErrPermission), readOnly(err):
		out.Kind, out.Hint = fault.Denied, "The folder must be readable and writable for this user."
	case notFolder(err):
		out.Kind, out.Hint = fault.Unsupported, "A folder cannot hold a key and another key below it."
	case ioFailed(err):
		out.Kind, out.Hint = fault.Transient, "The disk or network mount reported an I/O error; check the system's log."
	}
	return out
}

// gone returns an error when the bucket's folder itself is not there any more: what is missing in it
// is no sign of an empty bucket then.
func (s *Store) gone(op string) error {
	if _, err := os.Lstat(s.root); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &fault.Error{
		Op: op, Side: fault.SideBucket, Kind: fault.BucketUnfit, Err: errors.New("the bucket's folder is gone"),
		Hint: "The bucket's folder is gone; check the mount.",
	}
}

// plain drops the absolute path that the os package puts into its errors; the key says it.
func plain(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("%s: %w", path.Op, path.Err)
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		return fmt.Errorf("%s: %w", link.Op, link.Err)
	}
	return err
}

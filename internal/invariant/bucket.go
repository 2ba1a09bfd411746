package invariant

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
)

// Bucket is all that the checker needs of a bucket.
type Bucket interface {
	// List returns all keys.
	List() ([]string, error)
	// Read opens the bytes of a key.
	Read(key string) (io.ReadCloser, error)
}

// Folder is a bucket in a folder.
type Folder string

// List implements Bucket. What is no regular file is listed too: the layout has no place for it.
func (f Folder) List() ([]string, error) {
	var keys []string
	err := filepath.WalkDir(string(f), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(string(f), path)
		keys = append(keys, filepath.ToSlash(relative))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list folder: %w", err)
	}
	return keys, nil
}

// Read implements Bucket.
func (f Folder) Read(key string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(string(f), filepath.FromSlash(key)))
}

// Object is what a bucket holds under a key.
type Object struct {
	Size   int64  // bytes
	SHA256 string // 64 lower-case hex digits
}

// Snapshot is a state of a bucket: the hash of every object, and the documents that Compare reads.
type Snapshot struct {
	Objects   map[string]Object
	documents map[string][]byte // pointers, decisions and prune.json
}

// Take hashes every object of a bucket, staging files and locks of a local store excepted.
func Take(b Bucket) (Snapshot, error) {
	keys, err := b.List()
	if err != nil {
		return Snapshot{}, err
	}
	snapshot := Snapshot{Objects: make(map[string]Object), documents: make(map[string][]byte)}
	for _, key := range keys {
		where := parseKey(key)
		if where.class == classStaging {
			continue
		}
		object, err := hashObject(b, key)
		if err != nil {
			return Snapshot{}, fmt.Errorf("read %s: %w", key, err)
		}
		snapshot.Objects[key] = object
		if where.class == classPointer || where.class == classDecision || key == pruneKey {
			if snapshot.documents[key], err = readAll(b, key); err != nil {
				return Snapshot{}, err
			}
		}
	}
	return snapshot, nil
}

func (s Snapshot) keys() []string {
	keys := make([]string, 0, len(s.Objects))
	for key := range s.Objects {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

func hashObject(b Bucket, key string) (Object, error) {
	in, err := b.Read(key)
	if err != nil {
		return Object{}, err
	}
	hash := sha256.New()
	size, err := io.Copy(hash, in)
	if closeErr := in.Close(); err == nil {
		err = closeErr
	}
	return Object{Size: size, SHA256: hex.EncodeToString(hash.Sum(nil))}, err
}

func readAll(b Bucket, key string) ([]byte, error) {
	in, err := b.Read(key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	data, err := io.ReadAll(in)
	if closeErr := in.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return data, nil
}

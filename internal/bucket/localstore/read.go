package localstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// hashedTagBytes bounds what a tag may cost to compute.
const hashedTagBytes = 1 << 20

// Stat implements bucket.Reader. It tells no checksum.
func (s *Store) Stat(ctx context.Context, key string) (bucket.Info, error) {
	if err := ctx.Err(); err != nil {
		return bucket.Info{}, fmt.Errorf("stat file %s: %w", key, err)
	}
	target, err := s.path(key)
	if err != nil {
		return bucket.Info{}, err
	}
	return s.stat(key, target)
}

func (s *Store) stat(key, target string) (bucket.Info, error) {
	const op = "stat file"
	file, err := s.regular(op, key, target)
	if err != nil {
		return bucket.Info{}, err
	}
	return s.describe(key, target, file)
}

// regular returns the file at target; folders, links and the like are not there.
func (s *Store) regular(op, key, target string) (fs.FileInfo, error) {
	file, err := os.Lstat(target)
	switch {
	case notFolder(err):
		return nil, notFound(op, key)
	case err != nil:
		return nil, s.failed(op, key, err)
	case !file.Mode().IsRegular():
		return nil, notFound(op, key)
	}
	return file, nil
}

func notFound(op, key string) error {
	return &fault.Error{Op: op, Object: key, Side: fault.SideBucket, Kind: fault.NotFound, Err: errors.New("no such file")}
}

// describe returns the Info of a file, reading a document for its tag.
func (s *Store) describe(key, target string, file fs.FileInfo) (bucket.Info, error) {
	info := bucket.Info{Key: key, Size: file.Size(), Modified: file.ModTime(), Tag: cheapTag(file)}
	if !hashed(file) {
		return info, nil
	}
	data, err := os.ReadFile(target)
	if err != nil {
		return bucket.Info{}, s.failed("read file", key, err)
	}
	// The file may have been replaced since: size and tag belong to what was read.
	info.Size = int64(len(data))
	info.Tag = contentTag(info.Size, manifest.SumBytes(data))
	return info, nil
}

// hashed reports whether the file is a document, which is tagged by its content: an inode can be
// used again within one tick of the clock, so a document that is replaced quickly needs more.
func hashed(file fs.FileInfo) bool {
	return file.Mode().Perm()&0o222 != 0 && file.Size() <= hashedTagBytes
}

func contentTag(size int64, sum manifest.SHA256) bucket.Tag {
	return bucket.Tag("c" + strconv.FormatInt(size, 36) + "-" + sum.String()[:40])
}

func cheapTag(file fs.FileInfo) bucket.Tag {
	return bucket.Tag("f" + strconv.FormatInt(file.Size(), 36) + "-" +
		strconv.FormatInt(file.ModTime().UnixNano(), 36) + "-" + inode(file))
}

// Open implements bucket.Reader.
func (s *Store) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	const op = "open file"
	if err := ctx.Err(); err != nil {
		return nil, bucket.Info{}, fmt.Errorf("%s %s: %w", op, key, err)
	}
	target, err := s.path(key)
	if err != nil {
		return nil, bucket.Info{}, err
	}
	if _, err := s.regular(op, key, target); err != nil { // opening a pipe would wait for ever
		return nil, bucket.Info{}, err
	}
	file, err := os.Open(target)
	if err != nil {
		return nil, bucket.Info{}, s.failed(op, key, err)
	}
	body, info, err := s.openRange(ctx, key, file, offset, length)
	if err != nil {
		_ = file.Close() // err is the reason; nothing was written
		return nil, bucket.Info{}, err
	}
	return body, info, nil
}

func (s *Store) openRange(ctx context.Context, key string, file *os.File, offset, length int64) (*body, bucket.Info, error) {
	const op = "open file"
	stat, err := file.Stat()
	if err != nil {
		return nil, bucket.Info{}, s.failed(op, key, err)
	}
	info := bucket.Info{Key: key, Size: stat.Size(), Modified: stat.ModTime(), Tag: cheapTag(stat)}
	if offset < 0 {
		return nil, bucket.Info{}, &fault.Error{
			Op: op, Object: key, Side: fault.SideBucket, Kind: fault.Malformed,
			Err: fmt.Errorf("offset %d", offset),
		}
	}
	if hashed(stat) {
		digest := sha256.New()
		n, err := io.Copy(digest, io.NewSectionReader(file, 0, stat.Size()))
		if err != nil {
			return nil, bucket.Info{}, s.failed(op, key, err)
		}
		var sum manifest.SHA256
		digest.Sum(sum[:0])
		info.Tag = contentTag(n, sum)
	}
	left := max(0, stat.Size()-offset)
	if length >= 0 {
		left = min(left, length)
	}
	return &body{store: s, ctx: ctx, key: key, file: file, offset: offset, left: left}, info, nil
}

// body is a range of a file. A file that shrank under it is an error, not a clean end.
type body struct {
	store  *Store
	ctx    context.Context //nolint:containedctx // io.Reader has no place for one; it is the context of Open
	key    string
	file   *os.File
	offset int64
	left   int64
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.file.ReadAt(p, b.offset)
	b.offset += int64(n)
	b.left -= int64(n)
	ended := errors.Is(err, io.EOF)
	switch {
	case err == nil || (ended && n == len(p)):
		return n, nil
	case ended:
		err = fmt.Errorf("%d bytes missing: %w", b.left, io.ErrUnexpectedEOF)
		return n, &fault.Error{Op: "read file", Object: b.key, Side: fault.SideBucket, Kind: fault.Transient, Err: err}
	}
	return n, b.store.failed("read file", b.key, err)
}

// Close implements io.Closer.
func (b *body) Close() error { return b.file.Close() }

// List implements bucket.Reader. Folders are read one at a time; the order is that of whole keys,
// in which a-b lies before a/b although a lies before a-b.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		w := &walk{store: s, ctx: ctx, prefix: prefix, after: after, yield: yield}
		w.folder("")
	}
}

type walk struct {
	store         *Store
	ctx           context.Context //nolint:containedctx // the value lives for one call of List
	prefix, after string
	yield         func(bucket.Info, error) bool
}

// folder visits what lies below the key prefix below (empty or ending in a slash) and reports
// whether the walk goes on.
func (w *walk) folder(below string) bool {
	if err := w.ctx.Err(); err != nil {
		w.yield(bucket.Info{}, fmt.Errorf("list folder %s: %w", below, err))
		return false
	}
	entries, err := os.ReadDir(filepath.Join(w.store.root, filepath.FromSlash(below)))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && below != "" { // removed since its parent was read
			return true
		}
		w.yield(bucket.Info{}, w.unlistable(below, err))
		return false
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		switch {
		case entry.IsDir():
			names = append(names, entry.Name()+"/")
		case entry.Type().IsRegular():
			names = append(names, entry.Name())
		}
	}
	sort.Strings(names)
	for _, name := range names {
		if !w.entry(below + name) {
			return false
		}
	}
	return true
}

func (w *walk) unlistable(below string, err error) error {
	return w.store.failed("list folder", below, err)
}

func (w *walk) entry(key string) bool {
	if folder, ok := strings.CutSuffix(key, "/"); ok {
		if internal(folder) || !w.mayHold(key) {
			return true
		}
		return w.folder(key)
	}
	if !strings.HasPrefix(key, w.prefix) || key <= w.after {
		return true
	}
	target := filepath.Join(w.store.root, filepath.FromSlash(key))
	info, err := w.store.stat(key, target)
	switch {
	case fault.Is(err, fault.NotFound): // removed since its folder was read
		return true
	case err != nil:
		w.yield(bucket.Info{}, err)
		return false
	}
	return w.yield(info, nil)
}

// mayHold reports whether a folder can hold wanted keys.
func (w *walk) mayHold(folder string) bool {
	if !strings.HasPrefix(folder, w.prefix) && !strings.HasPrefix(w.prefix, folder) {
		return false
	}
	return folder > w.after || strings.HasPrefix(w.after, folder)
}

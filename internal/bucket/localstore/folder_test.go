package localstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/localstore"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

func at(t *testing.T, root string) *localstore.Store {
	t.Helper()
	store, err := localstore.New(localstore.Options{Root: root, LockWait: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func data(text string, body io.Reader) bucket.Content {
	if body == nil {
		body = strings.NewReader(text)
	}
	return bucket.Content{Size: int64(len(text)), SHA256: manifest.SumBytes([]byte(text)), Class: bucket.Data, Body: body}
}

// TestTree: what stands in the folder is the keys and the store's own two folders, nothing else.
func TestTree(t *testing.T) {
	root := t.TempDir()
	store := at(t, root)
	if _, err := store.Create(t.Context(), "a/b/data", data("x", nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.CreateDocument(t.Context(), store, "a/doc.json", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Swap(t.Context(), "current/p.json", bucket.Absent, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	want := map[string]fs.FileMode{
		"a": 0o750, "a/b": 0o750, "a/b/data": 0o440, "a/doc.json": 0o640, "current": 0o750, "current/p.json": 0o640,
		"_mirror": 0o750, "_mirror/tmp": 0o750, "_mirror/locks": 0o750,
	}
	if err := checkTree(t, root, want); err != nil || len(want) > 0 {
		t.Errorf("%v; missing: %v", err, want)
	}
	for _, key := range []string{"_mirror/tmp/x", "_mirror/tmp", "_mirror/locks/00", "_mirror/locks"} {
		if _, err := store.Create(t.Context(), key, data("x", nil)); !fault.Is(err, fault.Malformed) {
			t.Errorf("create %s: %v", key, err)
		}
	}
	if _, err := bucket.CreateDocument(t.Context(), store, "_mirror/tmpx/y", nil); err != nil {
		t.Error(err)
	}
}

// checkTree holds every entry below root against want, and takes it out of want.
func checkTree(t *testing.T, root string, want map[string]fs.FileMode) error {
	t.Helper()
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		if err != nil || name == "." || strings.HasPrefix(name, "_mirror/locks/") {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if mode, known := want[name]; !known || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, want %v (expected at all: %t)", name, info.Mode().Perm(), mode, known)
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || (!entry.IsDir() && stat.Nlink != 1) {
			t.Errorf("%s has more than one name", name)
		}
		delete(want, name)
		return nil
	})
}

// TestStaleStaging: a dead writer's file goes with the next write; one that is held stays.
func TestStaleStaging(t *testing.T) {
	root := t.TempDir()
	reader, writer := io.Pipe()
	done := make(chan error)
	go func() {
		_, err := at(t, root).Create(context.Background(), "slow", data("slow data", reader))
		done <- err
	}()
	if _, err := writer.Write([]byte("slow ")); err != nil {
		t.Fatal(err)
	}
	living := staging(t, root)
	if len(living) != 1 {
		t.Fatalf("staging holds %q, want the living file", living)
	}
	for name, mode := range map[string]fs.FileMode{"dead.part": 0o600, "sealed.part": 0o444} {
		if err := os.WriteFile(filepath.Join(root, "_mirror/tmp", name), []byte("half"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := at(t, root).Create(t.Context(), "other", data("x", nil)); err != nil {
		t.Fatal(err)
	}
	if left := staging(t, root); !slices.Equal(left, living) {
		t.Errorf("staging holds %q, want %q", left, living)
	}
	if _, err := writer.Write([]byte("data")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writer.Close(), <-done); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(root, "slow")); err != nil || string(got) != "slow data" {
		t.Errorf("%q, %v", got, err)
	}
	if left := staging(t, root); len(left) > 0 {
		t.Errorf("staging holds %q", left)
	}
}

// TestHeldLock: another process' lock is waited for, not broken, and the error says where to look.
func TestHeldLock(t *testing.T) {
	root := t.TempDir()
	store := at(t, root)
	tag, err := store.Swap(t.Context(), "p.json", bucket.Absent, []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(root, "_mirror/locks/*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("locks %q, %v", names, err)
	}
	lock := flock.New(names[0])
	if held, err := lock.TryLock(); !held || err != nil {
		t.Fatalf("lock: %t, %v", held, err)
	}
	if _, err := store.Swap(t.Context(), "p.json", tag, []byte("2")); !fault.Is(err, fault.Budget) || !strings.Contains(fault.HintOf(err), "_mirror/locks") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := store.Swap(ctx, "p.json", tag, []byte("2")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Swap(t.Context(), "p.json", tag, []byte("2")); err != nil {
		t.Errorf("after the lock is free: %v", err)
	}
}

// TestTags: every change of a document changes its tag, also one within a tick of the clock that
// gets the same inode, size and time.
func TestTags(t *testing.T) {
	root := t.TempDir()
	store := at(t, root)
	tag, err := store.Swap(t.Context(), "p.json", bucket.Absent, []byte("000"))
	if err != nil {
		t.Fatal(err)
	}
	stamp := time.Unix(1_700_000_000, 0)
	path := filepath.Join(root, "p.json")
	for i := range 20 {
		if err := os.WriteFile(path, fmt.Appendf(nil, "%03d", i+1), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, stamp, stamp); err != nil {
			t.Fatal(err)
		}
		info, err := store.Stat(t.Context(), "p.json")
		if err != nil || info.Tag == tag {
			t.Fatalf("round %d: tag %q stays, %v", i, tag, err)
		}
		tag = info.Tag
	}
	created, err := store.Create(t.Context(), "big", data(strings.Repeat("x", 5<<20), nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(root, "big"), 0o644); err != nil {
		t.Fatal(err)
	}
	if info, err := store.Stat(t.Context(), "big"); err != nil || info.Tag != created.Tag {
		t.Errorf("tag of large data: %q, then %q, %v", created.Tag, info.Tag, err)
	}
}

// TestStrangers: what is no file of ours is not followed, listed or overwritten.
func TestStrangers(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	store := at(t, root)
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.Symlink(filepath.Join(outside, "secret"), filepath.Join(root, "link")),
		os.Symlink(outside, filepath.Join(root, "folder")),
		syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644),
		os.Mkdir(filepath.Join(root, "empty"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	for info, err := range store.List(t.Context(), "", "") {
		t.Errorf("listed %q, %v", info.Key, err)
	}
	for _, key := range []string{"folder/secret", "folder/new", "folder/deep/new"} { // never read, never written through
		_, statErr := store.Stat(t.Context(), key)
		_, _, openErr := store.Open(t.Context(), key, 0, -1)
		_, createErr := store.Create(t.Context(), key, data("x", nil))
		_, swapErr := store.Swap(t.Context(), key, bucket.Absent, []byte("{}"))
		for _, err := range []error{statErr, openErr, createErr, swapErr, store.Delete(t.Context(), key, "t")} {
			if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "symbolic link") {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside stand %v, %v", entries, err)
	}
	for _, key := range []string{"link", "pipe", "empty"} {
		if _, err := store.Stat(t.Context(), key); !fault.Is(err, fault.NotFound) {
			t.Errorf("stat %s: %v", key, err)
		}
		if _, _, err := store.Open(t.Context(), key, 0, -1); !fault.Is(err, fault.NotFound) {
			t.Errorf("open %s: %v", key, err)
		}
		if _, err := store.Create(t.Context(), key, data("x", nil)); !fault.Is(err, fault.Unsupported) {
			t.Errorf("create %s: %v", key, err)
		}
	}
}

func TestKeyBelowAKey(t *testing.T) {
	store := at(t, t.TempDir())
	if _, err := store.Create(t.Context(), "a/b", data("x", nil)); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "a/b/c", "a/b/c/d"} {
		if _, err := store.Create(t.Context(), key, data("x", nil)); !fault.Is(err, fault.Unsupported) || fault.HintOf(err) == "" {
			t.Errorf("create %s: %v", key, err)
		}
	}
	if _, err := store.Create(t.Context(), strings.Repeat("n", 256), data("x", nil)); !fault.Is(err, fault.Unsupported) {
		t.Errorf("long name: %v", err)
	}
}

// TestShrunk: a file that loses bytes while it is read is an error, not a short success.
func TestShrunk(t *testing.T) {
	root := t.TempDir()
	store := at(t, root)
	if _, err := store.Create(t.Context(), "big", data(strings.Repeat("x", 3<<20), nil)); err != nil {
		t.Fatal(err)
	}
	body, _, err := store.Open(t.Context(), "big", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(root, "big"), 1<<20); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(body)
	if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) != 1<<20 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := body.Close(); err != nil {
		t.Error(err)
	}
}

func TestUnusableRoots(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		options localstore.Options
		want    fault.Kind
	}{
		"empty":   {localstore.Options{}, fault.Usage},
		"file":    {localstore.Options{Root: file}, fault.BucketUnfit},
		"below":   {localstore.Options{Root: file + "/x"}, fault.BucketUnfit},
		"missing": {localstore.Options{Root: dir + "/x", MustExist: true}, fault.BucketUnfit},
	} {
		if _, err := localstore.New(c.options); !fault.Is(err, c.want) || fault.HintOf(err) == "" {
			t.Errorf("%s: got %v, want %s with a hint", name, err, c.want)
		}
	}
	root := filepath.Join(dir, "root")
	store := at(t, root)
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	for _, err := range store.List(t.Context(), "", "") {
		if !fault.Is(err, fault.BucketUnfit) {
			t.Errorf("list of a root that is gone: %v, want a fault.BucketUnfit: it is not an empty bucket", err)
		}
	}
}

// TestFolderRemovedMeanwhile: somebody's clean-up of empty folders does not fail a write.
func TestFolderRemovedMeanwhile(t *testing.T) {
	root := t.TempDir()
	store := at(t, root)
	for range 3 {
		info, err := store.Create(t.Context(), "a/b/c", data("x", nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Delete(t.Context(), "a/b/c", info.Tag); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(root, "a")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBodyIsNotBuffered: memory does not grow with the size of a file.
func TestBodyIsNotBuffered(t *testing.T) {
	store := at(t, t.TempDir())
	block := bytes.Repeat([]byte("x"), 1<<20)
	sum := manifest.SumBytes(bytes.Repeat(block, 64))
	bodies := make([]io.Reader, 64)
	allocated := testing.AllocsPerRun(1, func() {
		for i := range bodies {
			bodies[i] = bytes.NewReader(block)
		}
		info, err := store.Create(t.Context(), fmt.Sprintf("k/%d", time.Now().UnixNano()), bucket.Content{
			Size: 64 << 20, SHA256: sum, Class: bucket.Data, Body: io.MultiReader(bodies...),
		})
		if err != nil || info.Size != 64<<20 {
			t.Errorf("%+v, %v", info, err)
		}
	})
	if allocated > 500 {
		t.Errorf("%.0f allocations for one file", allocated)
	}
}

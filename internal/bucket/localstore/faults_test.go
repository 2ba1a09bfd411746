package localstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/localstore"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
)

// disk fails one step of all that are asked for, or all from one on.
type disk struct {
	mu     sync.Mutex
	steps  []localstore.Step
	fails  int // number of the step, from 1; 0: none
	onward bool
	errno  syscall.Errno
}

func (d *disk) before(step localstore.Step, _ string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps = append(d.steps, step)
	if n := len(d.steps); d.fails > 0 && (n == d.fails || d.onward && n > d.fails) {
		return d.errno
	}
	return nil
}

func (d *disk) fail(n int, onward bool, errno syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps, d.fails, d.onward, d.errno = nil, n, onward, errno
}

func (d *disk) asked() []localstore.Step {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]localstore.Step(nil), d.steps...)
}

// change is one write, from what stands before to what stands after.
type change struct {
	name          string
	before, after string // content at the key; empty: nothing
	do            func(ctx context.Context, store bucket.Store, key string) error
}

func changes() []change {
	tag := func(ctx context.Context, store bucket.Store, key string) bucket.Tag {
		info, err := store.Stat(ctx, key)
		if err != nil {
			return bucket.Absent
		}
		return info.Tag
	}
	return []change{
		{"create", "", "new", func(ctx context.Context, store bucket.Store, key string) error {
			_, err := store.Create(ctx, key, data("new", nil))
			return err
		}},
		{"swap into nothing", "", "new", func(ctx context.Context, store bucket.Store, key string) error {
			_, err := store.Swap(ctx, key, tag(ctx, store, key), []byte("new"))
			return err
		}},
		{"swap", "old", "new", func(ctx context.Context, store bucket.Store, key string) error {
			_, err := store.Swap(ctx, key, tag(ctx, store, key), []byte("new"))
			return err
		}},
		{"replace", "old", "new", func(ctx context.Context, store bucket.Store, key string) error {
			_, err := store.Replace(ctx, key, tag(ctx, store, key), data("new", nil))
			return err
		}},
		{"delete", "old", "", func(ctx context.Context, store bucket.Store, key string) error {
			return store.Delete(ctx, key, tag(ctx, store, key))
		}},
	}
}

func kinds() map[syscall.Errno]fault.Kind {
	return map[syscall.Errno]fault.Kind{
		syscall.ENOSPC: fault.NoSpace, syscall.EDQUOT: fault.NoSpace, syscall.EIO: fault.Transient,
		syscall.EROFS: fault.Denied, syscall.EACCES: fault.Denied,
	}
}

// TestEveryStepFails makes each change to the file system fail in turn: what stands is what stood
// before or all of what was written, a success is one, and the same write works afterwards.
func TestEveryStepFails(t *testing.T) {
	tally := evidence.Count(t, "local-faults")
	for _, c := range changes() {
		steps := failStep(t, c.name, c, 0, false, 0, "")
		for errno, kind := range kinds() {
			if !evidence.Long() && errno != syscall.ENOSPC && errno != syscall.EIO {
				continue
			}
			for _, onward := range []bool{false, true} {
				for n := range steps {
					at := fmt.Sprintf("%s: %v at step %d, onward %t", c.name, errno, n+1, onward)
					failStep(t, at, c, n+1, onward, errno, kind)
					tally.Add(1)
				}
			}
		}
	}
}

// failStep makes step n of a change fail, none where it is 0, and returns how many were asked for.
func failStep(t *testing.T, name string, c change, n int, onward bool, errno syscall.Errno, kind fault.Kind) int {
	t.Helper()
	root, d := t.TempDir(), &disk{}
	store, err := localstore.New(localstore.Options{Root: root, Before: d.before})
	if err != nil {
		t.Fatal(err)
	}
	const key = "a/b/k.json"
	if c.before != "" {
		if _, err := store.Create(t.Context(), key, data(c.before, nil)); err != nil {
			t.Fatal(err)
		}
	}
	d.fail(n, onward, errno)
	err = c.do(t.Context(), store, key)
	steps := d.asked()
	stands := contentOf(t, root, key)
	switch {
	case err == nil && n > 0:
		t.Errorf("%s (%s): told as done", name, steps[n-1])
	case err != nil && (fault.KindOf(err) != kind || strings.Contains(err.Error(), root) || fault.HintOf(err) == ""):
		t.Errorf("%s (%s): %v (%s, hint %q), want %s", name, steps[n-1], err, fault.KindOf(err), fault.HintOf(err), kind)
	case stands != c.before && stands != c.after:
		t.Errorf("%s: %q stands", name, stands)
	}
	d.fail(0, false, 0)
	if err := c.do(t.Context(), store, key); err != nil && (!fault.Is(err, fault.Exists) || stands != c.after) {
		t.Errorf("%s: after the fault: %v", name, err)
	}
	if stands := contentOf(t, root, key); stands != c.after {
		t.Errorf("%s: after the fault stands %q", name, stands)
	}
	next := at(t, root) // another process tidies what is left
	if _, err := next.Create(t.Context(), "next", data("x", nil)); err != nil || len(staging(t, root)) > 0 {
		t.Errorf("%s: %v, staging holds %q", name, err, staging(t, root))
	}
	return len(steps)
}

func contentOf(t *testing.T, root, key string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(key)))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// TestAFileSystemWithoutHardLinks is refused with a way out, and nothing is left.
func TestAFileSystemWithoutHardLinks(t *testing.T) {
	tally := evidence.Count(t, "local-faults")
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOTSUP, syscall.ENOSYS} {
		root := t.TempDir()
		store, err := localstore.New(localstore.Options{Root: root, Before: func(step localstore.Step, _ string) error {
			if step == localstore.StepLink {
				return errno
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		report, err := bucket.Probe(t.Context(), store, bucket.ProbeOptions{Run: "r"})
		if !fault.Is(err, fault.BucketUnfit) || !strings.Contains(fault.HintOf(err), "hard links") {
			t.Errorf("%v: %v, hint %q, %+v", errno, err, fault.HintOf(err), report.Findings)
		}
		if left := staging(t, root); len(left) > 0 {
			t.Errorf("%v: staging holds %q", errno, left)
		}
		tally.Add(1)
	}
}

// TestAnotherMount: files are staged where they go, so that it does not matter where TMPDIR leads.
func TestAnotherMount(t *testing.T) {
	root := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(root, "no", "such", "folder"))
	store := at(t, root)
	if _, err := store.Create(t.Context(), "a/k", data("x", nil)); err != nil {
		t.Error(err)
	}
	if _, err := store.Swap(t.Context(), "a/p.json", bucket.Absent, []byte("{}")); err != nil {
		t.Error(err)
	}
	evidence.Count(t, "local-faults").Add(1)
}

// TestLongNames: a segment may have 255 bytes and a key 1,024, whatever the store adds while it
// writes; one more is refused before a byte is read.
func TestLongNames(t *testing.T) {
	tally := evidence.Count(t, "local-faults")
	segment := strings.Repeat("n", 255)
	fits := strings.Join([]string{segment, segment, segment, segment[:255]}, "/") // 1,023 bytes
	for key, want := range map[string]fault.Kind{
		segment: "", fits: "", strings.Repeat("ä", 127): "", segment + "n": fault.Unsupported, strings.Repeat("ä", 128): fault.Unsupported,
		fits + "/n": fault.Malformed, "a/" + segment + "n/b": fault.Unsupported,
	} {
		store := at(t, t.TempDir())
		body := &reads{}
		content := data("x", nil)
		if want != "" {
			content.Body = body
		}
		if _, err := store.Create(t.Context(), key, content); fault.KindOf(err) != want || body.n > 0 {
			t.Errorf("create of %d bytes: %v (%s), want %q; %d reads", len(key), err, fault.KindOf(err), want, body.n)
		}
		if _, err := store.Swap(t.Context(), key+".x", bucket.Absent, []byte("{}")); want != "" && err == nil {
			t.Errorf("swap of %d bytes went through", len(key)+2)
		}
		tally.Add(1)
	}
}

type reads struct{ n int }

func (r *reads) Read([]byte) (int, error) { r.n++; return 0, errors.New("read") }

// TestTheFolderGoesInMidRun: a folder that was unmounted or removed is no empty bucket.
func TestTheFolderGoesInMidRun(t *testing.T) {
	tally := evidence.Count(t, "local-faults")
	root := filepath.Join(t.TempDir(), "bucket")
	store := at(t, root)
	info, err := store.Create(t.Context(), "a/k", data("x", nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{filepath.Join(root, "_mirror"), root} {
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		want := fault.Kind("")
		if gone == root {
			want = fault.BucketUnfit
		}
		_, createErr := store.Create(t.Context(), "a/n", data("x", nil))
		_, swapErr := store.Swap(t.Context(), "a/p.json", bucket.Absent, []byte("{}"))
		_, statErr := store.Stat(t.Context(), "a/k")
		_, _, openErr := store.Open(t.Context(), "a/k", 0, -1)
		for name, err := range map[string]error{"create": createErr, "swap": swapErr, "stat": statErr, "open": openErr} {
			if fault.KindOf(err) != want {
				t.Errorf("%s without %s: %v (%s), want %q", name, filepath.Base(gone), err, fault.KindOf(err), want)
			}
			tally.Add(1)
		}
	}
	if err := store.Delete(t.Context(), "a/k", info.Tag); !fault.Is(err, fault.BucketUnfit) {
		t.Errorf("delete: %v", err)
	}
}

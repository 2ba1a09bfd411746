package localstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// foldersKept bounds the memory of folders; forgetting one costs a few fsyncs.
const foldersKept = 4096

// folders makes folders durably. A folder that another process made a moment ago may not be on
// disk yet, so the first use of each folder flushes it and all above it.
type folders struct {
	system  system
	mu      sync.Mutex
	durable map[string]bool
}

// make creates the folder at the slash-separated path below root, and all above it.
func (f *folders) make(root, below string) error {
	if below == "." || below == "" {
		return nil
	}
	f.mu.Lock()
	known := f.durable[below]
	f.mu.Unlock()
	if known { // unless a clean-up of empty folders took it
		if info, err := os.Lstat(filepath.Join(root, filepath.FromSlash(below))); err == nil && info.IsDir() {
			return nil
		}
	}
	path := root
	for segment := range strings.SplitSeq(below, "/") {
		parent := path
		path = filepath.Join(path, segment)
		if err := f.system.mkdir(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if !info.IsDir() { // a link that leads to a folder is none either
			return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
		}
		if err := f.system.flushFolder(parent); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.durable == nil || len(f.durable) >= foldersKept {
		f.durable = make(map[string]bool)
	}
	f.durable[below] = true
	return nil
}

// forget drops a folder that turned out to be gone.
func (f *folders) forget(below string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.durable, below)
}

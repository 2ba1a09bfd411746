package audit

import (
	"fmt"
	"io"
	"os"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// spool is an object's bytes in a temporary file, taken while they are read and hashed.
type spool struct {
	file   *os.File
	folder string
	size   int64
	good   bool // whole, and of the right hash
	tag    bucket.Tag
	failed error // of the machine that audits
}

// newSpool makes a file that has no name any more: nothing is left of an audit that is killed.
func newSpool(folder string) (*spool, error) {
	s := &spool{folder: folder}
	var err error
	if s.file, err = os.CreateTemp(folder, "feedmirror-rows-*"); err == nil {
		err = os.Remove(s.file.Name())
	}
	if err != nil {
		return nil, noRoom(folder, err)
	}
	return s, nil
}

// noRoom is an error of the folder for temporary files: nothing is known about the bucket.
func noRoom(folder string, err error) error {
	return &fault.Error{Op: "keep files to be decoded", Object: folder, Side: fault.SideConfig, Kind: fault.Usage, Err: err,
		Hint: "Level rows keeps two snapshots and the changes between them there. Set TMPDIR to a folder with room for them."}
}

// Write implements io.Writer.
func (s *spool) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	s.size += int64(n)
	if err != nil {
		s.failed = noRoom(s.folder, err)
	}
	return n, err
}

// restart forgets what was written.
func (s *spool) restart() error {
	s.size, s.good = 0, false
	_, err := s.file.Seek(0, io.SeekStart)
	if err == nil {
		err = s.file.Truncate(0)
	}
	if err != nil {
		s.failed = noRoom(s.folder, err)
	}
	return s.failed
}

// trouble returns the error of the machine, nil for a spool that nobody asked for.
func (s *spool) trouble() error {
	if s == nil {
		return nil
	}
	return s.failed
}

// whole returns small contents.
func (s *spool) whole() ([]byte, error) {
	data := make([]byte, s.size)
	if _, err := s.file.ReadAt(data, 0); err != nil && s.size > 0 {
		return nil, noRoom(s.folder, fmt.Errorf("read back: %w", err))
	}
	return data, nil
}

// spools are the files of the version that is looked at, and of the one before it.
type spools struct {
	folder string
	byKey  map[string]*spool
	peak   int64 // the greatest number of bytes that there were at the same time
}

// keep closes all that are not wanted any more.
func (s *spools) keep(wanted map[string]bool) error {
	var first error
	for key, one := range s.byKey {
		if wanted[key] && one.good {
			continue
		}
		delete(s.byKey, key)
		if err := one.file.Close(); err != nil && first == nil {
			first = noRoom(s.folder, err)
		}
	}
	return first
}

// add makes a spool for an object that has none.
func (s *spools) add(key string) (*spool, error) {
	if s.byKey == nil {
		s.byKey = map[string]*spool{}
	}
	one, err := newSpool(s.folder)
	if err == nil {
		s.byKey[key] = one
	}
	return one, err
}

// good returns the spool of an object whose bytes are right, nil when there is none.
func (s *spools) good(key string) *spool {
	if one := s.byKey[key]; one != nil && one.good {
		return one
	}
	return nil
}

// measure takes note of how much there is now, beside so many other bytes.
func (s *spools) measure(beside int64) {
	total := beside
	for _, one := range s.byKey {
		total += one.size
	}
	s.peak = max(s.peak, total)
}

// isRowFile tells whether level rows looks into a file of a version.
func isRowFile(kind manifest.Kind) bool {
	switch kind {
	case manifest.KindSnapshot, manifest.KindChanges, manifest.KindIDMap, manifest.KindSchema:
		return true
	}
	return false
}

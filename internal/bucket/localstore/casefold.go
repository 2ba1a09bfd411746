package localstore

import (
	"os"
	"path/filepath"
	"strings"
)

// CaseInsensitive reports whether the folder's file system takes names that differ only in case
// for one file. Two keys would then share one file, so such names must be refused up front. It
// writes and removes one staging file.
func (s *Store) CaseInsensitive() (bool, error) {
	file, err := s.stage()
	if err != nil {
		return false, failed("probe folder", stagingFolder, err)
	}
	name := file.file.Name()
	folded := filepath.Join(filepath.Dir(name), strings.ToLower(filepath.Base(name)))
	_, statErr := os.Lstat(folded)
	if err := file.discard(); err != nil {
		return false, failed("probe folder", stagingFolder, err)
	}
	return statErr == nil, nil
}

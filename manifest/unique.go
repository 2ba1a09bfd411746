package manifest

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Unique sees to it that the files of one version stay apart in every store. The zero value is
// ready; it keeps about 100 bytes and two copies of the path for a file.
type Unique struct {
	paths   map[string]string // folded path -> path
	keys    map[string]string // folded key -> path
	folders map[string]string // folded folder of a key -> path of a file in it
}

// Add returns an error when f's path, or the key that it maps to, is taken by a file that was
// added before, also when only case differs (a disk of a Mac or of Windows holds one of them)
// or when one would be a folder of the other (a file system holds one of them).
func (u *Unique) Add(f File) error {
	if u.paths == nil {
		u.paths, u.keys, u.folders = map[string]string{}, map[string]string{}, map[string]string{}
	}
	folded := Fold(f.Path)
	if other, taken := u.paths[folded]; taken {
		if other == f.Path {
			return fmt.Errorf("path %s stands twice", Quote(f.Path))
		}
		return fmt.Errorf("paths %s and %s differ only in case", Quote(other), Quote(f.Path))
	}
	// The dataset and version are the same for all, so any will do.
	key := Fold(FileKey("d", 1, f))
	if other, taken := u.keys[key]; taken {
		return fmt.Errorf("paths %s and %s map to the same key", Quote(other), Quote(f.Path))
	}
	if other, taken := u.folders[key]; taken {
		return fmt.Errorf("path %s is a folder of path %s", Quote(f.Path), Quote(other))
	}
	for i := strings.LastIndexByte(key, '/'); i > 0; i = strings.LastIndexByte(key[:i], '/') {
		if other, taken := u.keys[key[:i]]; taken {
			return fmt.Errorf("path %s is a folder of path %s", Quote(other), Quote(f.Path))
		}
		if _, known := u.folders[key[:i]]; known {
			break // its own folders were checked when it was added
		}
		u.folders[key[:i]] = f.Path
	}
	u.paths[folded], u.keys[key] = f.Path, f.Path
	return nil
}

// Fold returns text with each letter replaced by the smallest one that differs from it only in
// case (Unicode simple folding), so that two texts are equal but for case when they fold alike.
func Fold(text string) string {
	return strings.Map(func(c rune) rune {
		if c < utf8.RuneSelf && (c < 'A' || c > 'z') {
			return c
		}
		smallest := c
		for next := unicode.SimpleFold(c); next != c; next = unicode.SimpleFold(next) {
			smallest = min(smallest, next)
		}
		return smallest
	}, text)
}

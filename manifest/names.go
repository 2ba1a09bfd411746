package manifest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of names and numbers.
const (
	MaxDatasetBytes = 128     // of a dataset id
	MaxPathBytes    = 1024    // of a manifest path, of an attachment name and of a key
	MaxSegmentBytes = 255     // between two slashes of a path or key: what file systems hold
	MaxSize         = 1 << 53 // bytes of a file: the integers that every JSON reader keeps exactly
	maxQuoted       = 160     // bytes of foreign text that an error repeats
)

// CheckDataset returns an error unless id is safe as a part of keys: a letter or digit, then at
// most 127 letters, digits, dots, underscores and hyphens, no "..", no dot at the end (Azure
// drops it from a path's segment).
func CheckDataset(id string) error {
	problem := ""
	switch {
	case id == "":
		problem = "is empty"
	case len(id) > MaxDatasetBytes:
		problem = fmt.Sprintf("is longer than %d bytes", MaxDatasetBytes)
	case strings.Contains(id, ".."):
		problem = `contains ".."`
	case strings.HasSuffix(id, "."):
		problem = "ends in a dot, which some stores drop"
	case !isAlphanumeric(id[0]):
		problem = "does not begin with a letter or digit"
	default:
		for i := range len(id) {
			if c := id[i]; !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
				problem = "has characters other than letters, digits, dots, underscores and hyphens"
				break
			}
		}
	}
	if problem != "" {
		return fmt.Errorf("dataset id %s %s", Quote(id), problem)
	}
	return nil
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// CheckPath returns an error unless a manifest path is safe to build a key from: relative, with
// "/" between segments of 1 to 255 bytes that begin with neither "_" nor "." and end in neither
// a dot nor a space; at most 1,024 bytes of UTF-8 without backslash, colon or control character.
func CheckPath(path string) error {
	if err := checkPath(path); err != nil {
		return fmt.Errorf("path %s %w", Quote(path), err)
	}
	return nil
}

func checkPath(path string) error {
	if err := checkText(path); err != nil {
		return err
	}
	if i := strings.IndexAny(path, `\:`); i >= 0 {
		return fmt.Errorf("contains %q", path[i])
	}
	if path[0] == '/' {
		return errors.New(`is not relative: it begins with "/"`)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if err := checkSegment(segment); err != nil {
			return err
		}
		// Readers of tables skip what begins so; "." and ".." begin so too.
		if segment[0] == '_' || segment[0] == '.' {
			return fmt.Errorf("has a segment that begins with %q", segment[0])
		}
	}
	return nil
}

// checkText checks what paths, keys and attachment names have in common.
func checkText(text string) error {
	switch {
	case text == "":
		return errors.New("is empty")
	case len(text) > MaxPathBytes:
		return fmt.Errorf("is %d bytes long, more than %d", len(text), MaxPathBytes)
	case !utf8.ValidString(text):
		return errors.New("is not UTF-8")
	case strings.ContainsFunc(text, unicode.IsControl):
		return errors.New("contains a control character")
	}
	return nil
}

func checkSegment(segment string) error {
	switch {
	case segment == "":
		return errors.New("has an empty segment")
	case len(segment) > MaxSegmentBytes:
		return fmt.Errorf("has a segment of %d bytes, more than %d", len(segment), MaxSegmentBytes)
	case strings.HasSuffix(segment, ".") || strings.HasSuffix(segment, " "):
		return errors.New("has a segment that ends in a dot or a space, which some stores drop")
	}
	return nil
}

// CheckAttachmentName returns an error unless name has 1 to 1,024 bytes of UTF-8 and no control
// character. It never becomes a key, so all else is allowed.
func CheckAttachmentName(name string) error {
	if err := checkText(name); err != nil {
		return fmt.Errorf("attachment name %s %w", Quote(name), err)
	}
	return nil
}

// IsAttachmentName reports whether name has one of the three forms in which the feed names
// attachments: "source:<id>", "original", "document:<sha256>". No manifest path has one of the
// forms with a colon.
func IsAttachmentName(name string) bool {
	return name == "original" || strings.HasPrefix(name, "source:") || strings.HasPrefix(name, "document:")
}

// CheckSize returns an error unless size is 0 to 2^53 bytes.
func CheckSize(size int64) error {
	if size < 0 || size > MaxSize {
		return fmt.Errorf("size %d is not between 0 and 2^53 bytes", size)
	}
	return nil
}

// CheckNumber returns an error unless n can stand in a key: 1 to MaxNumber.
func CheckNumber(n Number) error {
	if n < 1 || n > MaxNumber {
		return fmt.Errorf("version number %d is not between 1 and %d", n, MaxNumber)
	}
	return nil
}

// CheckKey returns an error unless every store can hold key under this very name: at most 1,024
// bytes, segments as in CheckPath except that those of our own may begin with "_".
func CheckKey(key string) error {
	if err := checkKey(key); err != nil {
		return fmt.Errorf("key %s %w", Quote(key), err)
	}
	return nil
}

func checkKey(key string) error {
	if err := checkText(key); err != nil {
		return err
	}
	if i := strings.IndexAny(key, `\:`); i >= 0 {
		return fmt.Errorf("contains %q", key[i])
	}
	for segment := range strings.SplitSeq(key, "/") {
		if err := checkSegment(segment); err != nil {
			return err
		}
		if segment[0] == '.' {
			return errors.New(`has a segment that begins with "."`)
		}
	}
	return nil
}

// KindOf returns what a path's first segment says of the file.
func KindOf(path string) Kind {
	first, _, below := strings.Cut(path, "/")
	switch {
	case !below && first == "schema.json":
		return KindSchema
	case !below:
		return KindExtra
	}
	switch first {
	case "snapshot":
		return KindSnapshot
	case "changes":
		return KindChanges
	case "id_map", "idMap":
		return KindIDMap
	}
	return KindExtra
}

// Quote returns foreign text for an error: in quotes, escaped, cut after 160 bytes.
func Quote(text string) string {
	if len(text) <= maxQuoted {
		return strconv.Quote(text)
	}
	cut := maxQuoted
	for cut > maxQuoted-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strconv.Quote(text[:cut]) + fmt.Sprintf("... (%d bytes)", len(text))
}

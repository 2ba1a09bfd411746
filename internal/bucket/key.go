package bucket

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"feedmirror/internal/fault"
)

// MaxKeyBytes is the longest key that every store takes. Adapters that prepend a prefix check the
// sum.
const MaxKeyBytes = 1024

// CheckKey refuses keys that some store would store under another name, or outside of its root:
// stores disagree on empty and dot segments, on backslashes and on control characters. What it
// lets through must arrive byte for byte; a store with narrower rules refuses by itself.
func CheckKey(key string) error {
	cause := keyProblem(key)
	if cause == nil {
		return nil
	}
	return &fault.Error{
		Op: "check key", Object: fmt.Sprintf("%q", shorten(key)), Side: fault.SideBucket,
		Kind: fault.Malformed, Err: cause,
	}
}

func keyProblem(key string) error {
	switch {
	case key == "":
		return errors.New("empty key")
	case len(key) > MaxKeyBytes:
		return fmt.Errorf("%d bytes, at most %d are allowed", len(key), MaxKeyBytes)
	case !utf8.ValidString(key):
		return errors.New("not valid UTF-8")
	}
	for i := 0; i < len(key); i++ {
		if c := key[i]; c < 0x20 || c == 0x7f || c == '\\' {
			return fmt.Errorf("byte %d is a control character or a backslash", i)
		}
	}
	for segment := range strings.SplitSeq(key, "/") {
		switch segment {
		case "":
			return errors.New("empty segment: no leading, trailing or double slash is allowed")
		case ".", "..":
			return fmt.Errorf("segment %q is not allowed", segment)
		}
	}
	return nil
}

// shorten keeps a hostile key from filling a log line.
func shorten(key string) string {
	const most = 200
	if len(key) <= most {
		return key
	}
	return key[:most] + "..."
}

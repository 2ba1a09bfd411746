package feed

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"feedmirror/manifest"
	"feedmirror/manifest/jsonstream"
)

// skipUnless skips a value that is not of kind.
func skipUnless(in *jsonstream.Reader, kind jsonstream.Kind) (skipped bool, err error) {
	got, err := in.Peek()
	if err != nil {
		return true, err
	}
	if got != kind {
		return true, in.Skip()
	}
	return false, nil
}

// optionalText reads a string; a value of another kind is skipped and is the empty string.
func optionalText(in *jsonstream.Reader) (string, error) {
	if skipped, err := skipUnless(in, jsonstream.String); skipped {
		return "", err
	}
	return in.String()
}

// optionalTime reads an RFC 3339 time; anything else is the zero time, which means unknown.
func optionalTime(in *jsonstream.Reader) (time.Time, error) {
	text, err := optionalText(in)
	if err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, nil
	}
	return at, nil
}

// optionalNumber reads a version number; null is none. problem says what is wrong with the
// number, err what is wrong with the text around it.
func optionalNumber(in *jsonstream.Reader) (n manifest.Number, problem, err error) {
	kind, err := in.Peek()
	switch {
	case err != nil:
		return 0, nil, err
	case kind == jsonstream.Null:
		return 0, nil, in.Null()
	case kind != jsonstream.Number:
		return 0, errors.New("not a number"), in.Skip()
	}
	text, err := in.Number()
	if err != nil {
		return 0, nil, err
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < 1 || value > int64(manifest.MaxNumber) {
		return 0, fmt.Errorf("%s is not a version number", clip(text, 40)), nil
	}
	return manifest.Number(value), nil, nil
}

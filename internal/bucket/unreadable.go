package bucket

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"

	"feedmirror/internal/fault"
)

// Unreadable returns the error of an answer with a status of success that is none of the service's:
// it was cut, or is a page of a proxy. What was done is unknown, and the next answer may be better.
func Unreadable(op, key string, cause error) error {
	return &fault.Error{
		Op: op, Object: key, Side: fault.SideBucket, Kind: fault.Transient,
		Err: fmt.Errorf("the answer cannot be read as the store's: %w", cause),
	}
}

// Garbled reports whether an answer was not in the form that its reader expects.
func Garbled(err error) bool {
	var text *json.SyntaxError
	var value *json.UnmarshalTypeError
	var markup *xml.SyntaxError
	return errors.As(err, &text) || errors.As(err, &value) || errors.As(err, &markup)
}

package jsonstream

import (
	"errors"
	"fmt"
)

// ErrTooLarge is in the chain of every error about a limit: a string or number longer than
// MaxToken, nesting deeper than MaxDepth, a region longer than its bound.
var ErrTooLarge = errors.New("too large")

// SyntaxError says where the text stops being JSON.
type SyntaxError struct {
	Offset int64 // bytes before the place
	Msg    string
	Err    error // io.ErrUnexpectedEOF when the text ends too early; else nil
}

// Error returns "not JSON at byte <offset>: <what>".
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("not JSON at byte %d: %s", e.Offset, e.Msg)
}

// Unwrap returns io.ErrUnexpectedEOF for a text that ends too early.
func (e *SyntaxError) Unwrap() error { return e.Err }

// TypeError is JSON of another kind than the one that was asked for. Nothing was read of it.
type TypeError struct {
	Offset int64 // bytes before the value
	Want   Kind
	Got    Kind
}

// Error returns "want <what>, got <what>".
func (e *TypeError) Error() string { return "want " + e.Want.String() + ", got " + e.Got.String() }

// Kind says what the next value is: its first byte, with one byte standing for all numbers and
// one for true and false.
type Kind byte

// The kinds of values.
const (
	Object Kind = '{'
	Array  Kind = '['
	String Kind = '"'
	Number Kind = '0'
	Bool   Kind = 't'
	Null   Kind = 'n'
)

// String returns "an object", "a number" and so on.
func (k Kind) String() string {
	switch k {
	case Object:
		return "an object"
	case Array:
		return "an array"
	case String:
		return "a string"
	case Number:
		return "a number"
	case Bool:
		return "true or false"
	case Null:
		return "null"
	}
	return fmt.Sprintf("kind %d", byte(k))
}

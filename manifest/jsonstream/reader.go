package jsonstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

const (
	// MaxToken is the greatest length of a string or number in bytes, as it stands in the text.
	MaxToken = 1 << 20
	// MaxDepth is how deep objects and arrays may nest. The feed's documents need five.
	MaxDepth = 64

	bufferSize      = 32 << 10
	maxEmptyReads   = 100 // as bufio: a reader that gives nothing this often is broken
	maxLeadingSpace = 512 // bytes in which a "<" is taken for the start of a page
)

// Reader reads one JSON text. After an error it is of no more use.
type Reader struct {
	in     io.Reader
	buffer []byte
	next   int   // the next unread byte of buffer
	filled int   // bytes of buffer that hold text
	base   int64 // bytes of the text before buffer

	bound    int64 // greatest counted position that may be read
	forgiven int64 // bytes that count towards no bound
	token    []byte
	depth    int
	values   int64 // values begun, to see whether a visit read its value
}

// New returns a Reader of in.
func New(in io.Reader) *Reader {
	return &Reader{in: in, buffer: make([]byte, bufferSize), bound: math.MaxInt64}
}

// Offset returns how many bytes of the text were read.
func (r *Reader) Offset() int64 { return r.base + int64(r.next) }

// Bounded runs f, during which at most n bytes may be read. Bounds nest; the tightest counts.
func (r *Reader) Bounded(n int64, f func() error) error {
	outer := r.bound
	r.bound = min(outer, r.Offset()-r.forgiven+n)
	err := f()
	r.bound = outer
	return err
}

// Forgive takes n bytes that were read out of all bounds, so that a bound can leave out the
// parts of a text that are kept nowhere.
func (r *Reader) Forgive(n int64) { r.forgiven += n }

// Peek returns the kind of the next value without reading it.
func (r *Reader) Peek() (Kind, error) {
	c, err := r.peekByte()
	if err != nil {
		return 0, err
	}
	switch {
	case c == '{' || c == '[' || c == '"' || c == 'n' || c == 't':
		return Kind(c), nil
	case c == 'f':
		return Bool, nil
	case c == '-' || c >= '0' && c <= '9':
		return Number, nil
	}
	return 0, r.unexpected(c, "a value")
}

// Object reads an object and calls visit at each of its values, in the text's order. A visit
// that reads nothing skips the value. Names come as they stand, twice when they stand twice.
func (r *Reader) Object(visit func(name string) error) error {
	return r.list(Object, '}', func() error {
		c, err := r.peekByte()
		if err != nil {
			return err
		}
		if c != '"' {
			return r.unexpected(c, "a name in quotes")
		}
		name, err := r.text()
		if err != nil {
			return err
		}
		if err := r.expect(':'); err != nil {
			return err
		}
		return r.value(func() error { return visit(name) })
	})
}

// Array reads an array and calls visit at each of its values. A visit that reads nothing skips
// the value.
func (r *Reader) Array(visit func() error) error {
	return r.list(Array, ']', func() error { return r.value(visit) })
}

// String reads a string of at most MaxToken bytes.
func (r *Reader) String() (string, error) {
	if err := r.begin(String); err != nil {
		return "", err
	}
	return r.text()
}

// Number reads a number and returns it as it stands in the text.
func (r *Reader) Number() (string, error) {
	if err := r.begin(Number); err != nil {
		return "", err
	}
	start := r.Offset()
	if err := r.word(isNumberByte); err != nil {
		return "", err
	}
	if !json.Valid(r.token) {
		return "", &SyntaxError{Offset: start, Msg: "a malformed number"}
	}
	return string(r.token), nil
}

// Bool reads true or false.
func (r *Reader) Bool() (bool, error) {
	if err := r.begin(Bool); err != nil {
		return false, err
	}
	start := r.Offset()
	if err := r.word(isLetter); err != nil {
		return false, err
	}
	switch string(r.token) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, &SyntaxError{Offset: start, Msg: "want true or false"}
}

// Null reads null.
func (r *Reader) Null() error {
	if err := r.begin(Null); err != nil {
		return err
	}
	start := r.Offset()
	if err := r.word(isLetter); err != nil {
		return err
	}
	if string(r.token) != "null" {
		return &SyntaxError{Offset: start, Msg: "want null"}
	}
	return nil
}

// Skip reads the next value, whatever it is, and keeps nothing.
func (r *Reader) Skip() error {
	kind, err := r.Peek()
	if err != nil {
		return err
	}
	switch kind {
	case Object:
		return r.Object(func(string) error { return r.Skip() })
	case Array:
		return r.Array(r.Skip)
	case Number:
		_, err = r.Number()
	case Bool:
		_, err = r.Bool()
	case Null:
		err = r.Null()
	case String:
		_, err = r.String()
	}
	return err
}

// End checks that nothing but white space follows.
func (r *Reader) End() error {
	c, err := r.nextByte()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return &SyntaxError{Offset: r.Offset(), Msg: fmt.Sprintf("trailing data: %s after the end", quoteByte(c))}
}

// begin checks the kind of the value that a caller asked for and counts it as read.
func (r *Reader) begin(want Kind) error {
	kind, err := r.Peek()
	if err != nil {
		return err
	}
	if kind != want {
		return &TypeError{Offset: r.Offset(), Want: want, Got: kind}
	}
	r.values++
	return nil
}

// value runs visit and skips the value that visit did not read.
func (r *Reader) value(visit func() error) error {
	seen := r.values
	if err := visit(); err != nil {
		return err
	}
	if r.values == seen {
		return r.Skip()
	}
	return nil
}

// list reads what stands between two brackets, separated by commas.
func (r *Reader) list(opening Kind, closing byte, element func() error) error {
	if err := r.begin(opening); err != nil {
		return err
	}
	if r.depth == MaxDepth {
		return fmt.Errorf("JSON nested deeper than %d at byte %d: %w", MaxDepth, r.Offset(), ErrTooLarge)
	}
	r.depth++
	r.next++
	for first := true; ; first = false {
		c, err := r.peekByte()
		if err != nil {
			return err
		}
		if c == closing {
			r.depth--
			r.next++
			return nil
		}
		if !first {
			if err := r.expect(','); err != nil {
				return err
			}
		}
		// After a comma a closing bracket is no value, so element refuses it.
		if err := element(); err != nil {
			return err
		}
	}
}

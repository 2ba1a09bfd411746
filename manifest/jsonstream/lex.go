package jsonstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// window returns the unread bytes at hand that the bound allows: at least one, or an error,
// io.EOF at the text's end.
func (r *Reader) window() ([]byte, error) {
	for empty := 0; r.next == r.filled; empty++ {
		r.base += int64(r.filled)
		n, err := r.in.Read(r.buffer)
		r.next, r.filled = 0, n
		switch {
		case n > 0: // an error that came with bytes comes again
		case err != nil:
			return nil, err
		case empty == maxEmptyReads:
			return nil, io.ErrNoProgress
		}
	}
	allowed := r.bound - (r.Offset() - r.forgiven)
	if allowed <= 0 {
		return nil, fmt.Errorf("more bytes than allowed at byte %d: %w", r.Offset(), ErrTooLarge)
	}
	return r.buffer[r.next : r.next+int(min(allowed, int64(r.filled-r.next)))], nil
}

// nextByte skips white space and returns the byte after it without reading it, or io.EOF.
func (r *Reader) nextByte() (byte, error) {
	for {
		chunk, err := r.window()
		if err != nil {
			return 0, err
		}
		for _, c := range chunk {
			if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
				return c, nil
			}
			r.next++
		}
	}
}

// peekByte is nextByte where the text must go on.
func (r *Reader) peekByte() (byte, error) {
	c, err := r.nextByte()
	return c, r.truncated(err)
}

// truncated turns the end of the text into a SyntaxError and leaves other errors alone.
func (r *Reader) truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return &SyntaxError{Offset: r.Offset(), Msg: "truncated: the text ends too early", Err: io.ErrUnexpectedEOF}
	}
	return err
}

// expect reads one punctuation mark.
func (r *Reader) expect(want byte) error {
	c, err := r.peekByte()
	if err != nil {
		return err
	}
	if c != want {
		return r.unexpected(c, quoteByte(want))
	}
	r.next++
	return nil
}

func (r *Reader) unexpected(c byte, want string) error {
	msg := "want " + want + ", got " + quoteByte(c)
	if c == '<' && r.Offset() < maxLeadingSpace {
		msg = `starts with "<": this looks like an HTML or XML page`
	}
	return &SyntaxError{Offset: r.Offset(), Msg: msg}
}

func quoteByte(c byte) string {
	if c < utf8.RuneSelf {
		return strconv.Quote(string(rune(c)))
	}
	return fmt.Sprintf("byte 0x%02x", c)
}

func isNumberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' }

// text reads a string from its opening quote on and returns it decoded.
func (r *Reader) text() (string, error) {
	start := r.Offset()
	r.token = append(r.token[:0], '"')
	r.next++
	for escaped := false; ; {
		chunk, err := r.window()
		if err != nil {
			return "", r.truncated(err)
		}
		i := 0
		for i < len(chunk) && chunk[i] != '"' && chunk[i] != '\\' && chunk[i] >= ' ' {
			i++
		}
		if len(r.token)+i > MaxToken {
			return "", fmt.Errorf("string longer than %d bytes at byte %d: %w", MaxToken, start, ErrTooLarge)
		}
		r.token = append(r.token, chunk[:i]...)
		r.next += i
		switch {
		case i == len(chunk):
		case chunk[i] == '"':
			r.next++
			return r.decoded(start, escaped)
		case chunk[i] == '\\':
			escaped = true
			if err := r.escape(); err != nil {
				return "", err
			}
		default:
			return "", &SyntaxError{Offset: r.Offset(), Msg: "a control character in a string"}
		}
	}
}

// escape copies a backslash and the byte after it, so that an escaped quote ends no string.
// What they mean is left to decoded.
func (r *Reader) escape() error {
	r.next++
	chunk, err := r.window()
	if err != nil {
		return r.truncated(err)
	}
	r.token = append(r.token, '\\', chunk[0])
	r.next++
	return nil
}

// decoded returns the string in token, which begins with its opening quote.
func (r *Reader) decoded(start int64, escaped bool) (string, error) {
	if !utf8.Valid(r.token) {
		return "", &SyntaxError{Offset: start, Msg: "a string that is not UTF-8"}
	}
	if !escaped {
		return string(r.token[1:]), nil
	}
	var text string
	r.token = append(r.token, '"')
	if err := json.Unmarshal(r.token, &text); err != nil {
		return "", &SyntaxError{Offset: start, Msg: "a string with a malformed escape"}
	}
	return text, nil
}

// word reads bytes of a class into token; the end of the text ends a word too.
func (r *Reader) word(class func(byte) bool) error {
	start := r.Offset()
	r.token = r.token[:0]
	for {
		chunk, err := r.window()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case !class(chunk[0]):
			return nil
		case len(r.token) == MaxToken:
			return fmt.Errorf("number longer than %d bytes at byte %d: %w", MaxToken, start, ErrTooLarge)
		}
		r.token = append(r.token, chunk[0])
		r.next++
	}
}

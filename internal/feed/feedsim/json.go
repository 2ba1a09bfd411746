package feedsim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// object is a JSON object whose members keep their order and which can be written without being held in memory.
type object []member

type member struct {
	key   string
	value any
}

// list is a JSON array that is made while it is written.
type list struct {
	n  int
	at func(i int) any
}

// listOf wraps a slice as a list.
func listOf[T any](items []T) list {
	return list{n: len(items), at: func(i int) any { return items[i] }}
}

// writeJSON encodes v. Objects and lists are streamed, anything else goes through encoding/json.
func writeJSON(w io.Writer, v any) error {
	buffered := bufio.NewWriterSize(w, 32<<10)
	if err := encodeJSON(buffered, v); err != nil {
		return err
	}
	return buffered.Flush()
}

// encodeJSON relies on bufio.Writer to keep the first error of a write and to return it from Flush; it returns it early
// from lists, so that a million entries are not made for a reader who has gone.
func encodeJSON(w *bufio.Writer, v any) error {
	switch typed := v.(type) {
	case object:
		return encodeObject(w, typed)
	case list:
		return encodeList(w, typed)
	case int64:
		return second(w.Write(strconv.AppendInt(w.AvailableBuffer(), typed, 10)))
	case string:
		if plain(typed) {
			return second(w.WriteString(`"` + typed + `"`))
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("encode %T: %w", v, err)
	}
	return second(w.Write(bytes.TrimSuffix(out.Bytes(), []byte("\n"))))
}

func second(_ int, err error) error { return err }

// plain tells whether a string needs no escapes in JSON.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return true
}

func encodeObject(w *bufio.Writer, o object) error {
	separator := byte('{')
	for _, m := range o {
		if err := w.WriteByte(separator); err != nil {
			return err
		}
		if err := encodeJSON(w, m.key); err != nil {
			return err
		}
		if err := w.WriteByte(':'); err != nil {
			return err
		}
		if err := encodeJSON(w, m.value); err != nil {
			return err
		}
		separator = ','
	}
	if len(o) == 0 {
		return second(w.WriteString("{}"))
	}
	return w.WriteByte('}')
}

func encodeList(w *bufio.Writer, l list) error {
	if err := w.WriteByte('['); err != nil {
		return err
	}
	for i := range l.n {
		if i > 0 {
			if err := w.WriteByte(','); err != nil {
				return err
			}
		}
		if err := encodeJSON(w, l.at(i)); err != nil {
			return err
		}
	}
	return w.WriteByte(']')
}

// jsonBytes encodes a small value.
func jsonBytes(v any) ([]byte, error) {
	var out bytes.Buffer
	err := writeJSON(&out, v)
	return out.Bytes(), err
}

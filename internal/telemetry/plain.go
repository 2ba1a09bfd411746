package telemetry

import (
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// OneLine returns text that others wrote so that it stays what it is on a terminal and in a log: line
// breaks, escape sequences, characters that turn the direction of text and bytes that are no UTF-8 are
// spelled out, as Go spells them.
func OneLine(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }) < 0 {
		return text
	}
	var out strings.Builder
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[at])
		case strconv.IsPrint(r):
			out.WriteRune(r)
		default:
			out.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		at += size
	}
	return out.String()
}

// Linef is fmt.Fprintf, with every text among args as OneLine leaves it.
func Linef(out io.Writer, format string, args ...any) {
	for at, arg := range args {
		if value := reflect.ValueOf(arg); value.Kind() == reflect.String {
			args[at] = OneLine(value.String())
		} else if err, ok := arg.(error); ok {
			args[at] = OneLine(err.Error())
		}
	}
	fmt.Fprintf(out, format, args...) //nolint:errcheck // as fmt.Fprintf is used: a broken terminal stops nothing
}

// Plain is a writer behind which no terminal is steered: what is neither text nor a line break or tab is
// spelled as JSON spells it, so that JSON stays the JSON it was. Each Write must hold whole characters.
type Plain struct{ out io.Writer }

// NewPlain returns a Plain before out.
func NewPlain(out io.Writer) Plain { return Plain{out} }

// Write implements io.Writer. It returns len(p) when everything was written.
func (p Plain) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.out, plain(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

func plain(text string) string {
	if strings.IndexFunc(text, steers) < 0 && utf8.ValidString(text) {
		return text
	}
	var out strings.Builder
	for _, r := range text { // what is no UTF-8 comes as U+FFFD
		if steers(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// steers reports whether a character tells a terminal what to do, or turns the direction of text.
func steers(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ' || r >= 0x7f && r < 0xa0:
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0xfeff:
		return true
	}
	return false
}

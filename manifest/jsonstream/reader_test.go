package jsonstream_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"feedmirror/manifest/jsonstream"
)

// build reads any value into what encoding/json makes of it.
func build(r *jsonstream.Reader) (any, error) {
	kind, err := r.Peek()
	if err != nil {
		return nil, err
	}
	switch kind {
	case jsonstream.Object:
		out := map[string]any{}
		err := r.Object(func(name string) (err error) {
			out[name], err = build(r)
			return err
		})
		return out, err
	case jsonstream.Array:
		out := []any{}
		err := r.Array(func() error {
			value, err := build(r)
			out = append(out, value)
			return err
		})
		return out, err
	case jsonstream.String:
		return r.String()
	case jsonstream.Number:
		text, err := r.Number()
		return json.Number(text), err
	case jsonstream.Bool:
		return r.Bool()
	default:
		return nil, r.Null()
	}
}

func buildAll(in io.Reader) (any, error) {
	r := jsonstream.New(in)
	value, err := build(r)
	if err != nil {
		return nil, err
	}
	return value, r.End()
}

func reference(t *testing.T, text []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var want any
	if err := decoder.Decode(&want); err != nil {
		t.Fatalf("encoding/json refuses %q: %v", text, err)
	}
	return want
}

func FuzzReaderAgreesWithEncodingJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-2.5e+3,true,false,null,"x\u00e9\ud83d\ude00\n"],"a":{}}`, ` [ ] `, `"\ud800"`, `01`, `-`, `tru`, `{"a" 1}`,
		`[1,]`, `[,1]`, `{"a":1,}`, `nullnull`, `"\x"`, "\"\xff\"", "\"\x01\"", `[1 2]`, `{1:2}`, `1 2`, ``, `"`, `"\`, "\xef\xbb\xbf1",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := buildAll(bytes.NewReader(text))
		if errors.Is(err, jsonstream.ErrTooLarge) {
			return
		}
		if want := json.Valid(text) && utf8.Valid(text); (err == nil) != want {
			t.Fatalf("%q: error %v, but valid is %v", text, err, want)
		}
		r := jsonstream.New(iotest.OneByteReader(bytes.NewReader(text)))
		skipped := r.Skip()
		if skipped == nil {
			skipped = r.End()
		}
		if (skipped == nil) != (err == nil) {
			t.Fatalf("%q: reading says %v, skipping byte by byte says %v", text, err, skipped)
		}
		if err == nil && !reflect.DeepEqual(got, reference(t, text)) {
			t.Fatalf("%q: got %#v, want %#v", text, got, reference(t, text))
		}
	})
}

// endless yields head, then fill for ever, and counts what was taken.
type endless struct {
	head  string
	fill  byte
	taken int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.head)
	e.head = e.head[n:]
	for ; n < len(p); n++ {
		p[n] = e.fill
	}
	e.taken += n
	return n, nil
}

func TestEndlessTokensAndNestingEndAtTheirLimits(t *testing.T) {
	for name, in := range map[string]*endless{
		"string":  {head: `{"a":"`, fill: 'x'},
		"escapes": {head: `{"a":"`, fill: '\\'},
		"name":    {head: `{"`, fill: 'x'},
		"number":  {head: `{"a":`, fill: '1'},
		"literal": {head: `{"a":`, fill: 't'},
		"arrays":  {fill: '['},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := buildAll(in)
			if !errors.Is(err, jsonstream.ErrTooLarge) {
				t.Errorf("want ErrTooLarge, got %v", err)
			}
			if in.taken > jsonstream.MaxToken+1<<17 {
				t.Errorf("took %d bytes to see the limit", in.taken)
			}
		})
	}
}

func TestBoundStopsWhiteSpaceAndForgivenBytesDoNotCount(t *testing.T) {
	in := &endless{fill: ' '}
	r := jsonstream.New(in)
	err := r.Bounded(100_000, r.Skip)
	if !errors.Is(err, jsonstream.ErrTooLarge) || r.Offset() != 100_000 {
		t.Errorf("at byte %d: want ErrTooLarge at byte 100000, got %v", r.Offset(), err)
	}
	text := `["12345678","12345678","12345678"]`
	forgiving := func(n int64) error {
		r := jsonstream.New(strings.NewReader(text))
		return r.Bounded(n, func() error {
			return r.Array(func() error {
				start := r.Offset()
				_, err := r.String()
				r.Forgive(r.Offset() - start)
				return err
			})
		})
	}
	if err := forgiving(13); err != nil {
		t.Errorf("brackets, commas and one string at a time: %v", err)
	}
	if err := forgiving(12); !errors.Is(err, jsonstream.ErrTooLarge) {
		t.Errorf("want ErrTooLarge where the last string does not fit, got %v", err)
	}
}

func TestBoundHoldsToTheByte(t *testing.T) {
	text := `{"a":[1,2,{"b":"c"}]}`
	for n := range int64(len(text)) {
		r := jsonstream.New(strings.NewReader(text))
		if err := r.Bounded(n, r.Skip); !errors.Is(err, jsonstream.ErrTooLarge) {
			t.Errorf("bound %d of %d: want ErrTooLarge, got %v", n, len(text), err)
		}
	}
	r := jsonstream.New(strings.NewReader(text))
	if err := r.Bounded(int64(len(text)), r.Skip); err != nil {
		t.Errorf("exact bound: %v", err)
	}
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"<!doctype html>": `looks like an HTML`,
		"\n  <?xml":       `looks like an HTML`,
		`{"a":`:           "truncated",
		``:                "truncated",
		`{} {}`:           "trailing data",
		"[\"\xff\"]":      "not UTF-8",
		`["\q"]`:          "malformed escape",
		`[1e]`:            "malformed number",
		`[trap]`:          "want true or false",
		`[nil]`:           "want null",
		"[\"\n\"]":        "control character",
		`{a:1}`:           "want a name in quotes",
		"\xfe":            "byte 0xfe",
	} {
		if _, err := buildAll(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want %q, got %v", text, want, err)
		}
	}
}

func TestReaderErrorsComeThrough(t *testing.T) {
	broken := errors.New("broken line")
	for _, head := range []string{``, `[`, `["a`, `["\`, `[1`, `[1,`, `{"a"`} {
		_, err := buildAll(io.MultiReader(strings.NewReader(head), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) {
			t.Errorf("after %q: want the reader's error, got %v", head, err)
		}
	}
}

func TestWrongKindIsATypeErrorAndReadsNothing(t *testing.T) {
	r := jsonstream.New(strings.NewReader(`[7]`))
	err := r.Array(func() error {
		_, err := r.String()
		var wrong *jsonstream.TypeError
		if !errors.As(err, &wrong) || wrong.Got != jsonstream.Number || err.Error() != "want a string, got a number" {
			t.Errorf("want a TypeError that got a number, got %v", err)
		}
		return nil // the value is skipped
	})
	if err != nil || r.End() != nil {
		t.Errorf("after the wrong kind: %v", err)
	}
}

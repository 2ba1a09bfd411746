package feedsim

import (
	"bytes"
	"errors"
	"io"
)

// errRewritten ends an answer whose body could not be made.
var errRewritten = errors.New("the body to be rewritten could not be made")

// Rewrite sends what change makes of the answer's body. Status and headers stay as they are. The body is held in
// memory meanwhile.
func Rewrite(change func(body []byte) []byte) Fault {
	return Fault{name: "rewrite", spoils: true, change: func(a answer) answer {
		var out bytes.Buffer
		if a.body == nil {
			a.body = func(io.Writer) error { return nil }
		}
		if err := a.body(&out); err != nil {
			a.size, a.body = -1, func(io.Writer) error { return errRewritten }
			return a
		}
		changed := bytesAnswer(a.status, a.header, change(out.Bytes()))
		changed.whole = a.whole
		return changed
	}}
}

// Stream answers 200 with JSON that write makes while it is sent: of any length, and never held in memory.
func Stream(write func(w io.Writer) error) Fault {
	return Fault{name: "stream", spoils: true, instead: func(*exchange) answer {
		return answer{status: 200, header: jsonHeader(), size: -1, body: write}
	}}
}

// Insert sends, behind the first place where the answer's body holds the text after, what write makes while it is sent:
// of any length, and never held in memory.
func Insert(after string, write func(w io.Writer) error) Fault {
	return Fault{name: "insert", spoils: true, change: func(a answer) answer {
		var out bytes.Buffer
		at := -1
		if a.body != nil && a.body(&out) == nil {
			at = bytes.Index(out.Bytes(), []byte(after))
		}
		a.size = -1
		if at < 0 {
			a.body = func(io.Writer) error { return errRewritten }
			return a
		}
		at += len(after)
		a.body = func(w io.Writer) error {
			if _, err := w.Write(out.Bytes()[:at]); err != nil {
				return err
			}
			if err := write(w); err != nil {
				return err
			}
			_, err := w.Write(out.Bytes()[at:])
			return err
		}
		return a
	}}
}

package feedsim

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Fault is one thing that goes wrong with an answer. Faults are made by the functions below.
type Fault struct {
	name      string
	instead   func(*exchange) answer                                             // sent instead of making an answer
	before    func(*Feed)                                                        // done when the request has come
	change    func(answer) answer                                                // changes status, headers or body
	writer    func(x *exchange, w http.ResponseWriter, next io.Writer) io.Writer // stands between body and connection
	twist     func(v *version, f file) (linked, hashed file)                     // whose link and whose hash an entry carries
	cutBefore bool                                                               // the connection closes before any answer
	spoils    bool                                                               // what is sent is not the file
	// of the links host:
	ignoreRange, expire, otherETag bool
}

// Status answers with a status, headers and a body of the test's own.
func Status(code int, header http.Header, body string) Fault {
	return Fault{name: fmt.Sprintf("status %d", code), spoils: true, instead: func(*exchange) answer {
		if header == nil {
			header = http.Header{}
		}
		return bytesAnswer(code, header.Clone(), []byte(body))
	}}
}

// Refuse answers with an API error in the shape that the feed assumes.
func Refuse(code int, name, message string) Fault {
	return Fault{name: fmt.Sprintf("refuse %d", code), spoils: true, instead: func(x *exchange) answer {
		return x.feed.refuse(&refusal{code, name, message})
	}}
}

// RedirectTo answers 302 with the address.
func RedirectTo(address string) Fault {
	return Status(http.StatusFound, http.Header{"Location": {address}}, "")
}

// HTML answers 200 with a page, as a captive portal does.
func HTML() Fault {
	return Status(http.StatusOK, http.Header{"Content-Type": {"text/html; charset=utf-8"}},
		"<!DOCTYPE html><html><body>Please sign in to this network.</body></html>")
}

// Drop closes the connection after n bytes of the body; with n negative before any answer.
func Drop(n int64) Fault {
	return Fault{name: "drop", spoils: true, cutBefore: n < 0,
		writer: func(_ *exchange, w http.ResponseWriter, next io.Writer) io.Writer {
			return &cutWriter{response: w, next: next, left: n, end: errDropped}
		}}
}

// Truncation is how a truncated answer claims to be whole.
type Truncation int

// A Content-Length of the shortened body; chunked with a proper end; the whole Content-Length, which the client sees as
// a connection that ended early.
const (
	TruncateShortLength Truncation = iota
	TruncateChunked
	TruncateFullLength
)

// Truncate ends the body after n bytes.
func Truncate(n int64, how Truncation) Fault {
	return Fault{name: "truncate", spoils: true,
		change: func(a answer) answer {
			switch how {
			case TruncateShortLength:
				if a.size < 0 || a.size > n {
					a.size = n
				}
			case TruncateChunked:
				a.size = -1
			case TruncateFullLength:
			}
			return a
		},
		writer: func(_ *exchange, w http.ResponseWriter, next io.Writer) io.Writer {
			return &cutWriter{response: w, next: next, left: n, end: errTruncated}
		}}
}

// FlipByte inverts one byte of the body; with offset negative counted from its end.
func FlipByte(offset int64) Fault {
	return Fault{name: "flip byte", spoils: true,
		writer: func(x *exchange, _ http.ResponseWriter, next io.Writer) io.Writer {
			at := offset
			if at < 0 {
				at += x.size
			}
			return &flipWriter{next: next, at: at}
		}}
}

// Append sends more bytes after the body, with a Content-Length that counts them.
func Append(extra string) Fault {
	return Fault{name: "append", spoils: true, change: func(a answer) answer {
		if a.size >= 0 {
			a.size += int64(len(extra))
		}
		body := a.body
		a.body = func(w io.Writer) error {
			if err := body(w); err != nil {
				return err
			}
			_, err := io.WriteString(w, extra)
			return err
		}
		return a
	}}
}

// IgnoreRange answers the whole file with 200 whatever range is asked for.
func IgnoreRange() Fault { return Fault{name: "ignore range", ignoreRange: true} }

// OtherETag answers as if the file had been replaced by another of the same bytes.
func OtherETag() Fault { return Fault{name: "other etag", otherETag: true} }

// WrongContentRange answers a range with a Content-Range that is off by one.
func WrongContentRange() Fault {
	return Fault{name: "wrong content range", spoils: true, change: func(a answer) answer {
		var first, last, size int64
		if _, err := fmt.Sscanf(a.header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size); err == nil {
			a.header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first+1, last+1, size+1))
		}
		return a
	}}
}

// Gzip compresses the body although nobody asked.
func Gzip() Fault {
	return Fault{name: "gzip", spoils: true,
		change: func(a answer) answer {
			a.header = a.header.Clone()
			a.header.Set("Content-Encoding", "gzip")
			a.size = -1
			return a
		},
		writer: func(_ *exchange, _ http.ResponseWriter, next io.Writer) io.Writer { return gzip.NewWriter(next) }}
}

// Stall stops after n bytes of the body until released is closed or d has passed (0: no limit); then it goes on. When
// the client or the feed gives up meanwhile, the connection closes.
func Stall(n int64, released <-chan struct{}, d time.Duration) Fault {
	return Fault{name: "stall", writer: func(x *exchange, w http.ResponseWriter, next io.Writer) io.Writer {
		return &stallWriter{exchange: x, response: w, next: next, left: n, released: released, limit: d}
	}}
}

// SlowDrip sends the body at a rate.
func SlowDrip(bytesPerSecond int) Fault {
	return Fault{name: "slow drip", writer: func(x *exchange, w http.ResponseWriter, next io.Writer) io.Writer {
		return &dripWriter{exchange: x, response: w, next: next, rate: bytesPerSecond}
	}}
}

// ExpireLink refuses the link as expired, whatever its time.
func ExpireLink() Fault { return Fault{name: "expire link", spoils: true, expire: true} }

// WrongLinks gives each entry of the answer the link of another file of the version, under its own name and hash.
func WrongLinks() Fault {
	return Fault{name: "wrong links", twist: func(v *version, f file) (file, file) { return v.another(f), f }}
}

// WrongHashes gives each entry of the answer the sha256 of another file of the version.
func WrongHashes() Fault {
	return Fault{name: "wrong hashes", twist: func(v *version, f file) (file, file) { return f, v.another(f) }}
}

// another returns a file of the version with other bytes, or f itself when there is none.
func (v *version) another(f file) file {
	for _, other := range v.files {
		if other.sha256 != f.sha256 {
			return other
		}
	}
	return f
}

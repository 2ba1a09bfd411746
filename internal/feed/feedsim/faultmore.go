package feedsim

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Echo refuses with a status and tells everything that was asked: the target with its query, and every header of the
// request, in the body and in headers of the answer. Some stores and proxies do.
func Echo(code int) Fault {
	return Fault{name: fmt.Sprintf("echo %d", code), spoils: true, instead: func(x *exchange) answer {
		said := fmt.Sprintf("%s %s %q", x.http.Method, x.http.RequestURI, x.http.Header)
		a := bytesAnswer(code, http.Header{"Content-Type": {"application/json"}}, nil)
		body, err := jsonBytes(object{{"code", "refused"}, {"message", said}, {"detail", "<Code>" + said + "</Code>"}})
		if err != nil {
			body = []byte(said)
		}
		a.header.Set("X-Request", said)
		a.header.Set("ETag", strconv.Quote(x.http.RequestURI))
		a.size = int64(len(body))
		a.body = func(w io.Writer) error { return second(w.Write(body)) }
		return a
	}}
}

// Move redirects to the same target on the second port of the links host; on the API to the same path there, which
// nobody must follow.
func Move(code int) Fault {
	return Fault{name: fmt.Sprintf("move %d", code), spoils: true, instead: func(x *exchange) answer {
		return bytesAnswer(code, http.Header{"Location": {x.feed.moved.base + x.http.RequestURI}}, nil)
	}}
}

// MoveHost redirects to the same port under another name of this machine.
func MoveHost(code int) Fault {
	return Fault{name: fmt.Sprintf("move host %d", code), spoils: true, instead: func(x *exchange) answer {
		there := "http://"
		if x.http.TLS != nil {
			there = "https://"
		}
		port := x.http.Host[strings.LastIndexByte(x.http.Host, ':'):]
		return bytesAnswer(code, http.Header{"Location": {there + "localhost" + port + x.http.RequestURI}}, nil)
	}}
}

// Circle redirects to the very address that was asked.
func Circle() Fault {
	return Fault{name: "circle", spoils: true, instead: func(x *exchange) answer {
		return bytesAnswer(http.StatusFound, http.Header{"Location": {x.http.RequestURI}}, nil)
	}}
}

// Wait is how an answer says when to come back.
type Wait int

// In seconds; as a date.
const (
	WaitSeconds Wait = iota
	WaitDate
)

// RetryLater refuses with a status and a Retry-After. A negative time is sent as it is.
func RetryLater(code int, after time.Duration, how Wait) Fault {
	return Fault{name: fmt.Sprintf("busy %d for %s", code, after), spoils: true, instead: func(x *exchange) answer {
		text := strconv.FormatInt(int64(after/time.Second), 10)
		if how == WaitDate {
			text = x.feed.clock.Now().Add(after).UTC().Format(http.TimeFormat)
		}
		a := x.feed.refuse(&refusal{code, "rate_limited", "Too many requests."})
		a.header.Set("Retry-After", text)
		return a
	}}
}

// ExpireAll makes every link issued so far expired when the request comes, its own too.
func ExpireAll() Fault { return Fault{name: "expire all", before: (*Feed).ExpireLinks} }

// Header sets a header of the answer, or takes it away where value is empty.
func Header(name, value string) Fault {
	return Fault{name: "header " + name, change: func(a answer) answer {
		a.header = a.header.Clone()
		if a.header.Del(name); value != "" {
			a.header.Set(name, value)
		}
		return a
	}}
}

// SliceAsWhole answers a range with its bytes and the status of a whole file.
func SliceAsWhole() Fault {
	return Fault{name: "slice as whole", spoils: true, change: func(a answer) answer {
		a.status, a.header = http.StatusOK, a.header.Clone()
		a.header.Del("Content-Range")
		return a
	}}
}

// Slice answers 206 with the file's first n bytes, although the whole was asked for.
func Slice(n int64) Fault {
	return Fault{name: "slice", spoils: true,
		change: func(a answer) answer {
			a.status, a.header = http.StatusPartialContent, a.header.Clone()
			a.header.Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", n-1, a.size))
			a.size = min(a.size, n)
			return a
		},
		writer: func(_ *exchange, w http.ResponseWriter, next io.Writer) io.Writer {
			return &cutWriter{response: w, next: next, left: n, end: errTruncated}
		}}
}

var (
	linkBase  = regexp.MustCompile(`("url": ?")https?://[^/"]+`)
	expiresAt = regexp.MustCompile(`"expiresAt": ?"[^"]*"`)
)

// LinksTo makes the links of an answer begin with another scheme, host and port.
func LinksTo(base string) Fault {
	return named("links to "+base, Rewrite(func(body []byte) []byte {
		return linkBase.ReplaceAll(body, []byte("${1}"+base))
	}))
}

// Expires makes an answer say this of when its links expire, as JSON; nothing at all where it is empty. The links
// themselves live as long as they did.
func Expires(value string) Fault {
	member := `"expiresAt":` + value
	if value == "" {
		member = `"unused":null`
	}
	return named("expires "+value, Rewrite(func(body []byte) []byte { return expiresAt.ReplaceAll(body, []byte(member)) }))
}

// named gives a fault another name in the log.
func named(name string, fault Fault) Fault {
	fault.name = name
	return fault
}

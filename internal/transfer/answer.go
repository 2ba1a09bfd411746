package transfer

import (
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/internal/netclient"
)

// verdict says what is done after a try.
type verdict int

const (
	accepted   verdict = iota
	again              // the same link may be used once more
	renew              // the link was refused: one fresh link, at once
	renewLater         // the file is not there: a fresh link after a pause, since edges remember a 404
	restart            // from byte zero: what is there cannot be continued
	wrong              // other bytes than named: from byte zero with a fresh link
	final              // nothing helps
)

// problem is a try that failed: what to do, and what to say when nothing more is done.
type problem struct {
	verdict verdict
	kind    fault.Kind
	status  int
	after   time.Duration // Retry-After
	cause   error
	hint    string
}

// The hints of what operators meet most.
const (
	hintRefused = "The host behind the links refuses them, fresh ones too: check that no proxy changes requests to it, then ask the feed's operator."
	hintMissing = "The feed lists the file but its storage does not have it; the next pass asks again."
	hintAgain   = "The next pass goes on where this one stopped."
	hintBytes   = "A proxy between the mirror and the links may change answers; else the feed's storage holds other bytes than its manifest names."
)

// judge says what an answer to a request for the bytes from offset on is worth. want is the
// file's whole size, etag that of the first answer.
func judge(b *body, offset, want int64, etag string) *problem {
	response := b.response
	switch {
	case response.StatusCode == http.StatusOK || response.StatusCode == http.StatusPartialContent:
		return judgeContent(b, offset, want, etag)
	case response.StatusCode == http.StatusRequestedRangeNotSatisfiable && offset > 0:
		return &problem{
			verdict: restart, kind: fault.WrongBytes, status: response.StatusCode, hint: hintBytes,
			cause: fmt.Errorf("the source has nothing from byte %d on, %d bytes are named", offset, want),
		}
	default:
		return judgeStatus(b, errorCode(b.drain()))
	}
}

// judgeStatus judges an answer without the file.
func judgeStatus(b *body, code string) *problem {
	status := b.response.StatusCode
	p := &problem{status: status, cause: fmt.Errorf("status %d%s", status, code)}
	switch {
	case status == http.StatusBadRequest || status == http.StatusUnauthorized || status == http.StatusForbidden:
		// Stores word an expired link in many ways: the status alone decides.
		p.verdict, p.kind, p.hint = renew, fault.Denied, hintRefused
	case status == http.StatusNotFound || status == http.StatusGone:
		p.verdict, p.kind, p.hint = renewLater, fault.NotFound, hintMissing
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly ||
		status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		p.verdict, p.kind, p.hint = again, fault.Transient, hintAgain
		p.after = netclient.RetryAfter(b.response.Header, b.opts.Now())
	case status >= 300 && status < 400:
		p.verdict, p.kind = wrong, fault.Malformed
		p.cause = fmt.Errorf("status %d leads nowhere", status)
		if isRedirect(b.response) {
			p.cause = fmt.Errorf("the link is redirected more than %d times", maxRedirects)
		}
		p.hint = "A proxy or login page may stand between the mirror and the links."
	default:
		p.verdict, p.kind, p.hint = renew, fault.Malformed, hintRefused
	}
	return p
}

// judgeContent judges an answer that says it holds the file, or the rest of it.
func judgeContent(b *body, offset, want int64, etag string) *problem {
	response := b.response
	p := judgeExtent(b, offset, want, etag)
	encoding := contentEncoding(response)
	if encoding == "" || p == nil && response.ContentLength >= 0 {
		// Bytes that are stored under an encoding are the file's own when their number is right: the
		// manifest names what the source sends. The sha256 decides.
		return p
	}
	return &problem{
		verdict: wrong, kind: fault.Malformed, status: response.StatusCode,
		cause: fmt.Errorf("the answer is encoded (%s) although none was asked for", encoding),
		hint:  "A proxy or the feed's storage compresses on the fly: exempt the links' host from it.",
	}
}

// contentEncoding returns how an answer says that its bytes are encoded, "" for not at all.
func contentEncoding(response *http.Response) string {
	encoding := response.Header.Get("Content-Encoding")
	if strings.EqualFold(encoding, "identity") {
		return ""
	}
	return printable(encoding)
}

// judgeExtent judges which bytes an answer holds.
func judgeExtent(b *body, offset, want int64, etag string) *problem {
	response := b.response
	if response.StatusCode == http.StatusPartialContent {
		return judgeRange(response, offset, want, etag)
	}
	if offset > 0 {
		return &problem{
			verdict: restart, kind: fault.Transient, status: response.StatusCode, hint: hintAgain,
			cause: fmt.Errorf("the connection broke at byte %d and the source cannot resume", offset),
		}
	}
	if response.ContentLength >= 0 && response.ContentLength != want {
		return &problem{
			verdict: wrong, kind: fault.WrongBytes, status: response.StatusCode, hint: hintBytes,
			cause: fmt.Errorf("the source sends %d bytes (%s), %d are named", response.ContentLength, b.whence(), want),
		}
	}
	return nil
}

// judgeRange judges a 206. Only one that continues exactly where we are, in a file of the right
// size and the same generation, is taken.
func judgeRange(response *http.Response, offset, want int64, etag string) *problem {
	p := &problem{verdict: restart, kind: fault.WrongBytes, status: response.StatusCode, hint: hintBytes}
	if offset == 0 {
		p.verdict, p.cause = wrong, fmt.Errorf("the source answers with a slice, the whole was asked for")
		return p
	}
	start, end, total, ok := parseContentRange(response.Header.Get("Content-Range"))
	switch {
	case !ok:
		p.cause = fmt.Errorf("the source resumes without saying where")
	case start != offset || total != want || end >= total:
		p.cause = fmt.Errorf("the source resumes at byte %d of %d, asked for byte %d of %d", start, total, offset, want)
	case response.ContentLength >= 0 && response.ContentLength != end-start+1:
		p.cause = fmt.Errorf("the source resumes with %d bytes where its range has %d", response.ContentLength, end-start+1)
	case etag != "" && response.Header.Get("ETag") != "" && response.Header.Get("ETag") != etag:
		p.cause = fmt.Errorf("the file changed at the source while it was fetched")
	default:
		return nil
	}
	return p
}

// parseContentRange reads "bytes start-end/total" with all three known.
func parseContentRange(text string) (start, end, total int64, ok bool) {
	unit, rest, found := strings.Cut(text, " ")
	span, whole, hasTotal := strings.Cut(rest, "/")
	first, last, hasEnd := strings.Cut(span, "-")
	if !found || !hasTotal || !hasEnd || !strings.EqualFold(unit, "bytes") {
		return 0, 0, 0, false
	}
	var values [3]int64
	for i, digits := range [...]string{first, last, whole} {
		value, err := strconv.ParseUint(digits, 10, 62)
		if err != nil {
			return 0, 0, 0, false
		}
		values[i] = int64(value) //nolint:gosec // at most 62 bits
	}
	return values[0], values[1], values[2], values[0] <= values[1]
}

// strongETag returns an ETag that may stand in If-Range, or "".
func strongETag(header http.Header) string {
	etag := header.Get("ETag")
	if len(etag) < 2 || etag[0] != '"' || len(etag) > 256 {
		return ""
	}
	return etag
}

var codePattern = regexp.MustCompile(`<Code>([A-Za-z0-9.]{1,64})</Code>`)

// errorCode returns " Code" from a store's XML error, or "". Nothing else of the body is told:
// some stores echo the signed request in it.
func errorCode(text []byte) string {
	match := codePattern.FindSubmatch(text)
	if match == nil {
		return ""
	}
	return " " + string(match[1])
}

// mediaType returns the answer's content type for a message.
func mediaType(response *http.Response) string {
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		return "no content type"
	}
	return printable(media)
}

// printable bounds a header's value and keeps control characters out of messages.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text[:min(len(text), 64)])
}

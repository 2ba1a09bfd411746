package feedsim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// signatureParameter ends every link. What stands before it, byte for byte, is what was signed.
const signatureParameter = "&X-Feed-Signature="

// escape writes every byte but letters and digits as an escape, so that a client that decodes and encodes a link again
// cannot get the same bytes.
func escape(text string) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' {
			out.WriteByte(b)
		} else {
			fmt.Fprintf(&out, "%%%02X", b)
		}
	}
	return out.String()
}

// sign returns a link to a file. It carries characters that a careless client rewrites: a plus, escapes in lower case,
// an escaped slash, an empty parameter.
func (f *Feed) sign(v *version, file file, expires time.Time, serial int64) string {
	target := fmt.Sprintf("/feed+files/%s/%d/%s?X-Feed-Credential=feed%%2Fv1%%3D&note=a+b%%20c%%2bd%%3B&empty=&X-Feed-Expires=%d&X-Feed-Serial=%d",
		escape(v.dataset.spec.ID), v.number, escape(file.name), expires.UnixMilli(), serial)
	return *f.linksBase.Load() + target + signatureParameter + f.signature(target)
}

func (f *Feed) signature(target string) string {
	mac := hmac.New(sha256.New, f.secret)
	mac.Write([]byte(target))
	return hex.EncodeToString(mac.Sum(nil))
}

// link is a link read back.
type link struct {
	dataset string
	version int64
	file    string
	expires time.Time
	serial  int64
}

// readLink reads a raw request target. ok is false for one that this feed did not issue in exactly these bytes.
func (f *Feed) readLink(target string) (l link, ok bool) {
	signed, signature, found := strings.Cut(target, signatureParameter)
	if !found || !hmac.Equal([]byte(signature), []byte(f.signature(signed))) {
		return link{}, false
	}
	path, query, _ := strings.Cut(signed, "?")
	segments := strings.Split(strings.TrimPrefix(path, "/feed+files/"), "/")
	values, err := url.ParseQuery(query)
	if err != nil || len(segments) != 3 {
		return link{}, false
	}
	dataset, err1 := url.PathUnescape(segments[0])
	version, err2 := strconv.ParseInt(segments[1], 10, 64)
	name, err3 := url.PathUnescape(segments[2])
	millis, err4 := strconv.ParseInt(values.Get("X-Feed-Expires"), 10, 64)
	serial, err5 := strconv.ParseInt(values.Get("X-Feed-Serial"), 10, 64)
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err != nil {
			return link{}, false
		}
	}
	return link{dataset: dataset, version: version, file: name, expires: time.UnixMilli(millis), serial: serial}, true
}

// ExpireLinks makes every link issued so far expired.
func (f *Feed) ExpireLinks() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expiredTo = f.serial
}

func (f *Feed) linksHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l, ok := f.readLink(r.RequestURI)
		request := Request{
			Side: SideLinks, Method: r.Method, Path: r.URL.Path, Dataset: l.dataset, Version: l.version, File: l.file,
		}
		f.exchange(w, r, request, func(x *exchange) answer { return f.answerLink(x, l, ok) })
	})
}

// answerLink refuses what breaks the rules and sends the file otherwise.
func (f *Feed) answerLink(x *exchange, l link, genuine bool) answer {
	violation := func(rule string, status int, code, message string) answer {
		f.log.violate(x.event.Request, rule)
		return storeError(status, code, message)
	}
	switch {
	case x.event.Authorization:
		return violation("authorization", http.StatusBadRequest, "InvalidArgument", "Only one auth mechanism allowed.")
	case x.event.Cookie:
		return violation("cookie", http.StatusBadRequest, "InvalidArgument", "Cookies are not expected here.")
	case x.http.Method != http.MethodGet:
		return violation("method", http.StatusForbidden, "SignatureDoesNotMatch", "The link is signed for GET.")
	case !genuine:
		return violation("target", http.StatusForbidden, "SignatureDoesNotMatch", "The signature does not match the request.")
	}
	f.mu.Lock()
	expired := !f.clock.Now().Before(l.expires) || l.serial <= f.expiredTo
	var found file
	ok := false
	if dataset := f.datasets[l.dataset]; dataset != nil {
		if v := dataset.find(l.version); v != nil {
			found, ok = v.file(l.file)
		}
	}
	f.mu.Unlock()
	switch {
	case expired || x.fault.expire:
		return f.refuseExpired()
	case !ok:
		return storeError(http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
	}
	return fileAnswer(x, found)
}

// storeError answers as an object store does, in XML.
func storeError(status int, code, message string) answer {
	body := fmt.Sprintf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>%s</Message></Error>", code, message)
	return bytesAnswer(status, http.Header{"Content-Type": {"application/xml"}}, []byte(body))
}

// refuseExpired answers an expired link in the style that is assumed.
func (f *Feed) refuseExpired() answer {
	switch f.options.Assume.ExpiredLink {
	case ExpiredHTML:
		page := "<!DOCTYPE html><html><body><h1>403 Forbidden</h1>The link has expired.</body></html>"
		return bytesAnswer(http.StatusForbidden, http.Header{"Content-Type": {"text/html; charset=utf-8"}}, []byte(page))
	case ExpiredEmpty:
		return bytesAnswer(http.StatusForbidden, http.Header{}, nil)
	case ExpiredRequest400:
		return storeError(http.StatusBadRequest, "ExpiredRequest", "The request has expired.")
	case ExpiredToken400:
		return storeError(http.StatusBadRequest, "ExpiredToken", "The provided token has expired.")
	case ExpiredUnauthorized:
		return storeError(http.StatusUnauthorized, "Unauthorized", "The link has expired.")
	}
	return storeError(http.StatusForbidden, "AccessDenied", "Request has expired")
}

// fileAnswer sends a file or the range asked for.
func fileAnswer(x *exchange, f file) answer {
	etag := `"` + f.sha256[:32] + `"`
	if x.fault.otherETag {
		etag = `"0` + f.sha256[:31] + `"`
	}
	header := http.Header{
		"Content-Type": {f.contentType}, "Etag": {etag}, "Accept-Ranges": {"bytes"},
		"Last-Modified": {"Sun, 18 Oct 2026 06:12:40 GMT"},
	}
	if match := x.http.Header.Get("If-Match"); match != "" && match != etag {
		return storeError(http.StatusPreconditionFailed, "PreconditionFailed", "The file has another ETag.")
	}
	from, to, partial, ok := parseRange(x.http.Header.Get("Range"), f.size)
	if condition := x.http.Header.Get("If-Range"); condition != "" && condition != etag || x.fault.ignoreRange {
		from, to, partial, ok = 0, f.size, false, true
	}
	if !ok {
		refused := storeError(http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "The range is not within the file.")
		refused.header.Set("Content-Range", fmt.Sprintf("bytes */%d", f.size))
		return refused
	}
	a := answer{
		status: http.StatusOK, header: header, size: to - from, whole: to == f.size,
		body: func(w io.Writer) error { return f.write(w, from, to) },
	}
	if partial {
		a.status = http.StatusPartialContent
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, f.size))
	}
	return a
}

// parseRange reads one range of bytes as [from, to). A header that is absent or not of that form asks for the whole.
func parseRange(header string, size int64) (from, to int64, partial, ok bool) {
	spec, found := strings.CutPrefix(header, "bytes=")
	first, last, dashed := strings.Cut(spec, "-")
	if !found || !dashed || strings.Contains(spec, ",") {
		return 0, size, false, true
	}
	if first == "" {
		suffix, err := strconv.ParseInt(last, 10, 64)
		if err != nil {
			return 0, size, false, true
		}
		return max(0, size-suffix), size, true, suffix > 0 && size > 0
	}
	from, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0, size, false, true
	}
	to = size
	if last != "" {
		end, err := strconv.ParseInt(last, 10, 64)
		if err != nil || end < from {
			return 0, size, false, true
		}
		to = min(size, end+1)
	}
	return from, to, true, from < size
}

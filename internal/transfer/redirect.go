package transfer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"feedmirror/internal/fault"
)

// maxRedirects is how many redirects of one request are followed: a host that moved, and a cache
// before its storage.
const maxRedirects = 3

// errDowngrade is a redirect that would send the rest of the way in the clear.
var errDowngrade = errors.New("it leads from https to plain http")

// follow sends one GET, to where redirects lead. There is nothing to lose on the way: the request holds
// no key and no cookie, only the link's own query, which the source itself passes on or not. Every hop
// is held to the rules of a link and passes the guard.
func (f *fetch) follow(l link, offset int64) (*body, *problem) {
	address, moved := l.url, ""
	for hop := 0; ; hop++ {
		request, err := newRequest(f.ctx, address)
		if err == nil && hop > 0 && request.URL.Scheme != "https" && strings.HasPrefix(strings.ToLower(l.url), "https:") {
			err = errDowngrade
		}
		if err != nil {
			return nil, unusable(err, hop)
		}
		if hop > 0 {
			moved = printable(request.URL.Hostname())
		}
		f.describe(request, offset)
		b, err := f.engine.send(request)
		if err != nil {
			return nil, connectProblem(err)
		}
		b.moved = moved
		if !isRedirect(b.response) || hop == maxRedirects {
			return b, nil
		}
		address = redirectTarget(address, b.response.Header.Get("Location"))
		b.drain()
		b.close()
	}
}

// unusable is the problem with a link, or with what a redirect names instead.
func unusable(err error, hop int) *problem {
	p := &problem{verdict: final, kind: fault.Malformed, cause: err,
		hint: "The feed sent a link that cannot be used: report it to the feed's operator."}
	if hop > 0 {
		p.cause = fmt.Errorf("the link is redirected, and the redirect cannot be followed: %w", err)
		p.hint = "A proxy or login page may stand between the mirror and the links; else report it to the feed's operator."
	}
	return p
}

// isRedirect reports whether an answer says where the file is instead.
func isRedirect(response *http.Response) bool {
	switch response.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return response.Header.Get("Location") != ""
	default:
		return false
	}
}

// redirectTarget returns the address that a redirect names, spelled as it came: signatures cover the
// spelling. from is the address that was asked.
func redirectTarget(from, location string) string {
	scheme, rest, _ := strings.Cut(from, "://")
	host, path := rest, ""
	if at := strings.IndexAny(rest, "/?#"); at >= 0 {
		host = rest[:at]
		path, _, _ = strings.Cut(rest[at:], "#")
		path, _, _ = strings.Cut(path, "?")
	}
	if path == "" {
		path = "/"
	}
	colon, other := strings.IndexByte(location, ':'), strings.IndexAny(location, "/?#")
	switch {
	case colon > 0 && (other < 0 || colon < other): // it has a scheme of its own
		return location
	case strings.HasPrefix(location, "//"):
		return scheme + ":" + location
	case strings.HasPrefix(location, "/"):
		return scheme + "://" + host + location
	case strings.HasPrefix(location, "?"):
		return scheme + "://" + host + path + location
	default:
		return scheme + "://" + host + path[:strings.LastIndexByte(path, '/')+1] + location
	}
}

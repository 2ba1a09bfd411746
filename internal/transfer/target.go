package transfer

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"feedmirror/internal/netclient"
)

// Reasons why a link is not used. They hold nothing of the link.
var (
	errNoLink      = errors.New("the link is no absolute http or https URL")
	errPlainHTTP   = errors.New("the link is plain http to a host that is not this machine")
	errNotSendable = errors.New("the link holds characters that cannot be sent as they are")
)

// newRequest returns a GET whose request target is the link's, byte for byte: signatures cover
// the spelling, and a URL that is parsed and put together again is spelled anew.
func newRequest(ctx context.Context, signed string) (*http.Request, error) {
	scheme, rest, ok := strings.Cut(signed, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "https" && scheme != "http" {
		return nil, errNoLink
	}
	host, target := rest, ""
	if at := strings.IndexAny(rest, "/?#"); at >= 0 {
		host, target = rest[:at], rest[at:]
	}
	target, _, _ = strings.Cut(target, "#") // never sent
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	base, err := url.Parse(scheme + "://" + host)
	if err != nil || base.Hostname() == "" || base.User != nil {
		return nil, errNoLink
	}
	if scheme == "http" && !netclient.IsLoopback(base.Hostname()) {
		return nil, errPlainHTTP
	}
	exact, err := exactURL(base, target)
	if err != nil {
		return nil, err
	}
	request := &http.Request{
		Method: http.MethodGet, URL: exact, Host: base.Host, Header: make(http.Header, 4),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return request.WithContext(ctx), nil
}

// exactURL returns base with a target that net/http writes unchanged.
func exactURL(base *url.URL, target string) (*url.URL, error) {
	for _, c := range []byte(target) {
		if c <= ' ' || c == 0x7f {
			return nil, errNotSendable
		}
	}
	path, query, hasQuery := strings.Cut(target, "?")
	exact := &url.URL{
		Scheme: base.Scheme, Host: base.Host, Opaque: path,
		RawQuery: query, ForceQuery: hasQuery && query == "",
	}
	if strings.HasPrefix(path, "//") {
		// An opaque part that begins with two slashes is sent in absolute form, so this one has
		// to pass through the parser.
		decoded, err := url.PathUnescape(path)
		if err != nil {
			return nil, errNotSendable
		}
		exact.Opaque, exact.Path, exact.RawPath = "", decoded, path
	}
	if exact.RequestURI() != target {
		return nil, errNotSendable
	}
	return exact, nil
}

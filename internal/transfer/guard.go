package transfer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"
)

// GuardOptions say where signed links may lead. The zero value allows public addresses only.
type GuardOptions struct {
	// Allowed are networks that links may lead to although they are not public.
	Allowed []netip.Prefix
	// Loopback lets links lead to this machine, as those of a feed on this machine do.
	Loopback bool
	// Hosts are globs of host names, without ports: links may lead to no other. Empty: to any.
	Hosts []string
	// Unchecked is called once, when a link is first fetched through a proxy although Hosts is empty:
	// the proxy resolves the name, so that nobody checks the address.
	Unchecked func()
	Timeout   time.Duration // of a connect; 30 s when zero
	Resolver  *net.Resolver // nil: the system's
}

// Guard holds a transport for signed links to the rules. It wraps the transport's Proxy and replaces
// its DialContext. What it refuses fails with a RefusedAddressError or a RefusedHostError.
func Guard(transport *http.Transport, options GuardOptions) {
	setDefault(&options.Timeout, 30*time.Second)
	g := &guard{options: options}
	transport.Proxy = g.choose(transport.Proxy)
	transport.DialContext = g.dial
}

// guard decides which addresses links may lead to, when they are dialled: a name can resolve to
// anything, and to something else the next time.
type guard struct {
	options GuardOptions
	proxies sync.Map // host:port of proxies that the operator configured
	warn    sync.Once
}

// RefusedAddressError is a link that leads to an address it may not lead to.
type RefusedAddressError struct{ Address netip.Addr }

// Error names the address.
func (e *RefusedAddressError) Error() string {
	return fmt.Sprintf("the link leads to %s, which is not a public address", e.Address)
}

// RefusedHostError is a link that leads to a host it may not lead to.
type RefusedHostError struct {
	Host   string
	Listed bool // whether there is a list that does not name it; else it is no public host's name
}

// Error names the host.
func (e *RefusedHostError) Error() string {
	if e.Listed {
		return fmt.Sprintf("the link leads to %q, which is not among the hosts that links may lead to", e.Host)
	}
	return fmt.Sprintf("the link leads through a proxy to %q, which is no public host's name", e.Host)
}

// choose wraps the choice of a proxy, which is made for each request before any connection is used or
// opened, with the checks of the host.
func (g *guard) choose(next func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(request *http.Request) (*url.URL, error) {
		host := strings.ToLower(strings.TrimSuffix(request.URL.Hostname(), "."))
		if len(g.options.Hosts) > 0 && !matches(g.options.Hosts, host) {
			return nil, &RefusedHostError{Host: host, Listed: true}
		}
		if next == nil {
			return nil, nil
		}
		proxy, err := next(request)
		if err != nil || proxy == nil {
			return nil, err
		}
		if err := g.checkProxied(host); err != nil {
			return nil, err
		}
		g.proxies.Store(hostPort(proxy), true)
		return proxy, nil
	}
}

// checkProxied checks what can be known of a host that a proxy resolves. A list of hosts has been
// consulted already; without one, names that no public host has are refused.
func (g *guard) checkProxied(host string) error {
	if address, err := netip.ParseAddr(host); err == nil {
		return g.checkAddress(address)
	}
	if len(g.options.Hosts) > 0 {
		return nil
	}
	if !isPublicName(host) {
		return &RefusedHostError{Host: host}
	}
	if g.options.Unchecked != nil {
		g.warn.Do(g.options.Unchecked)
	}
	return nil
}

func matches(globs []string, host string) bool {
	for _, glob := range globs {
		if ok, err := path.Match(strings.ToLower(glob), host); err == nil && ok {
			return true
		}
	}
	return false
}

// isPublicName reports whether a name can be a host's on the Internet: not a bare word, not one of
// the endings kept for private networks (RFC 6761, 6762, 8375 and .internal), no number that a
// resolver takes for an address.
func isPublicName(host string) bool {
	at := strings.LastIndexByte(host, '.')
	if at < 0 {
		return false
	}
	switch last := host[at+1:]; {
	case last == "local", last == "localhost", last == "localdomain", last == "internal":
		return false
	case last == "", last[0] >= '0' && last[0] <= '9':
		return false
	}
	return !strings.HasSuffix(host, ".home.arpa")
}

func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return g.dialer(address).DialContext(ctx, network, address)
}

// dialer returns a dialer for a host and port that checks what the host resolves to. A proxy's address
// is the operator's choice, not the feed's.
func (g *guard) dialer(address string) *net.Dialer {
	dialer := &net.Dialer{Timeout: g.options.Timeout, KeepAlive: 30 * time.Second, Resolver: g.options.Resolver}
	if _, isProxy := g.proxies.Load(address); !isProxy {
		dialer.Control = func(_, resolved string, _ syscall.RawConn) error { return g.check(resolved) }
	}
	return dialer
}

// check refuses an address and port that were resolved.
func (g *guard) check(resolved string) error {
	at, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return errors.New("check address: not an address and a port")
	}
	return g.checkAddress(at.Addr())
}

func (g *guard) checkAddress(address netip.Addr) error {
	address = hidden(address.WithZone(""))
	if address.IsLoopback() && g.options.Loopback {
		return nil
	}
	for _, prefix := range g.options.Allowed {
		if prefix.Contains(address) {
			return nil
		}
	}
	if !isPublic(address) {
		return &RefusedAddressError{Address: address}
	}
	return nil
}

// hidden returns the IPv4 address behind an IPv6 one that only wraps it: mapped, or translated under
// the prefix that every NAT64 knows (RFC 6052), as clusters without IPv4 reach all IPv4 hosts.
func hidden(address netip.Addr) netip.Addr {
	address = address.Unmap()
	if translated := netip.MustParsePrefix("64:ff9b::/96"); translated.Contains(address) {
		bytes := address.As16()
		return netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return address
}

// reserved are ranges beyond those that netip names which are no public hosts (RFC 6890): this
// network, shared address space, protocol assignments, documentation, the relays of 6to4, benchmarks,
// the old class E, and tunnels behind whose addresses any IPv4 host can hide.
func reserved() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
		netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"),
		netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
		netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
		netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("2001::/23"),
		netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"),
		netip.MustParsePrefix("3fff::/20"),
	}
}

func isPublic(address netip.Addr) bool {
	if !address.IsGlobalUnicast() || address.IsPrivate() {
		return false
	}
	// Of IPv6 only this range is given to hosts; what lies outside is local, translated or unused.
	if address.Is6() && !netip.MustParsePrefix("2000::/3").Contains(address) {
		return false
	}
	for _, prefix := range reserved() {
		if prefix.Contains(address) {
			return false
		}
	}
	return true
}

// hostPort returns what a transport dials for a proxy.
func hostPort(proxy *url.URL) string {
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
	}
	return net.JoinHostPort(proxy.Hostname(), port)
}

package transfer

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"
)

// Guard makes a transport for signed links refuse addresses that are not public, unless allowed
// names their range or the link itself names this machine. It wraps the transport's Proxy and
// replaces its DialContext; timeout limits a connect (30 s when zero).
func Guard(transport *http.Transport, allowed []netip.Prefix, timeout time.Duration) {
	setDefault(&timeout, 30*time.Second)
	g := &guard{allowed: allowed, timeout: timeout}
	transport.Proxy = g.proxy(transport.Proxy)
	transport.DialContext = g.dial
}

// guard decides which addresses links may lead to, when they are dialled: a name can resolve to
// anything, and to something else the next time.
type guard struct {
	allowed []netip.Prefix
	timeout time.Duration
	proxies sync.Map // host:port of proxies that the operator configured
}

// RefusedAddressError is a link that leads to an address it may not lead to.
type RefusedAddressError struct{ Address netip.Addr }

// Error names the address.
func (e *RefusedAddressError) Error() string {
	return fmt.Sprintf("the link leads to %s, which is not a public address", e.Address)
}

// proxy remembers the proxies in use: their addresses are the operator's choice, not the feed's.
func (g *guard) proxy(choose func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	if choose == nil {
		return nil
	}
	return func(request *http.Request) (*url.URL, error) {
		chosen, err := choose(request)
		if err == nil && chosen != nil {
			g.proxies.Store(hostPort(chosen), true)
		}
		return chosen, err
	}
}

func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer, err := g.dialer(address)
	if err != nil {
		return nil, err
	}
	return dialer.DialContext(ctx, network, address)
}

// dialer returns a dialer for a host and port that checks what the host resolves to.
func (g *guard) dialer(address string) (net.Dialer, error) {
	dialer := net.Dialer{Timeout: g.timeout, KeepAlive: 30 * time.Second}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return dialer, fmt.Errorf("dial source: %w", err)
	}
	if _, isProxy := g.proxies.Load(address); !isProxy {
		local := isLoopback(host)
		dialer.Control = func(_, resolved string, _ syscall.RawConn) error { return g.check(resolved, local) }
	}
	return dialer, nil
}

// check refuses an address that was resolved. local says that the link itself names this
// machine, which only a feed on this machine does.
func (g *guard) check(resolved string, local bool) error {
	at, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return fmt.Errorf("check address: %w", err)
	}
	address := at.Addr().Unmap().WithZone("")
	if address.IsLoopback() && local {
		return nil
	}
	for _, prefix := range g.allowed {
		if prefix.Contains(address) {
			return nil
		}
	}
	if !isPublic(address) {
		return &RefusedAddressError{Address: address}
	}
	return nil
}

// reserved are ranges beyond those that netip names which are no public hosts (RFC 6890): this
// network, shared address space, protocol assignments, benchmarks, the old class E, and
// addresses of IPv4 hosts in IPv6 clothes, behind which any of them can hide.
func reserved() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
		netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
		netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
		netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
	}
}

func isPublic(address netip.Addr) bool {
	if !address.IsGlobalUnicast() || address.IsPrivate() {
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

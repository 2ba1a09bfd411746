package netclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"feedmirror/internal/fault"
)

// Time limits and pool sizes that apply when Options leaves them at zero.
const (
	DefaultDialTimeout    = 10 * time.Second
	DefaultTLSTimeout     = 10 * time.Second
	DefaultHeaderTimeout  = 60 * time.Second
	DefaultIdleTimeout    = 90 * time.Second
	DefaultPingAfter      = 15 * time.Second
	DefaultConnections    = 16
	defaultKeepAlive      = 30 * time.Second
	bufferSize            = 64 << 10 // bytes; a read or write of a socket moves up to this much
	expectContinueTimeout = time.Second
	// maxHeader bounds an answer's header in bytes, also of answers nobody wanted.
	maxHeader = 256 << 10
)

// Options describe a client. The zero value is a client with the system's certificate
// authorities, the environment's proxy and the default limits.
type Options struct {
	// CAFile is a PEM file of certificate authorities that are trusted beside the system's own.
	CAFile string
	// Proxy chooses a proxy for a request; nil reads HTTPS_PROXY, HTTP_PROXY and NO_PROXY.
	Proxy func(*http.Request) (*url.URL, error)
	// DialTimeout limits the connect, TLSTimeout the handshake, HeaderTimeout the wait from the
	// end of the request to the answer's header. IdleTimeout closes a connection nobody uses.
	DialTimeout   time.Duration
	TLSTimeout    time.Duration
	HeaderTimeout time.Duration
	IdleTimeout   time.Duration
	// Silence breaks a connection over which nothing moved in either direction for so long while
	// somebody waited to read or to write; zero: never. It is for clients whose callers do not watch
	// the bodies themselves, and must be longer than HeaderTimeout.
	Silence time.Duration
	// PingAfter is how long an HTTP/2 connection with a request on it may be silent until it is asked
	// whether it lives, and how long the answer may take. Twice this must be less than a caller waits
	// for an answer: all requests share the connection, so that a dead one swallows every retry.
	PingAfter time.Duration
	// Connections is the number of idle connections kept for one host: the number of workers, or
	// each of them pays for a new connection now and then.
	Connections int
	// HTTP1Only never speaks HTTP/2. The hosts of signed links send large bodies: on HTTP/2 all
	// of them share one connection, its window and its fate.
	HTTP1Only bool
	// RefuseRedirects hands a 3xx answer to the caller instead of following it, so that a key or
	// a signature cannot be sent to a host that nobody named.
	RefuseRedirects bool
}

// New returns a client. A CA file that cannot be read or holds no certificate is a fault.Usage
// that names the file.
func New(options Options) (*http.Client, error) {
	pool, err := certificatePool(options.CAFile)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: newTransport(options, pool)}
	if options.RefuseRedirects {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return client, nil
}

func newTransport(options Options, pool *x509.CertPool) *http.Transport {
	dialer := &net.Dialer{
		Timeout:   valueOr(options.DialTimeout, DefaultDialTimeout),
		KeepAlive: defaultKeepAlive,
	}
	connections := valueOr(options.Connections, DefaultConnections)
	transport := &http.Transport{
		Proxy:                 options.Proxy,
		DialContext:           dialer.DialContext,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool},
		TLSHandshakeTimeout:   valueOr(options.TLSTimeout, DefaultTLSTimeout),
		ResponseHeaderTimeout: valueOr(options.HeaderTimeout, DefaultHeaderTimeout),
		ExpectContinueTimeout: expectContinueTimeout,
		IdleConnTimeout:       valueOr(options.IdleTimeout, DefaultIdleTimeout),
		MaxIdleConnsPerHost:   connections,
		// No limit over all hosts: the per-host limit bounds it, and the hosts are few.
		MaxIdleConns: 0,
		// Bytes are hashed as they are sent; a transport that unpacks gzip would change them.
		DisableCompression: true,
		WriteBufferSize:    bufferSize,
		ReadBufferSize:     bufferSize,
		Protocols:          new(http.Protocols),

		MaxResponseHeaderBytes: maxHeader,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: valueOr(options.PingAfter, DefaultPingAfter),
			PingTimeout:     valueOr(options.PingAfter, DefaultPingAfter),
		},
	}
	if options.Silence > 0 {
		transport.DialContext = watchSilence(dialer.DialContext, options.Silence)
	}
	transport.Protocols.SetHTTP1(true)
	transport.Protocols.SetHTTP2(!options.HTTP1Only)
	if transport.Proxy == nil {
		transport.Proxy = http.ProxyFromEnvironment
	}
	return transport
}

// certificatePool returns the system's authorities and those of file. Without a file it returns
// nil, which makes crypto/tls use the system's own verifier.
func certificatePool(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	usage := func(cause error) error {
		return &fault.Error{
			Op: "read CA file", Object: file, Side: fault.SideConfig, Kind: fault.Usage, Err: cause,
			Hint: "Give a PEM file with one or more CERTIFICATE blocks.",
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, usage(pathless(err))
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		// A container without any certificate has no pool to add to; ours is then the only one.
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, usage(errors.New("no certificate in it"))
	}
	return pool, nil
}

// pathless drops the path that the error's owner names already.
func pathless(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// Cause returns what went wrong without the address that *url.Error carries: an address can hold
// a signature. A timeout reads as one.
func Cause(err error) error {
	var failed *url.Error
	if !errors.As(err, &failed) {
		return err
	}
	if failed.Timeout() && !errors.Is(failed.Err, context.DeadlineExceeded) {
		return timeout{failed.Err}
	}
	return failed.Err
}

// timeout keeps Timeout() true for what was wrapped in a *url.Error.
type timeout struct{ error }

func (timeout) Timeout() bool { return true }

func (t timeout) Unwrap() error { return t.error }

// IsLoopback reports whether a URL's host is this machine by what it is called, without a look-up.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

func valueOr[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

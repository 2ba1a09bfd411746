package feedsim

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a simulated feed. The zero value is a usable feed.
type Options struct {
	Seed         int64
	Clock        *Clock        // nil: follows the system's
	LinkLifetime time.Duration // default 1 hour
	Key          string        // API key; default "simulated-key"
	Retention    time.Duration // default 90 days, counted from when a version was built
	PageSize     int           // items of a list's page; default 100
	TLS          bool          // serve both ports over TLS with an authority of the feed's own
	Assume       Assume
}

// DefaultKey is the API key of a feed started without one.
const DefaultKey = "simulated-key"

// Feed is a running simulated feed. Its methods are safe for concurrent use.
type Feed struct {
	options Options
	clock   *Clock
	secret  []byte // signs links
	ca      []byte // PEM, nil without TLS
	api     listener
	links   listener
	moved   listener // another port of the links host
	// linksBase is what links begin with: the links host, or what stands in front of it.
	linksBase atomic.Pointer[string]
	stop      chan struct{} // closed by Close: ends stalls and slow answers
	closing   sync.Once
	closed    error

	mu         sync.Mutex
	datasets   map[string]*Dataset
	order      []string // dataset ids as they were added
	rules      []*scripted
	log        journal
	serial     int64 // of links issued
	expiredTo  int64 // links up to this serial are expired, whatever their time
	apiCalls   int
	listChange func([]byte) []byte
}

// listener is one of the feed's two ports.
type listener struct {
	server *http.Server
	base   string // scheme, host and port
	done   chan error
}

// Start opens the ports of the API and of the links host on 127.0.0.1 and serves until Close.
func Start(options Options) (*Feed, error) {
	options.LinkLifetime = cmp.Or(options.LinkLifetime, time.Hour)
	options.Key = cmp.Or(options.Key, DefaultKey)
	options.Retention = cmp.Or(options.Retention, 90*24*time.Hour)
	options.PageSize = cmp.Or(options.PageSize, 100)
	options.Assume.IDMapFolder = cmp.Or(options.Assume.IDMapFolder, "id_map")
	options.Assume.DatasetIDKey = cmp.Or(options.Assume.DatasetIDKey, "id")
	options.Assume.BadKeyStatus = cmp.Or(options.Assume.BadKeyStatus, http.StatusUnauthorized)
	if options.Clock == nil {
		options.Clock = NewSystemClock()
	}
	secret := sha256.Sum256(fmt.Appendf(nil, "links of seed %d", options.Seed))
	feed := &Feed{
		options: options, clock: options.Clock, secret: secret[:],
		stop: make(chan struct{}), datasets: map[string]*Dataset{}, log: newJournal(),
	}
	var authority *authority
	if options.TLS {
		var err error
		if authority, err = newAuthority(); err != nil {
			return nil, err
		}
		feed.ca = authority.pem
	}
	var err error
	if feed.api, err = serve(feed.apiHandler(), authority); err != nil {
		return nil, fmt.Errorf("start api: %w", err)
	}
	if feed.links, err = serve(feed.linksHandler(), authority); err != nil {
		return nil, errors.Join(fmt.Errorf("start links host: %w", err), feed.api.close())
	}
	if feed.moved, err = serve(feed.linksHandler(), authority); err != nil {
		return nil, errors.Join(fmt.Errorf("start other links host: %w", err), feed.api.close(), feed.links.close())
	}
	feed.AdvertiseLinks(feed.links.base)
	return feed, nil
}

func serve(handler http.Handler, authority *authority) (listener, error) {
	socket, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return listener{}, err
	}
	l := listener{
		server: &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute},
		base:   "http://" + socket.Addr().String(),
		done:   make(chan error, 1),
	}
	if authority != nil {
		l.base = "https://" + socket.Addr().String()
		l.server.TLSConfig = authority.config.Clone() // net/http writes to it
		l.server.ErrorLog = quietLog()                // clients that refuse the authority are a test's business, not the console's
		go func() { l.done <- l.server.ServeTLS(socket, "", "") }()
		return l, nil
	}
	go func() { l.done <- l.server.Serve(socket) }()
	return l, nil
}

// close cuts what is being served and waits for the server's end.
func (l listener) close() error {
	err := l.server.Close()
	if served := <-l.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// Close ends both servers. Answers under way are cut.
func (f *Feed) Close() error {
	f.closing.Do(func() {
		close(f.stop)
		f.closed = errors.Join(f.api.close(), f.links.close(), f.moved.close())
	})
	return f.closed
}

// URL returns the base address of the API.
func (f *Feed) URL() string { return f.api.base }

// LinksURL returns the base address of the links host.
func (f *Feed) LinksURL() string { return f.links.base }

// MovedURL returns the base address of a second port of the links host, where redirects lead.
func (f *Feed) MovedURL() string { return f.moved.base }

// AdvertiseLinks makes links begin with another base address, that of something in front of the links host.
func (f *Feed) AdvertiseLinks(base string) { f.linksBase.Store(&base) }

// Key returns the API key that the feed accepts.
func (f *Feed) Key() string { return f.options.Key }

// Clock returns the feed's clock.
func (f *Feed) Clock() *Clock { return f.clock }

// CertificateAuthority returns the PEM of the authority that signed both ports' certificates, nil without TLS.
func (f *Feed) CertificateAuthority() []byte { return f.ca }

// waitFor returns after d, or earlier when the feed or the request ends, and then false.
func (f *Feed) waitFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-f.stop:
	}
	return false
}

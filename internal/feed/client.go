package feed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/internal/netclient"
)

// MaxNames is how many names one call for links may hold.
const MaxNames = 200

// Counts are the requests sent, retries included, as the run report shows them.
type Counts struct {
	Feed  atomic.Int64 // lists, datasets and versions
	Links atomic.Int64 // calls for fresh links
}

// Limits bound what an answer can make the client do. Zero fields mean the defaults.
type Limits struct {
	Page    int64         // bytes of a page, an item or an answer of links; 16 MiB
	Version int64         // bytes of one version's answer, which can list a million files; 1 GiB
	Pages   int           // pages of one list; 100,000
	Idle    time.Duration // longest silence of the server, before or within an answer, and time over which its rate is judged; 60 s
	Wait    time.Duration // longest Retry-After that is waited for; 15 min
}

// Options says how to reach a feed. BaseURL and Key are required.
type Options struct {
	BaseURL   string                                     // https, or http on loopback
	Key       func() (string, error)                     // the API key; called again once after a 401
	HTTP      *http.Client                               // only its transport is used; nil for netclient's defaults
	Clock     func() time.Time                           // time.Now by default; must carry a monotonic reading
	Sleep     func(context.Context, time.Duration) error // waits between tries; a timer by default
	Attempts  int                                        // tries of one request; 5 by default
	UserAgent string                                     // "feedmirror" by default
	Limits    Limits
	Counts    *Counts // may be nil
}

// Client talks to one feed. It is safe for concurrent use.
type Client struct {
	base *url.URL
	// http is no http.Client on purpose: that would follow redirects with the key on them, keep cookies, and
	// repeat what a redirect says, signature and all, in its errors.
	http    http.RoundTripper
	options Options

	mutex sync.Mutex
	key   string
	known bool // key was read
}

// New returns a client. It sends nothing; its errors are fault.Usage.
func New(options Options) (*Client, error) {
	base, err := parseBase(options.BaseURL)
	if err != nil {
		return nil, &fault.Error{
			Op: "read setting", Object: "feed-url", Side: fault.SideConfig, Kind: fault.Usage, Err: err,
			Hint: "Give the API's address, for example https://api.ploti.ai.",
		}
	}
	if options.Key == nil {
		return nil, &fault.Error{Op: "build feed client", Side: fault.SideConfig, Kind: fault.Usage, Err: errors.New("no source of the API key")}
	}
	client := &Client{base: base, options: withDefaults(options)}
	shared := options.HTTP
	if shared == nil {
		if shared, err = netclient.New(netclient.Options{}); err != nil {
			return nil, fmt.Errorf("build feed client: %w", err)
		}
	}
	if client.http = shared.Transport; client.http == nil {
		client.http = http.DefaultTransport
	}
	return client, nil
}

func withDefaults(o Options) Options {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Counts == nil {
		o.Counts = &Counts{}
	}
	orDefault(&o.Attempts, 5)
	orDefault(&o.UserAgent, "feedmirror")
	orDefault(&o.Limits.Page, 16<<20)
	orDefault(&o.Limits.Version, 1<<30)
	orDefault(&o.Limits.Pages, 100_000)
	orDefault(&o.Limits.Idle, time.Minute)
	orDefault(&o.Limits.Wait, 15*time.Minute)
	return o
}

func orDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

// CheckURL returns an error unless the API key may be sent to an address: https, or http on
// loopback, without user, query and fragment. The error never repeats those.
func CheckURL(raw string) error {
	_, err := parseBase(raw)
	return err
}

// parseBase accepts what a key may be sent to. The error never repeats a user or query part.
func parseBase(raw string) (*url.URL, error) {
	base, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("not an address")
	case base.User != nil || base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return nil, errors.New("the address may hold a scheme, a host, a port and a path only")
	case base.Hostname() == "" || base.Opaque != "":
		return nil, fmt.Errorf("%q has no host", fault.RedactURL(raw))
	case base.Scheme == "https" || base.Scheme == "http" && netclient.IsLoopback(base.Hostname()):
	case base.Scheme == "http":
		return nil, fmt.Errorf("%q would send the API key in the clear: plain http is for loopback only", fault.RedactURL(raw))
	default:
		return nil, fmt.Errorf("%q is not https", fault.RedactURL(raw))
	}
	base.Path = strings.TrimRight(base.Path, "/")
	base.RawPath = strings.TrimRight(base.RawPath, "/")
	return base, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// apiKey returns the key, read on first use. stale is a key that the feed refused: when it is
// still the one held, the source is asked again, since a mounted secret may have been renewed.
func (c *Client) apiKey(stale string) (string, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.known && (stale == "" || c.key != stale) {
		return c.key, nil
	}
	key, err := c.options.Key()
	if err == nil {
		key = strings.TrimSpace(key)
		err = checkKey(key)
	}
	if err != nil {
		return "", &fault.Error{
			Op: "read API key", Side: fault.SideConfig, Kind: fault.FeedUnfit, Err: err,
			Hint: "Set PLOTI_API_KEY, or name a file that holds the key with --feed-api-key-file.",
		}
	}
	c.key, c.known = key, true
	return key, nil
}

// checkKey refuses what cannot stand in a header. The key itself never appears in the error.
func checkKey(key string) error {
	if key == "" {
		return errors.New("the key is empty")
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return fmt.Errorf("the key has a character at position %d that no key holds", i+1)
		}
	}
	return nil
}

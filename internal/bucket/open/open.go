package open

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/azurestore"
	"feedmirror/internal/bucket/gcsstore"
	"feedmirror/internal/bucket/localstore"
	"feedmirror/internal/bucket/s3store"
	"feedmirror/internal/fault"
)

// Options are what every adapter takes beside the URL.
type Options struct {
	// HTTPClient carries the requests to the store (proxy and CA file are its own); nil means the
	// adapter's default.
	HTTPClient *http.Client
	// Retry is the policy of the one retry layer.
	Retry bucket.Policy
	// Counts receives every request; nil: not counted.
	Counts *bucket.Counts
	// MustExist refuses a folder that is not there instead of creating it.
	MustExist bool
	// LockWait bounds how long a folder's file locks are waited for; 0: a minute.
	LockWait time.Duration
	// LookFirst looks at a key before each write, for a store that ignores conditions and has a
	// single writer: see bucket.WithLook.
	LookFirst bool
}

// Open returns the store that a URL names, with its requests counted and repeated as the options
// say. It sends no request to a cloud store. All problems of a URL are reported at once, as a
// fault.Usage.
//
//	file:///dir, file:relative/dir
//	s3://bucket/prefix?region=&endpoint=&path_style=&storage_class=&sse_kms_key=&tags=&acl=
//	    &requester_pays=&object_lock_mode=&object_lock_days=&conditional_writes=&conditional_delete=&max_single_put=
//	gs://bucket/prefix?endpoint=&user_project=&kms_key=&storage_class=
//	azblob://container/prefix?account=&domain=&endpoint=&tier=&encryption_scope=
func Open(ctx context.Context, rawURL string, options Options) (bucket.Store, error) {
	address, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	store, err := adapter(ctx, address, options)
	if err != nil {
		return nil, err
	}
	if options.Counts != nil {
		store = bucket.WithCounts(store, options.Counts)
	}
	if options.LookFirst {
		store = bucket.WithLook(store)
	}
	return bucket.WithRetry(store, options.Retry), nil
}

// Check reports all problems of a bucket's URL without opening anything.
func Check(rawURL string) error {
	address, err := parse(rawURL)
	if err != nil {
		return err
	}
	settings := newSettings(address)
	switch address.Scheme {
	case "file":
		folder(address, settings)
	case "s3":
		s3Options(address, settings)
	case "gs":
		gcsOptions(address, settings)
	case "azblob":
		azureOptions(address, settings)
	}
	return settings.problems()
}

func adapter(ctx context.Context, address *url.URL, options Options) (bucket.Store, error) {
	if err := Check(address.String()); err != nil {
		return nil, err
	}
	settings := newSettings(address)
	switch address.Scheme {
	case "file":
		return localstore.New(localstore.Options{Root: folder(address, settings), MustExist: options.MustExist, LockWait: options.LockWait})
	case "s3":
		o := s3Options(address, settings)
		o.HTTPClient, o.Retry, o.Counts = options.HTTPClient, options.Retry, options.Counts
		return s3store.New(ctx, o)
	case "gs":
		o := gcsOptions(address, settings)
		o.HTTPClient, o.Counts = options.HTTPClient, options.Counts
		return gcsstore.New(ctx, o)
	default:
		o := azureOptions(address, settings)
		o.HTTPClient, o.Retry, o.Counts = options.HTTPClient, options.Retry, options.Counts
		return azurestore.New(ctx, o)
	}
}

// Schemes of bucket URLs.
func schemes() []string { return []string{"file", "s3", "gs", "azblob"} }

func parse(rawURL string) (*url.URL, error) {
	address, err := url.Parse(rawURL)
	switch {
	case err != nil:
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // the rest of its text is the URL again
		}
		return nil, usage(rawURL, err)
	case !slices.Contains(schemes(), address.Scheme):
		return nil, usage(rawURL, fmt.Errorf("scheme %q is not one of %s", address.Scheme, strings.Join(schemes(), ", ")))
	case address.User != nil:
		return nil, usage(address.Redacted(), errors.New("credentials do not belong into the URL"))
	}
	return address, nil
}

func usage(rawURL string, cause error) error {
	rawURL, _, _ = strings.Cut(rawURL, "?")
	return &fault.Error{
		Op: "open bucket", Object: rawURL, Side: fault.SideConfig, Kind: fault.Usage, Err: cause,
		Hint: "Use file:///dir, s3://bucket/prefix?region=..., gs://bucket/prefix or azblob://container/prefix.",
	}
}

// settings reads a URL's query, remembers what was asked for and finds what is left over.
type settings struct {
	address *url.URL
	query   url.Values
	known   []string
	bad     []error
}

func newSettings(address *url.URL) *settings {
	query, err := url.ParseQuery(address.RawQuery)
	s := &settings{address: address, query: query}
	if err != nil {
		s.bad = append(s.bad, errors.New("the query cannot be read"))
	}
	return s
}

func (s *settings) text(name string) string {
	s.known = append(s.known, name)
	return s.query.Get(name)
}

// flag returns nil when the setting is absent.
func (s *settings) flag(name string) *bool {
	text := s.text(name)
	if !s.query.Has(name) {
		return nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		s.bad = append(s.bad, fmt.Errorf("%s=%q is neither true nor false", name, text))
		return nil
	}
	return &value
}

func (s *settings) number(name string) int64 {
	text := s.text(name)
	if text == "" {
		return 0
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value <= 0 {
		s.bad = append(s.bad, fmt.Errorf("%s=%q is not a number above 0", name, text))
		return 0
	}
	return value
}

// problems returns everything that is wrong with the URL, unknown and repeated settings included.
func (s *settings) problems() error {
	bad := s.bad
	for _, name := range sortedNames(s.query) {
		if !slices.Contains(s.known, name) {
			bad = append(bad, fmt.Errorf("%q is no setting of %s://%s", name, s.address.Scheme, s.settingsKnown()))
		} else if len(s.query[name]) > 1 {
			bad = append(bad, fmt.Errorf("%s is given twice", name))
		}
	}
	if s.address.Fragment != "" {
		bad = append(bad, errors.New("a # in the URL must be written %23"))
	}
	if len(bad) == 0 {
		return nil
	}
	return usage(s.address.String(), errors.Join(bad...))
}

func sortedNames(query url.Values) []string {
	var names []string
	for name := range query {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// settingsKnown lists the settings that a URL of this scheme may have.
func (s *settings) settingsKnown() string {
	if len(s.known) == 0 {
		return ", which has none"
	}
	known := slices.Sorted(slices.Values(s.known))
	return ", which has " + strings.Join(slices.Compact(known), ", ")
}

package gcsstore

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"cloud.google.com/go/storage"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"
	raw "google.golang.org/api/storage/v1"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

const defaultEndpoint = "https://storage.googleapis.com"

// Options name a bucket and how to reach it.
type Options struct {
	Bucket string
	// Prefix is put before every key, with a slash between; empty for none.
	Prefix string
	// Endpoint is the base URL of another endpoint ("https://storage.me.example", an emulator's
	// "http://127.0.0.1:4443"). Empty: STORAGE_EMULATOR_HOST, or else Google's. A plain http
	// endpoint is taken for an emulator: no credentials are looked up and none are sent.
	Endpoint string
	// HTTPClient carries all requests, also those for tokens. Nil means http.DefaultClient.
	HTTPClient *http.Client

	UserProject  string // project that is billed for a requester-pays bucket
	KMSKey       string // resource name of the Cloud KMS key for new objects
	StorageClass string // class of new data objects; empty for the bucket's default
	// PartSize is the greatest object that is sent in one request, and the memory that a greater
	// one takes, in bytes; a multiple of 256 KiB. Zero means 8 MiB.
	PartSize int
	// Counts receives the pages of listings beyond the first; nil: not counted.
	Counts *bucket.Counts
	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(string) string
}

// Store is a bucket in Cloud Storage.
type Store struct {
	options Options
	prefix  string // ends in a slash or is empty
	address string // JSON API of the bucket: "https://host/storage/v1/b/<bucket>"
	web     *http.Client
	client  *storage.Client
	bucket  *storage.BucketHandle
	lists   *raw.ObjectsService
	chunk   int // bytes of PartSize
}

var (
	_ bucket.Store      = (*Store)(nil)
	_ bucket.RawCreator = (*Store)(nil)
)

// New opens the bucket. It sends no request to the bucket; credentials come from the application
// default chain. Settings that cannot be used are a fault.Usage, missing credentials a
// fault.BucketUnfit.
func New(ctx context.Context, options Options) (*Store, error) {
	endpoint, err := endpointOf(options)
	if err != nil {
		return nil, err
	}
	web, err := authorized(ctx, options, endpoint)
	if err != nil {
		return nil, err
	}
	settings := []option.ClientOption{option.WithHTTPClient(web), option.WithEndpoint(endpoint.String() + "/storage/v1/")}
	client, err := storage.NewClient(ctx, settings...)
	if err != nil {
		return nil, unfit(options.Bucket, err)
	}
	service, err := raw.NewService(ctx, settings...)
	if err != nil {
		return nil, unfit(options.Bucket, err)
	}
	client.SetRetry(storage.WithPolicy(storage.RetryNever))
	handle := client.Bucket(options.Bucket)
	if options.UserProject != "" {
		handle = handle.UserProject(options.UserProject)
	}
	store := &Store{
		options: options, web: web, client: client, bucket: handle, lists: service.Objects, chunk: partSize(options),
		address: endpoint.String() + "/storage/v1/b/" + url.PathEscape(options.Bucket),
	}
	if prefix := strings.Trim(options.Prefix, "/"); prefix != "" {
		store.prefix = prefix + "/"
	}
	return store, nil
}

func partSize(options Options) int {
	if options.PartSize == 0 {
		return chunkSize
	}
	return options.PartSize
}

func endpointOf(options Options) (*url.URL, error) {
	usage := func(cause string) error {
		return &fault.Error{
			Op: "open bucket", Object: "gs://" + options.Bucket, Side: fault.SideConfig,
			Kind: fault.Usage, Err: fmt.Errorf("%s", cause),
			Hint: "Give the bucket as gs://bucket/prefix, and an endpoint as https://host.",
		}
	}
	if options.Bucket == "" {
		return nil, usage("no bucket is named")
	}
	if prefix := strings.Trim(options.Prefix, "/"); prefix != "" {
		if err := bucket.CheckKey(prefix); err != nil {
			return nil, usage("prefix: " + err.Error())
		}
	}
	if options.PartSize < 0 || options.PartSize%chunkUnit != 0 {
		return nil, usage("part size is no multiple of 256 KiB")
	}
	text := options.Endpoint
	if text == "" {
		text = emulator(options)
	}
	if text == "" {
		text = defaultEndpoint
	}
	endpoint, err := url.Parse(strings.TrimRight(text, "/"))
	if err != nil || endpoint.Host == "" || (endpoint.Scheme != "https" && endpoint.Scheme != "http") {
		return nil, usage("endpoint is not a URL of a host")
	}
	if endpoint.User != nil || endpoint.RawQuery != "" || endpoint.Path != "" {
		return nil, usage("endpoint has more than scheme, host and port")
	}
	return endpoint, nil
}

// emulator is the address that Google's own tools read from the environment.
func emulator(options Options) string {
	getenv := options.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	host := getenv("STORAGE_EMULATOR_HOST")
	if host == "" || strings.Contains(host, "://") {
		return host
	}
	return "http://" + host
}

// authorized returns the client that carries requests, with a token unless the endpoint is plain
// http: a token must not cross a network in the clear.
func authorized(ctx context.Context, options Options, endpoint *url.URL) (*http.Client, error) {
	base := options.HTTPClient
	if base == nil {
		base = http.DefaultClient
	}
	if endpoint.Scheme == "http" {
		return bucket.Unredirected(base), nil
	}
	// The source of tokens outlives this call, and fetches them through the same proxy.
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, base)
	credentials, err := google.FindDefaultCredentials(ctx, storage.ScopeReadWrite)
	if err != nil {
		return nil, unfit(options.Bucket, err)
	}
	client := bucket.Unredirected(base)
	client.Transport = &oauth2.Transport{Base: base.Transport, Source: credentials.TokenSource}
	return client, nil
}

func unfit(name string, cause error) error {
	return &fault.Error{
		Op: "open bucket", Object: "gs://" + name, Side: fault.SideBucket, Kind: fault.BucketUnfit, Err: cause,
		Hint: "Set GOOGLE_APPLICATION_CREDENTIALS, use workload identity, or run `gcloud auth application-default login`.",
	}
}

// Guarantees says what Cloud Storage does.
func (s *Store) Guarantees() bucket.Guarantees {
	return bucket.Guarantees{
		AtomicCreate: true, CompareAndSwap: true, RefusesWrongBytes: true,
		Attests: "crc32c", ConditionalDelete: true, FreshTags: true, MaxSinglePut: int64(s.chunk),
	}
}

// Close gives back the connections that the SDK holds.
func (s *Store) Close() error {
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("close bucket: %w", err)
	}
	return nil
}

// name returns the object's name in the bucket.
func (s *Store) name(key string) (string, error) {
	if err := bucket.CheckKey(key); err != nil {
		return "", err
	}
	name := s.prefix + key
	if s.prefix != "" {
		if err := bucket.CheckKey(name); err != nil {
			return "", err
		}
	}
	return name, nil
}

package s3store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/logging"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// Sizes in bytes.
const (
	defaultMaxSinglePut = 1 << 30
	// defaultPartSize makes 384 parts of 6 GiB. versitygw keeps the list of parts in an extended
	// attribute, of which ext4 holds less than 4 KiB: 768 parts of 8 MiB could not be completed.
	defaultPartSize = 16 << 20
	// largestPart bounds the memory of one upload: two parts are held at a time.
	largestPart = 64 << 20
	// mostParts is what the protocol allows.
	mostParts = 10_000
)

// uploadsAtOnce bounds the part buffers of all uploads together.
const uploadsAtOnce = 2

// Options name a bucket and how to reach it. Credentials come from the SDK's default chain.
type Options struct {
	Bucket string
	// Prefix is put before every key, with a slash between; empty for none.
	Prefix string
	// Endpoint is the base URL of another service than Amazon's; empty for Amazon's.
	Endpoint string
	Region   string // empty: from the environment; "us-east-1" where another endpoint names none
	// PathStyle puts the bucket into the path instead of the host's name. Nil: only with an Endpoint.
	PathStyle *bool
	// HTTPClient carries all requests; nil means the SDK's own.
	HTTPClient *http.Client

	StorageClass  string // class of new data objects; documents stay in the default class
	KMSKey        string // id or ARN of the KMS key for new objects
	Tags          string // tags of new objects as a URL query, "team=data&cost=42"
	ACL           string // canned ACL of new objects; sent only when set
	RequesterPays bool   // every request says that we pay
	// ObjectLockMode (GOVERNANCE or COMPLIANCE) and ObjectLockDays lock new data objects.
	ObjectLockMode string
	ObjectLockDays int

	// NoConditionalWrites declares a service without If-None-Match and If-Match; the store then
	// looks before it writes, and its Guarantees say that two writers can both win.
	NoConditionalWrites bool
	// ConditionalDelete declares that DELETE honours If-Match. Nil: only without an Endpoint.
	ConditionalDelete *bool

	MaxSinglePut int64 // greater objects go in parts, bytes; 0: 1 GiB
	PartSize     int64 // bytes; 0: 16 MiB, more where the protocol's 10,000 parts would not do

	// Retry is how often a part or the completion of an upload is sent again.
	Retry bucket.Policy
	// Counts receives the pages of listings beyond the first; nil: not counted.
	Counts *bucket.Counts
	// Credentials replace the default chain; nil outside of tests.
	Credentials aws.CredentialsProvider
	// Now is the clock of object locks and of the hint about clocks; nil: time.Now.
	Now func() time.Time
}

// Store is an S3 bucket. Its methods are safe for concurrent use.
type Store struct {
	options Options
	client  *s3.Client
	prefix  string // ends in a slash or is empty
	slots   chan struct{}
	plain   plainParts

	credentials *rotating
}

var (
	_ bucket.Store      = (*Store)(nil)
	_ bucket.RawCreator = (*Store)(nil)
)

// New opens the bucket without a request to it. Settings that cannot be used are a fault.Usage.
func New(ctx context.Context, options Options) (*Store, error) {
	if err := check(options); err != nil {
		return nil, &fault.Error{
			Op: "open bucket", Object: "s3://" + options.Bucket, Side: fault.SideConfig, Kind: fault.Usage,
			Err: err, Hint: "Give the bucket as s3://bucket/prefix?region=...&endpoint=https://host.",
		}
	}
	client, credentials, err := newClient(ctx, options)
	if err != nil {
		return nil, err
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.MaxSinglePut == 0 {
		options.MaxSinglePut = defaultMaxSinglePut
	}
	if options.PartSize == 0 {
		options.PartSize = defaultPartSize
	}
	store := &Store{options: options, client: client, slots: make(chan struct{}, uploadsAtOnce), credentials: credentials}
	if prefix := strings.Trim(options.Prefix, "/"); prefix != "" {
		store.prefix = prefix + "/"
	}
	return store, nil
}

func check(options Options) error {
	problems := []error{checkEndpoint(options.Endpoint)}
	add := func(bad bool, text string) {
		if bad {
			problems = append(problems, errors.New(text))
		}
	}
	add(options.Bucket == "", "no bucket is named")
	if prefix := strings.Trim(options.Prefix, "/"); prefix != "" {
		if err := bucket.CheckKey(prefix); err != nil {
			problems = append(problems, fmt.Errorf("prefix: %w", err))
		}
	}
	_, err := url.ParseQuery(options.Tags)
	add(err != nil, "tags are not of the form name=value&name=value")
	add(options.ACL != "" && !oneOf(options.ACL, types.ObjectCannedACL("").Values()), "acl is not a canned ACL")
	mode := options.ObjectLockMode
	add(mode != "" && !oneOf(mode, types.ObjectLockMode("").Values()), "object lock mode is neither GOVERNANCE nor COMPLIANCE")
	add((mode != "") != (options.ObjectLockDays > 0), "object lock needs both a mode and a number of days above 0")
	add(options.MaxSinglePut < 0 || options.PartSize < 0 || options.PartSize > largestPart, "part sizes are out of range")
	return errors.Join(problems...)
}

func checkEndpoint(text string) error {
	if text == "" {
		return nil
	}
	endpoint, err := url.Parse(text)
	if err != nil || endpoint.Host == "" || (endpoint.Scheme != "https" && endpoint.Scheme != "http") {
		return errors.New("endpoint is not an http or https URL")
	}
	if endpoint.User != nil || endpoint.RawQuery != "" {
		return errors.New("endpoint has more than scheme, host, port and path")
	}
	if host := endpoint.Hostname(); host == "googleapis.com" || strings.HasSuffix(host, ".googleapis.com") {
		// Its front end rewrites a signed header, and its S3 dialect ignores conditions.
		return errors.New("endpoint is Google Cloud Storage's S3 dialect: use gs://bucket/prefix")
	}
	return nil
}

func oneOf[T ~string](text string, values []T) bool {
	for _, value := range values {
		if text == string(value) {
			return true
		}
	}
	return false
}

func newClient(ctx context.Context, options Options) (*s3.Client, *rotating, error) {
	settings, err := loadConfig(ctx, options)
	if err != nil {
		return nil, nil, &fault.Error{
			Op: "open bucket", Object: "s3://" + options.Bucket, Side: fault.SideConfig, Kind: fault.Usage,
			Err: bucket.WithoutAddress(err), Hint: "Check the AWS_* environment and the files in ~/.aws.",
		}
	}
	if settings.Region == "" && options.Endpoint == "" {
		return nil, nil, &fault.Error{
			Op: "open bucket", Object: "s3://" + options.Bucket, Side: fault.SideConfig, Kind: fault.Usage,
			Err: errors.New("no region is set"), Hint: "Add ?region=REGION to the bucket's URL or set AWS_REGION.",
		}
	}
	credentials := &rotating{chain: settings.Credentials, load: func(ctx context.Context) (aws.CredentialsProvider, error) {
		return loadCredentials(ctx, options)
	}}
	if settings.Credentials != nil {
		settings.Credentials = credentials
	}
	client := s3.NewFromConfig(settings, func(o *s3.Options) {
		if o.Region == "" {
			o.Region = "us-east-1"
		}
		o.UsePathStyle = options.Endpoint != ""
		if options.Endpoint != "" {
			o.BaseEndpoint = aws.String(strings.TrimRight(options.Endpoint, "/"))
		}
		if options.PathStyle != nil {
			o.UsePathStyle = *options.PathStyle
		}
		o.HTTPClient = unredirected(o.HTTPClient)
		o.Retryer = aws.NopRetryer{}
		o.Logger = logging.Nop{} // the SDK writes to standard error otherwise
		// Our checksums are headers that we set. The SDK's own would come as a trailer, which some
		// services refuse, or keep as part of the object.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		o.DisableLogOutputChecksumValidationSkipped = true
		if options.RequesterPays {
			o.APIOptions = append(o.APIOptions, withHeader("x-amz-request-payer", "requester"))
		}
	})
	return client, credentials, nil
}

// Close implements bucket.Store; connections belong to the HTTP client.
func (s *Store) Close() error { return nil }

// Guarantees says what the service does as far as the settings tell; Probe finds out.
func (s *Store) Guarantees() bucket.Guarantees {
	conditional := !s.options.NoConditionalWrites
	return bucket.Guarantees{
		AtomicCreate: conditional, CompareAndSwap: conditional, RefusesWrongBytes: true, Attests: "sha256",
		ConditionalDelete: s.conditionalDelete(), MaxSinglePut: s.options.MaxSinglePut,
	}
}

func (s *Store) conditionalDelete() bool {
	if s.options.ConditionalDelete != nil {
		return *s.options.ConditionalDelete
	}
	return s.options.Endpoint == ""
}

// name returns the service's key of key.
func (s *Store) name(key string) (string, error) {
	if err := bucket.CheckKey(key); err != nil {
		return "", err
	}
	name := s.prefix + key
	if len(name) > bucket.MaxKeyBytes {
		return "", &fault.Error{
			Op: "check key", Object: key, Side: fault.SideBucket, Kind: fault.Unsupported,
			Err: fmt.Errorf("%d bytes with the bucket's prefix, at most %d are allowed", len(name), bucket.MaxKeyBytes),
		}
	}
	return name, nil
}

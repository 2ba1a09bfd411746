package azurestore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

const defaultDomain = "blob.core.windows.net"

// Options name a container and how to reach it.
type Options struct {
	Container string
	// Prefix is put before every key, with a slash between; empty for none.
	Prefix string
	// Account is the storage account; empty: AZURE_STORAGE_ACCOUNT.
	Account string
	// Domain is the blob service's domain in another cloud ("blob.core.chinacloudapi.cn"); empty:
	// the public cloud's.
	Domain string
	// Endpoint is the whole service URL in place of account and domain: a private endpoint, or an
	// emulator's "http://127.0.0.1:10000/devstoreaccount1".
	Endpoint string
	// HTTPClient carries all requests, also those for tokens. Nil means http.DefaultClient.
	HTTPClient *http.Client

	AccessTier      string // tier of new data objects, "Cool"; empty for the account's default
	EncryptionScope string // encryption scope of new objects
	// PartSize is the greatest object that is sent in one request, and the memory that a greater
	// one takes, in bytes. Zero means 8 MiB.
	PartSize int
	// Retry is how often a block is sent again.
	Retry bucket.Policy
	// Counts receives the pages of listings beyond the first; nil: not counted.
	Counts *bucket.Counts
	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(string) string
}

// Store is a container in Azure Blob Storage.
type Store struct {
	options Options
	prefix  string // ends in a slash or is empty
	client  *container.Client
	block   int // bytes of PartSize
}

var (
	_ bucket.Store      = (*Store)(nil)
	_ bucket.RawCreator = (*Store)(nil)
)

// New opens the container. It sends no request. Credentials are the first that is there of
// AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, and the default
// chain of Azure's identity library (workload identity, managed identity, service principal from
// the environment, developer's login). Settings that cannot be used are a fault.Usage.
func New(_ context.Context, options Options) (*Store, error) {
	if options.Getenv == nil {
		options.Getenv = os.Getenv
	}
	if err := checkOptions(options); err != nil {
		return nil, usage(options, err)
	}
	client, err := newClient(options)
	if err != nil {
		return nil, usage(options, err)
	}
	store := &Store{options: options, client: client, block: options.PartSize}
	if store.block == 0 {
		store.block = blockSize
	}
	if prefix := strings.Trim(options.Prefix, "/"); prefix != "" {
		store.prefix = prefix + "/"
	}
	return store, nil
}

func usage(options Options, cause error) error {
	return &fault.Error{
		Op: "open bucket", Object: "azblob://" + options.Container, Side: fault.SideConfig,
		Kind: fault.Usage, Err: cause,
		Hint: "Give the bucket as azblob://container/prefix?account=NAME, and credentials by the AZURE_* environment.",
	}
}

func checkOptions(options Options) error {
	if options.Container == "" {
		return errors.New("no container is named")
	}
	if prefix := strings.Trim(options.Prefix, "/"); prefix != "" {
		if err := bucket.CheckKey(prefix); err != nil {
			return fmt.Errorf("prefix: %w", err)
		}
	}
	if options.PartSize < 0 {
		return errors.New("part size is negative")
	}
	if strings.EqualFold(options.AccessTier, "archive") {
		return errors.New("objects in the tier Archive cannot be read, and so not be verified")
	}
	return nil
}

// clientOptions send each request once, through the given client, and ask for bytes as they are
// stored: naming an encoding keeps net/http from unpacking on the way.
func clientOptions(options Options) azcore.ClientOptions {
	web := options.HTTPClient
	if web == nil {
		web = http.DefaultClient
	}
	return azcore.ClientOptions{
		Transport:       bucket.Unredirected(web),
		Retry:           policy.RetryOptions{MaxRetries: -1},
		PerCallPolicies: []policy.Policy{identityEncoding{}},
	}
}

type identityEncoding struct{}

// Do implements policy.Policy.
func (identityEncoding) Do(request *policy.Request) (*http.Response, error) {
	request.Raw().Header.Set("Accept-Encoding", "identity")
	return request.Next()
}

func newClient(options Options) (*container.Client, error) {
	clientOptions := &container.ClientOptions{ClientOptions: clientOptions(options)}
	getenv := options.Getenv
	if text := getenv("AZURE_STORAGE_CONNECTION_STRING"); text != "" && options.Endpoint == "" && options.Account == "" {
		return container.NewClientFromConnectionString(text, options.Container, clientOptions)
	}
	address, account, err := containerAddress(options)
	if err != nil {
		return nil, err
	}
	if key := getenv("AZURE_STORAGE_KEY"); key != "" {
		credential, err := container.NewSharedKeyCredential(account, key)
		if err != nil {
			return nil, errors.New("AZURE_STORAGE_KEY is not base64")
		}
		return container.NewClientWithSharedKeyCredential(address, credential, clientOptions)
	}
	if token := strings.TrimPrefix(getenv("AZURE_STORAGE_SAS_TOKEN"), "?"); token != "" {
		return container.NewClientWithNoCredential(address+"?"+token, clientOptions)
	}
	credential, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
		ClientOptions: azcore.ClientOptions{Transport: clientOptions.Transport},
	})
	if err != nil {
		return nil, fmt.Errorf("find credentials: %w", err)
	}
	return container.NewClient(address, credential, clientOptions)
}

// containerAddress returns the container's URL and the account's name.
func containerAddress(options Options) (address, account string, err error) {
	account = options.Account
	if account == "" {
		account = options.Getenv("AZURE_STORAGE_ACCOUNT")
	}
	if options.Endpoint == "" {
		if account == "" {
			return "", "", errors.New("no storage account is named")
		}
		domain := options.Domain
		if domain == "" {
			domain = defaultDomain
		}
		return "https://" + account + "." + domain + "/" + url.PathEscape(options.Container), account, nil
	}
	endpoint, err := url.Parse(strings.TrimRight(options.Endpoint, "/"))
	if err != nil || endpoint.Host == "" || (endpoint.Scheme != "https" && endpoint.Scheme != "http") {
		return "", "", errors.New("endpoint is not a URL of a host")
	}
	if endpoint.User != nil || endpoint.RawQuery != "" {
		return "", "", errors.New("endpoint has more than scheme, host, port and account")
	}
	if account == "" { // an emulator names it in the path, the service in the host
		account = strings.Trim(endpoint.Path, "/")
	}
	if account == "" {
		account, _, _ = strings.Cut(endpoint.Hostname(), ".")
	}
	return endpoint.String() + "/" + url.PathEscape(options.Container), account, nil
}

// Guarantees says what Azure Blob Storage does.
func (s *Store) Guarantees() bucket.Guarantees {
	return bucket.Guarantees{
		AtomicCreate: true, CompareAndSwap: true, RefusesWrongBytes: true,
		Attests: "", ConditionalDelete: true, FreshTags: true, MaxSinglePut: int64(s.block),
	}
}

// Close does nothing: connections belong to the HTTP client that was given.
func (s *Store) Close() error { return nil }

// name returns the blob's name in the container. On top of the port's rules it refuses segments
// that end in a dot, which the service would store under a shorter name.
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
	if strings.HasSuffix(name, ".") || strings.Contains(name, "./") {
		return "", &fault.Error{
			Op: "check key", Object: key, Side: fault.SideBucket, Kind: fault.Unsupported,
			Err: errors.New("a segment ends in a dot, which Azure drops"),
		}
	}
	return name, nil
}

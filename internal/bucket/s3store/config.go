package s3store

import (
	"context"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"feedmirror/internal/bucket"
)

// loadConfig reads the SDK's default chains. With AWS_CA_BUNDLE or ca_bundle set the SDK takes
// only a client that it can change; ours is then rebuilt as one, so that both the bundle and what
// ours was set up with hold.
func loadConfig(ctx context.Context, options Options) (aws.Config, error) {
	settings, err := config.LoadDefaultConfig(ctx, loadOptions(options, nil)...)
	if err == nil || options.HTTPClient == nil {
		return settings, err
	}
	transport, ok := options.HTTPClient.Transport.(*http.Transport)
	if !ok {
		return aws.Config{}, err
	}
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { copyTransport(t, transport) })
	return config.LoadDefaultConfig(ctx, loadOptions(options, client)...)
}

func loadOptions(options Options, client config.HTTPClient) []func(*config.LoadOptions) error {
	load := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	switch {
	case client != nil:
		load = append(load, config.WithHTTPClient(client))
	case options.HTTPClient != nil:
		load = append(load, config.WithHTTPClient(options.HTTPClient))
	}
	if options.Region != "" {
		load = append(load, config.WithRegion(options.Region))
	}
	if options.Credentials != nil {
		load = append(load, config.WithCredentialsProvider(options.Credentials))
	}
	return load
}

// copyTransport sets up to like from. A transport cannot be copied whole: it holds connections.
func copyTransport(to, from *http.Transport) {
	from = from.Clone()
	if from.TLSClientConfig != nil && from.TLSClientConfig.RootCAs != nil {
		from.TLSClientConfig.RootCAs = from.TLSClientConfig.RootCAs.Clone() // the SDK adds to it
	}
	to.Proxy, to.ProxyConnectHeader = from.Proxy, from.ProxyConnectHeader
	to.DialContext, to.DialTLSContext = from.DialContext, from.DialTLSContext
	to.TLSClientConfig, to.TLSHandshakeTimeout = from.TLSClientConfig, from.TLSHandshakeTimeout
	to.DisableKeepAlives, to.DisableCompression = from.DisableKeepAlives, from.DisableCompression
	to.MaxIdleConns, to.MaxIdleConnsPerHost, to.MaxConnsPerHost = from.MaxIdleConns, from.MaxIdleConnsPerHost, from.MaxConnsPerHost
	to.IdleConnTimeout, to.ResponseHeaderTimeout = from.IdleConnTimeout, from.ResponseHeaderTimeout
	to.ExpectContinueTimeout = from.ExpectContinueTimeout
	to.WriteBufferSize, to.ReadBufferSize = from.WriteBufferSize, from.ReadBufferSize
	to.ForceAttemptHTTP2, to.Protocols = from.ForceAttemptHTTP2, from.Protocols
}

// unredirected makes the client of an S3 service hand redirects back; the SDK's own follows some.
func unredirected(client s3.HTTPClient) s3.HTTPClient {
	if buildable, ok := client.(*awshttp.BuildableClient); ok {
		client = buildable.Freeze()
	}
	if plain, ok := client.(*http.Client); ok {
		return bucket.Unredirected(plain)
	}
	return client
}

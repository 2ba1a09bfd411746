package s3store

import (
	"context"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"feedmirror/manifest"
)

// withPayloadHash signs a request with a payload hash that is known already. It makes the SDK
// send a stream as it is: without it the SDK would refuse to sign a stream over http, and would
// send it unsigned with a trailer over https. The service compares the hash with what arrives.
func withPayloadHash(sum manifest.SHA256) func(*s3.Options) {
	set := func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
		middleware.InitializeOutput, middleware.Metadata, error,
	) {
		return next.HandleInitialize(v4.SetPayloadHash(ctx, sum.String()), in)
	}
	return func(o *s3.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("KnownPayloadHash", set), middleware.Before)
		})
	}
}

// withHeader adds a header to every request, before it is signed.
func withHeader(name, value string) func(*middleware.Stack) error {
	return smithyhttp.SetHeaderValue(name, value)
}

package s3store

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// rotating are the credentials of the default chain, which reads files only once: what is written
// there later, when the first ones have expired, would never be seen. The chain is built anew when
// the service refuses what it gave.
type rotating struct {
	load func(ctx context.Context) (aws.CredentialsProvider, error)

	mu    sync.Mutex
	chain aws.CredentialsProvider
	last  aws.Credentials // as handed out
}

// credentialsError marks the errors of the chain, which can hold network errors of a metadata
// service: they say nothing about the bucket.
type credentialsError struct{ cause error }

func (e *credentialsError) Error() string { return "no credentials: " + e.cause.Error() }
func (e *credentialsError) Unwrap() error { return e.cause }

// Retrieve implements aws.CredentialsProvider.
func (c *rotating) Retrieve(ctx context.Context) (aws.Credentials, error) {
	c.mu.Lock()
	chain := c.chain
	c.mu.Unlock()
	found, err := chain.Retrieve(ctx)
	if err != nil {
		return aws.Credentials{}, &credentialsError{err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chain == chain { // or else these are from before a renewal
		c.last = found
	}
	return found, nil
}

// renew reports whether there are other credentials by now than those that signed a request.
func (c *rotating) renew(ctx context.Context, signed http.Header) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chain == nil {
		return false // nothing is signed
	}
	if !signedWith(signed, c.last) {
		return true // somebody else renewed them meanwhile
	}
	chain, err := c.load(ctx)
	if err != nil {
		return false // the refusal is the error to tell; the next request tells this one
	}
	found, err := chain.Retrieve(ctx)
	if err != nil || signedWith(signed, found) {
		return false
	}
	c.chain, c.last = chain, found
	return true
}

// signedWith reports whether a request was signed with these credentials, as far as it shows.
func signedWith(signed http.Header, keys aws.Credentials) bool {
	return strings.Contains(signed.Get("Authorization"), "Credential="+keys.AccessKeyID+"/") &&
		signed.Get("X-Amz-Security-Token") == keys.SessionToken
}

// worthSigningAgain reports whether a refusal of op may be due to how the request was signed, and
// the next request will be signed otherwise: with credentials that were renewed, or at the
// service's own time, which the SDK takes over from every answer. code is empty where an answer has
// no body to tell, as that to a HEAD.
func (s *Store) worthSigningAgain(ctx context.Context, answer *smithyhttp.ResponseError, code string) bool {
	if answer.Response == nil || answer.Response.Response == nil || answer.Response.Request == nil {
		return false
	}
	signed := answer.Response.Request.Header
	switch code {
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken", "InvalidAccessKeyId":
		return s.credentials.renew(ctx, signed)
	case "RequestTimeTooSkewed":
		return skewed(signed, answer.Response.Header)
	}
	untold := answer.Response.Request.Method == http.MethodHead &&
		(answer.HTTPStatusCode() == http.StatusForbidden || answer.HTTPStatusCode() == http.StatusBadRequest)
	return untold && (skewed(signed, answer.Response.Header) || s.credentials.renew(ctx, signed))
}

// mostSkew is how far a signature's time may be from the service's, with room for its travel; S3
// refuses more than 15 minutes.
const mostSkew = 10 * time.Minute

// skewed reports whether a request was signed at another time than the service's.
func skewed(signed, answered http.Header) bool {
	date, err := http.ParseTime(answered.Get("Date"))
	if err != nil {
		return false
	}
	at, err := time.Parse("20060102T150405Z", signed.Get("X-Amz-Date"))
	return err == nil && at.Sub(date).Abs() > mostSkew
}

// signAgain is the kind of a refusal after which the same request may be sent again as it is.
// Nothing was written. Contended is the one kind after which a conditional write is repeated.
func signAgain(op string) fault.Kind {
	if op == opCreate || op == opSwap {
		return fault.Contended
	}
	return fault.Transient
}

// loadCredentials builds the chain that gives credentials.
func loadCredentials(ctx context.Context, options Options) (aws.CredentialsProvider, error) {
	settings, err := loadConfig(ctx, options)
	if err != nil {
		return nil, bucket.WithoutAddress(err)
	}
	return settings.Credentials, nil
}

package gcsstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"cloud.google.com/go/storage"
	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// The operations that this package reports; kinds depend on them.
const (
	opStat   = "stat object"
	opRead   = "read object"
	opList   = "list objects"
	opCreate = "create object"
	opSwap   = "swap object"
	opDelete = "delete object"
)

// fail turns an error of the SDK or the network into one of ours. Addresses are dropped: that of
// an upload session is a credential.
func (s *Store) fail(ctx context.Context, op, key string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s %s: %w", op, key, ctx.Err())
	}
	failure := &fault.Error{Op: op, Object: key, Side: fault.SideBucket, Kind: fault.Internal, Err: bucket.WithoutAddress(err)}
	var answer *googleapi.Error
	var token *oauth2.RetrieveError
	switch {
	case errors.As(err, &answer):
		s.judge(failure, answer)
	case errors.Is(err, storage.ErrObjectNotExist):
		failure.Kind, failure.Status, failure.Err = fault.NotFound, http.StatusNotFound, storage.ErrObjectNotExist
	case errors.As(err, &token):
		failure.Kind = fault.Denied
		failure.Err = fmt.Errorf("no token: %s", token.ErrorCode)
		failure.Hint = "Check the credentials that GOOGLE_APPLICATION_CREDENTIALS or the workload identity gives."
	case bucket.Untrusted(err):
		failure.Kind = fault.BucketUnfit
		failure.Hint = "Name the authority that signs the store's certificate with --ca-file."
	case bucket.Broken(err):
		failure.Kind = fault.Transient
	case bucket.Garbled(err):
		return bucket.Unreadable(op, key, err)
	}
	return failure
}

// judge reads an answer of the service.
func (s *Store) judge(failure *fault.Error, answer *googleapi.Error) {
	failure.Status = answer.Code
	failure.After = bucket.RetryAfter(answer.Header)
	failure.Err = errors.New(reason(answer))
	failure.Kind = kindOf(failure.Op, answer)
	switch failure.Kind {
	case fault.BucketUnfit:
		failure.Hint = "Create the bucket " + s.options.Bucket + ", or correct its name in --bucket."
	case fault.Denied:
		failure.Hint = s.deniedHint(answer)
	}
}

// kindOf reads the status of an answer; what a few of them mean depends on the operation.
func kindOf(op string, answer *googleapi.Error) fault.Kind {
	switch code := answer.Code; code {
	case http.StatusPreconditionFailed:
		if op == opCreate {
			return fault.Exists
		}
		return fault.Conflict
	case http.StatusConflict:
		return fault.Contended
	case http.StatusNotFound:
		if op == opCreate || op == opList {
			return fault.BucketUnfit // only the bucket can be missing there
		}
		return fault.NotFound
	case http.StatusForbidden:
		if limited(answer) {
			return fault.Transient
		}
		return fault.Denied
	case http.StatusUnauthorized:
		return fault.Denied
	case http.StatusBadRequest:
		return kindOfBadRequest(answer)
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return fault.Transient
	default:
		if code >= http.StatusInternalServerError {
			return fault.Transient
		}
		return fault.Unsupported
	}
}

// kindOfBadRequest tells apart by text what the service answers with one status.
func kindOfBadRequest(answer *googleapi.Error) fault.Kind {
	switch {
	case checksumRefused(answer):
		return fault.WrongBytes
	case requesterPays(answer):
		return fault.Denied
	default:
		return fault.Unsupported
	}
}

func (s *Store) deniedHint(answer *googleapi.Error) string {
	if requesterPays(answer) {
		return "The bucket is requester-pays: name the project that is billed, gs://" + s.options.Bucket + "?user_project=PROJECT."
	}
	return "The service account needs storage.objects.create, get, list and delete on " + s.options.Bucket + " (role Storage Object User)."
}

// reason is what the service says, in one line.
func reason(answer *googleapi.Error) string {
	text := answer.Message
	if text == "" {
		text = http.StatusText(answer.Code)
	}
	if line, _, found := strings.Cut(text, "\n"); found {
		text = line
	}
	return fmt.Sprintf("status %d: %s", answer.Code, text)
}

func checksumRefused(answer *googleapi.Error) bool {
	text := strings.ToLower(answer.Message + answer.Body)
	return strings.Contains(text, "crc32c") || strings.Contains(text, "md5 hash") || strings.Contains(text, "checksum")
}

func requesterPays(answer *googleapi.Error) bool {
	text := strings.ToLower(answer.Message + answer.Body)
	return strings.Contains(text, "requester pays")
}

// limited reports whether a refusal is about how often, which older parts of the API answer with 403.
func limited(answer *googleapi.Error) bool {
	for _, item := range answer.Errors {
		if item.Reason == "rateLimitExceeded" || item.Reason == "userRateLimitExceeded" {
			return true
		}
	}
	return false
}

package azurestore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

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

const codeInvalidBlockList = string(bloberror.InvalidBlockList)

// fail turns an error of the SDK or the network into one of ours. The SDK's texts have many lines
// and show the address of the request, which can hold a signature: only codes are taken over.
func (s *Store) fail(ctx context.Context, op, key string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s %s: %w", op, key, ctx.Err())
	}
	failure := &fault.Error{Op: op, Object: key, Side: fault.SideBucket, Kind: fault.Internal, Err: bucket.WithoutAddress(err)}
	var answer *azcore.ResponseError
	var final interface {
		error
		NonRetriable()
	}
	switch {
	case errors.As(err, &answer) && answer.RawResponse != nil:
		s.judge(failure, answer)
	case errors.As(err, &final):
		failure.Kind = fault.Denied
		failure.Err = errors.New(firstLine(final.Error()))
		failure.Hint = "Set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_CLIENT_ID and its fellows, or give the pod a workload identity."
	case bucket.Untrusted(err):
		failure.Kind = fault.BucketUnfit
		failure.Hint = "Name the authority that signs the store's certificate with --ca-file."
	case bucket.Broken(err):
		failure.Kind = fault.Transient
	case bucket.Garbled(err), strings.HasPrefix(err.Error(), "unmarshalling type"): // the SDK hides the cause
		return bucket.Unreadable(op, key, err)
	}
	return failure
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}

// judge reads an answer of the service: the code first, since one status has many meanings.
func (s *Store) judge(failure *fault.Error, answer *azcore.ResponseError) {
	failure.Status = answer.StatusCode
	failure.After = bucket.RetryAfter(answer.RawResponse.Header)
	code := answer.ErrorCode
	if code == "" {
		code = http.StatusText(answer.StatusCode)
	}
	failure.Err = fmt.Errorf("status %d: %s", answer.StatusCode, firstLine(code))
	if kind, known := kindOfCode(bloberror.Code(answer.ErrorCode), failure.Op); known {
		failure.Kind = kind
	} else {
		failure.Kind = kindOfStatus(answer.StatusCode, failure.Op)
	}
	failure.Hint = s.hint(failure.Kind)
}

func kindOfCode(code bloberror.Code, op string) (fault.Kind, bool) {
	switch code {
	case bloberror.ContainerNotFound, bloberror.ContainerBeingDeleted, bloberror.ContainerDisabled, bloberror.InvalidResourceName:
		return fault.BucketUnfit, true
	case bloberror.BlobAlreadyExists, bloberror.ConditionNotMet:
		if op == opCreate {
			return fault.Exists, true
		}
		return fault.Conflict, true
	case bloberror.MD5Mismatch, bloberror.CRC64Mismatch, bloberror.InvalidMD5:
		return fault.WrongBytes, true
	case bloberror.BlobArchived, bloberror.BlobBeingRehydrated:
		return fault.Archived, true
	case bloberror.BlobImmutableDueToPolicy, bloberror.LeaseIDMissing:
		return fault.Denied, true
	}
	return "", false
}

func kindOfStatus(status int, op string) fault.Kind {
	switch {
	case status == http.StatusPreconditionFailed && op == opCreate:
		return fault.Exists
	case status == http.StatusPreconditionFailed:
		return fault.Conflict
	case status == http.StatusConflict:
		return fault.Contended
	case status == http.StatusNotFound && (op == opCreate || op == opList):
		return fault.BucketUnfit
	case status == http.StatusNotFound:
		return fault.NotFound
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fault.Denied
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests || status >= 500:
		return fault.Transient
	default:
		return fault.Unsupported
	}
}

func (s *Store) hint(kind fault.Kind) string {
	switch kind {
	case fault.BucketUnfit:
		return "Create the container " + s.options.Container + ", or correct its name in --bucket."
	case fault.Denied:
		return "The identity needs the role Storage Blob Data Contributor on the container " + s.options.Container +
			"; an immutability policy must allow what the mirror overwrites."
	default:
		return ""
	}
}

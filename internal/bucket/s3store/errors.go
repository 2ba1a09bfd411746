package s3store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// The operations that this package reports; kinds and hints depend on them.
const (
	opStat     = "stat object"
	opOpen     = "read object"
	opList     = "list objects"
	opCreate   = "create object"
	opPart     = "upload part"
	opComplete = "complete upload"
	opSwap     = "swap object"
	opDelete   = "delete object"
)

// fail turns an error of the SDK or the network into one of ours, without addresses.
func (s *Store) fail(ctx context.Context, op, key string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s %s: %w", op, key, ctx.Err())
	}
	failure := &fault.Error{Op: op, Object: key, Side: fault.SideBucket, Kind: fault.Internal, Err: bucket.WithoutAddress(err)}
	var answer *smithyhttp.ResponseError
	var code smithy.APIError
	var credentials *credentialsError
	switch {
	case errors.As(err, &credentials):
		failure.Kind = fault.BucketUnfit
		failure.Err = fmt.Errorf("no credentials: %w", bucket.WithoutAddress(credentials.cause))
		failure.Hint = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or give the pod a role."
	case bucket.Untrusted(err):
		failure.Kind = fault.BucketUnfit
		failure.Hint = "Name the authority that signs the store's certificate with --ca-file."
	case errors.As(err, &answer):
		errors.As(err, &code)
		s.judge(ctx, failure, answer, code)
	case bucket.Broken(err):
		failure.Kind = fault.Transient
	}
	return failure
}

// judge reads an answer of the service. The error code decides before the status: an error can
// stand in an answer of status 200.
func (s *Store) judge(ctx context.Context, failure *fault.Error, answer *smithyhttp.ResponseError, code smithy.APIError) {
	failure.Status = answer.HTTPStatusCode()
	var header http.Header
	if answer.Response != nil && answer.Response.Response != nil {
		header = answer.Response.Header
		failure.After = bucket.RetryAfter(header)
	}
	name, text := "", http.StatusText(failure.Status)
	if code != nil {
		name = code.ErrorCode()
		text = strings.TrimSpace(name + ": " + oneLine(code.ErrorMessage()))
	}
	failure.Err = fmt.Errorf("status %d: %s", failure.Status, strings.TrimRight(text, ": "))
	switch {
	case failure.Status == 0: // no answer came
		failure.Err = bucket.WithoutAddress(answer.Err)
		failure.Kind = fault.Internal
		if bucket.Broken(answer.Err) {
			failure.Kind = fault.Transient
		}
	case code == nil && failure.Status < 300: // it was cut, or a proxy's page: what was done is unknown
		failure.Err = fmt.Errorf("the answer cannot be read as the store's: %w", bucket.WithoutAddress(answer.Err))
		failure.Kind = fault.Transient
	case s.judgeCode(failure, name, header):
	default:
		s.judgeStatus(failure, text)
	}
	if failure.Status >= http.StatusBadRequest && s.worthSigningAgain(ctx, answer, name) {
		failure.Kind = signAgain(failure.Op)
	}
}

// judgeCode reports whether the error code alone decided.
func (s *Store) judgeCode(failure *fault.Error, code string, header http.Header) bool {
	switch code {
	case "InternalError", "ServiceUnavailable", "SlowDown", "RequestTimeout", "Busy", "OperationTimedOut":
		failure.Kind = fault.Transient
	case "NoSuchBucket":
		failure.Kind = fault.BucketUnfit
		failure.Hint = "Create the bucket " + s.options.Bucket + ", or correct its name in --bucket."
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
		failure.Kind = fault.BucketUnfit
		failure.Hint = "The bucket lies in another region: add ?region=REGION to --bucket."
	case "RequestTimeTooSkewed":
		failure.Kind = fault.Denied
		failure.Hint = "The clocks differ" + s.skew(header) + ": set this machine's clock by NTP."
	case "BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch":
		failure.Kind = fault.WrongBytes
		failure.Hint = "The store received other bytes than were sent, or it does not take the header x-amz-checksum-sha256."
	case "InvalidObjectState":
		failure.Kind = fault.Archived
		failure.Hint = "The object is in an archive tier: restore it first."
	case "AccessControlListNotSupported":
		failure.Kind = fault.BucketUnfit
		failure.Hint = "The bucket takes no ACLs: remove acl= from --bucket."
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch":
		failure.Kind = fault.Denied
		failure.Hint = "The credentials are wrong or have expired: check AWS_ACCESS_KEY_ID, AWS_PROFILE or the pod's role."
	case "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded":
		failure.Kind = fault.NoSpace
	case "ConditionalRequestConflict", "OperationAborted":
		failure.Kind = fault.Contended
	case "NoSuchUpload":
		failure.Kind = fault.Contended // the upload was aborted by a clean-up: it must start again
	default:
		return false
	}
	return true
}

// judgeStatus decides by the status; text is code and message.
func (s *Store) judgeStatus(failure *fault.Error, text string) {
	switch status := failure.Status; {
	case status == http.StatusPreconditionFailed, status == http.StatusNotModified:
		failure.Kind = fault.Conflict
		if failure.Op == opCreate || failure.Op == opComplete {
			failure.Kind = fault.Exists
		}
	case status == http.StatusConflict:
		failure.Kind = fault.Contended
	case status == http.StatusNotFound && failure.Op == opSwap: // If-Match on a missing key
		failure.Kind = fault.Conflict
	case status == http.StatusNotFound:
		failure.Kind = fault.NotFound
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		failure.Kind = fault.Denied
		failure.Hint = s.deniedHint(failure.Op, text)
	case status == http.StatusNotImplemented, status == http.StatusMethodNotAllowed, status == http.StatusLengthRequired:
		failure.Kind = fault.Unsupported
		failure.Hint = "The service does not know this request or one of its headers; run `mirror doctor`."
	case status == http.StatusInsufficientStorage:
		failure.Kind = fault.NoSpace
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status >= 500:
		failure.Kind = fault.Transient
	case status == http.StatusMovedPermanently, status == http.StatusTemporaryRedirect:
		failure.Kind = fault.BucketUnfit
		failure.Hint = "The bucket lies in another region: add ?region=REGION to --bucket."
	default:
		failure.Kind = fault.Unsupported
	}
}

func (s *Store) deniedHint(op, text string) string {
	object, whole := "arn:aws:s3:::"+s.options.Bucket+"/"+s.prefix+"*", "arn:aws:s3:::"+s.options.Bucket
	if strings.Contains(strings.ToLower(text), "kms") {
		return "Grant kms:GenerateDataKey and kms:Decrypt on the bucket's key; uploads in parts need both."
	}
	switch op {
	case opStat, opOpen:
		return "Grant s3:GetObject on " + object + " and s3:ListBucket on " + whole +
			": without the latter S3 answers 403 for a key that is missing. A requester-pays bucket needs requester_pays=true."
	case opList:
		return "Grant s3:ListBucket on " + whole + ". A requester-pays bucket needs requester_pays=true."
	case opPart, opComplete:
		return "Grant s3:PutObject and s3:AbortMultipartUpload on " + object +
			"; with KMS, uploads in parts need kms:GenerateDataKey and kms:Decrypt."
	case opDelete:
		return "Grant s3:DeleteObject on " + object + ", or leave deleting to a lifecycle rule; a locked object cannot be deleted."
	default:
		return "Grant s3:PutObject on " + object + ". A requester-pays bucket needs requester_pays=true."
	}
}

// skew says by how much the clocks differ, as far as the answer tells.
func (s *Store) skew(header http.Header) string {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return ""
	}
	return " by " + s.options.Now().Sub(date).Abs().Round(time.Second).String()
}

func oneLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

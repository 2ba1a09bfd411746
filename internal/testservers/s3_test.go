package testservers_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"feedmirror/internal/testservers"
)

// s3Server is a server with a bucket of the test's own.
type s3Server struct {
	testservers.S3
	bucket string
}

// request is one S3 request as it goes over the wire.
type request struct {
	method, key, body string
	header            map[string]string
	payload           string // x-amz-content-sha256; empty: the true one of body
	secret            string // key to sign with; empty: the right one
}

// send signs and sends a request and returns status, headers and body.
func (s s3Server) send(t *testing.T, r request) (int, http.Header, string) {
	t.Helper()
	httpRequest, err := http.NewRequestWithContext(t.Context(), r.method, s.Endpoint+"/"+s.bucket+"/"+r.key, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	if r.payload == "" {
		r.payload = hexHash(r.body)
	}
	if r.secret == "" {
		r.secret = s.SecretKey
	}
	httpRequest.Header.Set("X-Amz-Content-Sha256", r.payload)
	for name, value := range r.header {
		httpRequest.Header.Set(name, value)
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	keys := aws.Credentials{AccessKeyID: s.AccessKey, SecretAccessKey: r.secret}
	if err := signer.SignHTTP(t.Context(), keys, httpRequest, r.payload, "s3", s.Region, time.Now()); err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(httpRequest)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(body)
}

// put stores body under key and returns its ETag.
func (s s3Server) put(t *testing.T, key, body string) string {
	t.Helper()
	status, header, answer := s.send(t, request{method: http.MethodPut, key: key, body: body})
	if status != http.StatusOK {
		t.Fatalf("put %s: status %d: %s", key, status, answer)
	}
	return header.Get("ETag")
}

// expect fails the test unless key holds body; an empty body means that it holds nothing.
func (s s3Server) expect(t *testing.T, key, body string) {
	t.Helper()
	status, _, got := s.send(t, request{method: http.MethodGet, key: key})
	switch {
	case body == "" && status != http.StatusNotFound:
		t.Errorf("%s: status %d, want nothing stored", key, status)
	case body != "" && (status != http.StatusOK || got != body):
		t.Errorf("%s holds %q with status %d, want %q", key, got, status, body)
	}
}

// race sends the same request from many writers at once, each with a body of its own, and fails
// the test unless one wins, the others are refused with 409 or 412, and the winner's body stands.
func (s s3Server) race(t *testing.T, key string, header map[string]string) {
	t.Helper()
	winner := race(t, func(writer int) int {
		status, _, _ := s.send(t, request{method: http.MethodPut, key: key, body: racerBody(writer), header: header})
		return status
	})
	s.expect(t, key, racerBody(winner))
}

func hexHash(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

func base64Hash(body string) string {
	sum := sha256.Sum256([]byte(body))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// TestS3 proves what doc.go claims of each S3 server.
func TestS3(t *testing.T) {
	for name, start := range map[string]func(testing.TB) testservers.S3{
		"versitygw": servers.VersityGW,
		"seaweedfs": servers.SeaweedFS,
	} {
		t.Run(name, func(t *testing.T) {
			server := s3Server{S3: start(t)}
			server.bucket = server.NewBucket(t)
			t.Run("refuses", server.refusals)
			t.Run("create", server.create)
			t.Run("swap", server.swap)
			t.Run("delete", server.conditionalDelete)
			t.Run("attest", server.attest)
			t.Run("parts", server.parts)
		})
	}
}

// refusals: wrong bytes and wrong signatures store nothing and keep what stands.
func (s s3Server) refusals(t *testing.T) {
	for name, wrong := range map[string]request{
		"x-amz-content-sha256":  {payload: hexHash("other")},
		"x-amz-checksum-sha256": {header: map[string]string{"X-Amz-Checksum-Sha256": base64Hash("other")}},
		"Content-MD5":           {header: map[string]string{"Content-MD5": "rL0Y20zC+Fzt72VPzMSk2A=="}},
		"signature":             {secret: "another key"},
	} {
		t.Run(name, func(t *testing.T) {
			wrong.method, wrong.body = http.MethodPut, "the bytes that came"
			for key, before := range map[string]string{name + "/new": "", name + "/old": "the old bytes"} {
				if before != "" {
					s.put(t, key, before)
				}
				wrong.key = key
				status, _, answer := s.send(t, wrong)
				if status != http.StatusBadRequest && status != http.StatusForbidden {
					t.Errorf("put %s: status %d, want 400 or 403: %s", key, status, answer)
				}
				s.expect(t, key, before)
			}
		})
	}
}

// create: If-None-Match: * is atomic.
func (s s3Server) create(t *testing.T) {
	header := map[string]string{"If-None-Match": "*"}
	s.race(t, "create/race", header)
	status, _, _ := s.send(t, request{method: http.MethodPut, key: "create/race", body: "late", header: header})
	if status != http.StatusPreconditionFailed {
		t.Errorf("create over an object: status %d, want 412", status)
	}
}

// swap: If-Match is atomic, and a stale or missing tag changes nothing.
func (s s3Server) swap(t *testing.T) {
	tag := s.put(t, "swap/race", "the old bytes")
	s.race(t, "swap/race", map[string]string{"If-Match": tag})
	status, _, _ := s.send(t, request{method: http.MethodPut, key: "swap/race", body: "late", header: map[string]string{"If-Match": tag}})
	if status != http.StatusPreconditionFailed {
		t.Errorf("swap with a stale tag: status %d, want 412", status)
	}
	status, _, _ = s.send(t, request{method: http.MethodPut, key: "swap/none", body: "late", header: map[string]string{"If-Match": tag}})
	if status != http.StatusNotFound {
		t.Errorf("swap of nothing: status %d, want 404", status)
	}
	s.expect(t, "swap/none", "")
}

// conditionalDelete: a delete with a stale If-Match changes nothing, with the right one it deletes.
func (s s3Server) conditionalDelete(t *testing.T) {
	stale := s.put(t, "delete", "first")
	tag := s.put(t, "delete", "second")
	for _, step := range []struct {
		tag    string
		status int
		left   string
	}{
		{stale, http.StatusPreconditionFailed, "second"},
		{tag, http.StatusNoContent, ""},
	} {
		status, _, answer := s.send(t, request{method: http.MethodDelete, key: "delete", header: map[string]string{"If-Match": step.tag}})
		if status != step.status {
			t.Errorf("delete: status %d, want %d: %s", status, step.status, answer)
		}
		s.expect(t, "delete", step.left)
	}
}

// attest: the store tells the sha256 that came with the object and was checked. The same
// object without that header has none.
func (s s3Server) attest(t *testing.T) {
	const body = "the bytes that came"
	for _, sent := range []string{base64Hash(body), ""} {
		header := map[string]string{}
		if sent != "" {
			header["X-Amz-Checksum-Sha256"] = sent
		}
		if status, _, answer := s.send(t, request{method: http.MethodPut, key: "attest", body: body, header: header}); status != http.StatusOK {
			t.Fatalf("put: status %d: %s", status, answer)
		}
		_, got, _ := s.send(t, request{method: http.MethodHead, key: "attest", header: map[string]string{"X-Amz-Checksum-Mode": "ENABLED"}})
		if got.Get("X-Amz-Checksum-Sha256") != sent {
			t.Errorf("sent sha256 %q, told %q", sent, got.Get("X-Amz-Checksum-Sha256"))
		}
	}
}

// parts: wrong bytes of a part are refused, and the conditions hold where the parts are joined.
func (s s3Server) parts(t *testing.T) {
	const body = "one part"
	client := s.Client()
	key := aws.String("parts")
	s.put(t, *key, "stands")
	upload, err := client.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{
		Bucket: &s.bucket, Key: key, ChecksumAlgorithm: types.ChecksumAlgorithmSha256,
	})
	if err != nil {
		t.Fatal(err)
	}
	send := func(sum string) (*s3.UploadPartOutput, error) {
		return client.UploadPart(t.Context(), &s3.UploadPartInput{
			Bucket: &s.bucket, Key: key, UploadId: upload.UploadId, PartNumber: aws.Int32(1),
			Body: strings.NewReader(body), ChecksumSHA256: &sum,
		})
	}
	if _, err := send(base64Hash("other")); statusOf(err) != http.StatusBadRequest {
		t.Errorf("part with wrong bytes: %v, want status 400", err)
	}
	part, err := send(base64Hash(body))
	if err != nil {
		t.Fatal(err)
	}
	complete := &s3.CompleteMultipartUploadInput{
		Bucket: &s.bucket, Key: key, UploadId: upload.UploadId, IfNoneMatch: aws.String("*"),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{
			{ETag: part.ETag, PartNumber: aws.Int32(1), ChecksumSHA256: part.ChecksumSHA256},
		}},
	}
	if _, err := client.CompleteMultipartUpload(t.Context(), complete); statusOf(err) != http.StatusPreconditionFailed {
		t.Errorf("complete over an object: %v, want status 412", err)
	}
	s.expect(t, *key, "stands")
	complete.IfNoneMatch = nil
	if _, err := client.CompleteMultipartUpload(t.Context(), complete); err != nil {
		t.Errorf("complete without condition: %v", err)
	}
	s.expect(t, *key, body)
}

// statusOf is the HTTP status behind an error of the S3 SDK; 0 without one.
func statusOf(err error) int {
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return response.HTTPStatusCode()
	}
	return 0
}

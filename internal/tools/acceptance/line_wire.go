package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/testservers"
)

// wire: what data looks like on its way to S3, and that servers refuse wrong bytes.
func wire(ctx context.Context, s *stage) error {
	err := withFeed(feedsim.Options{}, func(feed *feedsim.Feed) error {
		datasets, err := three(feed)
		if err != nil {
			return err
		}
		if _, err := datasets["ds_parcels"].Release(feedsim.ReleaseSpec{ReplaceIDs: true, Extra: []feedsim.ExtraFile{{Path: "notes/readme.txt", Data: []byte("hello")}}}); err != nil {
			return err
		}
		// A part of exactly 1 GiB still goes in one request.
		if _, err := feed.AddBulk(feedsim.BulkSpec{Dataset: "ds_large", PartBytes: s.pick(1<<30, 32<<20), Attachments: 20, AttachmentBytes: 5000}); err != nil {
			return err
		}
		return withVersity(func(server testservers.S3) error { return s.watchWire(ctx, feed, server) })
	})
	if err != nil {
		return err
	}
	return withServers(func(servers *testservers.Servers) error {
		if err := s.wrongBytes(ctx, servers.VersityGW(tb{})); err != nil {
			return err
		}
		return s.wrongBytes(ctx, servers.SeaweedFS(tb{}))
	})
}

func (s *stage) watchWire(ctx context.Context, feed *feedsim.Feed, server testservers.S3) error {
	there, err := newPlace(ctx, server, "wire", "p/")
	if err != nil {
		return err
	}
	proxy, err := record(server.Endpoint)
	if err != nil {
		return err
	}
	defer proxy.close() //nolint:errcheck // its connections carry nothing any more
	e, err := s.sync(ctx, s.environment(feed, credentials(server)...), 0, there.url(proxy.address))
	if err != nil {
		return err
	}
	s.want(e.exit == 0, "exit %d with a recording proxy in front of versitygw", e.exit)
	sums, err := there.sums(ctx)
	if err != nil {
		return err
	}
	var checked int
	var largest int64
	for _, request := range proxy.all() {
		key, ours := strings.CutPrefix(request.path, "/wire/p/")
		if request.method != http.MethodPut || !ours || !isData(key) {
			continue
		}
		checked++
		largest = max(largest, request.length)
		for _, problem := range wireProblems(request, named(key, sums)) {
			s.want(false, "PUT %s: %s", key, problem)
		}
	}
	s.want(checked > 0 && int64(checked) >= e.report.Files.Copied, "%d PUTs of data for %d files copied, the largest %s: Content-Length, x-amz-content-sha256 and x-amz-checksum-sha256 = sha256 of the body on the wire and of SHA256SUMS or the attachment's name, If-None-Match: *, no x-amz-trailer, no chunks, no parts",
		checked, e.report.Files.Copied, size(largest))
	for _, broken := range proxy.brokenOff() {
		s.note("broken off by the program: %s", broken)
	}
	s.want(largest == s.pick(1<<30, 32<<20), "the largest has %d bytes", largest)
	return nil
}

// named returns the hash that the bucket names for a key: attachments name themselves.
func named(key string, sums map[string]string) string {
	if strings.HasPrefix(key, "attachments/") {
		return path.Base(key)
	}
	return sums[key]
}

// wireProblems says what of a PUT is not as it must be. listed is the hash that the bucket names.
func wireProblems(r sent, listed string) []string {
	var problems []string
	problem := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	checksum, err := base64.StdEncoding.DecodeString(r.header.Get("x-amz-checksum-sha256"))
	problem(err != nil || hex.EncodeToString(checksum) != r.sha256, "x-amz-checksum-sha256 is %q", r.header.Get("x-amz-checksum-sha256"))
	problem(r.header.Get("x-amz-content-sha256") != r.sha256, "x-amz-content-sha256 is %q, the body has %s", r.header.Get("x-amz-content-sha256"), r.sha256)
	problem(listed != r.sha256, "the bucket names %q, the body has %s", listed, r.sha256)
	problem(r.length < 0 || len(r.coding) > 0, "no Content-Length, transfer encoding %v", r.coding)
	problem(r.header.Get("x-amz-trailer") != "" || len(r.trailer) > 0, "a trailer: %q", r.header.Get("x-amz-trailer"))
	problem(strings.Contains(r.header.Get("Content-Encoding"), "aws-chunked"), "aws-chunked")
	problem(r.header.Get("If-None-Match") != "*", "If-None-Match is %q", r.header.Get("If-None-Match"))
	problem(strings.Contains(r.query, "partNumber"), "it is a part")
	return problems
}

// sums returns the hash that SHA256SUMS of some version names for each key.
func (p place) sums(ctx context.Context) (map[string]string, error) {
	keys, err := p.list(ctx)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for key := range keys {
		if !strings.HasSuffix(key, "/SHA256SUMS") {
			continue
		}
		data, err := p.get(ctx, key)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			if sum, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
				sums[name] = sum
			}
		}
	}
	return sums, nil
}

// wrongBytes sends signed PUTs whose hash is another's and wants the server itself to refuse them.
func (s *stage) wrongBytes(ctx context.Context, server testservers.S3) error {
	there, err := newPlace(ctx, server, "wrong", "")
	if err != nil {
		return err
	}
	body, other := []byte("what was sent"), sha256.Sum256([]byte("what was promised"))
	right := sha256.Sum256(body)
	for _, one := range []struct {
		name              string
		payload, checksum [sha256.Size]byte
		good              bool
	}{
		{"both right", right, right, true}, {"x-amz-content-sha256 wrong", other, right, false}, {"x-amz-checksum-sha256 wrong", right, other, false}, {"both wrong", other, other, false},
	} {
		key := strings.ReplaceAll(one.name, " ", "-")
		status, err := signedPut(ctx, there, key, body, one.payload, one.checksum)
		if err != nil {
			return err
		}
		stored, err := there.has(ctx, key)
		if err != nil {
			return err
		}
		s.want(stored == one.good && (status == http.StatusOK) == one.good && status < 500, "%s, %s: status %d, stored: %s", server.Name, one.name, status, yesNo(stored))
	}
	return nil
}

// signedPut sends one PUT with the hashes as given and a valid signature.
func signedPut(ctx context.Context, p place, key string, body []byte, payload, checksum [sha256.Size]byte) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, p.server.Endpoint+"/"+p.bucket+"/"+key, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("put %s: %w", key, err)
	}
	hash := hex.EncodeToString(payload[:])
	request.Header.Set("x-amz-content-sha256", hash)
	request.Header.Set("x-amz-checksum-sha256", base64.StdEncoding.EncodeToString(checksum[:]))
	who := aws.Credentials{AccessKeyID: p.server.AccessKey, SecretAccessKey: p.server.SecretKey}
	if err := v4.NewSigner().SignHTTP(ctx, who, request, hash, "s3", p.server.Region, time.Now()); err != nil {
		return 0, fmt.Errorf("sign %s: %w", key, err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("put %s: %w", key, err)
	}
	return answer.StatusCode, answer.Body.Close()
}

// has says whether an object stands.
func (p place) has(ctx context.Context, key string) (bool, error) {
	_, err := p.server.Client().HeadObject(ctx, &s3.HeadObjectInput{Bucket: &p.bucket, Key: aws.String(p.prefix + key)})
	var absent *types.NotFound
	if errors.As(err, &absent) {
		return false, nil
	}
	return err == nil, err
}

package s3store

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"feedmirror/internal/bucket"
	"feedmirror/manifest"
)

// Stat implements bucket.Reader.
func (s *Store) Stat(ctx context.Context, key string) (bucket.Info, error) {
	name, err := s.name(key)
	if err != nil {
		return bucket.Info{}, err
	}
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{
		Bucket: &s.options.Bucket, Key: &name, ChecksumMode: types.ChecksumModeEnabled,
	})
	if err != nil {
		return bucket.Info{}, s.fail(ctx, opStat, key, err)
	}
	if tagOf(out.ETag) == bucket.Absent { // a proxy's page is no object
		return bucket.Info{}, bucket.Unreadable(opStat, key, errors.New("it names no ETag"))
	}
	info := bucket.Info{
		Key: key, Size: -1, Tag: tagOf(out.ETag), Modified: aws.ToTime(out.LastModified),
		Class: string(out.StorageClass), Encoding: encoding(out.ContentEncoding),
		Archived: archived(string(out.StorageClass), aws.ToString(out.Restore)) || out.ArchiveStatus != "",
	}
	if out.ContentLength != nil { // some proxies drop it: unknown is not empty
		info.Size = *out.ContentLength
	}
	sums := checksums{
		sha256: out.ChecksumSHA256, crc64: out.ChecksumCRC64NVME, crc32c: out.ChecksumCRC32C, crc32: out.ChecksumCRC32,
		composite: out.ChecksumType == types.ChecksumTypeComposite,
	}
	info.SHA256, info.Checksum = sums.whole()
	return info, nil
}

// Open implements bucket.Reader.
func (s *Store) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	name, err := s.name(key)
	if err != nil {
		return nil, bucket.Info{}, err
	}
	if length == 0 {
		return bucket.OpenNothing(ctx, s, key, offset, length)
	}
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &s.options.Bucket, Key: &name, Range: byteRange(offset, length),
	})
	if err != nil {
		if rangeRefused(err) {
			return bucket.OpenNothing(ctx, s, key, offset, length)
		}
		return nil, bucket.Info{}, s.fail(ctx, opOpen, key, err)
	}
	info := bucket.Info{
		Key: key, Size: -1, Tag: tagOf(out.ETag), Modified: aws.ToTime(out.LastModified),
		Class: string(out.StorageClass), Encoding: encoding(out.ContentEncoding),
	}
	if err := checkRange(&info, out, offset); err != nil {
		_ = out.Body.Close() // err is the reason; nothing was written
		return nil, bucket.Info{}, bucket.Unreadable(opOpen, key, err)
	}
	promised := int64(-1)
	if out.ContentLength != nil {
		promised = *out.ContentLength
	}
	body := bucket.PromisedBody(out.Body, promised, func(cause error) error {
		return s.fail(ctx, opOpen, key, cause)
	})
	return body, info, nil
}

func byteRange(offset, length int64) *string {
	switch {
	case length > 0:
		return aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		return aws.String(fmt.Sprintf("bytes=%d-", offset))
	default:
		return nil
	}
}

// checkRange fills in the size of the whole object, and refuses an answer that starts elsewhere
// than it was asked to.
func checkRange(info *bucket.Info, out *s3.GetObjectOutput, offset int64) error {
	if info.Tag == bucket.Absent {
		return errors.New("it names no ETag")
	}
	if out.ContentRange == nil {
		if offset > 0 {
			return errors.New("the store ignored the range")
		}
		if out.ContentLength != nil {
			info.Size = *out.ContentLength
		}
		return nil
	}
	first, size, err := bucket.ParseContentRange(*out.ContentRange)
	if err != nil {
		return err
	}
	if first != offset {
		return fmt.Errorf("the store sent byte %d and on, asked were %d and on", first, offset)
	}
	info.Size = size
	return nil
}

func rangeRefused(err error) bool {
	var answer *smithyhttp.ResponseError
	return errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusRequestedRangeNotSatisfiable
}

// tagOf returns an ETag without its quotes: services disagree on them between calls.
func tagOf(etag *string) bucket.Tag { return bucket.Tag(strings.Trim(aws.ToString(etag), `"`)) }

func quoted(tag bucket.Tag) *string { return aws.String(`"` + string(tag) + `"`) }

func encoding(header *string) string {
	if text := aws.ToString(header); text != "identity" {
		return text
	}
	return ""
}

// archived reports whether an object of this class has to be restored before it can be read.
func archived(class, restore string) bool {
	switch class {
	case string(types.StorageClassGlacier), string(types.StorageClassDeepArchive):
		return !strings.Contains(restore, `ongoing-request="false"`)
	}
	return false
}

// checksums are those of an answer, in base64.
type checksums struct {
	sha256, crc64, crc32c, crc32 *string
	composite                    bool // of the parts' checksums, not of the bytes
}

// whole returns those that cover the whole object. The ETag is none of them: 32 hex digits are no
// proof of an MD5.
func (c checksums) whole() (*manifest.SHA256, string) {
	if c.composite {
		return nil, ""
	}
	other := ""
	for _, sum := range []struct {
		name string
		text *string
		size int
	}{{"crc64nvme", c.crc64, 8}, {"crc32c", c.crc32c, 4}, {"crc32", c.crc32, 4}} {
		if raw, ok := decode(sum.text, sum.size); ok && other == "" {
			other = sum.name + ":" + hex.EncodeToString(raw)
		}
	}
	raw, ok := decode(c.sha256, len(manifest.SHA256{}))
	if !ok {
		return nil, other
	}
	sum := manifest.SHA256(raw)
	return &sum, other
}

// decode refuses what is not exactly size bytes: a composite checksum ends in "-" and a number.
func decode(text *string, size int) ([]byte, bool) {
	raw, err := base64.StdEncoding.DecodeString(aws.ToString(text))
	return raw, err == nil && len(raw) == size
}

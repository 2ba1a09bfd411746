package s3store

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// Create implements bucket.Writer.
func (s *Store) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	if s.options.NoConditionalWrites {
		if err := s.lookFirst(ctx, opCreate, key, bucket.Absent); err != nil {
			return bucket.Info{}, err
		}
	}
	return s.write(ctx, key, condition{none: s.none()}, content)
}

// Replace implements bucket.Replacer. It looks first, so that a service that ignores the condition
// still refuses a stale tag unless another writer comes between.
func (s *Store) Replace(ctx context.Context, key string, old bucket.Tag, content bucket.Content) (bucket.Info, error) {
	if old == bucket.Absent {
		return bucket.Info{}, bucket.Unreplaced(key, errors.New("no tag is named"))
	}
	if err := s.lookFirst(ctx, opSwap, key, old); err != nil {
		return bucket.Info{}, err
	}
	when := condition{replaces: true}
	if !s.options.NoConditionalWrites {
		when.match = quoted(old)
	}
	info, err := s.write(ctx, key, when, content)
	if fault.Is(err, fault.Exists) || fault.Is(err, fault.NotFound) {
		return bucket.Info{}, bucket.Unreplaced(key, err)
	}
	return info, err
}

// condition says what must stand at a key that is written; nil: whatever does.
type condition struct {
	none, match *string
	replaces    bool // something stood there: what follows it is not taken away again
}

// write sends an object in one piece or in parts.
func (s *Store) write(ctx context.Context, key string, when condition, content bucket.Content) (bucket.Info, error) {
	name, err := s.name(key)
	if err != nil {
		return bucket.Info{}, err
	}
	body := bucket.VerifyReader(content.Body, content.Size, content.SHA256)
	defer body.Stop()
	if content.Size > s.options.MaxSinglePut {
		return s.createParts(ctx, key, name, when, content, body)
	}
	if content.Size == 0 { // an HTTP client never reads an empty body
		if _, err := io.ReadAll(body); err != nil {
			return bucket.Info{}, fmt.Errorf("%s %s: %w", opCreate, key, err)
		}
	}
	in := s.put(key, name, content.Class, content.Size, content.SHA256)
	in.Body = body
	in.IfNoneMatch, in.IfMatch = when.none, when.match
	out, err := s.client.PutObject(ctx, in, withPayloadHash(content.SHA256))
	switch {
	case body.Failure() != nil:
		return bucket.Info{}, fmt.Errorf("%s %s: %w", opCreate, key, body.Failure())
	case err != nil:
		return bucket.Info{}, s.unanswered(ctx, key, content, s.fail(ctx, opCreate, key, err))
	}
	return s.created(ctx, key, when, content, out)
}

// unanswered looks what stands where a create broke without an answer: a server may refuse a taken
// key and hang up while the body is still on its way, and then the refusal is lost. Other bytes than
// were sent are proof of that. The same bytes may be this very write's, and prove nothing.
func (s *Store) unanswered(ctx context.Context, key string, content bucket.Content, failure error) error {
	var broken *fault.Error
	if !errors.As(failure, &broken) || broken.Kind != fault.Transient || broken.Status != 0 || ctx.Err() != nil {
		return failure
	}
	info, same, err := bucket.Holds(ctx, s, key, content.Size, content.SHA256)
	if err != nil || same || info.Key == "" {
		return failure
	}
	return &fault.Error{Op: opCreate, Object: key, Side: fault.SideBucket, Kind: fault.Exists, Err: failure}
}

// created holds the answer of a PUT against what was sent. A service that took other bytes must
// not keep them under this key.
func (s *Store) created(ctx context.Context, key string, when condition, content bucket.Content, out *s3.PutObjectOutput) (bucket.Info, error) {
	if err := s.unproven(opCreate, key, out); err != nil {
		return bucket.Info{}, err
	}
	info := bucket.Info{Key: key, Size: content.Size, Tag: tagOf(out.ETag)}
	info.SHA256, info.Checksum = checksums{sha256: out.ChecksumSHA256, crc64: out.ChecksumCRC64NVME}.whole()
	if info.SHA256 == nil || *info.SHA256 == content.SHA256 {
		return info, nil
	}
	return bucket.Info{}, s.takeAway(ctx, key, when, info.Tag,
		fmt.Errorf("the store holds bytes of sha256 %s, sent were %s", info.SHA256, content.SHA256))
}

// takeAway removes an object that holds other bytes than were sent, and returns the error that says so.
func (s *Store) takeAway(ctx context.Context, key string, when condition, tag bucket.Tag, cause error) error {
	if when.replaces {
		cause = fmt.Errorf("%w; it stays in the place of other wrong bytes", cause)
	} else if err := s.Delete(ctx, key, tag); err != nil {
		cause = fmt.Errorf("%w; taking it away: %w", cause, err)
	}
	return &fault.Error{Op: opCreate, Object: key, Side: fault.SideBucket, Kind: fault.WrongBytes, Err: cause}
}

// put returns the request that writes an object in one piece, without body and condition.
func (s *Store) put(key, name string, class bucket.ContentClass, size int64, sum manifest.SHA256) *s3.PutObjectInput {
	in := &s3.PutObjectInput{
		Bucket: &s.options.Bucket, Key: aws.String(name), ContentLength: aws.Int64(size),
		ChecksumSHA256: aws.String(base64.StdEncoding.EncodeToString(sum[:])),
		ContentType:    aws.String(bucket.MediaType(key, class)),
		CacheControl:   aws.String(bucket.CacheControl(class)),
		ACL:            types.ObjectCannedACL(s.options.ACL),
	}
	if s.options.Tags != "" {
		in.Tagging = &s.options.Tags
	}
	if s.options.KMSKey != "" {
		in.ServerSideEncryption, in.SSEKMSKeyId = types.ServerSideEncryptionAwsKms, &s.options.KMSKey
	}
	if class == bucket.Data { // documents are rewritten: a cold class bills that, a lock keeps every state of them
		in.StorageClass = types.StorageClass(s.options.StorageClass)
		in.ObjectLockMode = types.ObjectLockMode(s.options.ObjectLockMode)
		in.ObjectLockRetainUntilDate = s.lockedUntil()
	}
	return in
}

func (s *Store) lockedUntil() *time.Time {
	if s.options.ObjectLockMode == "" {
		return nil
	}
	return aws.Time(s.options.Now().Add(time.Duration(s.options.ObjectLockDays) * 24 * time.Hour))
}

// none is the condition that nothing stands at the key.
func (s *Store) none() *string {
	if s.options.NoConditionalWrites {
		return nil
	}
	return aws.String("*")
}

// Swap implements bucket.Swapper.
func (s *Store) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	name, err := s.name(key)
	if err != nil {
		return "", err
	}
	sum := manifest.SumBytes(data)
	in := s.put(key, name, bucket.Pointer, int64(len(data)), sum)
	in.Body = bytes.NewReader(data)
	switch {
	case s.options.NoConditionalWrites:
		if err := s.lookFirst(ctx, opSwap, key, old); err != nil {
			return "", err
		}
	case old == bucket.Absent:
		in.IfNoneMatch = s.none()
	default:
		in.IfMatch = quoted(old)
	}
	out, err := s.client.PutObject(ctx, in, withPayloadHash(sum))
	if err != nil {
		return "", s.fail(ctx, opSwap, key, err)
	}
	return tagOf(out.ETag), s.unproven(opSwap, key, out)
}

// unproven refuses a success that names no ETag: services send the status before the work is done,
// and an error can stand in the body of a 200, which the SDK does not read. What stands decides.
func (s *Store) unproven(op, key string, out *s3.PutObjectOutput) error {
	if tagOf(out.ETag) != bucket.Absent {
		return nil
	}
	return bucket.Unreadable(op, key, errors.New("it names no ETag"))
}

// lookFirst stands in for a condition that the service does not know. Another writer can come
// between; Guarantees says so.
func (s *Store) lookFirst(ctx context.Context, op, key string, old bucket.Tag) error {
	info, err := s.Stat(ctx, key)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if info.Tag == old {
		return nil
	}
	kind := fault.Conflict
	if op == opCreate {
		kind = fault.Exists
	}
	return &fault.Error{
		Op: op, Object: key, Side: fault.SideBucket, Kind: kind,
		Err: fmt.Errorf("the key holds %q, expected %q", info.Tag, old),
	}
}

// Delete implements bucket.Deleter. It looks first, so that a service that ignores the condition
// still refuses a stale tag unless another writer comes between.
func (s *Store) Delete(ctx context.Context, key string, tag bucket.Tag) error {
	name, err := s.name(key)
	if err != nil {
		return err
	}
	info, err := s.Stat(ctx, key)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case err != nil:
		return err
	case info.Tag != tag:
		return &fault.Error{
			Op: opDelete, Object: key, Side: fault.SideBucket, Kind: fault.Conflict,
			Err: fmt.Errorf("the key holds %q, expected %q", info.Tag, tag),
		}
	}
	in := &s3.DeleteObjectInput{Bucket: &s.options.Bucket, Key: &name}
	if s.conditionalDelete() {
		in.IfMatch = quoted(tag)
	}
	if _, err := s.client.DeleteObject(ctx, in); err != nil {
		failure := s.fail(ctx, opDelete, key, err)
		if fault.Is(failure, fault.NotFound) {
			return nil
		}
		return failure
	}
	return nil
}

// CreateRaw implements bucket.RawCreator.
func (s *Store) CreateRaw(ctx context.Context, key string, sent, announced []byte) error {
	name, err := s.name(key)
	if err != nil {
		return err
	}
	if len(sent) != len(announced) {
		return errors.New("create raw: sent and announced differ in length")
	}
	sum := manifest.SumBytes(announced)
	in := s.put(key, name, bucket.Document, int64(len(sent)), sum)
	in.Body = bytes.NewReader(sent)
	in.IfNoneMatch = s.none()
	if _, err := s.client.PutObject(ctx, in, withPayloadHash(sum)); err != nil {
		return s.fail(ctx, opCreate, key, err)
	}
	return nil
}

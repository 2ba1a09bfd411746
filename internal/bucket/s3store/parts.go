package s3store

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // a checksum of the transfer; what is stored is proven by sha256
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// crc64NVME is the reversed polynomial of CRC-64/NVME.
const crc64NVME = 0x9a6c9329ac4bc9b5

// abortTimeout bounds the clean-up of an upload whose own context has ended already.
const abortTimeout = 20 * time.Second

// plainParts remembers that the service refused an upload with a CRC64NVME of the whole.
type plainParts struct{ refused atomic.Bool }

// upload is one object being written in parts.
type upload struct {
	store   *Store
	key     string
	name    string
	id      string
	when    condition
	content bucket.Content
	crc     bool // the service keeps a CRC64NVME of the whole
	table   *crc64.Table
	whole   uint64 // CRC64NVME of the bytes so far
	parts   []types.CompletedPart
}

// part is one filled buffer. All of it is hashed before it is sent.
type part struct {
	number int32
	data   []byte
	sum    manifest.SHA256
	crc    uint64
}

// createParts writes an object in parts. Nothing is visible before Complete, which is sent only
// when the whole sha256 agreed; every failure aborts the upload, under a context of its own.
func (s *Store) createParts(ctx context.Context, key, name string, when condition, content bucket.Content, body *bucket.Verifier) (bucket.Info, error) {
	size, err := s.partSize(key, content.Size)
	if err != nil {
		return bucket.Info{}, err
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return bucket.Info{}, fmt.Errorf("%s %s: %w", opCreate, key, ctx.Err())
	}
	u := &upload{store: s, key: key, name: name, when: when, content: content, table: crc64.MakeTable(crc64NVME)}
	if err := u.begin(ctx); err != nil {
		return bucket.Info{}, err
	}
	err = u.send(ctx, body, size)
	if err == nil && !body.Verified() { // cannot be: send read the last byte
		err = &fault.Error{Op: opCreate, Object: key, Kind: fault.Internal, Err: fmt.Errorf("body was not read to its end")}
	}
	if err == nil {
		var info bucket.Info
		if info, err = u.complete(ctx); err == nil {
			return info, nil
		}
	}
	if failure := body.Failure(); failure != nil {
		err = fmt.Errorf("%s %s: %w", opCreate, key, failure)
	} else if ctx.Err() != nil {
		err = fmt.Errorf("%s %s: %w", opCreate, key, ctx.Err())
	}
	return bucket.Info{}, u.abort(ctx, err)
}

// partSize returns the configured size, or a greater one where 10,000 parts would not do.
func (s *Store) partSize(key string, size int64) (int64, error) {
	const step = 1 << 20
	needed := (size + mostParts - 1) / mostParts
	needed = (needed + step - 1) / step * step
	if needed > largestPart {
		return 0, &fault.Error{
			Op: opCreate, Object: key, Side: fault.SideBucket, Kind: fault.Unsupported,
			Err: fmt.Errorf("%d bytes, at most %d fit into one object in parts", size, int64(largestPart)*mostParts),
		}
	}
	return max(s.options.PartSize, needed), nil
}

// begin opens the upload, without a checksum of the whole where the service refuses one.
func (u *upload) begin(ctx context.Context) error {
	u.crc = !u.store.plain.refused.Load()
	err := u.open(ctx)
	if u.crc && (fault.Is(err, fault.Unsupported) || fault.Is(err, fault.Malformed)) {
		u.crc = false
		if err = u.open(ctx); err == nil {
			u.store.plain.refused.Store(true)
		}
	}
	return err
}

func (u *upload) open(ctx context.Context) error {
	s := u.store
	put := s.put(u.key, u.name, u.content.Class, u.content.Size, u.content.SHA256)
	in := &s3.CreateMultipartUploadInput{
		Bucket: put.Bucket, Key: put.Key, ContentType: put.ContentType, CacheControl: put.CacheControl,
		ACL: put.ACL, Tagging: put.Tagging, StorageClass: put.StorageClass,
		ServerSideEncryption: put.ServerSideEncryption, SSEKMSKeyId: put.SSEKMSKeyId,
		ObjectLockMode: put.ObjectLockMode, ObjectLockRetainUntilDate: put.ObjectLockRetainUntilDate,
	}
	if u.crc {
		in.ChecksumAlgorithm, in.ChecksumType = types.ChecksumAlgorithmCrc64nvme, types.ChecksumTypeFullObject
	}
	out, err := s.client.CreateMultipartUpload(ctx, in)
	if err != nil {
		return s.fail(ctx, opCreate, u.key, err)
	}
	if u.id = aws.ToString(out.UploadId); u.id == "" {
		return bucket.Unreadable(opCreate, u.key, errors.New("it names no upload"))
	}
	return nil
}

// send reads and hashes one part while the part before it travels: two buffers in all. They are
// not pooled: after a failure the HTTP client may still be reading one.
func (u *upload) send(ctx context.Context, body io.Reader, size int64) error {
	free, filled := make(chan []byte, 2), make(chan part)
	free <- make([]byte, size)
	free <- make([]byte, size)
	filling, stop := context.WithCancel(ctx)
	defer stop()
	sent := make(chan error, 1)
	go func() {
		sent <- u.sendParts(ctx, filled, free)
		stop()
	}()
	// When the body fails, the part under way is waited for, not cut: a part that the service
	// still takes in can outlive the abort.
	fillErr := u.fill(filling, body, free, filled)
	close(filled)
	if err := <-sent; err != nil {
		return err
	}
	return fillErr
}

func (u *upload) sendParts(ctx context.Context, filled <-chan part, free chan<- []byte) error {
	for p := range filled {
		if err := u.sendPart(ctx, p); err != nil {
			return err
		}
		free <- p.data[:cap(p.data)]
	}
	return nil
}

func (u *upload) fill(ctx context.Context, body io.Reader, free <-chan []byte, filled chan<- part) error {
	left := u.content.Size
	for number := int32(1); left > 0; number++ {
		var data []byte
		select {
		case data = <-free:
		case <-ctx.Done():
			return ctx.Err()
		}
		data = data[:min(int64(len(data)), left)]
		if _, err := io.ReadFull(body, data); err != nil {
			return err
		}
		left -= int64(len(data))
		p := part{number: number, data: data, sum: manifest.SumBytes(data)}
		if u.crc {
			p.crc = crc64.Checksum(data, u.table)
			u.whole = crc64.Update(u.whole, u.table, data)
		}
		select {
		case filled <- p:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (u *upload) sendPart(ctx context.Context, p part) error {
	in := &s3.UploadPartInput{
		Bucket: &u.store.options.Bucket, Key: &u.name, UploadId: &u.id, PartNumber: aws.Int32(p.number),
		ContentLength: aws.Int64(int64(len(p.data))),
	}
	if u.crc {
		in.ChecksumCRC64NVME = aws.String(crcText(p.crc))
	} else { // a bucket with object lock takes no part without a checksum, and every service knows this one
		sum := md5.Sum(p.data) //nolint:gosec // see the import
		in.ContentMD5 = aws.String(base64.StdEncoding.EncodeToString(sum[:]))
	}
	done := types.CompletedPart{PartNumber: in.PartNumber, ChecksumCRC64NVME: in.ChecksumCRC64NVME}
	err := u.store.options.Retry.Do(ctx, bucket.Retryable, func(int) error {
		in.Body = bytes.NewReader(p.data)
		out, err := u.store.client.UploadPart(ctx, in, withPayloadHash(p.sum))
		if err != nil {
			return u.store.fail(ctx, opPart, u.key, err)
		}
		if tagOf(out.ETag) == bucket.Absent {
			return bucket.Unreadable(opPart, u.key, errors.New("it names no ETag"))
		}
		done.ETag = out.ETag
		return nil
	})
	u.parts = append(u.parts, done)
	return err
}

func crcText(sum uint64) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, sum))
}

// complete makes the object visible and looks whether it is.
func (u *upload) complete(ctx context.Context) (bucket.Info, error) {
	s := u.store
	in := &s3.CompleteMultipartUploadInput{
		Bucket: &s.options.Bucket, Key: &u.name, UploadId: &u.id, IfNoneMatch: u.when.none, IfMatch: u.when.match,
		MpuObjectSize:   aws.Int64(u.content.Size),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: u.parts},
	}
	if u.crc {
		in.ChecksumType, in.ChecksumCRC64NVME = types.ChecksumTypeFullObject, aws.String(crcText(u.whole))
	}
	uncertain := false // an answer was lost: the object may stand although an error follows
	err := s.options.Retry.Do(ctx, bucket.Retryable, func(int) error {
		_, err := s.client.CompleteMultipartUpload(ctx, in)
		if err == nil {
			return nil
		}
		failure := s.fail(ctx, opComplete, u.key, err)
		uncertain = uncertain || bucket.Retryable(failure)
		return failure
	})
	if err != nil {
		return u.settle(ctx, uncertain, err)
	}
	return u.look(ctx)
}

// look trusts no 200: some services send it before the work is done.
func (u *upload) look(ctx context.Context) (bucket.Info, error) {
	var info bucket.Info
	err := u.store.options.Retry.Do(ctx, bucket.Retryable, func(int) error {
		var err error
		info, err = u.store.Stat(ctx, u.key)
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return bucket.Info{}, &fault.Error{
			Op: opComplete, Object: u.key, Side: fault.SideBucket, Kind: fault.Transient, Err: err,
		}
	}
	if err != nil {
		return bucket.Info{}, err
	}
	if info.Size >= 0 && info.Size != u.content.Size {
		return bucket.Info{}, u.store.takeAway(ctx, u.key, u.when, info.Tag,
			fmt.Errorf("the store holds %d bytes, sent were %d", info.Size, u.content.Size))
	}
	return info, nil
}

// settle decides a completion whose answer was lost by what stands at the key.
func (u *upload) settle(ctx context.Context, uncertain bool, cause error) (bucket.Info, error) {
	if !uncertain || ctx.Err() != nil {
		return bucket.Info{}, cause
	}
	info, same, err := bucket.Holds(ctx, u.store, u.key, u.content.Size, u.content.SHA256)
	if err != nil || !same {
		return bucket.Info{}, cause
	}
	return info, nil
}

// abort gives the parts back, which are billed and shown by no listing. What cannot be aborted is
// named beside cause, which stays the error.
func (u *upload) abort(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	err := u.store.options.Retry.Do(ctx, bucket.Retryable, func(int) error {
		_, err := u.store.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
			Bucket: &u.store.options.Bucket, Key: &u.name, UploadId: &u.id,
		})
		if err != nil {
			return u.store.fail(ctx, "abort upload", u.key, err)
		}
		return nil
	})
	if err == nil || fault.Is(err, fault.NotFound) || fault.Is(err, fault.Contended) { // already gone
		return cause
	}
	return fmt.Errorf("%w (upload %s stays open: %s)", cause, u.id, err.Error())
}

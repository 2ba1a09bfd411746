package s3store

import (
	"context"
	"io"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

var _ bucket.Versioned = (*Store)(nil)

// Older implements bucket.Versioned. A bucket without versioning lists the current object only.
func (s *Store) Older(ctx context.Context, key string) iter.Seq2[bucket.OlderVersion, error] {
	return func(yield func(bucket.OlderVersion, error) bool) {
		name, err := s.name(key)
		if err != nil {
			yield(bucket.OlderVersion{}, err)
			return
		}
		in := &s3.ListObjectVersionsInput{Bucket: &s.options.Bucket, Prefix: &name}
		for {
			out, err := s.client.ListObjectVersions(ctx, in)
			if err != nil {
				yield(bucket.OlderVersion{}, s.failOlder(ctx, key, err))
				return
			}
			for _, version := range out.Versions {
				if aws.ToString(version.Key) != name || aws.ToBool(version.IsLatest) {
					continue
				}
				older := bucket.OlderVersion{ID: aws.ToString(version.VersionId), Info: bucket.Info{
					Key: key, Size: -1, Tag: tagOf(version.ETag), Modified: aws.ToTime(version.LastModified),
					Class: string(version.StorageClass), Archived: archived(string(version.StorageClass), ""),
				}}
				if version.Size != nil {
					older.Size = *version.Size
				}
				if !yield(older, nil) {
					return
				}
			}
			next := aws.ToString(out.NextKeyMarker)
			// Keys come in order: what follows another key is of no interest.
			if !aws.ToBool(out.IsTruncated) || next != name {
				return
			}
			marker := aws.ToString(out.NextVersionIdMarker)
			if marker == "" || marker == aws.ToString(in.VersionIdMarker) {
				return // it repeats itself; what was seen is all there is to try
			}
			in.KeyMarker, in.VersionIdMarker = &next, &marker
		}
	}
}

// failOlder names the rights that reading older versions needs beside those for the current ones.
func (s *Store) failOlder(ctx context.Context, key string, err error) error {
	failure := s.fail(ctx, opList, key, err)
	if fault.Is(failure, fault.Denied) {
		whole := "arn:aws:s3:::" + s.options.Bucket
		return &fault.Error{Op: opList, Object: key, Side: fault.SideBucket, Kind: fault.Denied, Err: failure,
			Hint: "Grant s3:ListBucketVersions on " + whole + " and s3:GetObjectVersion on " + whole + "/" + s.prefix + "*."}
	}
	return failure
}

// OpenOlder implements bucket.Versioned.
func (s *Store) OpenOlder(ctx context.Context, key, id string) (io.ReadCloser, bucket.Info, error) {
	name, err := s.name(key)
	if err != nil {
		return nil, bucket.Info{}, err
	}
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.options.Bucket, Key: &name, VersionId: &id})
	if err != nil {
		return nil, bucket.Info{}, s.failOlder(ctx, key, err)
	}
	info := bucket.Info{Key: key, Size: -1, Tag: tagOf(out.ETag), Modified: aws.ToTime(out.LastModified), Encoding: encoding(out.ContentEncoding)}
	promised := int64(-1)
	if out.ContentLength != nil {
		promised, info.Size = *out.ContentLength, *out.ContentLength
	}
	return bucket.PromisedBody(out.Body, promised, func(cause error) error { return s.fail(ctx, opOpen, key, cause) }), info, nil
}

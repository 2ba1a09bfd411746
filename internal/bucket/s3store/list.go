package s3store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// List implements bucket.Reader. It ends with an error when the service says that there is more
// and does not say where, repeats itself, or is out of order: such a list proves nothing.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		in := &s3.ListObjectsV2Input{Bucket: &s.options.Bucket, Prefix: aws.String(s.prefix + prefix)}
		if after != "" {
			in.StartAfter = aws.String(s.prefix + after)
		}
		last := s.prefix + after
		for page := 0; ; page++ {
			if page > 0 && s.options.Counts != nil {
				s.options.Counts.List.Add(1)
			}
			out, err := s.client.ListObjectsV2(ctx, in)
			if err != nil {
				yield(bucket.Info{}, s.fail(ctx, opList, prefix, err))
				return
			}
			for _, object := range out.Contents {
				name := aws.ToString(object.Key)
				if name <= last || !strings.HasPrefix(name, s.prefix+prefix) {
					yield(bucket.Info{}, doubtful(prefix, fmt.Errorf("key %q after %q", name, last)))
					return
				}
				last = name
				info := bucket.Info{
					Key: strings.TrimPrefix(name, s.prefix), Size: -1, Tag: tagOf(object.ETag),
					Modified: aws.ToTime(object.LastModified), Class: string(object.StorageClass),
					Archived: archived(string(object.StorageClass), ""),
				}
				if object.Size != nil {
					info.Size = *object.Size
				}
				if !yield(info, nil) {
					return
				}
			}
			if !aws.ToBool(out.IsTruncated) {
				return
			}
			next := aws.ToString(out.NextContinuationToken)
			if next == "" || next == aws.ToString(in.ContinuationToken) {
				yield(bucket.Info{}, doubtful(prefix, errors.New("there is more, but no new token to ask for it")))
				return
			}
			in.ContinuationToken = &next
		}
	}
}

func doubtful(prefix string, cause error) error {
	return &fault.Error{
		Op: opList, Object: prefix, Side: fault.SideBucket, Kind: fault.Malformed, Err: cause,
		Hint: "The service's listing cannot be proven complete; run `mirror doctor`.",
	}
}

package azurestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// Stat implements bucket.Reader.
func (s *Store) Stat(ctx context.Context, key string) (bucket.Info, error) {
	name, err := s.name(key)
	if err != nil {
		return bucket.Info{}, err
	}
	answer, err := s.client.NewBlobClient(name).GetProperties(ctx, nil)
	if err != nil {
		return bucket.Info{}, s.fail(ctx, opStat, key, err)
	}
	if tagOf(answer.ETag) == bucket.Absent { // a proxy's page is no blob
		return bucket.Info{}, unproven(opStat, key)
	}
	info := bucket.Info{
		Key: key, Size: valueOf(answer.ContentLength, -1), Tag: tagOf(answer.ETag),
		Modified: valueOf(answer.LastModified, time.Time{}), Encoding: valueOf(answer.ContentEncoding, ""),
		Checksum: checksumOf(answer.ContentMD5),
	}
	if !valueOf(answer.AccessTierInferred, false) {
		info.Class = valueOf(answer.AccessTier, "")
	}
	info.Archived = strings.EqualFold(valueOf(answer.AccessTier, ""), string(blob.AccessTierArchive))
	return info, nil
}

// valueOf returns what a pointer of the SDK points to, or fallback when the service did not say.
func valueOf[T any](pointer *T, fallback T) T {
	if pointer == nil {
		return fallback
	}
	return *pointer
}

// tagOf returns an ETag without its quotes: headers have them, listings do not.
func tagOf(tag *azcore.ETag) bucket.Tag {
	return bucket.Tag(strings.Trim(string(valueOf(tag, "")), `"`))
}

func checksumOf(md5 []byte) string {
	if len(md5) == 0 {
		return ""
	}
	return fmt.Sprintf("md5:%x", md5)
}

// Open implements bucket.Reader. It is one request: a body that breaks ends with an error.
func (s *Store) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	name, err := s.name(key)
	if err != nil {
		return nil, bucket.Info{}, err
	}
	if offset < 0 || length < -1 {
		return nil, bucket.Info{}, s.fail(ctx, opRead, key, fmt.Errorf("range %d+%d is impossible", offset, length))
	}
	if length == 0 {
		return bucket.OpenNothing(ctx, s, key, offset, length)
	}
	answer, err := s.client.NewBlobClient(name).DownloadStream(ctx, &blob.DownloadStreamOptions{
		Range: blob.HTTPRange{Offset: offset, Count: max(0, length)},
	})
	var refused *azcore.ResponseError
	if errors.As(err, &refused) && refused.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return bucket.OpenNothing(ctx, s, key, offset, length)
	}
	if err != nil {
		return nil, bucket.Info{}, s.fail(ctx, opRead, key, err)
	}
	if offset > 0 && valueOf(answer.ContentLength, -1) == 0 { // azurite's way to refuse a range behind the end
		_ = answer.Body.Close()
		return bucket.OpenNothing(ctx, s, key, offset, length)
	}
	info, err := downloadInfo(key, answer, offset)
	if err != nil {
		_ = answer.Body.Close()
		return nil, bucket.Info{}, bucket.Unreadable(opRead, key, err)
	}
	wrap := func(err error) error { return s.fail(ctx, opRead, key, err) }
	return bucket.PromisedBody(answer.Body, valueOf(answer.ContentLength, -1), wrap), info, nil
}

func downloadInfo(key string, answer blob.DownloadStreamResponse, offset int64) (bucket.Info, error) {
	info := bucket.Info{
		Key: key, Size: valueOf(answer.ContentLength, -1), Tag: tagOf(answer.ETag),
		Modified: valueOf(answer.LastModified, time.Time{}), Encoding: valueOf(answer.ContentEncoding, ""),
		Checksum: checksumOf(answer.ContentMD5),
	}
	if info.Tag == bucket.Absent {
		return bucket.Info{}, errors.New("it names no ETag")
	}
	if answer.ContentRange == nil {
		if offset > 0 {
			return bucket.Info{}, fmt.Errorf("the range at byte %d was ignored", offset)
		}
		return info, nil
	}
	first, size, err := bucket.ParseContentRange(*answer.ContentRange)
	if err != nil {
		return bucket.Info{}, err
	}
	if first != offset {
		return bucket.Info{}, fmt.Errorf("bytes from %d came for a range at %d", first, offset)
	}
	info.Size, info.Checksum = size, checksumOf(answer.BlobContentMD5)
	return info, nil
}

// List implements bucket.Reader.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		options := &container.ListBlobsFlatOptions{}
		if full := s.prefix + prefix; full != "" {
			options.Prefix = &full
		}
		if from := s.prefix + after; after != "" && strings.HasPrefix(after, prefix) {
			options.StartFrom = &from // inclusive, and ignored by older services
		}
		last, marker := "", ""
		pages := s.client.NewListBlobsFlatPager(options)
		for page := 0; pages.More(); page++ {
			if page > 0 && s.options.Counts != nil {
				s.options.Counts.List.Add(1)
			}
			answer, err := pages.NextPage(ctx)
			if err != nil {
				yield(bucket.Info{}, s.fail(ctx, opList, prefix, err))
				return
			}
			if answer.Segment == nil {
				yield(bucket.Info{}, bucket.Unreadable(opList, prefix, errors.New("it has no list")))
				return
			}
			var more bool
			if last, more = s.listPage(answer.Segment.BlobItems, prefix, after, last, yield); !more {
				return
			}
			next := valueOf(answer.NextMarker, "")
			if next != "" && next == marker {
				yield(bucket.Info{}, doubtful(prefix, errors.New("a page names itself as the next one")))
				return
			}
			marker = next
		}
	}
}

// listPage yields what a page has behind the key after, and returns the last key and whether the
// listing goes on.
func (s *Store) listPage(items []*container.BlobItem, prefix, after, last string, yield func(bucket.Info, error) bool) (string, bool) {
	for _, item := range items {
		info, listed := s.listedInfo(item)
		if !listed {
			continue
		}
		if last != "" && info.Key <= last {
			yield(bucket.Info{}, outOfOrder(prefix, info.Key, last))
			return last, false
		}
		last = info.Key
		if info.Key > after && !yield(info, nil) {
			return last, false
		}
	}
	return last, true
}

func doubtful(prefix string, cause error) error {
	return &fault.Error{
		Op: opList, Object: prefix, Side: fault.SideBucket, Kind: fault.Malformed, Err: cause,
		Hint: "The service's listing cannot be proven complete; run `mirror doctor`.",
	}
}

// outOfOrder ends a listing whose order cannot be trusted: what stands behind a gap in the order
// would read as missing.
func outOfOrder(prefix, key, last string) error {
	return &fault.Error{
		Op: opList, Object: prefix, Side: fault.SideBucket, Kind: fault.BucketUnfit,
		Err:  fmt.Errorf("%q came after %q: the listing is not in byte order", key, last),
		Hint: "Use a storage account without hierarchical namespace.",
	}
}

// listedInfo returns what a listing says of a blob; false for what is no blob of ours: folders of
// a hierarchical namespace.
func (s *Store) listedInfo(item *container.BlobItem) (bucket.Info, bool) {
	if item.Name == nil || item.Properties == nil {
		return bucket.Info{}, false
	}
	properties := item.Properties
	if valueOf(properties.ResourceType, "") == "directory" {
		return bucket.Info{}, false
	}
	info := bucket.Info{
		Key:  strings.TrimPrefix(*item.Name, s.prefix),
		Size: valueOf(properties.ContentLength, -1), Tag: tagOf(properties.ETag),
		Modified: valueOf(properties.LastModified, time.Time{}), Encoding: valueOf(properties.ContentEncoding, ""),
		Checksum: checksumOf(properties.ContentMD5),
	}
	tier := valueOf(properties.AccessTier, "")
	if !valueOf(properties.AccessTierInferred, false) {
		info.Class = string(tier)
	}
	info.Archived = tier == blob.AccessTierArchive
	return info, true
}

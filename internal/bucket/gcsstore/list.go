package gcsstore

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	raw "google.golang.org/api/storage/v1"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// listFields are what infoOf reads of an object, and where the next page begins.
const listFields = "nextPageToken,items(name,size,generation,updated,crc32c,storageClass,contentEncoding)"

// List implements bucket.Reader. Cloud Storage lists in byte order of UTF-8 names; the order is
// checked, because a gap in it would read as a missing object. Pages are asked for one by one: the
// SDK's iterator tells neither how many there were nor that a page names itself as the next one.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		call := s.lists.List(s.options.Bucket).Context(ctx).Prefix(s.prefix + prefix).Fields(listFields)
		if after != "" {
			call.StartOffset(s.prefix + after) // inclusive: the key itself is dropped below
		}
		if s.options.UserProject != "" {
			call.UserProject(s.options.UserProject)
		}
		last, token := after, ""
		for page := 0; ; page++ {
			if page > 0 && s.options.Counts != nil {
				s.options.Counts.List.Add(1)
			}
			answer, err := call.Do()
			if err != nil {
				yield(bucket.Info{}, s.fail(ctx, opList, prefix, err))
				return
			}
			for _, object := range answer.Items {
				key, ours := strings.CutPrefix(object.Name, s.prefix)
				if key == after {
					continue
				}
				if key <= last || !ours || !strings.HasPrefix(key, prefix) {
					yield(bucket.Info{}, doubtful(prefix, fmt.Errorf("%q came after %q: out of order", object.Name, last)))
					return
				}
				last = key
				if !yield(listedInfo(key, object), nil) {
					return
				}
			}
			switch next := answer.NextPageToken; next {
			case "":
				return
			case token:
				yield(bucket.Info{}, doubtful(prefix, errors.New("a page names itself as the next one")))
				return
			default:
				token = next
				call.PageToken(next)
			}
		}
	}
}

func doubtful(prefix string, cause error) error {
	return &fault.Error{
		Op: opList, Object: prefix, Side: fault.SideBucket, Kind: fault.Malformed, Err: cause,
		Hint: "The service's listing cannot be proven complete; run `mirror doctor`.",
	}
}

// listedInfo returns what a listing says of an object. What cannot be read of it is left out.
func listedInfo(key string, object *raw.Object) bucket.Info {
	info := bucket.Info{
		Key: key, Size: int64(object.Size), Tag: tagOf(object.Generation), Encoding: object.ContentEncoding,
	}
	if modified, err := time.Parse(time.RFC3339, object.Updated); err == nil {
		info.Modified = modified
	}
	if sum, err := base64.StdEncoding.DecodeString(object.Crc32c); err == nil && len(sum) == 4 {
		info.Checksum = "crc32c:" + hex.EncodeToString(sum)
	}
	if object.StorageClass != "STANDARD" {
		info.Class = object.StorageClass
	}
	return info
}

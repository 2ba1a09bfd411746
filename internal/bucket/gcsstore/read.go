package gcsstore

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// Stat implements bucket.Reader.
func (s *Store) Stat(ctx context.Context, key string) (bucket.Info, error) {
	name, err := s.name(key)
	if err != nil {
		return bucket.Info{}, err
	}
	attrs, err := s.bucket.Object(name).Attrs(ctx)
	if err != nil {
		return bucket.Info{}, s.fail(ctx, opStat, key, err)
	}
	if attrs.Generation <= 0 {
		return bucket.Info{}, bucket.Unreadable(opStat, key, errors.New("it names no generation"))
	}
	return infoOf(key, attrs), nil
}

func infoOf(key string, attrs *storage.ObjectAttrs) bucket.Info {
	info := bucket.Info{
		Key: key, Size: attrs.Size, Tag: tagOf(attrs.Generation), Modified: attrs.Updated,
		Encoding: attrs.ContentEncoding,
		Checksum: fmt.Sprintf("crc32c:%08x", attrs.CRC32C),
	}
	if attrs.StorageClass != "STANDARD" {
		info.Class = attrs.StorageClass
	}
	return info
}

func tagOf(generation int64) bucket.Tag { return bucket.Tag(strconv.FormatInt(generation, 10)) }

// generationOf reads a tag of ours.
func generationOf(key string, tag bucket.Tag) (int64, error) {
	generation, err := strconv.ParseInt(string(tag), 10, 64)
	if err != nil || generation <= 0 {
		return 0, &fault.Error{
			Op: "read tag", Object: key, Side: fault.SideBucket, Kind: fault.Conflict,
			Err: fmt.Errorf("%q is no generation of this store", tag),
		}
	}
	return generation, nil
}

// Open implements bucket.Reader.
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
	answer, err := s.download(ctx, name, offset, length)
	if err != nil {
		return nil, bucket.Info{}, s.fail(ctx, opRead, key, err)
	}
	if answer.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		_ = answer.Body.Close()
		return bucket.OpenNothing(ctx, s, key, offset, length)
	}
	if err := googleapi.CheckResponse(answer); err != nil {
		_ = answer.Body.Close()
		return nil, bucket.Info{}, s.fail(ctx, opRead, key, err)
	}
	info, promised, err := readInfo(key, answer, offset)
	if err != nil {
		_ = answer.Body.Close()
		return nil, bucket.Info{}, bucket.Unreadable(opRead, key, err)
	}
	wrap := func(err error) error { return s.fail(ctx, opRead, key, err) }
	return bucket.PromisedBody(answer.Body, promised, wrap), info, nil
}

// download asks for the bytes as they are stored: naming gzip is what keeps Cloud Storage and
// net/http from unpacking an object with that encoding.
func (s *Store) download(ctx context.Context, name string, offset, length int64) (*http.Response, error) {
	address := s.address + "/o/" + url.PathEscape(name) + "?alt=media"
	if s.options.UserProject != "" {
		address += "&userProject=" + url.QueryEscape(s.options.UserProject)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept-Encoding", "gzip")
	switch {
	case length > 0:
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	return s.web.Do(request)
}

// readInfo reads the header of a download and returns the number of bytes it promises.
func readInfo(key string, answer *http.Response, offset int64) (bucket.Info, int64, error) {
	header := answer.Header
	info := bucket.Info{
		Key: key, Size: answer.ContentLength, Tag: bucket.Tag(header.Get("X-Goog-Generation")),
		Encoding: header.Get("Content-Encoding"), Class: header.Get("X-Goog-Storage-Class"),
	}
	if info.Class == "STANDARD" {
		info.Class = ""
	}
	if modified, err := http.ParseTime(header.Get("Last-Modified")); err == nil {
		info.Modified = modified
	}
	info.Checksum = checksumOf(header)
	if info.Tag == bucket.Absent {
		return bucket.Info{}, 0, fmt.Errorf("the answer names no generation")
	}
	if answer.StatusCode != http.StatusPartialContent {
		if offset > 0 {
			return bucket.Info{}, 0, fmt.Errorf("the range at byte %d was ignored", offset)
		}
		return info, answer.ContentLength, nil
	}
	first, size, err := bucket.ParseContentRange(header.Get("Content-Range"))
	if err != nil {
		return bucket.Info{}, 0, err
	}
	if first != offset {
		return bucket.Info{}, 0, fmt.Errorf("bytes from %d came for a range at %d", first, offset)
	}
	info.Size = size
	return info, answer.ContentLength, nil
}

// checksumOf finds the CRC32C of the whole object in the header of a download.
func checksumOf(header http.Header) string {
	for _, line := range header.Values("X-Goog-Hash") {
		for part := range strings.SplitSeq(line, ",") {
			text, found := strings.CutPrefix(strings.TrimSpace(part), "crc32c=")
			if !found {
				continue
			}
			if sum, err := base64.StdEncoding.DecodeString(text); err == nil && len(sum) == 4 {
				return "crc32c:" + hex.EncodeToString(sum)
			}
		}
	}
	return ""
}

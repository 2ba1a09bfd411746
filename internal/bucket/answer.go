package bucket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/internal/netclient"
)

// MediaType returns the Content-Type of an object. Data is opaque: its bytes are the feed's.
func MediaType(key string, class ContentClass) string {
	if class == Data {
		return "application/octet-stream"
	}
	switch path.Ext(key) {
	case ".json":
		return "application/json"
	case ".parquet":
		return "application/vnd.apache.parquet"
	case ".html":
		return "text/html; charset=utf-8"
	default:
		return "text/plain; charset=utf-8"
	}
}

// CacheControl returns the cache rule of an object: what is immutable is kept for a year, a
// pointer that a cache served late would take readers back to an older version.
func CacheControl(class ContentClass) string {
	if class == Pointer {
		return "no-cache"
	}
	return "public, max-age=31536000, immutable"
}

// RetryAfter reads the pause that an answer asks for, as seconds or a date; zero when it asks for none.
func RetryAfter(header http.Header) time.Duration { return netclient.RetryAfter(header, time.Now()) }

// WithoutAddress returns the cause inside of a *url.Error, whose text shows the address: upload
// sessions and signed requests carry a credential there.
func WithoutAddress(err error) error { return netclient.Cause(err) }

// Untrusted reports whether the server's certificate was refused. Sending again does not help, a
// CA file may.
func Untrusted(err error) bool {
	var refused *tls.CertificateVerificationError
	return errors.As(err, &refused)
}

// Broken reports whether the connection failed rather than the request: it was refused, cut or
// timed out, and the same request may work a moment later.
func Broken(err error) bool {
	if Untrusted(err) {
		return false
	}
	var network net.Error
	var failed *url.Error
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.As(err, &network) || errors.As(err, &failed)
}

// PromisedBody returns source with an end before length bytes turned into an error, and wrap
// applied to every error but io.EOF. With a negative length any end is taken.
func PromisedBody(source io.ReadCloser, length int64, wrap func(error) error) io.ReadCloser {
	return &promisedBody{source: source, left: length, wrap: wrap}
}

type promisedBody struct {
	source io.ReadCloser
	left   int64 // bytes; negative when nothing was promised
	wrap   func(error) error
}

func (b *promisedBody) Read(p []byte) (int, error) {
	n, err := b.source.Read(p)
	if b.left >= 0 {
		b.left = max(0, b.left-int64(n))
	}
	switch {
	case err == nil:
		return n, nil
	case err != io.EOF:
		return n, b.wrap(err)
	case b.left > 0:
		return n, b.wrap(fmt.Errorf("%d bytes are missing: %w", b.left, io.ErrUnexpectedEOF))
	}
	return n, io.EOF
}

func (b *promisedBody) Close() error { return b.source.Close() }

// contentRange is "bytes first-last/size" as servers spell it, of at most 19 digits each.
var contentRange = regexp.MustCompile(`^bytes ([0-9]{1,19})-([0-9]{1,19})/([0-9]{1,19})$`)

// ParseContentRange reads "bytes first-last/size" and returns the first byte and the size of the
// whole object. A range that does not lie within the object is an error.
func ParseContentRange(text string) (first, size int64, err error) {
	var numbers [3]int64
	digits := contentRange.FindStringSubmatch(text)
	if digits == nil {
		return 0, 0, fmt.Errorf("content range %q cannot be read", text)
	}
	for i := range numbers {
		if numbers[i], err = strconv.ParseInt(digits[i+1], 10, 64); err != nil {
			return 0, 0, fmt.Errorf("content range %q cannot be read: %w", text, err)
		}
	}
	if first, last, size := numbers[0], numbers[1], numbers[2]; first > last || last >= size {
		return 0, 0, fmt.Errorf("content range %q contradicts itself", text)
	}
	return numbers[0], numbers[2], nil
}

// OpenNothing answers an Open of no bytes: a length of zero, for which HTTP has no range, or an
// offset at or behind the end, which stores refuse. A missing key is still an error.
func OpenNothing(ctx context.Context, r Reader, key string, offset, length int64) (io.ReadCloser, Info, error) {
	info, err := r.Stat(ctx, key)
	if err != nil {
		return nil, Info{}, err
	}
	if length != 0 && offset < info.Size {
		return nil, Info{}, &fault.Error{
			Op: "read object", Object: key, Side: fault.SideBucket, Kind: fault.Transient,
			Status: http.StatusRequestedRangeNotSatisfiable,
			Err:    fmt.Errorf("a range at byte %d of %d was refused", offset, info.Size),
		}
	}
	return http.NoBody, info, nil
}

// Unreplaced returns the error of a Replace that met another object than the one it was to replace.
func Unreplaced(key string, cause error) error {
	return &fault.Error{Op: "replace object", Object: key, Side: fault.SideBucket, Kind: fault.Conflict, Err: cause}
}

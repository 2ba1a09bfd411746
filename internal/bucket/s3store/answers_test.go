package s3store_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/s3store"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// TestErrors: what the service answers decides kind, status and hint.
func TestErrors(t *testing.T) {
	stat := func(s *s3store.Store) error { _, err := s.Stat(context.Background(), "k"); return err }
	read := func(s *s3store.Store) error { _, _, err := s.Open(context.Background(), "k", 0, -1); return err }
	create := func(s *s3store.Store) error {
		_, err := s.Create(context.Background(), "k", content(bytesOf(10)))
		return err
	}
	swap := func(s *s3store.Store) error {
		_, err := s.Swap(context.Background(), "k", "t", nil)
		return err
	}
	list := func(s *s3store.Store) error {
		for _, err := range s.List(context.Background(), "", "") {
			return err
		}
		return nil
	}
	for _, c := range []struct {
		call   func(*s3store.Store) error
		status int
		code   string
		want   fault.Kind
		hint   string
	}{
		{stat, 404, "", fault.NotFound, ""},
		{stat, 403, "", fault.Denied, "s3:ListBucket"},
		{stat, 503, "", fault.Transient, ""},
		{stat, 301, "", fault.BucketUnfit, "region"},
		{read, 404, "NoSuchKey", fault.NotFound, ""},
		{read, 404, "NoSuchBucket", fault.BucketUnfit, "Create the bucket"},
		{read, 403, "InvalidObjectState", fault.Archived, "restore"},
		{read, 403, "AccessDenied", fault.Denied, "requester_pays"},
		{read, 400, "ExpiredToken", fault.Denied, "expired"},
		{read, 301, "PermanentRedirect", fault.BucketUnfit, "region"},
		{list, 404, "NoSuchBucket", fault.BucketUnfit, "Create the bucket"},
		{list, 403, "AccessDenied", fault.Denied, "s3:ListBucket"},
		{create, 412, "PreconditionFailed", fault.Exists, ""},
		{create, 304, "", fault.Exists, ""},
		{create, 409, "ConditionalRequestConflict", fault.Contended, ""},
		{create, 400, "AccessControlListNotSupported", fault.BucketUnfit, "acl="},
		{create, 400, "XAmzContentSHA256Mismatch", fault.WrongBytes, "x-amz-checksum-sha256"},
		{create, 403, "KMS.AccessDenied", fault.Denied, "kms:Decrypt"},
		{create, 403, "RequestTimeTooSkewed", fault.Contended, "by 40m"}, // the next one is signed at the service's time
		{create, 403, "SignatureDoesNotMatch", fault.Denied, "credentials"},
		{create, 501, "NotImplemented", fault.Unsupported, "doctor"},
		{create, 507, "", fault.NoSpace, ""},
		{create, 429, "TooManyRequests", fault.Transient, ""},
		{create, 408, "", fault.Transient, ""},
		{create, 400, "RequestTimeout", fault.Transient, ""},
		{create, 500, "InternalError", fault.Transient, ""},
		{create, 400, "InvalidArgument", fault.Unsupported, ""},
		{swap, 412, "PreconditionFailed", fault.Conflict, ""},
		{swap, 404, "NoSuchKey", fault.Conflict, ""},
		{swap, 409, "ConditionalRequestConflict", fault.Contended, ""},
		{swap, 404, "NoSuchBucket", fault.BucketUnfit, "Create the bucket"},
	} {
		now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
		service := serve(t, func(w http.ResponseWriter, _ seen) {
			w.Header().Set("Retry-After", "7")
			if c.code == "RequestTimeTooSkewed" {
				w.Header().Set("Date", now.Add(-40*time.Minute).Format(http.TimeFormat))
			}
			if c.code == "" {
				w.WriteHeader(c.status)
				return
			}
			fail(w, c.status, c.code)
		})
		err := c.call(service.store(t, func(o *s3store.Options) { o.Now = func() time.Time { return now } }))
		var e *fault.Error
		if !errors.As(err, &e) || e.Kind != c.want || e.Status != c.status || e.Side != fault.SideBucket || e.After != 7*time.Second {
			t.Errorf("%d %s: got %#v, want %s", c.status, c.code, e, c.want)
			continue
		}
		if !strings.Contains(e.Hint, c.hint) || (c.hint == "") != (e.Hint == "") {
			t.Errorf("%d %s: hint %q, want %q", c.status, c.code, e.Hint, c.hint)
		}
		if len(service.all()) != 1 {
			t.Errorf("%d %s: %d requests, want 1: the SDK must not repeat", c.status, c.code, len(service.all()))
		}
		if strings.Contains(err.Error(), service.URL) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%d %s: %q shows an address or a second line", c.status, c.code, err)
		}
	}
}

func TestBrokenConnections(t *testing.T) {
	service := serve(t, func(http.ResponseWriter, seen) { panic(http.ErrAbortHandler) })
	store := service.store(t, nil)
	_, err := store.Stat(t.Context(), "k")
	if !fault.Is(err, fault.Transient) {
		t.Errorf("cut connection: %v", err)
	}
	service.Close()
	if _, err = store.Create(t.Context(), "k", content(bytesOf(3))); !fault.Is(err, fault.Transient) {
		t.Errorf("refused connection: %v", err)
	}
	if strings.Contains(err.Error(), "/b/p/k") {
		t.Errorf("%q shows the address", err)
	}
}

// TestACreateThatBrokeWithoutAnAnswer: a server can refuse a taken key and hang up while the body is
// on its way, so that the refusal is lost.
func TestACreateThatBrokeWithoutAnAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		stands bool
		want   fault.Kind
	}{
		"something stands": {stands: true, want: fault.Exists},
		"nothing stands":   {stands: false, want: fault.Transient},
	} {
		t.Run(name, func(t *testing.T) {
			service := serve(t, func(w http.ResponseWriter, r seen) {
				switch {
				case r.Method == http.MethodPut:
					panic(http.ErrAbortHandler)
				case test.stands:
					w.Header().Set("ETag", `"e"`)
				default:
					w.WriteHeader(http.StatusNotFound)
				}
			})
			_, err := service.store(t, nil).Create(t.Context(), "key", content(bytesOf(100)))
			if !fault.Is(err, test.want) {
				t.Errorf("got %v (%s), want %s", err, fault.KindOf(err), test.want)
			}
		})
	}
}

func TestNoCredentials(t *testing.T) {
	service := serve(t, func(http.ResponseWriter, seen) {})
	store := service.store(t, func(o *s3store.Options) {
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, io.ErrUnexpectedEOF // a metadata service that broke
		})
	})
	_, err := store.Stat(t.Context(), "k")
	if !fault.Is(err, fault.BucketUnfit) || !strings.Contains(fault.HintOf(err), "AWS_ACCESS_KEY_ID") {
		t.Errorf("got %v, hint %q", err, fault.HintOf(err))
	}
}

// page is an answer to a listing.
func page(keys []string, truncated bool, token string) string {
	var out strings.Builder
	out.WriteString(`<ListBucketResult><IsTruncated>` + strconv.FormatBool(truncated) + `</IsTruncated>`)
	if token != "" {
		out.WriteString(`<NextContinuationToken>` + token + `</NextContinuationToken>`)
	}
	for _, key := range keys {
		out.WriteString(`<Contents><Key>p/` + key + `</Key><Size>1</Size><ETag>&quot;e&quot;</ETag></Contents>`)
	}
	return out.String() + `</ListBucketResult>`
}

// TestListsThatProveNothing: a listing that does not come to its end is an error, not a short list.
func TestListsThatProveNothing(t *testing.T) {
	for name, c := range map[string]struct {
		pages []string
		keys  string
		fails bool
	}{
		"whole":             {[]string{page([]string{"a", "b"}, true, "1"), page([]string{"c"}, false, "")}, "abc", false},
		"empty middle page": {[]string{page([]string{"a"}, true, "1"), page(nil, true, "2"), page([]string{"c"}, false, "")}, "ac", false},
		"no token":          {[]string{page([]string{"a"}, true, "")}, "a", true},
		"no token later":    {[]string{page([]string{"a"}, true, "1"), page([]string{"b"}, true, ""), page([]string{"c"}, false, "")}, "ab", true},
		"same token again":  {[]string{page([]string{"a"}, true, "1"), page([]string{"b"}, true, "1")}, "ab", true},
		"same page again":   {[]string{page([]string{"a"}, true, "1"), page([]string{"a"}, true, "2")}, "a", true},
		"steps back":        {[]string{page([]string{"b", "a"}, false, "")}, "b", true},
		"foreign prefix":    {[]string{strings.ReplaceAll(page([]string{"a"}, false, ""), "p/a", "q/a")}, "", true},
		"no XML":            {[]string{"<html>welcome</html"}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			service := serve(t, func(w http.ResponseWriter, _ seen) {
				_, _ = io.WriteString(w, c.pages[min(n, len(c.pages)-1)])
				n++
			})
			counts := &bucket.Counts{}
			store := bucket.WithCounts(service.store(t, func(o *s3store.Options) { o.Counts = counts }), counts)
			keys := ""
			var failed error
			for info, err := range store.List(t.Context(), "", "") {
				if err != nil {
					failed = err
					break
				}
				keys += info.Key
			}
			if keys != c.keys || (failed != nil) != c.fails {
				t.Errorf("keys %q, error %v", keys, failed)
			}
			if int(counts.List.Load()) != n {
				t.Errorf("%d pages counted, %d were asked for", counts.List.Load(), n)
			}
		})
	}
}

// TestStatReadsChecksums: only a checksum of the whole object attests it.
func TestStatReadsChecksums(t *testing.T) {
	sum := manifest.SumBytes([]byte("x"))
	text := base64.StdEncoding.EncodeToString(sum[:])
	for name, c := range map[string]struct {
		header map[string]string
		check  func(bucket.Info) bool
	}{
		"whole": {
			map[string]string{"X-Amz-Checksum-Sha256": text, "X-Amz-Checksum-Type": "FULL_OBJECT"},
			func(i bucket.Info) bool { return i.SHA256 != nil && *i.SHA256 == sum },
		},
		"composite":         {map[string]string{"X-Amz-Checksum-Sha256": text + "-2"}, func(i bucket.Info) bool { return i.SHA256 == nil }},
		"declared so":       {map[string]string{"X-Amz-Checksum-Sha256": text, "X-Amz-Checksum-Type": "COMPOSITE"}, func(i bucket.Info) bool { return i.SHA256 == nil }},
		"crc64":             {map[string]string{"X-Amz-Checksum-Crc64nvme": "AAAAAAAAAAE="}, func(i bucket.Info) bool { return i.Checksum == "crc64nvme:0000000000000001" }},
		"etag is no md5":    {map[string]string{"Etag": `"d41d8cd98f00b204e9800998ecf8427e"`}, func(i bucket.Info) bool { return i.Checksum == "" && i.SHA256 == nil }},
		"archived":          {map[string]string{"X-Amz-Storage-Class": "GLACIER"}, func(i bucket.Info) bool { return i.Archived && i.Class == "GLACIER" }},
		"restored":          {map[string]string{"X-Amz-Storage-Class": "DEEP_ARCHIVE", "X-Amz-Restore": `ongoing-request="false"`}, func(i bucket.Info) bool { return !i.Archived }},
		"instant retrieval": {map[string]string{"X-Amz-Storage-Class": "GLACIER_IR"}, func(i bucket.Info) bool { return !i.Archived }},
		"encoded":           {map[string]string{"Content-Encoding": "aws-chunked"}, func(i bucket.Info) bool { return i.Encoding == "aws-chunked" }},
	} {
		service := serve(t, func(w http.ResponseWriter, _ seen) {
			w.Header().Set("ETag", `"e"`)
			for key, value := range c.header {
				w.Header().Set(key, value)
			}
		})
		info, err := service.store(t, nil).Stat(t.Context(), "k")
		if err != nil || !c.check(info) {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
	}
}

// TestUnknownSize: a proxy that drops Content-Length makes the size unknown, not 0.
func TestUnknownSize(t *testing.T) {
	service := serve(t, func(w http.ResponseWriter, r seen) {
		w.Header().Set("ETag", `"e"`)
		w.(http.Flusher).Flush() // chunked: no Content-Length
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, "data")
		}
	})
	store := service.store(t, nil)
	info, err := store.Stat(t.Context(), "k")
	if err != nil || info.Size != -1 {
		t.Errorf("stat: %+v, %v", info, err)
	}
	data, info, err := bucket.ReadAll(t.Context(), store, "k", 10)
	if err != nil || string(data) != "data" || info.Size != -1 {
		t.Errorf("read %q, %+v, %v", data, info, err)
	}
}

// TestBadRanges: an answer that starts elsewhere is refused, and one that is cut is an error.
func TestBadRanges(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"whole instead of range": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "0123456789") },
		"other start": func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 0-4/10")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, "01234")
		},
		"cut": func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 5-9/10")
			w.Header().Set("Content-Length", "5")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, "56")
		},
	} {
		service := serve(t, func(w http.ResponseWriter, _ seen) { answer(w) })
		body, _, err := service.store(t, nil).Open(t.Context(), "k", 5, 5)
		if err == nil {
			_, err = io.ReadAll(body)
		}
		if !fault.Is(err, fault.Transient) {
			t.Errorf("%s: got %v, want a fault.Transient", name, err)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", "/nonexistent")
	for name, options := range map[string]s3store.Options{
		"no bucket":      {Region: "r"},
		"googleapis":     {Bucket: "b", Region: "r", Endpoint: "https://storage.googleapis.com"},
		"endpoint":       {Bucket: "b", Region: "r", Endpoint: "minio:9000"},
		"other scheme":   {Bucket: "b", Region: "r", Endpoint: "ftp://host"},
		"acl":            {Bucket: "b", Region: "r", ACL: "everyone"},
		"lock mode":      {Bucket: "b", Region: "r", ObjectLockMode: "SOMETIMES", ObjectLockDays: 1},
		"number of days": {Bucket: "b", Region: "r", ObjectLockMode: "GOVERNANCE"},
		"tags":           {Bucket: "b", Region: "r", Tags: "%zz"},
		"prefix":         {Bucket: "b", Region: "r", Prefix: "a//b"},
		"region":         {Bucket: "b"},
		"part sizes":     {Bucket: "b", Region: "r", PartSize: 1 << 40},
	} {
		_, err := s3store.New(t.Context(), options)
		if !fault.Is(err, fault.Usage) || fault.HintOf(err) == "" {
			t.Errorf("%s: got %v, want a fault.Usage with a hint", name, err)
		}
	}
}

// TestWithoutConditions: a service declared to have none is asked before each write, and the
// guarantees say what that is worth.
func TestWithoutConditions(t *testing.T) {
	there := false
	service := serve(t, func(w http.ResponseWriter, r seen) {
		w.Header().Set("ETag", `"tag"`)
		switch {
		case r.Header.Get("If-None-Match")+r.Header.Get("If-Match") != "":
			fail(w, http.StatusNotImplemented, "NotImplemented")
		case r.Method == http.MethodHead && !there:
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodPut:
			there = true
		}
	})
	store := service.store(t, func(o *s3store.Options) { o.NoConditionalWrites = true })
	if g := store.Guarantees(); g.AtomicCreate || g.CompareAndSwap {
		t.Errorf("guarantees %+v", g)
	}
	if _, err := store.Create(t.Context(), "k", content(bytesOf(5))); err != nil {
		t.Errorf("create: %v", err)
	}
	if _, err := store.Create(t.Context(), "k", content(bytesOf(5))); !fault.Is(err, fault.Exists) {
		t.Errorf("create again: %v", err)
	}
	if _, err := store.Swap(t.Context(), "k", "stale", nil); !fault.Is(err, fault.Conflict) {
		t.Errorf("stale swap: %v", err)
	}
	if _, err := store.Swap(t.Context(), "k", "tag", nil); err != nil {
		t.Errorf("swap: %v", err)
	}
}

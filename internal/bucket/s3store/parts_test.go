package s3store_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/s3store"
	"feedmirror/internal/fault"
)

const begun = `<InitiateMultipartUploadResult><UploadId>u-1</UploadId></InitiateMultipartUploadResult>`

// uploads is a service of uploads in parts that keeps what is completed.
type uploads struct {
	mu     sync.Mutex
	parts  map[string][]byte
	object []byte
	// before answers a request in the service's place and reports whether it did.
	before func(w http.ResponseWriter, r seen) bool
}

func (u *uploads) answer(w http.ResponseWriter, r seen) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.before != nil && u.before(w, r) {
		return
	}
	w.Header().Set("ETag", `"tag"`)
	switch what := op(r); {
	case what == "begin":
		u.parts = map[string][]byte{}
		_, _ = io.WriteString(w, begun)
	case strings.HasPrefix(what, "part "):
		u.parts[what] = r.body
	case what == "complete":
		u.complete()
		_, _ = io.WriteString(w, `<CompleteMultipartUploadResult><ETag>"tag"</ETag></CompleteMultipartUploadResult>`)
	case what == "abort":
		u.parts = nil
	case r.Method == http.MethodHead || r.Method == http.MethodGet:
		if u.object == nil {
			fail(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		http.ServeContent(w, r.Request, "", noTime, bytes.NewReader(u.object))
	}
}

func (u *uploads) complete() {
	names := []string{}
	for name := range u.parts {
		names = append(names, name)
	}
	slices.Sort(names)
	u.object = []byte{}
	for _, name := range names {
		u.object = append(u.object, u.parts[name]...)
	}
	u.parts = nil
}

func small(o *s3store.Options) { o.MaxSinglePut, o.PartSize = 1<<20, 1<<20 }

func TestPartsOnTheWire(t *testing.T) {
	u := &uploads{}
	service := serve(t, u.answer)
	data := bytesOf(2<<20 + 5)
	info, err := service.store(t, small).Create(t.Context(), "k", content(data))
	if err != nil || info.Size != int64(len(data)) || info.Tag != "tag" || !bytes.Equal(u.object, data) {
		t.Fatalf("%+v, %v", info, err)
	}
	want := []string{"begin", "part 1", "part 2", "part 3", "complete", "HEAD"}
	if got := service.ops(); !slices.Equal(got, want) {
		t.Fatalf("requests %q, want %q", got, want)
	}
	requests := service.all()
	for _, r := range requests[1:4] {
		if sum := sumText(r.body); r.Header.Get("X-Amz-Content-Sha256") != sum || r.Header.Get("X-Amz-Checksum-Crc64nvme") == "" {
			t.Errorf("%s: payload hash %q, want %q; crc %q", op(r), r.Header.Get("X-Amz-Content-Sha256"), sum, r.Header.Get("X-Amz-Checksum-Crc64nvme"))
		}
		if r.ContentLength != int64(len(r.body)) || r.Header.Get("X-Amz-Trailer") != "" {
			t.Errorf("%s: length %d, trailer %q", op(r), r.ContentLength, r.Header.Get("X-Amz-Trailer"))
		}
	}
	begin, complete := requests[0], requests[4]
	if begin.Header.Get("X-Amz-Checksum-Algorithm") != "CRC64NVME" || begin.Header.Get("X-Amz-Checksum-Type") != "FULL_OBJECT" {
		t.Errorf("begin: %v", begin.Header)
	}
	if complete.Header.Get("If-None-Match") != "*" || complete.Header.Get("X-Amz-Checksum-Crc64nvme") == "" {
		t.Errorf("complete: %v", complete.Header)
	}
}

// TestServiceWithoutCRC: a service that does not know the checksum of a whole gets none, and is
// asked only once.
func TestServiceWithoutCRC(t *testing.T) {
	u := &uploads{before: func(w http.ResponseWriter, r seen) bool {
		refused := op(r) == "begin" && r.Header.Get("X-Amz-Checksum-Algorithm") != ""
		if refused {
			fail(w, http.StatusNotImplemented, "NotImplemented")
		}
		return refused
	}}
	service := serve(t, u.answer)
	store := service.store(t, small)
	for range 2 {
		u.object = nil
		if _, err := store.Create(t.Context(), "k", content(bytesOf(1<<20+1))); err != nil {
			t.Fatal(err)
		}
	}
	begins := 0
	for _, r := range service.all() {
		if op(r) == "begin" {
			begins++
		}
		if strings.HasPrefix(op(r), "part") && (r.Header.Get("X-Amz-Checksum-Crc64nvme") != "" || r.Header.Get("X-Amz-Content-Sha256") != sumText(r.body)) {
			t.Errorf("%s: %v", op(r), r.Header)
		}
	}
	if begins != 3 {
		t.Errorf("%d uploads were begun, want 3", begins)
	}
}

// TestUploadsAreAborted: whatever goes wrong, no upload stays open, and the first cause is told.
func TestUploadsAreAborted(t *testing.T) {
	wrong := func(size int) io.Reader {
		data := bytesOf(size)
		data[size-1] ^= 1
		return bytes.NewReader(data)
	}
	const size = 2<<20 + 5
	for name, c := range map[string]struct {
		fails  string // the request that is answered with status and code
		status int
		code   string
		body   io.Reader
		want   fault.Kind
		abort  int // status of abort, 0: 204
	}{
		"last byte flipped":    {body: wrong(size), want: fault.WrongBytes},
		"part refused":         {fails: "part 2", status: 403, code: "AccessDenied", want: fault.Denied},
		"part always fails":    {fails: "part 3", status: 503, code: "SlowDown", want: fault.Transient},
		"taken meanwhile":      {fails: "complete", status: 412, code: "PreconditionFailed", want: fault.Exists},
		"conflict":             {fails: "complete", status: 409, code: "ConditionalRequestConflict", want: fault.Contended},
		"error inside of 200":  {fails: "complete", status: 200, code: "InternalError", want: fault.Transient},
		"abort refused":        {fails: "part 1", status: 403, code: "AccessDenied", want: fault.Denied, abort: 403},
		"abort after 503 once": {fails: "part 1", status: 400, code: "BadDigest", want: fault.WrongBytes, abort: 503},
	} {
		t.Run(name, func(t *testing.T) {
			u := &uploads{before: failing(c.fails, c.status, c.code, c.abort)}
			service := serve(t, u.answer)
			upload := content(bytesOf(size))
			if c.body != nil {
				upload.Body = c.body
			}
			_, err := service.store(t, small).Create(t.Context(), "k", upload)
			if !fault.Is(err, c.want) {
				t.Fatalf("got %v (%s), want %s", err, fault.KindOf(err), c.want)
			}
			ops := service.ops()
			if !slices.Contains(ops, "abort") || u.object != nil {
				t.Errorf("requests %q, object of %d bytes", ops, len(u.object))
			}
			if c.abort == 403 && !strings.Contains(err.Error(), "u-1 stays open") {
				t.Errorf("%v does not name the open upload", err)
			}
			if c.want == fault.WrongBytes && c.fails == "" && slices.Contains(ops, "complete") {
				t.Errorf("wrong bytes were completed: %q", ops)
			}
		})
	}
}

// failing answers one kind of request with an error always, and aborts with abort: 403 always, 503
// once.
func failing(fails string, status int, code string, abort int) func(http.ResponseWriter, seen) bool {
	aborts := 0
	return func(w http.ResponseWriter, r seen) bool {
		switch op(r) {
		case fails:
			fail(w, status, code)
			return true
		case "abort":
			if aborts++; abort == 403 || (abort == 503 && aborts == 1) {
				fail(w, abort, "AccessDenied")
				return true
			}
		}
		return false
	}
}

// TestCompleteIsAskedAgain: a completion whose answer was lost is decided by what stands there.
func TestCompleteIsAskedAgain(t *testing.T) {
	data := bytesOf(1<<20 + 7)
	for name, script := range map[string]func(u *uploads, n int64, w http.ResponseWriter) bool{
		"error inside of 200 once": func(_ *uploads, n int64, w http.ResponseWriter) bool {
			if n == 1 {
				fail(w, http.StatusOK, "InternalError")
			}
			return n == 1
		},
		"done, answer lost, then no such upload": func(u *uploads, n int64, w http.ResponseWriter) bool {
			if n == 1 {
				u.complete()
				fail(w, http.StatusInternalServerError, "InternalError")
				return true
			}
			fail(w, http.StatusNotFound, "NoSuchUpload")
			return true
		},
		"done, answer lost, then taken": func(u *uploads, n int64, w http.ResponseWriter) bool {
			if n == 1 {
				u.complete()
				fail(w, http.StatusBadGateway, "")
				return true
			}
			fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			u := &uploads{}
			u.before = func(w http.ResponseWriter, r seen) bool {
				return op(r) == "complete" && script(u, n.Add(1), w)
			}
			service := serve(t, u.answer)
			info, err := service.store(t, small).Create(t.Context(), "k", content(data))
			if err != nil || info.Size != int64(len(data)) || !bytes.Equal(u.object, data) {
				t.Errorf("%+v, %v; requests %q", info, err, service.ops())
			}
		})
	}
	t.Run("yes, but nothing is there", func(t *testing.T) {
		u := &uploads{}
		u.before = func(w http.ResponseWriter, r seen) bool {
			if op(r) == "complete" {
				_, _ = io.WriteString(w, `<CompleteMultipartUploadResult/>`)
			}
			return op(r) == "complete"
		}
		service := serve(t, u.answer)
		_, err := service.store(t, small).Create(t.Context(), "k", content(data))
		if !fault.Is(err, fault.Transient) || !slices.Contains(service.ops(), "abort") {
			t.Errorf("%v; requests %q", err, service.ops())
		}
	})
}

func TestTooLargeForParts(t *testing.T) {
	service := serve(t, func(w http.ResponseWriter, _ seen) { fail(w, http.StatusInternalServerError, "InternalError") })
	c := content(nil)
	c.Size = 1 << 50
	c.Body = brokenBody{}
	_, err := service.store(t, nil).Create(t.Context(), "k", c)
	if !fault.Is(err, fault.Unsupported) || len(service.all()) != 0 {
		t.Errorf("%v after %q", err, service.ops())
	}
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("must not be read") }

// TestPartsOnRealServers: an upload of many parts arrives whole, and one whose last byte is wrong
// leaves neither object nor open upload.
func TestPartsOnRealServers(t *testing.T) {
	for name, start := range real() {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			used := server.NewBucket(t)
			store := open(t, optionsFor(server, used, ""))
			data := bytesOf(23<<20 + 11)
			info, err := store.Create(t.Context(), "large", content(data))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("stored as %+v", info)
			if _, same, err := bucket.Holds(t.Context(), store, "large", int64(len(data)), content(data).SHA256); err != nil || !same {
				t.Errorf("holds the bytes: %t, %v", same, err)
			}
			c := content(data)
			data[len(data)-1] ^= 1
			if _, err := store.Create(t.Context(), "wrong", c); !fault.Is(err, fault.WrongBytes) {
				t.Errorf("wrong bytes: %v", err)
			}
			if _, err := store.Stat(t.Context(), "wrong"); !fault.Is(err, fault.NotFound) {
				t.Errorf("stat: %v", err)
			}
			if left := openUploads(t, server.Client(), used); len(left) > 0 {
				t.Errorf("open uploads: %q", left)
			}
		})
	}
}

package s3store_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/s3store"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// TestPutOnTheWire: a data PUT is plain and names its bytes twice, so that the store can refuse.
func TestPutOnTheWire(t *testing.T) {
	service := serve(t, func(w http.ResponseWriter, _ seen) { w.Header().Set("ETag", `"tag"`) })
	store := service.store(t, nil)
	for _, size := range []int{0, 1, 100_000, 6 << 20} {
		data := bytesOf(size)
		info, err := store.Create(t.Context(), "a/k "+strconv.Itoa(size), content(data))
		if err != nil || info.Tag != "tag" {
			t.Fatalf("%d bytes: %+v, %v", size, info, err)
		}
	}
	if _, err := store.Swap(t.Context(), "doc.json", "old", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Swap(t.Context(), "doc.json", bucket.Absent, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	requests := service.all()
	if len(requests) != 6 {
		t.Fatalf("%d requests, want 6: one a write", len(requests))
	}
	for i, r := range requests {
		checkPlainPut(t, r)
		condition := r.Header.Get("If-None-Match") + r.Header.Get("If-Match")
		want, cache := "*", "public, max-age=31536000, immutable"
		if i == 4 {
			want = `"old"`
		}
		if i >= 4 {
			cache = "no-cache"
		}
		if condition != want || r.Header.Get("Cache-Control") != cache {
			t.Errorf("request %d: condition %q, want %q; cache %q", i, condition, want, r.Header.Get("Cache-Control"))
		}
	}
	if path := requests[0].URL.Path; path != "/b/p/a/k 0" {
		t.Errorf("path %q", path)
	}
}

// checkPlainPut wants both checksums and Content-Length, and nothing of what stores trip over.
func checkPlainPut(t *testing.T, r seen) {
	t.Helper()
	sum := manifest.SumBytes(r.body)
	if r.err != nil || r.Method != http.MethodPut {
		t.Errorf("%s, %v", r.Method, r.err)
	}
	for name, want := range map[string]string{
		"X-Amz-Content-Sha256":  sum.String(),
		"X-Amz-Checksum-Sha256": base64.StdEncoding.EncodeToString(sum[:]),
		"Content-Length":        strconv.Itoa(len(r.body)),
		"X-Amz-Trailer":         "", "X-Amz-Acl": "", "X-Amz-Sdk-Checksum-Algorithm": "", "Content-Encoding": "",
		"X-Amz-Decoded-Content-Length": "", "Transfer-Encoding": "", "X-Amz-Storage-Class": "", "X-Amz-Tagging": "",
	} {
		got := r.Header.Get(name)
		if name == "Content-Length" {
			got = strconv.FormatInt(r.ContentLength, 10)
		}
		if got != want {
			t.Errorf("%s %s: %s is %q, want %q", r.Method, r.URL.Path, name, got, want)
		}
	}
	if len(r.TransferEncoding) > 0 || !strings.Contains(r.Header.Get("Authorization"), "x-amz-content-sha256") {
		t.Errorf("transfer encoding %q, authorization %q", r.TransferEncoding, r.Header.Get("Authorization"))
	}
}

// TestWrongBodyNeverArrivesWhole: a service that checks nothing gets a body that ends early, so it
// cannot mistake wrong bytes for an object.
func TestWrongBodyNeverArrivesWhole(t *testing.T) {
	service := serve(t, func(w http.ResponseWriter, _ seen) { w.Header().Set("ETag", `"tag"`) })
	store := service.store(t, nil)
	for _, size := range []int{1, 1000, 3 << 20} {
		data := bytesOf(size)
		c := content(data)
		flipped := bytes.Clone(data)
		flipped[size-1] ^= 1
		c.Body = struct{ *bytes.Reader }{bytes.NewReader(flipped)}
		_, err := store.Create(t.Context(), "k", c)
		if !fault.Is(err, fault.WrongBytes) {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
	service.Close() // waits for the handlers
	for _, r := range service.all() {
		if r.err == nil {
			t.Errorf("a body of %d bytes (of %d) ended as if it were whole", len(r.body), r.ContentLength)
		}
	}
}

// TestRealServersRefuse sends wrong bytes past our own check.
func TestRealServersRefuse(t *testing.T) {
	for name, start := range real() {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			store := open(t, optionsFor(server, server.NewBucket(t), ""))
			announced := bytesOf(5000)
			sent := bytes.Clone(announced)
			sent[4999] ^= 1
			err := store.CreateRaw(t.Context(), "wrong", sent, announced)
			if err == nil {
				t.Fatal("the server kept wrong bytes")
			}
			t.Logf("refused with: %v", err)
			if _, err := store.Stat(t.Context(), "wrong"); !fault.Is(err, fault.NotFound) {
				t.Errorf("stat: %v, want nothing there", err)
			}
			if err := store.CreateRaw(t.Context(), "right", announced, announced); err != nil {
				t.Errorf("right bytes: %v", err)
			}
		})
	}
}

// TestRequesterPays: the header goes with every request, or the one without it is refused.
func TestRequesterPays(t *testing.T) {
	service := serve(t, func(w http.ResponseWriter, r seen) {
		w.Header().Set("ETag", `"tag"`)
		switch op(r) {
		case "list":
			_, _ = w.Write([]byte(`<ListBucketResult></ListBucketResult>`))
		case "begin":
			_, _ = w.Write([]byte(`<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>`))
		case "complete":
			fail(w, http.StatusForbidden, "AccessDenied")
		}
	})
	store := service.store(t, func(o *s3store.Options) { o.RequesterPays, o.MaxSinglePut = true, 10 })
	ctx := t.Context()
	_, _ = store.Stat(ctx, "k")
	_, _, _ = store.Open(ctx, "k", 0, -1)
	_, _ = store.Create(ctx, "k", content(bytesOf(5)))
	_, _ = store.Create(ctx, "k", content(bytesOf(50)))
	_, _ = store.Swap(ctx, "k", "tag", nil)
	_ = store.Delete(ctx, "k", "tag")
	for _, err := range store.List(ctx, "", "") {
		t.Errorf("list: %v", err)
	}
	got := strings.Join(service.ops(), " ")
	if want := "HEAD GET PUT begin part 1 complete abort PUT HEAD DELETE list"; got != want {
		t.Errorf("requests %q, want %q", got, want)
	}
	for _, r := range service.all() {
		if r.Header.Get("X-Amz-Request-Payer") != "requester" {
			t.Errorf("%s has no x-amz-request-payer", op(r))
		}
	}
}

// TestEarlyAnswer: a service that answers before it has read the body makes the HTTP client return
// while it still sends. The body must be the caller's again.
func TestEarlyAnswer(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadFull(r.Body, make([]byte, 1000)); err != nil {
			t.Errorf("read body: %v", err)
		}
		fail(w, http.StatusServiceUnavailable, "SlowDown")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(50 * time.Millisecond) // keeps the connection open, with the body unread
	}))
	defer service.Close()
	store := (&scripted{Server: service}).store(t, nil)
	data := bytesOf(1 << 20)
	body := &slowBody{source: bytes.NewReader(data)}
	c := content(data)
	c.Body = body
	_, err := store.Create(t.Context(), "k", c)
	if body.reading.Load() {
		t.Error("the body was still being read when Create returned")
	}
	reads := body.reads.Load()
	if !fault.Is(err, fault.Transient) || reads < 1 {
		t.Fatalf("got %v after %d reads, want a fault.Transient in the middle of the body", err, reads)
	}
	time.Sleep(50 * time.Millisecond)
	if body.reads.Load() != reads {
		t.Error("the body was read after Create returned")
	}
}

// slowBody stalls in its second read, as a source does that has nothing to send.
type slowBody struct {
	source  io.Reader
	reads   atomic.Int64
	reading atomic.Bool
}

func (b *slowBody) Read(p []byte) (int, error) {
	b.reading.Store(true)
	defer b.reading.Store(false)
	if b.reads.Add(1) == 2 {
		time.Sleep(300 * time.Millisecond)
	}
	return b.source.Read(p[:min(len(p), 64<<10)])
}

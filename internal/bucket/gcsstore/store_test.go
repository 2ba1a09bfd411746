package gcsstore_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/gcsstore"
	"feedmirror/internal/fault"
)

// Sizes around the limit between one request and a session, and around the session's chunks.
func TestSizesAroundTheChunk(t *testing.T) {
	const chunk = 8 << 20
	store := openStore(t)
	for _, size := range []int{0, 1, chunk - 1, chunk, chunk + 1, 2 * chunk, 2*chunk + 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) { checkSize(t, store, size) })
	}
}

// checkSize creates an object and compares what each method says of it.
func checkSize(t *testing.T, store *gcsstore.Store, size int) {
	key := fmt.Sprintf("sizes/%d", size)
	data := bytesOf(size)
	info, err := store.Create(t.Context(), key, content(data, bucket.Data))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("crc32c:%08x", crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
	if info.Size != int64(size) || info.Checksum != want || info.Tag == bucket.Absent {
		t.Errorf("the answer is %+v", info)
	}
	stands, err := store.Stat(t.Context(), key)
	if err != nil || stands.Size != info.Size || stands.Tag != info.Tag || stands.Checksum != want {
		t.Errorf("stat says %+v, %v, want %+v", stands, err, info)
	}
	got, read, err := bucket.ReadAll(t.Context(), store, key, 1<<30)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if read.Tag != info.Tag || read.Size != info.Size || read.Checksum != want || read.Modified.IsZero() {
		t.Errorf("open says %+v, want %+v", read, info)
	}
}

// A gzip object that somebody else stored is handed over as it lies there, and says so.
func TestReadsAreNotUnpacked(t *testing.T) {
	seen := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Clone(r.Context())
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("X-Goog-Generation", "7")
		w.Header().Add("X-Goog-Hash", "crc32c=AAAAAQ==,md5=abc")
		_, _ = io.WriteString(w, "as stored")
	}))
	defer server.Close()
	store := openAt(t, server.URL, gcsstore.Options{Bucket: "b"})
	got, info, err := bucket.ReadAll(t.Context(), store, "a", 100)
	if err != nil || string(got) != "as stored" {
		t.Fatalf("got %q, %v", got, err)
	}
	if info.Encoding != "gzip" || info.Tag != "7" || info.Checksum != "crc32c:00000001" {
		t.Errorf("info is %+v", info)
	}
	if request := <-seen; request.Header.Get("Accept-Encoding") != "gzip" {
		t.Errorf("the service was not told to leave gzip alone: %v", request.Header)
	}
}

func TestShortBodyIsAnError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Goog-Generation", "7")
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "short")
	}))
	defer server.Close()
	store := openAt(t, server.URL, gcsstore.Options{Bucket: "b"})
	_, _, err := bucket.ReadAll(t.Context(), store, "a", 100)
	if !fault.Is(err, fault.Transient) {
		t.Fatalf("got %v, want a transient error", err)
	}
}

func TestIgnoredRangeIsAnError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Goog-Generation", "7")
		_, _ = io.WriteString(w, "everything")
	}))
	defer server.Close()
	store := openAt(t, server.URL, gcsstore.Options{Bucket: "b"})
	body, _, err := store.Open(t.Context(), "a", 3, 2)
	if err == nil {
		_ = body.Close()
		t.Fatal("the whole object was taken for a range of it")
	}
}

// What the service answers, and what we make of it.
func TestAnswers(t *testing.T) {
	answer := func(status int, message string) *gcsstore.Store {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"error":{"code":%d,"message":%q}}`, status, message)
		}))
		t.Cleanup(server.Close)
		return openAt(t, server.URL, gcsstore.Options{Bucket: "b"})
	}
	cases := []struct {
		status                     int
		message                    string
		create, swap, stat, delete fault.Kind
	}{
		{412, "conditionNotMet", fault.Exists, fault.Conflict, fault.Conflict, fault.Conflict},
		{409, "conflict", fault.Contended, fault.Contended, fault.Contended, fault.Contended},
		{429, "rateLimitExceeded", fault.Transient, fault.Transient, fault.Transient, fault.Transient},
		{503, "backendError", fault.Transient, fault.Transient, fault.Transient, fault.Transient},
		{403, "no access", fault.Denied, fault.Denied, fault.Denied, fault.Denied},
		{401, "no token", fault.Denied, fault.Denied, fault.Denied, fault.Denied},
		{404, "no bucket", fault.BucketUnfit, fault.NotFound, fault.NotFound, ""},
		{400, "Provided CRC32C does not match", fault.WrongBytes, fault.WrongBytes, fault.WrongBytes, fault.WrongBytes},
		{400, "Bucket is a requester pays bucket but no user project provided.", fault.Denied, fault.Denied, fault.Denied, fault.Denied},
	}
	for _, test := range cases {
		t.Run(fmt.Sprint(test.status, test.message), func(t *testing.T) {
			store := answer(test.status, test.message)
			got := create(t.Context(), store, "k", []byte("x"))
			check(t, "create", got, test.create)
			if fault.RetryAfter(got).Seconds() != 3 {
				t.Errorf("Retry-After is lost: %v", got)
			}
			_, err := store.Swap(t.Context(), "k", "1", []byte("x"))
			check(t, "swap", err, test.swap)
			_, err = store.Stat(t.Context(), "k")
			check(t, "stat", err, test.stat)
			check(t, "delete", store.Delete(t.Context(), "k", "1"), test.delete)
		})
	}
}

func check(t *testing.T, what string, err error, want fault.Kind) {
	t.Helper()
	if fault.KindOf(err) != want {
		t.Errorf("%s: got %v (%s), want %q", what, err, fault.KindOf(err), want)
	}
}

// A requester-pays bucket refuses the one request that does not name who pays.
func TestUserProjectIsOnEveryRequest(t *testing.T) {
	fake := servers.FakeGCS(t)
	front := newFront(t, "http://"+fake.Host)
	store := openAt(t, front.URL, gcsstore.Options{UserProject: "payer"})
	ctx := t.Context()
	if err := create(ctx, store, "a/small", []byte("small")); err != nil {
		t.Fatal(err)
	}
	if err := create(ctx, store, "a/large", bytesOf(9<<20)); err != nil {
		t.Fatal(err)
	}
	tag, err := store.Swap(ctx, "a/pointer", bucket.Absent, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := bucket.ReadAll(ctx, store, "a/small", 10); err != nil {
		t.Fatal(err)
	}
	for _, err := range store.List(ctx, "a/", "") {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Delete(ctx, "a/pointer", tag); err != nil {
		t.Fatal(err)
	}
	for _, request := range front.requests() {
		query := request.URL.Query()
		if !query.Has("upload_id") && query.Get("userProject") != "payer" {
			t.Errorf("%s %s names no payer", request.Method, request.URL)
		}
	}
}

func TestSettingsThatCannotWork(t *testing.T) {
	for _, options := range []gcsstore.Options{
		{},
		{Bucket: "b", Endpoint: "ftp://host"},
		{Bucket: "b", Endpoint: "https://host/path"},
		{Bucket: "b", Endpoint: "https://user:secret@host"},
		{Bucket: "b", Prefix: "a//b", Endpoint: "http://127.0.0.1:1"},
	} {
		options.Getenv = noEnvironment
		_, err := gcsstore.New(t.Context(), options)
		if !fault.Is(err, fault.Usage) {
			t.Errorf("%+v: got %v, want a usage error", options, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}

// Without credentials nothing is sent, and the error says what to do.
func TestNoCredentials(t *testing.T) {
	missing := t.TempDir() + "/none.json"
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", missing)
	_, err := gcsstore.New(t.Context(), gcsstore.Options{Bucket: "b", Getenv: noEnvironment})
	if !fault.Is(err, fault.BucketUnfit) || fault.HintOf(err) == "" {
		t.Fatalf("got %v, want a bucket that is unfit, with a hint", err)
	}
}

func TestUntrustedCertificateNamesTheFlag(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Config.ErrorLog = quietLog()
	defer server.Close()
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", writeUserCredentials(t))
	store, err := gcsstore.New(t.Context(), gcsstore.Options{
		Bucket: "b", Endpoint: server.URL, Getenv: noEnvironment, HTTPClient: &http.Client{Transport: tokenStub{&http.Transport{}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Stat(t.Context(), "k")
	if !fault.Is(err, fault.BucketUnfit) || !strings.Contains(fault.HintOf(err), "--ca-file") {
		t.Fatalf("got %v (hint %q)", err, fault.HintOf(err))
	}
}

// Emulators are found through the variable that Google's tools use.
func TestEmulatorVariable(t *testing.T) {
	fake := servers.FakeGCS(t)
	name := fake.NewBucket(t)
	store, err := gcsstore.New(t.Context(), gcsstore.Options{Bucket: name, Getenv: func(key string) string {
		if key == "STORAGE_EMULATOR_HOST" {
			return fake.Host
		}
		return ""
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := create(t.Context(), store, "k", []byte("x")); err != nil {
		t.Fatal(err)
	}
}

// The SDK repeats nothing: bucket.WithRetry does, and counts.
func TestRequestsAreSentOnce(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	store := openAt(t, server.URL, gcsstore.Options{Bucket: "b"})
	ctx := t.Context()
	for name, send := range map[string]func() error{
		"stat":            func() error { _, err := store.Stat(ctx, "k"); return err },
		"open":            func() error { _, _, err := store.Open(ctx, "k", 0, -1); return err },
		"create":          func() error { return create(ctx, store, "k", []byte("x")) },
		"create in parts": func() error { return create(ctx, store, "k", bytesOf(9<<20)) },
		"swap":            func() error { _, err := store.Swap(ctx, "k", "1", []byte("x")); return err },
		"delete":          func() error { return store.Delete(ctx, "k", "1") },
		"list": func() error {
			for _, err := range store.List(ctx, "", "") {
				return err
			}
			return nil
		},
	} {
		requests.Store(0)
		check(t, name, send(), fault.Transient)
		if requests.Load() != 1 {
			t.Errorf("%s: %d requests", name, requests.Load())
		}
	}
}

package gcsstore_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/gcsstore"
	"feedmirror/internal/fault"
)

// front stands before the fake server. It can flip one bit of an upload on its way, and checks the
// finishing request of a session as the service does and the fake does not.
type front struct {
	*httptest.Server
	mu       sync.Mutex
	seen     []*http.Request
	sums     map[string]uint32 // CRC32C of what arrived so far, by session
	flip     bool              // damage the next upload body
	strict   bool              // compare X-Goog-Hash
	finished []string          // X-Goog-Hash of finishing requests
	deletes  sync.Mutex
}

// deleteStatus is what the service answers to a delete that names a generation, which the fake
// ignores; 200 when the delete goes on.
func (f *front) deleteStatus(t *testing.T, target string, r *http.Request) int {
	want := r.URL.Query().Get("ifGenerationMatch")
	look, err := http.NewRequestWithContext(r.Context(), http.MethodGet, target+r.URL.EscapedPath(), http.NoBody)
	if err != nil {
		t.Errorf("look before delete: %v", err)
		return http.StatusBadGateway
	}
	answer, err := http.DefaultClient.Do(look)
	if err != nil {
		t.Errorf("look before delete: %v", err)
		return http.StatusBadGateway
	}
	defer func() { _ = answer.Body.Close() }()
	var object struct {
		Generation string `json:"generation"`
	}
	if answer.StatusCode != http.StatusOK {
		return answer.StatusCode
	}
	if err := json.NewDecoder(answer.Body).Decode(&object); err != nil {
		t.Errorf("look before delete: %v", err)
	}
	if want != "" && object.Generation != want {
		return http.StatusPreconditionFailed
	}
	return http.StatusOK
}

// The fake alone deletes whatever generation is named. When it learns better, the front can go.
func TestFakeIgnoresTheGenerationOfADelete(t *testing.T) {
	store := openStore(t)
	first, err := store.Swap(t.Context(), "p", bucket.Absent, []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Swap(t.Context(), "p", first, []byte("2")); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(t.Context(), "p", first); err != nil {
		t.Fatalf("the fake looks at the generation now: %v", err)
	}
}

func newFront(t *testing.T, target string) *front {
	t.Helper()
	address, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{sums: make(map[string]uint32), strict: true}
	// The client's Host stays: the fake names it in the address of a session.
	transport := &http.Transport{MaxIdleConnsPerHost: 32, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		ErrorLog:  quietLog(), // clients that cancel are part of the tests
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(address)
			r.Out.Host = r.In.Host
		},
	}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			f.deletes.Lock() // nothing may change between the look and the delete
			defer f.deletes.Unlock()
			if status := f.deleteStatus(t, target, r); status != http.StatusOK {
				http.Error(w, "conditionNotMet", status)
				return
			}
		}
		if f.refuses(r) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"code":400,"message":"Provided CRC32C does not match the calculated one"}}`)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// refuses notes a request, damages it when told to, and reports whether the service would refuse
// its checksum.
func (f *front) refuses(r *http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, r.Clone(r.Context()))
	if !strings.HasPrefix(r.URL.Path, "/upload/") {
		return false
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return true // the client went away in the middle; nobody reads the answer
	}
	if f.flip && len(data) > 0 && r.URL.Query().Has("upload_id") {
		data[len(data)/2] ^= 1
		f.flip = false
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	session := r.URL.Query().Get("upload_id")
	if session == "" {
		return false
	}
	f.sums[session] = crc32.Update(f.sums[session], crc32.MakeTable(crc32.Castagnoli), data)
	if strings.HasSuffix(r.Header.Get("Content-Range"), "/*") {
		return false
	}
	announced := r.Header.Get("X-Goog-Hash")
	f.finished = append(f.finished, announced)
	sum := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, f.sums[session]))
	return f.strict && announced != "crc32c="+sum
}

func (f *front) requests() []*http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*http.Request(nil), f.seen...)
}

// The checksum of a streamed upload goes with the request that finishes it.
func TestFinishingRequestCarriesTheChecksum(t *testing.T) {
	front := newFront(t, "http://"+servers.FakeGCS(t).Host)
	store := openAt(t, front.URL, gcsstore.Options{})
	if err := create(t.Context(), store, "large", bytesOf(20<<20)); err != nil {
		t.Fatal(err)
	}
	front.mu.Lock()
	defer front.mu.Unlock()
	if len(front.finished) != 1 || !strings.HasPrefix(front.finished[0], "crc32c=") {
		t.Fatalf("finishing requests carried %q", front.finished)
	}
}

// Bytes that change on the way to the service are refused by it, and by us where it does not look.
func TestChangedOnTheWay(t *testing.T) {
	for name, strict := range map[string]bool{"service refuses": true, "service does not look": false} {
		t.Run(name, func(t *testing.T) {
			front := newFront(t, "http://"+servers.FakeGCS(t).Host)
			front.strict, front.flip = strict, true
			store := openAt(t, front.URL, gcsstore.Options{})
			err := create(t.Context(), store, "large", bytesOf(20<<20))
			if !fault.Is(err, fault.WrongBytes) {
				t.Fatalf("got %v, want wrong bytes", err)
			}
			if _, err := store.Stat(t.Context(), "large"); !fault.Is(err, fault.NotFound) {
				t.Fatalf("something stands there: %v", err)
			}
		})
	}
}

// A body that fails in the middle never finishes its session: no request names a total.
func TestFailedBodyIsNotFinished(t *testing.T) {
	front := newFront(t, "http://"+servers.FakeGCS(t).Host)
	store := openAt(t, front.URL, gcsstore.Options{})
	data := bytesOf(20 << 20)
	wrong := content(data, bucket.Data)
	data[len(data)-1] ^= 1
	if _, err := store.Create(t.Context(), "large", wrong); !fault.Is(err, fault.WrongBytes) {
		t.Fatalf("got %v, want wrong bytes", err)
	}
	front.mu.Lock()
	defer front.mu.Unlock()
	if len(front.finished) != 0 {
		t.Fatalf("a wrong body was finished: %q", front.finished)
	}
}

// CreateRaw is how doctor learns that the store compares.
func TestCreateRawIsRefused(t *testing.T) {
	store := openStore(t)
	if err := store.CreateRaw(t.Context(), "raw", []byte("sent"), []byte("said")); !fault.Is(err, fault.WrongBytes) {
		t.Fatalf("got %v, want wrong bytes", err)
	}
	if _, err := store.Stat(t.Context(), "raw"); !fault.Is(err, fault.NotFound) {
		t.Fatalf("something stands there: %v", err)
	}
	if err := store.CreateRaw(t.Context(), "raw", []byte("sent"), []byte("sent")); err != nil {
		t.Fatalf("right bytes were refused: %v", err)
	}
}

// tokenStub answers requests for tokens, so that a test needs no identity provider.
type tokenStub struct{ next http.RoundTripper }

func (s tokenStub) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != "oauth2.googleapis.com" {
		return s.next.RoundTrip(r)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(strings.NewReader(`{"access_token":"t","token_type":"Bearer","expires_in":3600}`)),
	}, nil
}

func writeUserCredentials(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credentials.json")
	text := `{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r"}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }

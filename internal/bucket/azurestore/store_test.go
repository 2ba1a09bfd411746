package azurestore_test

import (
	"bytes"
	"crypto/md5" //nolint:gosec // what the service wants
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/azurestore"
	"feedmirror/internal/fault"
)

// scripted returns a store whose service is handler.
func scripted(t *testing.T, handler http.HandlerFunc) *azurestore.Store {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return open(t, azurestore.Options{
		Container: "c", Endpoint: server.URL + "/account",
		Getenv: environment(map[string]string{"AZURE_STORAGE_SAS_TOKEN": "?sv=1&sig=secret"}),
	})
}

// refuse answers as the service does.
func refuse(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Ms-Error-Code", code)
		w.Header().Set("Content-Type", "application/xml")
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>text</Message></Error>`, code)
	}
}

// What the service answers, and what we make of it.
func TestAnswers(t *testing.T) {
	cases := []struct {
		status                   int
		code                     string
		create, swap, stat, open fault.Kind
	}{
		{409, "BlobAlreadyExists", fault.Exists, fault.Conflict, fault.Conflict, fault.Conflict},
		{412, "ConditionNotMet", fault.Exists, fault.Conflict, fault.Conflict, fault.Conflict},
		{409, "PendingCopyOperation", fault.Contended, fault.Contended, fault.Contended, fault.Contended},
		{409, "BlobImmutableDueToPolicy", fault.Denied, fault.Denied, fault.Denied, fault.Denied},
		{409, "BlobArchived", fault.Archived, fault.Archived, fault.Archived, fault.Archived},
		{404, "BlobNotFound", fault.BucketUnfit, fault.NotFound, fault.NotFound, fault.NotFound},
		{404, "ContainerNotFound", fault.BucketUnfit, fault.BucketUnfit, fault.BucketUnfit, fault.BucketUnfit},
		{403, "AuthorizationPermissionMismatch", fault.Denied, fault.Denied, fault.Denied, fault.Denied},
		{400, "Md5Mismatch", fault.WrongBytes, fault.WrongBytes, fault.WrongBytes, fault.WrongBytes},
		{503, "ServerBusy", fault.Transient, fault.Transient, fault.Transient, fault.Transient},
		{500, "OperationTimedOut", fault.Transient, fault.Transient, fault.Transient, fault.Transient},
		{400, "InvalidHeaderValue", fault.Unsupported, fault.Unsupported, fault.Unsupported, fault.Unsupported},
	}
	for _, test := range cases {
		t.Run(test.code, func(t *testing.T) {
			store := scripted(t, refuse(test.status, test.code))
			failed := create(t.Context(), store, "k", []byte("x"))
			check(t, "create", failed, test.create)
			if fault.RetryAfter(failed).Seconds() != 3 {
				t.Errorf("Retry-After is lost: %v", failed)
			}
			_, err := store.Swap(t.Context(), "k", "1", []byte("x"))
			check(t, "swap", err, test.swap)
			_, err = store.Stat(t.Context(), "k")
			check(t, "stat", err, test.stat)
			_, _, err = store.Open(t.Context(), "k", 0, -1)
			check(t, "open", err, test.open)
		})
	}
}

func check(t *testing.T, what string, err error, want fault.Kind) {
	t.Helper()
	if fault.KindOf(err) != want {
		t.Errorf("%s: got %v (%s), want %q", what, err, fault.KindOf(err), want)
	}
	if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n")) {
		t.Errorf("%s: the error shows the signature or has many lines: %v", what, err)
	}
}

// A connection that breaks gives an error without the address, which holds the signature.
func TestBrokenConnectionShowsNoSignature(t *testing.T) {
	store := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = connection.Close()
	})
	_, err := store.Stat(t.Context(), "k")
	check(t, "stat", err, fault.Transient)
	check(t, "create", create(t.Context(), store, "k", []byte("x")), fault.Transient)
}

// Azurite refuses wrong bytes, but names the refusal InvalidOperation, which can mean anything.
func TestCreateRawIsRefused(t *testing.T) {
	store := openStore(t, azurestore.Options{})
	err := store.CreateRaw(t.Context(), "raw", []byte("sent"), []byte("said"))
	check(t, "create raw", err, fault.Unsupported)
	if _, err := store.Stat(t.Context(), "raw"); !fault.Is(err, fault.NotFound) {
		t.Fatalf("something stands there: %v", err)
	}
	if err := store.CreateRaw(t.Context(), "raw", []byte("sent"), []byte("sent")); err != nil {
		t.Fatalf("right bytes were refused: %v", err)
	}
}

// flipper damages the body of one request on its way.
type flipper struct {
	next  http.RoundTripper
	query string // damages the first request whose query has this
	done  atomic.Bool
}

func (f *flipper) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && strings.Contains(r.URL.RawQuery, f.query) && r.Method == http.MethodPut && f.done.CompareAndSwap(false, true) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		data[len(data)/2] ^= 1
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(data))
	}
	return f.next.RoundTrip(r)
}

// A block and a whole blob that change on their way are refused by the service, not by us.
func TestChangedOnTheWay(t *testing.T) {
	for name, query := range map[string]string{"whole": "", "block": "blockid="} {
		t.Run(name, func(t *testing.T) {
			size := 100
			if name == "block" {
				size = 3 << 20
			}
			damage := &flipper{next: &http.Transport{}, query: query}
			store := openStore(t, azurestore.Options{PartSize: 1 << 20, HTTPClient: &http.Client{Transport: damage}})
			if err := create(t.Context(), store, "k", bytesOf(size)); err == nil {
				t.Fatal("changed bytes were taken")
			}
			if !damage.done.Load() {
				t.Fatal("nothing was changed")
			}
			if _, err := store.Stat(t.Context(), "k"); !fault.Is(err, fault.NotFound) {
				t.Fatalf("something stands there: %v", err)
			}
		})
	}
}

// A block that failed on its way is sent again alone; the blob is right and its blocks are ours.
func TestBlockIsSentAgain(t *testing.T) {
	var blocks atomic.Int64
	transport := roundTrip(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.RawQuery, "blockid=") && blocks.Add(1) == 2 {
			_, _ = io.Copy(io.Discard, r.Body)
			answer := httptest.NewRecorder()
			refuse(http.StatusServiceUnavailable, "ServerBusy")(answer, httptest.NewRequestWithContext(r.Context(), http.MethodPut, "/", http.NoBody))
			result := answer.Result()
			result.Header.Del("Retry-After")
			result.Request = r
			return result, nil
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	store := openStore(t, azurestore.Options{PartSize: 1 << 20, HTTPClient: &http.Client{Transport: transport}})
	data := bytesOf(3 << 20)
	if err := create(t.Context(), store, "k", data); err != nil {
		t.Fatal(err)
	}
	if blocks.Load() != 4 {
		t.Errorf("%d blocks were sent, want 3 and one repeat", blocks.Load())
	}
	if got, _, err := bucket.ReadAll(t.Context(), store, "k", 4<<20); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A rival that commits first discards our blocks; that is a lost race, not a bad request.
func TestCommitOfDiscardedBlocks(t *testing.T) {
	for name, test := range map[string]struct {
		stands bool
		want   fault.Kind
	}{"rival's blob stands": {true, fault.Exists}, "nothing stands": {false, fault.Contended}} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				switch {
				case r.Method == http.MethodHead && test.stands:
					w.Header().Set("Etag", `"1"`)
				case r.Method == http.MethodHead:
					refuse(http.StatusNotFound, "BlobNotFound")(w, r)
				case strings.Contains(r.URL.RawQuery, "comp=blocklist"):
					if r.Header.Get("If-None-Match") != "*" {
						t.Error("the list is committed without a condition")
					}
					refuse(http.StatusBadRequest, "InvalidBlockList")(w, r)
				default:
					w.WriteHeader(http.StatusCreated)
				}
			}))
			defer server.Close()
			store := open(t, azurestore.Options{
				Container: "c", Endpoint: server.URL + "/account", PartSize: 10,
				Getenv: environment(map[string]string{"AZURE_STORAGE_SAS_TOKEN": "sig=secret"}),
			})
			check(t, "create", create(t.Context(), store, "k", bytesOf(25)), test.want)
		})
	}
}

// Bytes are asked for as they are stored, and a short body is an error.
func TestReads(t *testing.T) {
	store := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("Accept-Encoding is %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Etag", `"0x1"`)
		w.Header().Set("Content-Encoding", "gzip")
		if strings.HasSuffix(r.URL.Path, "/short") {
			w.Header().Set("Content-Length", "20")
		}
		_, _ = io.WriteString(w, "as stored")
	})
	got, info, err := bucket.ReadAll(t.Context(), store, "whole", 100)
	if err != nil || string(got) != "as stored" || info.Encoding != "gzip" || info.Tag != "0x1" {
		t.Errorf("got %q, %+v, %v", got, info, err)
	}
	_, _, err = bucket.ReadAll(t.Context(), store, "short", 100)
	check(t, "short body", err, fault.Transient)
	body, _, err := store.Open(t.Context(), "whole", 3, 2)
	if err == nil {
		_ = body.Close()
		t.Error("the whole object was taken for a range of it")
	}
}

// listing answers with these names in this order; folder is a folder of a hierarchical namespace.
func listing(w http.ResponseWriter, folder string, names ...string) {
	w.Header().Set("Content-Type", "application/xml")
	_, _ = io.WriteString(w, `<?xml version="1.0"?><EnumerationResults><Blobs>`)
	for _, name := range names {
		kind := ""
		if name == folder {
			kind = "<ResourceType>directory</ResourceType>"
		}
		_, _ = fmt.Fprintf(w, `<Blob><Name>%s</Name><Properties><Etag>0x1</Etag><Content-Length>1</Content-Length>%s</Properties></Blob>`, name, kind)
	}
	_, _ = io.WriteString(w, `</Blobs></EnumerationResults>`)
}

func keysOf(t *testing.T, store bucket.Reader, prefix, after string) (keys []string, failure error) {
	t.Helper()
	for info, err := range store.List(t.Context(), prefix, after) {
		if err != nil {
			return keys, err
		}
		keys = append(keys, info.Key)
	}
	return keys, nil
}

// The service is asked to start late, and the answer is right whether it does or not.
func TestListStartsLate(t *testing.T) {
	for name, honours := range map[string]bool{"service starts there": true, "service ignores it": false} {
		t.Run(name, func(t *testing.T) {
			store := scripted(t, func(w http.ResponseWriter, r *http.Request) {
				if got := r.URL.Query().Get("startFrom"); got != "a/2" {
					t.Errorf("startFrom is %q", got)
				}
				if honours {
					listing(w, "", "a/2", "a/3")
					return
				}
				listing(w, "", "a/1", "a/2", "a/3")
			})
			keys, err := keysOf(t, store, "a/", "a/2")
			if err != nil || fmt.Sprint(keys) != "[a/3]" {
				t.Errorf("got %v, %v", keys, err)
			}
		})
	}
}

// Folders are no objects, and another order than bytes ends the listing.
func TestListOfHierarchicalNamespace(t *testing.T) {
	store := scripted(t, func(w http.ResponseWriter, _ *http.Request) { listing(w, "a", "a", "a/1", "a-b") })
	keys, err := keysOf(t, store, "", "")
	if fmt.Sprint(keys) != "[a/1]" || !fault.Is(err, fault.BucketUnfit) || !strings.Contains(fault.HintOf(err), "hierarchical") {
		t.Errorf("got %v, %v", keys, err)
	}
}

// Azure drops a dot at the end of a segment, so that two keys would fall together.
func TestTrailingDotsAreRefused(t *testing.T) {
	store := scripted(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	for _, key := range []string{"a.", "a./b", "a/b."} {
		check(t, key, create(t.Context(), store, key, nil), fault.Unsupported)
	}
}

func TestSettingsThatCannotWork(t *testing.T) {
	for name, options := range map[string]azurestore.Options{
		"no container":    {Account: "a"},
		"no account":      {Container: "c"},
		"archive":         {Container: "c", Account: "a", AccessTier: "Archive"},
		"endpoint":        {Container: "c", Endpoint: "host"},
		"endpoint secret": {Container: "c", Endpoint: "https://user:secret@host"},
		"prefix":          {Container: "c", Account: "a", Prefix: "../x"},
		"key":             {Container: "c", Account: "a", Getenv: environment(map[string]string{"AZURE_STORAGE_KEY": "secret!"})},
	} {
		if options.Getenv == nil {
			options.Getenv = environment(nil)
		}
		_, err := azurestore.New(t.Context(), options)
		check(t, name, err, fault.Usage)
	}
}

// The ways to give credentials, and where requests go with each.
func TestCredentials(t *testing.T) {
	azurite := servers.Azurite(t)
	name := azurite.NewContainer(t)
	connection := fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=%s;",
		azurite.Account, azurite.Key, azurite.Endpoint)
	for what, settings := range map[string]map[string]string{
		"connection string": {"AZURE_STORAGE_CONNECTION_STRING": connection},
		"account and key":   {"AZURE_STORAGE_ACCOUNT": azurite.Account, "AZURE_STORAGE_KEY": azurite.Key},
	} {
		t.Run(what, func(t *testing.T) {
			options := azurestore.Options{Container: name, Getenv: environment(settings)}
			if what != "connection string" {
				options.Endpoint = azurite.Endpoint
			}
			if err := create(t.Context(), open(t, options), what, []byte("x")); err != nil {
				t.Error(err)
			}
		})
	}
	wrong := openStore(t, azurestore.Options{Container: name, Getenv: environment(map[string]string{"AZURE_STORAGE_KEY": "d3Jvbmc="})})
	check(t, "wrong key", create(t.Context(), wrong, "k", nil), fault.Denied)
	missing := openStore(t, azurestore.Options{Container: "never-made"})
	check(t, "missing container", create(t.Context(), missing, "k", nil), fault.BucketUnfit)
	_, err := missing.Stat(t.Context(), "k")
	check(t, "missing container", err, fault.BucketUnfit)
}

// What a class means to the service.
func TestHeadersOfAClass(t *testing.T) {
	seen := make(chan http.Header, 1)
	store := func(options azurestore.Options) *azurestore.Store {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			seen <- r.Header.Clone()
			w.Header().Set("ETag", `"e"`)
			w.WriteHeader(http.StatusCreated)
		}))
		t.Cleanup(server.Close)
		options.Container, options.Endpoint = "c", server.URL+"/account"
		options.Getenv = environment(map[string]string{"AZURE_STORAGE_SAS_TOKEN": "sig=secret"})
		return open(t, options)
	}(azurestore.Options{AccessTier: "Cool", EncryptionScope: "scope"})

	if err := create(t.Context(), store, "data", []byte("x")); err != nil {
		t.Fatal(err)
	}
	data := <-seen
	if _, err := store.Swap(t.Context(), "p.json", bucket.Absent, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	pointer := <-seen
	for name, want := range map[string][2]string{
		"X-Ms-Blob-Cache-Control": {"public, max-age=31536000, immutable", "no-cache"},
		"X-Ms-Blob-Content-Type":  {"application/octet-stream", "application/json"},
		"X-Ms-Access-Tier":        {"Cool", ""},
		"X-Ms-Encryption-Scope":   {"scope", "scope"},
		"If-None-Match":           {"*", "*"},
		"Content-Md5":             {md5Of("x"), md5Of("{}")},
	} {
		if got := [2]string{data.Get(name), pointer.Get(name)}; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func md5Of(text string) string {
	sum := md5.Sum([]byte(text)) //nolint:gosec // what the service wants
	return base64.StdEncoding.EncodeToString(sum[:])
}

// The SDK repeats nothing: bucket.WithRetry does, and counts.
func TestRequestsAreSentOnce(t *testing.T) {
	var requests atomic.Int64
	store := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		refuse(http.StatusServiceUnavailable, "ServerBusy")(w, r)
	})
	ctx := t.Context()
	for name, send := range map[string]func() error{
		"stat":   func() error { _, err := store.Stat(ctx, "k"); return err },
		"open":   func() error { _, _, err := store.Open(ctx, "k", 0, -1); return err },
		"create": func() error { return create(ctx, store, "k", []byte("x")) },
		"swap":   func() error { _, err := store.Swap(ctx, "k", "1", []byte("x")); return err },
		"delete": func() error { return store.Delete(ctx, "k", "1") },
		"list":   func() error { _, err := keysOf(t, store, "", ""); return err },
	} {
		requests.Store(0)
		check(t, name, send(), fault.Transient)
		if requests.Load() != 1 {
			t.Errorf("%s: %d requests", name, requests.Load())
		}
	}
}

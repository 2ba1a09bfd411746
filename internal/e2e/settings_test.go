package e2e_test

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"testing"

	"feedmirror/internal/feed/feedsim"
)

// wire is what went to an S3 server.
type wire struct {
	mu       sync.Mutex
	requests []sentRequest
}

type sentRequest struct {
	method, key string
	length      int64 // Content-Length; -1 when it was not sent
	header      http.Header
}

// isData reports whether the key is one of immutable data, and not a document of the mirror.
func (r sentRequest) isData() bool {
	for _, start := range []string{"snapshot/", "changes/", "id_map/", "attachments/", "attachment_index/"} {
		if strings.HasPrefix(r.key, start) {
			return !strings.Contains(r.key, "/_delta_log/")
		}
	}
	return false
}

// notUnderstood are headers that versitygw refuses or cannot keep.
func notUnderstood() []string {
	return []string{"X-Amz-Storage-Class", "X-Amz-Server-Side-Encryption", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id", "X-Amz-Acl",
		"X-Amz-Object-Lock-Mode", "X-Amz-Object-Lock-Retain-Until-Date"}
}

// newRecorded returns a world whose bucket URL carries more settings, and what went over the wire.
func newRecorded(t *testing.T, settings string) (*world, *wire) {
	t.Helper()
	seen := &wire{}
	at := s3Place(t, servers.VersityGW(t).Behind(t, func(r *http.Request) {
		_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if key == "" && r.Method == http.MethodPut {
			return // the test makes its bucket
		}
		seen.mu.Lock()
		defer seen.mu.Unlock()
		seen.requests = append(seen.requests, sentRequest{r.Method, strings.TrimPrefix(key, prefix+"/"), r.ContentLength, r.Header.Clone()})
		for _, name := range notUnderstood() {
			r.Header.Del(name)
		}
	}))
	at.url += settings
	w := newWorld(t, at, feedsim.Options{})
	w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Points, Rows: 5}, feedsim.ReleaseSpec{}, feedsim.ReleaseSpec{ReplaceIDs: true}, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	w.run(0, "verify")
	return w, seen
}

// puts returns the PUT requests; at least some of data and some of documents.
func (s *wire) puts(t *testing.T) []sentRequest {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var puts []sentRequest
	data := 0
	for _, r := range s.requests {
		if r.method == http.MethodPut {
			puts = append(puts, r)
			if r.isData() {
				data++
			}
		}
	}
	if data < 5 || len(puts) < data+5 {
		t.Errorf("only %d PUTs were seen, %d of data", len(puts), data)
	}
	return puts
}

// has wants a header to have a value; an empty one wants it absent.
func (r sentRequest) has(t *testing.T, name, value string) {
	t.Helper()
	if got := r.header.Get(name); got != value {
		t.Errorf("%s %s: %s is %q, want %q", r.method, r.key, name, got, value)
	}
}

func TestS3SettingsOfTheURLReachTheWire(t *testing.T) {
	t.Parallel()
	_, seen := newRecorded(t, "&storage_class=STANDARD_IA&sse_kms_key=arn:aws:kms:eu-central-1:111122223333:key/k-1&tags=team%3Ddata%26cost%3D42&requester_pays=true&acl=bucket-owner-full-control")
	for _, put := range seen.puts(t) {
		class := ""
		if put.isData() {
			class = "STANDARD_IA"
		}
		if !strings.HasPrefix(put.key, "versions/") && !strings.HasPrefix(put.key, "_mirror/doctor/") { // data and documents
			put.has(t, "X-Amz-Storage-Class", class)
		}
		put.has(t, "X-Amz-Server-Side-Encryption", "aws:kms")
		put.has(t, "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id", "arn:aws:kms:eu-central-1:111122223333:key/k-1")
		put.has(t, "X-Amz-Tagging", "team=data&cost=42")
		put.has(t, "X-Amz-Acl", "bucket-owner-full-control")
	}
	for _, r := range seen.requests {
		r.has(t, "X-Amz-Request-Payer", "requester")
	}
}

func TestS3SettingsThatNobodyAskedForStayAway(t *testing.T) {
	t.Parallel()
	_, seen := newRecorded(t, "")
	for _, r := range seen.requests {
		for _, name := range append(notUnderstood(), "X-Amz-Tagging", "X-Amz-Request-Payer") {
			r.has(t, name, "")
		}
	}
}

func TestAnObjectLockIsSetOnDataAlone(t *testing.T) {
	t.Parallel()
	_, seen := newRecorded(t, "&object_lock_mode=GOVERNANCE&object_lock_days=30")
	for _, put := range seen.puts(t) {
		locked := put.header.Get("X-Amz-Object-Lock-Mode") == "GOVERNANCE" && put.header.Get("X-Amz-Object-Lock-Retain-Until-Date") != ""
		// Beside a record stand data and documents; the doctor sends wrong bytes as data.
		if other := strings.HasPrefix(put.key, "versions/") || strings.HasPrefix(put.key, "_mirror/doctor/"); !other && locked != put.isData() {
			t.Errorf("PUT %s: locked %t", put.key, locked)
		}
	}
}

// TestEveryPutNamesItsLengthAndHash wants what lets the store itself refuse wrong bytes.
func TestEveryPutNamesItsLengthAndHash(t *testing.T) {
	t.Parallel()
	w, seen := newRecorded(t, "")
	stands := w.snapshot().Objects
	checked := 0
	for _, put := range seen.puts(t) {
		if strings.HasPrefix(put.key, "_mirror/doctor/") {
			continue // wrong on purpose, some of them
		}
		sum, err := base64.StdEncoding.DecodeString(put.header.Get("X-Amz-Checksum-Sha256"))
		if err != nil || put.length < 0 || put.header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum) || put.header.Get("X-Amz-Trailer") != "" {
			t.Errorf("PUT %s: length %d, header %v", put.key, put.length, put.header)
		}
		if !put.isData() {
			continue
		}
		checked++
		if object := stands[put.key]; object.Size != put.length || object.SHA256 != hex.EncodeToString(sum) {
			t.Errorf("PUT %s named %d bytes with %x, %+v stands", put.key, put.length, sum, object)
		}
		put.has(t, "If-None-Match", "*")
	}
	if checked == 0 {
		t.Error("no PUT of data was checked")
	}
}

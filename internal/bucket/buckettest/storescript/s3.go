package storescript

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// S3 is a bucket of an S3 service. It is an http.Handler: any bucket's name will do.
type S3 struct {
	t       testing.TB
	root    string // objects, as files
	staging string // on the same file system

	mu       sync.Mutex
	objects  map[string]object
	uploads  map[string]*upload
	pageSize int
	framed   func(key string) bool
}

type object struct {
	etag     string
	size     int64
	checksum string // x-amz-checksum-sha256 as it was sent
	modified time.Time
}

type upload struct {
	key   string
	began time.Time
	parts map[int][]byte
}

// NewS3 returns a bucket that keeps its objects under the folder root. What stands there already
// is part of it.
func NewS3(t testing.TB, root string) *S3 {
	t.Helper()
	return &S3{t: t, root: root, staging: t.TempDir(), objects: map[string]object{}, uploads: map[string]*upload{}, pageSize: 1000}
}

// Keys are credentials for a client, whom the service believes everything.
func Keys() aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "key", SecretAccessKey: "not-a-secret-of-anyone"}, nil
	})
}

// SetPageSize sets how many keys a page of a listing has.
func (s *S3) SetPageSize(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pageSize = n
}

// KeepFraming makes the service keep the framing of chunks as a part of the objects that it takes
// from now on under some keys, and answer as if all were well. Nil ends it.
func (s *S3) KeepFraming(keys func(key string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.framed = keys
}

// OpenUploads returns the keys of uploads that were neither completed nor aborted.
func (s *S3) OpenUploads() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for _, u := range s.uploads {
		keys = append(keys, u.key)
	}
	slices.Sort(keys)
	return keys
}

// LeaveUpload begins an upload at a time, and leaves it, as a process that was killed does.
func (s *S3) LeaveUpload(key string, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uploads[rand.Text()] = &upload{key: key, began: began}
}

// ServeHTTP implements http.Handler.
func (s *S3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		return // the client went away
	}
	asked := Request{Request: r, Body: body.Bytes()}
	asked.Op, asked.Key = NameS3(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	refuse := func(status int, code string) { S3Error(status, code)(w, asked, nil) }
	if status, code := s.serve(w, asked); status != 0 {
		refuse(status, code)
	}
}

// serve answers, or returns the status and the code of a refusal.
func (s *S3) serve(w http.ResponseWriter, r Request) (int, string) {
	switch r.Op {
	case "get", "head":
		return s.read(w, r)
	case "put":
		return s.put(w, r)
	case "list":
		return s.list(w, r)
	case "delete":
		return s.delete(w, r)
	case "uploads":
		return s.listUploads(w, r)
	case "begin":
		id := rand.Text()
		s.uploads[id] = &upload{key: r.Key, began: time.Now(), parts: map[int][]byte{}}
		return s.xml(w, `<InitiateMultipartUploadResult><UploadId>`+id+`</UploadId></InitiateMultipartUploadResult>`)
	case "part", "complete", "abort":
		return s.upload(w, r)
	}
	return http.StatusNotImplemented, "NotImplemented"
}

func (s *S3) xml(w http.ResponseWriter, text string) (int, string) {
	w.Header().Set("Content-Type", "application/xml")
	_, _ = w.Write([]byte(xml.Header + text)) // the client may be gone
	return 0, ""
}

func (s *S3) path(key string) string { return filepath.Join(s.root, filepath.FromSlash(key)) }

// find returns what stands at a key.
func (s *S3) find(key string) (object, bool) {
	if known, ok := s.objects[key]; ok {
		return known, true
	}
	info, err := os.Lstat(s.path(key))
	if err != nil || !info.Mode().IsRegular() {
		return object{}, false
	}
	s.objects[key] = object{etag: newETag(), size: info.Size(), modified: info.ModTime()}
	return s.objects[key], true
}

// newETag returns 32 hex digits by chance, which are no MD5 of anything.
func newETag() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // documented never to fail
	return `"` + hex.EncodeToString(raw[:]) + `"`
}

func (s *S3) read(w http.ResponseWriter, r Request) (int, string) {
	found, ok := s.find(r.Key)
	if !ok {
		return http.StatusNotFound, "NoSuchKey"
	}
	data, err := os.ReadFile(s.path(r.Key))
	if err != nil {
		s.t.Errorf("scripted S3: %v", err)
		return http.StatusInternalServerError, "InternalError"
	}
	w.Header().Set("ETag", found.etag)
	if found.checksum != "" && r.Header.Get("X-Amz-Checksum-Mode") == "ENABLED" {
		w.Header().Set("X-Amz-Checksum-Sha256", found.checksum)
		w.Header().Set("X-Amz-Checksum-Type", "FULL_OBJECT")
	}
	http.ServeContent(w, r.Request, "", found.modified, bytes.NewReader(data))
	return 0, ""
}

// condition compares If-None-Match and If-Match with what stands.
func (s *S3) condition(r Request) (int, string) {
	found, stands := s.find(r.Key)
	switch match := r.Header.Get("If-Match"); {
	case r.Header.Get("If-None-Match") == "*" && stands:
		return http.StatusPreconditionFailed, "PreconditionFailed"
	case match != "" && !stands:
		return http.StatusNotFound, "NoSuchKey"
	case match != "" && match != found.etag:
		return http.StatusPreconditionFailed, "PreconditionFailed"
	}
	return 0, ""
}

func (s *S3) put(w http.ResponseWriter, r Request) (int, string) {
	if status, code := s.condition(r); status != 0 {
		return status, code
	}
	sum := sha256.Sum256(r.Body)
	if announced := r.Header.Get("X-Amz-Content-Sha256"); announced != hex.EncodeToString(sum[:]) {
		return http.StatusBadRequest, "XAmzContentSHA256Mismatch"
	}
	checksum := r.Header.Get("X-Amz-Checksum-Sha256")
	if checksum != "" && checksum != base64.StdEncoding.EncodeToString(sum[:]) {
		return http.StatusBadRequest, "BadDigest"
	}
	return s.store(w, r, r.Body, checksum)
}

// store keeps an object and answers with its ETag.
func (s *S3) store(w http.ResponseWriter, r Request, data []byte, checksum string) (int, string) {
	if s.framed != nil && s.framed(r.Key) {
		data = fmt.Appendf(nil, "%x;chunk-signature=0\r\n%s\r\n0;chunk-signature=0\r\n\r\n", len(data), data)
	}
	staged := filepath.Join(s.staging, rand.Text())
	err := os.WriteFile(staged, data, 0o600)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(s.path(r.Key)), 0o700)
	}
	if err == nil {
		err = os.Rename(staged, s.path(r.Key))
	}
	if err != nil {
		s.t.Errorf("scripted S3: %v", err)
		return http.StatusInternalServerError, "InternalError"
	}
	s.objects[r.Key] = object{etag: newETag(), size: int64(len(data)), checksum: checksum, modified: time.Now().Truncate(time.Second)}
	w.Header().Set("ETag", s.objects[r.Key].etag)
	if checksum != "" {
		w.Header().Set("X-Amz-Checksum-Sha256", checksum)
	}
	return 0, ""
}

func (s *S3) delete(w http.ResponseWriter, r Request) (int, string) {
	if status, code := s.condition(r); status == http.StatusPreconditionFailed {
		return status, code
	}
	if err := os.Remove(s.path(r.Key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Errorf("scripted S3: %v", err)
	}
	delete(s.objects, r.Key)
	w.WriteHeader(http.StatusNoContent)
	return 0, ""
}

// keys returns all keys in byte order.
func (s *S3) keys() []string {
	var keys []string
	err := filepath.WalkDir(s.root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			relative, _ := filepath.Rel(s.root, path) // below it by construction
			keys = append(keys, filepath.ToSlash(relative))
		}
		return err
	})
	if err != nil {
		s.t.Errorf("scripted S3: %v", err)
	}
	slices.Sort(keys)
	return keys
}

type listing struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []listed
}

type listed struct {
	Key, ETag, LastModified string
	Size                    int64
}

func (s *S3) list(w http.ResponseWriter, r Request) (int, string) {
	query := r.URL.Query()
	after := max(query.Get("start-after"), query.Get("continuation-token")) // a token is the last key of its page
	var page listing
	for _, key := range s.keys() {
		if key <= after || !strings.HasPrefix(key, r.Key) {
			continue
		}
		if len(page.Contents) == s.pageSize {
			page.IsTruncated, page.NextContinuationToken = true, page.Contents[s.pageSize-1].Key
			break
		}
		found, _ := s.find(key)
		page.Contents = append(page.Contents, listed{Key: key, ETag: found.etag, Size: found.size,
			LastModified: found.modified.UTC().Format(time.RFC3339)})
	}
	return s.encode(w, page)
}

func (s *S3) encode(w http.ResponseWriter, page any) (int, string) {
	text, err := xml.Marshal(page)
	if err != nil {
		s.t.Errorf("scripted S3: %v", err)
	}
	return s.xml(w, string(text))
}

func (s *S3) upload(w http.ResponseWriter, r Request) (int, string) {
	query := r.URL.Query()
	id := query.Get("uploadId")
	u, known := s.uploads[id]
	if !known || u.key != r.Key {
		return http.StatusNotFound, "NoSuchUpload"
	}
	switch r.Op {
	case "part":
		number, err := strconv.Atoi(query.Get("partNumber"))
		if sum := sha256.Sum256(r.Body); err != nil || r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]) {
			return http.StatusBadRequest, "XAmzContentSHA256Mismatch"
		}
		u.parts[number] = r.Body
		w.Header().Set("ETag", newETag())
		return 0, ""
	case "abort":
		delete(s.uploads, id)
		w.WriteHeader(http.StatusNoContent)
		return 0, ""
	}
	if status, code := s.condition(r); status != 0 {
		return status, code
	}
	var whole []byte
	for number := 1; number <= len(u.parts); number++ {
		whole = append(whole, u.parts[number]...)
	}
	delete(s.uploads, id)
	if status, code := s.store(w, r, whole, ""); status != 0 {
		return status, code
	}
	return s.xml(w, `<CompleteMultipartUploadResult><ETag>&quot;whole&quot;</ETag></CompleteMultipartUploadResult>`)
}

type uploadListing struct {
	XMLName xml.Name `xml:"ListMultipartUploadsResult"`
	Upload  []listedUpload
}

type listedUpload struct{ Key, UploadId, Initiated string } //nolint:revive // the service's name

func (s *S3) listUploads(w http.ResponseWriter, r Request) (int, string) {
	var page uploadListing
	for id, u := range s.uploads {
		if strings.HasPrefix(u.key, r.Key) {
			page.Upload = append(page.Upload, listedUpload{Key: u.key, UploadId: id, Initiated: u.began.UTC().Format(time.RFC3339)})
		}
	}
	return s.encode(w, page)
}

package testservers_test

import (
	"crypto/md5"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
	"testing"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"
)

// gcsBucket is a bucket of the test's own, reached by uploads in one request (chunk 0) or by
// resumable ones.
type gcsBucket struct {
	*storage.BucketHandle
	chunk int // bytes
}

// object returns a handle that acts only if the conditions hold, and never twice.
func (b gcsBucket) object(key string, conditions *storage.Conditions) *storage.ObjectHandle {
	object := b.Object(key).Retryer(storage.WithPolicy(storage.RetryNever))
	if conditions != nil {
		object = object.If(*conditions)
	}
	return object
}

// put stores body if the conditions hold, with whatever change makes of the writer. It returns
// the new generation and the HTTP status.
func (b gcsBucket) put(t *testing.T, key, body string, conditions *storage.Conditions, change func(*storage.Writer)) (int64, int) {
	t.Helper()
	writer := b.object(key, conditions).NewWriter(t.Context())
	writer.ChunkSize = b.chunk
	if change != nil {
		change(writer)
	}
	_, err := io.WriteString(writer, body)
	if err := errors.Join(err, writer.Close()); err != nil {
		return 0, gcsStatus(t, err)
	}
	return writer.Attrs().Generation, http.StatusOK
}

// get returns the object's bytes; nothing when there is none.
func (b gcsBucket) get(t *testing.T, key string) string {
	t.Helper()
	reader, err := b.object(key, nil).NewReader(t.Context())
	if errors.Is(err, storage.ErrObjectNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(reader)
	if err := errors.Join(err, reader.Close()); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// gcsStatus is the HTTP status behind an error of the GCS SDK.
func gcsStatus(t *testing.T, err error) int {
	t.Helper()
	response, ok := errors.AsType[*googleapi.Error](err)
	if !ok {
		t.Errorf("no answer: %v", err)
		return 0
	}
	return response.Code
}

// TestFakeGCS proves what doc.go claims of fake-gcs-server.
func TestFakeGCS(t *testing.T) {
	server := servers.FakeGCS(t)
	client, err := server.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, chunk := range map[string]int{"one request": 0, "resumable": 256 << 10} {
		t.Run(name, func(t *testing.T) {
			bucket := gcsBucket{client.Bucket(server.NewBucket(t)), chunk}
			t.Run("create", bucket.create)
			t.Run("swap", bucket.swap)
			t.Run("delete", bucket.unconditionalDelete)
			t.Run("checksums", bucket.checksums)
		})
	}
}

func (b gcsBucket) create(t *testing.T) {
	condition := &storage.Conditions{DoesNotExist: true}
	winner := race(t, func(writer int) int {
		_, status := b.put(t, "create", racerBody(writer), condition, nil)
		return status
	})
	if got := b.get(t, "create"); got != racerBody(winner) {
		t.Errorf("holds %.10q..., want the winner's bytes", got)
	}
	if _, status := b.put(t, "create", "late", condition, nil); status != http.StatusPreconditionFailed {
		t.Errorf("create over an object: status %d, want 412", status)
	}
}

func (b gcsBucket) swap(t *testing.T) {
	generation, _ := b.put(t, "swap", "the old bytes", nil, nil)
	condition := &storage.Conditions{GenerationMatch: generation}
	winner := race(t, func(writer int) int {
		_, status := b.put(t, "swap", racerBody(writer), condition, nil)
		return status
	})
	if got := b.get(t, "swap"); got != racerBody(winner) {
		t.Errorf("holds %.10q..., want the winner's bytes", got)
	}
	for _, key := range []string{"swap", "nothing"} {
		if _, status := b.put(t, key, "late", condition, nil); status != http.StatusPreconditionFailed {
			t.Errorf("swap of %s with a stale generation: status %d, want 412", key, status)
		}
	}
}

// unconditionalDelete pins down where this server differs from the real one, so that an upgrade
// that mends it is noticed.
func (b gcsBucket) unconditionalDelete(t *testing.T) {
	stale, _ := b.put(t, "delete", "first", nil, nil)
	b.put(t, "delete", "second", nil, nil)
	if err := b.object("delete", &storage.Conditions{GenerationMatch: stale}).Delete(t.Context()); err != nil {
		t.Errorf("delete with a stale generation: %v; it is honoured now, correct doc.go", err)
	}
	if got := b.get(t, "delete"); got != "" {
		t.Errorf("holds %q after the delete", got)
	}
}

func (b gcsBucket) checksums(t *testing.T) {
	const body = "the bytes that came"
	table := crc32.MakeTable(crc32.Castagnoli)
	for name, change := range map[string]func(*storage.Writer){
		"crc32c": func(w *storage.Writer) { w.SendCRC32C, w.CRC32C = true, crc32.Checksum([]byte("other"), table) },
		"md5": func(w *storage.Writer) {
			sum := md5.Sum([]byte("other"))
			w.MD5 = sum[:]
		},
	} {
		if _, status := b.put(t, name, body, nil, change); status != http.StatusBadRequest {
			t.Errorf("wrong %s: status %d, want 400", name, status)
		}
		if got := b.get(t, name); got != "" {
			t.Errorf("wrong %s: bytes stored: %q", name, got)
		}
	}
	b.put(t, "right", body, nil, nil)
	attributes, err := b.object("right", nil).Attrs(t.Context())
	if err != nil || attributes.CRC32C != crc32.Checksum([]byte(body), table) {
		t.Errorf("told attributes %+v (%v), want the CRC32C of the bytes", attributes, err)
	}
}

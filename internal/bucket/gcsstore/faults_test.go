package gcsstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest/storescript"
	"feedmirror/internal/bucket/gcsstore"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// part is the least that a session takes at a time, bytes.
const part = 256 << 10

func newFaulty(t *testing.T) *faulty {
	t.Helper()
	front := storescript.NewFront(newFront(t, "http://"+servers.FakeGCS(t).Host).Config.Handler, storescript.NameGCS)
	address, name := storescript.Start(t, front), servers.FakeGCS(t).NewBucket(t)
	f := &faulty{Front: front, open: func(counts *bucket.Counts) bucket.Store {
		return openAt(t, address, gcsstore.Options{Bucket: name, PartSize: part, Counts: counts})
	}}
	f.bare = f.open(nil)
	f.Store = bucket.WithRetry(f.bare, bucket.Policy{Sleep: func(context.Context, time.Duration) error { return nil }})
	return f
}

func storeFaults() []storeFault {
	gcs, after := storescript.GCSError, storescript.After
	const always, once, twice = 0, 1, 2
	paced := func(status int, reason string) []storescript.Rule {
		first := true // by the number of requests: the clock of a busy machine would not tell
		return []storescript.Rule{{Ops: "put", When: func(storescript.Request) bool { first = !first; return first }, Do: gcs(status, reason)}}
	}
	return []storeFault{
		{"put: 429 for the key, once", met("put", once, gcs(429, "rateLimitExceeded")), createOf(whole), "", ""},
		{"put: stored, answered 429", met("put", once, after(gcs(429, "rateLimitExceeded"))), createOf(whole), "", ""},
		{"swap: 429 for every second write", paced(429, "rateLimitExceeded"), swaps, "", ""},
		{"swap: 403 that means how often", paced(403, "rateLimitExceeded"), swaps, "", ""},
		{"put: 403 that means how often, once", met("put", once, gcs(403, "userRateLimitExceeded")), createOf(whole), "", ""},
		{"put: denied", met("put", always, gcs(403, "forbidden")), createOf(whole), fault.Denied, "storage.objects.create"},
		{"put: stored, answered 503", met("put", once, after(gcs(503, "backendError"))), createOf(whole), "", ""},
		{"put: stored, the connection closed", met("put", once, after(storescript.HangUp())), createOf(whole), "", ""},
		{"put: stored, an empty answer", met("put", once, after(storescript.Text("{}"))), createOf(whole), "", ""},
		{"put: HTML with 200", met("put", once, storescript.Page(200)), createOf(whole), "", ""},
		{"put: HTML with 502, always", met("put", always, storescript.Page(502)), createOf(whole), fault.Transient, "502"},
		{"put: 412", met("put", once, gcs(412, "conditionNotMet")), createOf(whole), fault.Exists, ""},
		{"put: no such bucket", met("put", always, gcs(404, "notFound")), createOf(whole), fault.BucketUnfit, "Create the bucket"},
		{"swap: stored, answered 503", met("put", once, after(gcs(503, "backendError"))), swaps, "", ""},
		{"swap: stored, the connection closed", met("put", twice, after(storescript.HangUp())), swaps, "", ""},
		{"swap: an empty answer", met("put", once, storescript.Text("{}")), swaps, "", ""},
		{"swap: HTML with 200, always", met("put", always, storescript.Page(200)), swaps, fault.Transient, "cannot be read"},
		{"session: 503 to its begin", met("begin", once, gcs(503, "backendError")), createOf(inParts), "", ""},
		{"session: gone in the middle", []storescript.Rule{{Ops: "chunk", Skip: 1, Most: once, Do: gcs(410, "gone")}}, createOf(inParts), fault.Unsupported, ""},
		{"session: denied", met("begin", always, gcs(403, "forbidden")), createOf(inParts), fault.Denied, "storage.objects.create"},
		{"stat: 403 for what is missing", met("stat", always, gcs(403, "forbidden")), stats, fault.Denied, "storage.objects"},
		{"stat: 503, twice", met("stat", twice, gcs(503, "backendError")), stats, fault.NotFound, ""},
		{"stat: closed before headers", met("stat", twice, storescript.HangUp()), stats, fault.NotFound, ""},
		{"get: 503, twice", met("get", twice, gcs(503, "backendError")), reads, "", ""},
		{"get: HTML with 200, once", met("get", once, storescript.Page(200)), reads, "", ""},
		{"get: 304", met("get", once, gcs(304, "notModified")), reads, fault.Unsupported, ""},
		{"list: 503, twice", met("list", twice, gcs(503, "backendError")), lists, "", ""},
		{"list: HTML with 200, always", met("list", always, storescript.Page(200)), lists, fault.Transient, "cannot be read"},
		{"list: a page that names itself", met("list", always, storescript.Text(`{"nextPageToken":"t"}`)), lists, fault.Malformed, "names itself"},
		{"list: a page again", met("list", always, pagesAgain()), lists, fault.Malformed, "out of order"},
		{"list: out of order", met("list", always, storescript.Text(`{"items":[{"name":"b"},{"name":"a"}]}`)), lists, fault.Malformed, "out of order"},
		{"list: denied", met("list", always, gcs(403, "forbidden")), lists, fault.Denied, "storage.objects"},
		{"delete: denied", met("delete", always, gcs(403, "forbidden")), deletes, fault.Denied, "storage.objects"},
		{"delete: done, answered 503", met("delete", once, after(gcs(503, "backendError"))), deletes, "", ""},
	}
}

// pagesAgain answers with the same page under new tokens.
func pagesAgain() storescript.Action {
	n := 0
	return func(w http.ResponseWriter, r storescript.Request, _ http.Handler) {
		n++
		storescript.Text(fmt.Sprintf(`{"nextPageToken":"%d","items":[{"name":"a"}]}`, n))(w, r, nil)
	}
}

// faulty is a bucket behind a front that a test gives rules.
type faulty struct {
	*storescript.Front
	bucket.Store
	bare bucket.Store // without the layer that repeats
	open func(*bucket.Counts) bucket.Store
}

func createOf(n int) func(*faulty) error {
	return func(f *faulty) error {
		data := bytesOf(n)
		info, err := f.Create(context.Background(), "k", content(data, bucket.Data))
		if err != nil {
			return err
		}
		f.Set() // what stands is looked at without the fault
		if _, same, err := bucket.Holds(context.Background(), f.bare, "k", int64(n), manifest.SumBytes(data)); err != nil || !same {
			return fmt.Errorf("told as created, and other bytes stand there: %+v, %w", info, err)
		}
		return nil
	}
}

// swaps replaces a document as the rule of conditional writes says: after anything but success it
// reads what stands.
func swaps(f *faulty) error {
	ctx := context.Background()
	for n := range 3 {
		want := fmt.Appendf(nil, `{"n":%d}`, n)
		var last error
		for try := 0; ; try++ {
			stands, info, err := bucket.ReadAll(ctx, f, "doc.json", 100)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			if bytes.Equal(stands, want) {
				break
			}
			if try == 5 {
				return last
			}
			tag, err := f.Swap(ctx, "doc.json", info.Tag, want)
			if err == nil && tag == bucket.Absent {
				return errors.New("told as swapped, without a tag")
			}
			last = err
		}
	}
	return nil
}

func stats(f *faulty) error {
	_, err := f.Stat(context.Background(), "k")
	return err
}

func reads(f *faulty) error {
	if err := create(context.Background(), f.bare, "r", bytesOf(whole)); err != nil && !fault.Is(err, fault.Exists) {
		return nil // the fault is met elsewhere
	}
	data, _, err := bucket.ReadAll(context.Background(), f, "r", 1000)
	if err == nil && !bytes.Equal(data, bytesOf(whole)) {
		return errors.New("other bytes were read")
	}
	return err
}

func lists(f *faulty) error {
	for _, err := range f.List(context.Background(), "", "") {
		if err != nil {
			return err
		}
	}
	return nil
}

func deletes(f *faulty) error {
	tag, err := f.bare.Swap(context.Background(), "gone.json", bucket.Absent, []byte("{}"))
	if err != nil {
		return err
	}
	return f.Delete(context.Background(), "gone.json", tag)
}

// The sizes of an object that goes in one piece and of one that goes in parts.
const (
	whole   = 100
	inParts = 3 * part
)

// storeFault is one fault of the service, and what must become of a request that meets it.
type storeFault struct {
	name  string
	rules []storescript.Rule
	do    func(*faulty) error
	want  fault.Kind // empty: it must succeed
	says  string     // in the error or its hint
}

func met(ops string, most int, do storescript.Action) []storescript.Rule {
	return []storescript.Rule{{Ops: ops, Most: most, Do: do}}
}

// TestServiceFaults meets faults of the service with the adapter and the layer that repeats.
func TestServiceFaults(t *testing.T) {
	tally := evidence.Count(t, "gcs-faults")
	for _, c := range storeFaults() {
		t.Run(c.name, func(t *testing.T) {
			f := newFaulty(t)
			f.Set(c.rules...)
			err := c.do(f)
			if fault.KindOf(err) != c.want || (err == nil) != (c.want == "") {
				t.Fatalf("got %v (%s), want %q", err, fault.KindOf(err), c.want)
			}
			if err != nil && !strings.Contains(err.Error()+fault.HintOf(err), c.says) {
				t.Errorf("%v (hint %q) does not say %q", err, fault.HintOf(err), c.says)
			}
			if err != nil && (strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%q shows an address or has many lines", err)
			}
			tally.Add(1)
		})
	}
}

// TestPagesAreCounted: each page of a listing is a request.
func TestPagesAreCounted(t *testing.T) {
	counts := &bucket.Counts{}
	f := newFaulty(t)
	f.Set(storescript.Rule{Ops: "list", Most: 1, Do: storescript.Text(`{"nextPageToken":"1","items":[{"name":"a"},{"name":"b"}]}`)}, storescript.Rule{Ops: "list", Most: 1, Do: storescript.Text(`{"nextPageToken":"2"}`)},
		storescript.Rule{Ops: "list", Do: storescript.Text(`{"items":[{"name":"c"}]}`)})
	keys := ""
	for info, err := range bucket.WithCounts(f.open(counts), counts).List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		keys += info.Key
	}
	if keys != "abc" || counts.List.Load() != 3 {
		t.Errorf("keys %s in %d requests", keys, counts.List.Load())
	}
}

package azurestore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/azurestore"
	"feedmirror/internal/bucket/buckettest/storescript"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// part is the size of a block, bytes.
const part = 1 << 10

func newFaulty(t *testing.T) *faulty {
	t.Helper()
	azurite := servers.Azurite(t)
	base, account := azurite.Endpoint[:strings.LastIndex(azurite.Endpoint, "/")], azurite.Endpoint[strings.LastIndex(azurite.Endpoint, "/"):]
	front := storescript.NewFront(storescript.Proxy(t, base), storescript.NameAzure)
	endpoint, name := storescript.Start(t, front)+account, azurite.NewContainer(t)
	policy := bucket.Policy{Sleep: func(context.Context, time.Duration) error { return nil }}
	f := &faulty{Front: front, open: func(counts *bucket.Counts) bucket.Store {
		return openStore(t, azurestore.Options{Container: name, Endpoint: endpoint, PartSize: part, Retry: policy, Counts: counts})
	}}
	f.bare = f.open(nil)
	f.Store = bucket.WithRetry(f.bare, policy)
	return f
}

func storeFaults() []storeFault {
	azure, after := storescript.AzureError, storescript.After
	const always, once, twice = 0, 1, 2
	return []storeFault{
		{"put: 503 ServerBusy, twice", met("put", twice, azure(503, "ServerBusy")), createOf(whole), "", ""},
		{"put: 429, once", met("put", once, azure(429, "TooManyRequests")), createOf(whole), "", ""},
		{"put: stored, answered 500", met("put", once, after(azure(500, "OperationTimedOut"))), createOf(whole), "", ""},
		{"put: stored, the connection closed", met("put", once, after(storescript.HangUp())), createOf(whole), "", ""},
		{"put: denied", met("put", always, azure(403, "AuthorizationPermissionMismatch")), createOf(whole), fault.Denied, "Contributor"},
		{"put: the token expired", met("put", always, azure(403, "AuthenticationFailed")), createOf(whole), fault.Denied, "Contributor"},
		{"put: HTML with 200", met("put", always, storescript.Page(200)), createOf(whole), fault.Unsupported, ""},
		{"put: HTML with 201", met("put", once, storescript.Page(201)), createOf(whole), "", ""},
		{"put: HTML with 502, always", met("put", always, storescript.Page(502)), createOf(whole), fault.Transient, "502"},
		{"put: no such container", met("put", always, azure(404, "ContainerNotFound")), createOf(whole), fault.BucketUnfit, "Create the container"},
		{"block: stored, answered 503", met("block", once, after(azure(503, "ServerBusy"))), createOf(inParts), "", ""},
		{"block: 503, always", met("block", always, azure(503, "ServerBusy")), createOf(inParts), fault.Transient, "ServerBusy"},
		{"block: closed before headers", met("block", twice, storescript.HangUp()), createOf(inParts), "", ""},
		{"commit: stored, answered 503", met("commit", once, after(azure(503, "ServerBusy"))), createOf(inParts), "", ""},
		{"commit: stored, the connection closed", met("commit", once, after(storescript.HangUp())), createOf(inParts), "", ""},
		{"commit: HTML with 201", met("commit", once, storescript.Page(201)), createOf(inParts), "", ""},
		{"commit: blocks lost, once", met("commit", once, azure(400, "InvalidBlockList")), createOf(inParts), "", ""},
		{"swap: stored, answered 503", met("put", once, after(azure(503, "ServerBusy"))), swaps, "", ""},
		{"swap: stored, the connection closed", met("put", twice, after(storescript.HangUp())), swaps, "", ""},
		{"swap: HTML with 201, once", met("put", once, storescript.Page(201)), swaps, "", ""},
		{"swap: 412 for ever", met("put", always, azure(412, "ConditionNotMet")), swaps, fault.Conflict, "ConditionNotMet"},
		{"swap: immutable", met("put", always, azure(409, "BlobImmutableDueToPolicy")), swaps, fault.Denied, "immutability"},
		{"stat: 403 for what is missing", met("head", always, azure(403, "AuthorizationPermissionMismatch")), stats, fault.Denied, "Contributor"},
		{"stat: 304", met("head", once, azure(304, "")), stats, fault.Unsupported, ""},
		{"stat: 503, twice", met("head", twice, azure(503, "ServerBusy")), stats, fault.NotFound, ""},
		{"stat: closed before headers", met("head", twice, storescript.HangUp()), stats, fault.NotFound, ""},
		{"get: 503, twice", met("get", twice, azure(503, "ServerBusy")), reads, "", ""},
		{"get: closed before headers", met("get", twice, storescript.HangUp()), reads, "", ""},
		{"list: 503, twice", met("list", twice, azure(503, "ServerBusy")), lists, "", ""},
		{"list: HTML with 200, always", met("list", always, storescript.Page(200)), lists, fault.Transient, "cannot be read"},
		{"list: empty", met("list", always, storescript.Text("<EnumerationResults></EnumerationResults>")), lists, fault.Transient, "no list"},
		{"list: a page that names itself", met("list", always, storescript.Text(`<EnumerationResults><Blobs></Blobs><NextMarker>t</NextMarker></EnumerationResults>`)), lists, fault.Malformed, "names itself"},
		{"list: out of order", met("list", always, storescript.Text(`<EnumerationResults><Blobs><Blob><Name>b</Name><Properties><Content-Length>1</Content-Length></Properties></Blob><Blob><Name>a</Name><Properties><Content-Length>1</Content-Length></Properties></Blob></Blobs><NextMarker></NextMarker></EnumerationResults>`)), lists, fault.BucketUnfit, "order"},
		{"delete: denied", met("delete", always, azure(403, "AuthorizationPermissionMismatch")), deletes, fault.Denied, "Contributor"},
		{"delete: done, answered 503", met("delete", once, after(azure(503, "ServerBusy"))), deletes, "", ""},
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
	tally := evidence.Count(t, "azure-faults")
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
	f.Set(storescript.Rule{Ops: "list", Most: 1, Do: storescript.Text(`<EnumerationResults><Blobs><Blob><Name>a</Name><Properties><Content-Length>1</Content-Length></Properties></Blob><Blob><Name>b</Name><Properties><Content-Length>1</Content-Length></Properties></Blob></Blobs><NextMarker>1</NextMarker></EnumerationResults>`)}, storescript.Rule{Ops: "list", Most: 1, Do: storescript.Text(`<EnumerationResults><Blobs></Blobs><NextMarker>2</NextMarker></EnumerationResults>`)},
		storescript.Rule{Ops: "list", Do: storescript.Text(`<EnumerationResults><Blobs><Blob><Name>c</Name><Properties><Content-Length>1</Content-Length></Properties></Blob></Blobs><NextMarker></NextMarker></EnumerationResults>`)})
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

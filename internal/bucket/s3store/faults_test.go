package s3store_test

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // what the service wants
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest/storescript"
	"feedmirror/internal/bucket/s3store"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
)

// faulty is a bucket behind a front that a test gives rules.
type faulty struct {
	*storescript.Front
	service *storescript.S3
	bucket.Store
	bare bucket.Store // without the layer that repeats
	dir  string
}

func newFaulty(t *testing.T, change func(*s3store.Options)) *faulty {
	t.Helper()
	f := &faulty{dir: t.TempDir()}
	f.service = storescript.NewS3(t, f.dir)
	f.Front = storescript.NewFront(f.service, storescript.NameS3)
	policy := bucket.Policy{Sleep: func(context.Context, time.Duration) error { return nil }}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	options := s3store.Options{
		Bucket: "b", Endpoint: storescript.Start(t, f.Front), Region: "eu-central-1", Retry: policy,
		HTTPClient: &http.Client{Transport: transport}, Credentials: storescript.Keys(), MaxSinglePut: 1 << 10, PartSize: 1 << 10,
	}
	if change != nil {
		change(&options)
	}
	f.bare = open(t, options)
	f.Store = bucket.WithRetry(f.bare, policy)
	return f
}

func (f *faulty) stands(key string) []byte {
	data, err := os.ReadFile(filepath.Join(f.dir, filepath.FromSlash(key)))
	if err != nil {
		return nil
	}
	return data
}

// The sizes of an object that goes in one piece and of one that goes in parts.
const (
	whole   = 100
	inParts = 3000
)

func createOf(n int) func(*faulty) error {
	return func(f *faulty) error {
		data := bytesOf(n)
		again := content(data)
		again.Body = bytes.NewReader(data)
		_, err := f.Create(context.Background(), "k", again)
		if stands := f.stands("k"); err == nil && !bytes.Equal(stands, data) {
			return fmt.Errorf("told as created, and %d other bytes stand there", len(stands))
		}
		return err
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
			if err == nil && (tag == bucket.Absent || !bytes.Equal(f.stands("doc.json"), want)) {
				return fmt.Errorf("told as swapped with tag %q, and %q stands there", tag, f.stands("doc.json"))
			}
			last = err
		}
	}
	return nil
}

func stats(f *faulty) error {
	if err := createOf(whole)(f); err != nil {
		return err
	}
	_, err := f.Stat(context.Background(), "k")
	return err
}

func reads(f *faulty) error {
	if err := createOf(whole)(f); err != nil {
		return err
	}
	data, _, err := bucket.ReadAll(context.Background(), f, "k", 1000)
	if err == nil && !bytes.Equal(data, bytesOf(whole)) {
		return fmt.Errorf("other bytes were read")
	}
	return err
}

// lists wants the keys of ten objects, in pages of three.
func lists(f *faulty) error {
	f.service.SetPageSize(3)
	for n := range 10 {
		name := filepath.Join(f.dir, fmt.Sprintf("k%d", n))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			return err
		}
	}
	keys := ""
	for info, err := range f.List(context.Background(), "k", "") {
		if err != nil {
			return err
		}
		keys += info.Key
	}
	if keys != "k0k1k2k3k4k5k6k7k8k9" {
		return fmt.Errorf("told as whole, with %s", keys)
	}
	return nil
}

func deletes(f *faulty) error {
	if err := createOf(whole)(f); err != nil {
		return err
	}
	info, err := f.Stat(context.Background(), "k")
	if err != nil {
		return err
	}
	if err := f.Delete(context.Background(), "k", info.Tag); err != nil {
		return err
	}
	if f.stands("k") != nil {
		return fmt.Errorf("told as deleted, and it stands")
	}
	return nil
}

func replacing(old, by string) storescript.Action {
	return storescript.Changed(func(_ storescript.Request, _ http.Header, body []byte) []byte {
		return bytes.ReplaceAll(body, []byte(old), []byte(by))
	})
}

func unsummed(r storescript.Request) bool {
	for name := range r.Header {
		if strings.HasPrefix(strings.ToLower(name), "x-amz-checksum-") {
			return false
		}
	}
	sum := md5.Sum(r.Body) //nolint:gosec // see the import
	return r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(sum[:])
}

// storeFault is one fault of a service, and what must become of a request that meets it.
type storeFault struct {
	name  string
	rules []storescript.Rule
	do    func(*faulty) error
	want  fault.Kind // empty: it must succeed
	says  string     // in the error or its hint
	never bool       // the rules are not to be met
}

func storeFaults() []storeFault {
	s3 := storescript.S3Error
	always, once, twice := 0, 1, 2
	rule := func(ops string, most int, do storescript.Action) []storescript.Rule {
		return []storescript.Rule{{Ops: ops, Most: most, Do: do}}
	}
	clock := time.Now
	return []storeFault{
		{"put: 200 with an error inside, once", rule("put", once, s3(200, "InternalError")), createOf(whole), "", "", false},
		{"put: 200 with an error inside, stored", rule("put", once, storescript.After(s3(200, "InternalError"))), createOf(whole), "", "", false},
		{"put: 200 with an error inside, for ever", rule("put", always, s3(200, "InternalError")), createOf(whole), fault.Transient, "InternalError", false},
		{"swap: 200 with an error inside, once", rule("put", once, s3(200, "InternalError")), swaps, "", "", false},
		{"swap: 200 with an error inside, stored", rule("put", once, storescript.After(s3(200, "InternalError"))), swaps, "", "", false},
		{"swap: 200 with an error inside, for ever", rule("put", always, s3(200, "InternalError")), swaps, fault.Transient, "InternalError", false},
		{"swap: 200 without an ETag, stored", rule("put", once, storescript.After(storescript.Text(""))), swaps, "", "", false},
		{"put: 200 without an ETag, stored", rule("put", once, storescript.After(storescript.Text(""))), createOf(whole), "", "", false},
		{"complete: 200 with an error inside, once", rule("complete", once, s3(200, "InternalError")), createOf(inParts), "", "", false},
		{"complete: 200 with an error inside, stored", rule("complete", once, storescript.After(s3(200, "InternalError"))), createOf(inParts), "", "", false},
		{"complete: 200 with an error inside, for ever", rule("complete", always, s3(200, "InternalError")), createOf(inParts), fault.Transient, "InternalError", false},
		{"put: stored, answered 503", rule("put", once, storescript.After(s3(503, "ServiceUnavailable"))), createOf(whole), "", "", false},
		{"put: stored, the connection closed", rule("put", once, storescript.After(storescript.HangUp())), createOf(whole), "", "", false},
		{"swap: stored, answered 503", rule("put", once, storescript.After(s3(503, "SlowDown"))), swaps, "", "", false},
		{"swap: stored, the connection closed", rule("put", twice, storescript.After(storescript.HangUp())), swaps, "", "", false},
		{"part: stored, answered 503", rule("part", once, storescript.After(s3(503, "SlowDown"))), createOf(inParts), "", "", false},
		{"complete: stored, answered 503, then NoSuchUpload", rule("complete", once, storescript.After(s3(503, "SlowDown"))), createOf(inParts), "", "", false},
		{"delete: done, answered 503", rule("delete", once, storescript.After(s3(503, "SlowDown"))), deletes, "", "", false},
		{"complete: NoSuchUpload, once", rule("complete", once, s3(404, "NoSuchUpload")), createOf(inParts), "", "", false},
		{"complete: NoSuchUpload, for ever", rule("complete", always, s3(404, "NoSuchUpload")), createOf(inParts), fault.Contended, "NoSuchUpload", false},
		{"complete: 409, twice", rule("complete", twice, s3(409, "ConditionalRequestConflict")), createOf(inParts), "", "", false},
		{"put: 409, twice", rule("put", twice, s3(409, "ConditionalRequestConflict")), createOf(whole), "", "", false},
		{"put: 409, for ever", rule("put", always, s3(409, "ConditionalRequestConflict")), createOf(whole), fault.Contended, "ConditionalRequestConflict", false},
		{"swap: 409, twice", rule("put", twice, s3(409, "ConditionalRequestConflict")), swaps, "", "", false},
		{"put: 304 instead of 412", rule("put", once, s3(304, "")), createOf(whole), fault.Exists, "", false},
		{"delete denied", rule("delete", always, s3(403, "AccessDenied")), deletes, fault.Denied, "s3:DeleteObject", false},
		{"abort denied", []storescript.Rule{{Ops: "abort", Do: s3(403, "AccessDenied")}, {Ops: "part", Do: s3(500, "InternalError")}}, createOf(inParts), fault.Transient, "stays open", false},
		{"ACL refused", []storescript.Rule{{When: func(r storescript.Request) bool {
			return r.Header.Get("X-Amz-Acl") != "" || r.Header.Get("X-Amz-Grant-Read") != ""
		}, Do: s3(400, "AccessControlListNotSupported")}}, createOf(inParts), "", "", true},
		{"put without a checksum refused", []storescript.Rule{{Ops: "put", When: unsummed, Do: s3(400, "InvalidRequest")}}, createOf(whole), "", "", true},
		{"part without a checksum refused", []storescript.Rule{{Ops: "part", When: unsummed, Do: s3(400, "InvalidRequest")}}, createOf(inParts), "", "", true},
		{"part without a checksum refused, CRC64NVME unknown", []storescript.Rule{{Ops: "part", When: unsummed, Do: s3(400, "InvalidRequest")},
			{Ops: "begin", When: func(r storescript.Request) bool { return r.Header.Get("X-Amz-Checksum-Algorithm") != "" }, Do: s3(400, "InvalidRequest")}},
			createOf(inParts), "", "", false},
		{"403 for a missing key", []storescript.Rule{{Ops: "head get", Do: s3(403, "AccessDenied")}}, stats, fault.Denied, "s3:ListBucket", false},
		{"429 for a second write within a second", []storescript.Rule{{Ops: "put", When: storescript.OneWriteASecond(clock), Do: s3(429, "TooManyRequests")}}, swaps, fault.Transient, "", false},
		{"301 with a code", rule("get", always, s3(301, "PermanentRedirect")), reads, fault.BucketUnfit, "region", false},
		{"301 without a body", rule("head", always, s3(301, "")), stats, fault.BucketUnfit, "region", false},
		{"307 to another host", rule("get", always, redirect), reads, fault.BucketUnfit, "region", false},
		{"HTML with 502, once", rule("", once, storescript.Page(502)), createOf(whole), "", "", false},
		{"HTML with 503, for ever", rule("put", always, storescript.Page(503)), createOf(whole), fault.Transient, "503", false},
		{"HTML with 403", rule("put", always, storescript.Page(403)), createOf(whole), fault.Denied, "s3:PutObject", false},
		{"HTML with 200 to a put", rule("put", always, storescript.Page(200)), createOf(whole), fault.Transient, "ETag", false},
		{"HTML with 200 to a part, once", rule("part", once, storescript.Page(200)), createOf(inParts), "", "", false},
		{"HTML with 200 to complete, once", rule("complete", once, storescript.Page(200)), createOf(inParts), "", "", false},
		{"HTML with 200 to a list", rule("list", always, storescript.Page(200)), lists, fault.Transient, "cannot be read", false},
		{"HTML with 200 to a begin", rule("begin", always, storescript.Page(200)), createOf(inParts), fault.Transient, "cannot be read", false},
		{"HTML with 200 to a head, once", rule("head", once, storescript.Page(200)), stats, "", "", false},
		{"HTML with 200 to a head, always", rule("head", always, storescript.Page(200)), stats, fault.Transient, "ETag", false},
		{"HTML with 200 to a get, once", rule("get", once, storescript.Page(200)), reads, "", "", false},
		{"HTML with 200 to a get, always", rule("get", always, storescript.Page(200)), reads, fault.Transient, "ETag", false},
		{"closed before headers, put", rule("put", twice, storescript.HangUp()), createOf(whole), "", "", false},
		{"closed before headers, part", rule("part", twice, storescript.HangUp()), createOf(inParts), "", "", false},
		{"closed before headers, list", []storescript.Rule{{Ops: "list", Skip: 1, Most: 2, Do: storescript.HangUp()}}, lists, "", "", false},
		{"closed before headers, get", rule("get", twice, storescript.HangUp()), reads, "", "", false},
		{"head: 503 without a body", rule("head", twice, s3(503, "")), stats, "", "", false},
		{"head: 403 without a body", rule("head", always, s3(403, "")), stats, fault.Denied, "s3:ListBucket", false},
		{"list: a page again", rule("list", always, repeatPage()), lists, fault.Malformed, "complete", false},
		{"list: truncated without a token", rule("list", always, replacing("NextContinuationToken", "Next")), lists, fault.Malformed, "token", false},
		{"list: the same token for ever", rule("list", always, storescript.Text(`<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken></ListBucketResult>`)), lists, fault.Malformed, "token", false},
		{"list: out of order", rule("list", always, replacing("<Key>k1<", "<Key>k8<")), lists, fault.Malformed, "after", false},
		{"list: cut in the middle, once", rule("list", once, storescript.Changed(func(_ storescript.Request, _ http.Header, body []byte) []byte { return body[:len(body)/2] })), lists, "", "", false},
	}
}

func redirect(w http.ResponseWriter, r storescript.Request, _ http.Handler) {
	http.Redirect(w, r.Request, "http://127.0.0.1:1/elsewhere", http.StatusTemporaryRedirect)
}

// repeatPage answers every request for a page with the first one, under a new token.
func repeatPage() storescript.Action {
	n := 0
	return func(w http.ResponseWriter, r storescript.Request, _ http.Handler) {
		n++
		storescript.Text(fmt.Sprintf(`<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>`+
			`<Contents><Key>k0</Key><Size>0</Size></Contents></ListBucketResult>`, n))(w, r, nil)
	}
}

// TestServiceFaults meets every fault of a service with the adapter and the layer that repeats.
func TestServiceFaults(t *testing.T) {
	tally := evidence.Count(t, "s3-faults")
	for _, c := range storeFaults() {
		t.Run(c.name, func(t *testing.T) {
			f := newFaulty(t, nil)
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
			if (f.Met() > 0) == c.never {
				t.Errorf("the rules were met %d times", f.Met())
			}
			if open := f.service.OpenUploads(); len(open) > 0 && c.name != "abort denied" {
				t.Errorf("uploads stay open: %q", open)
			}
			f.Set() // the fault is over: what was to be done can be done
			if err := c.do(f); err != nil && !fault.Is(err, fault.Exists) {
				t.Errorf("after the fault: %v", err)
			}
			tally.Add(1)
		})
	}
}

// credentialsFile points the default chain at a file, and returns what writes keys into it.
func credentialsFile(t *testing.T) func(key string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "credentials")
	for variable, value := range map[string]string{"AWS_SHARED_CREDENTIALS_FILE": name, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
		"AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_CONFIG_FILE": name + "-none", "AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(variable, value)
	}
	return func(key string) {
		text := "[default]\naws_access_key_id = " + key + "\naws_secret_access_key = not-a-secret-of-anyone\naws_session_token = token-of-" + key + "\n"
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCredentialsRotate: keys that expire in mid-run are read anew; keys that stay wrong end it soon.
func TestCredentialsRotate(t *testing.T) {
	tally := evidence.Count(t, "s3-faults")
	expired := func(r storescript.Request) bool {
		return !strings.Contains(r.Header.Get("Authorization"), "Credential=second/")
	}
	for name, do := range map[string]func(*faulty) error{
		"create": createOf(whole), "create in parts": createOf(inParts), "swap": swaps, "read": reads, "list": lists, "stat": stats, "delete": deletes,
	} {
		for _, code := range []string{"ExpiredToken", "InvalidAccessKeyId"} {
			t.Run(name+" "+code, func(t *testing.T) {
				write := credentialsFile(t)
				write("first")
				f := newFaulty(t, func(o *s3store.Options) { o.Credentials = nil })
				if _, err := f.Stat(t.Context(), "nothing"); !fault.Is(err, fault.NotFound) {
					t.Fatal(err)
				}
				f.Set(storescript.Rule{When: expired, Do: storescript.S3Error(400, code)})
				if err := do(f); !fault.Is(err, fault.Denied) || !strings.Contains(fault.HintOf(err), "credentials") || f.Met() > 2 {
					t.Errorf("keys that stay wrong: %v (%s), after %d requests", err, fault.KindOf(err), f.Met())
				}
				write("second")
				if err := do(f); err != nil {
					t.Errorf("keys were renewed: %v", err)
				}
				tally.Add(2)
			})
		}
	}
}

// TestClocksThatDiffer: the service's own time is taken over from its first refusal.
func TestClocksThatDiffer(t *testing.T) {
	tally := evidence.Count(t, "s3-faults")
	for name, do := range map[string]func(*faulty) error{"create": createOf(whole), "create in parts": createOf(inParts), "swap": swaps, "read": reads, "list": lists, "stat": stats} {
		for told, date := range map[string]bool{"and tells": true, "and does not tell": false} {
			t.Run(name+" "+told, func(t *testing.T) {
				f := newFaulty(t, nil)
				behind := time.Now().Add(-40 * time.Minute)
				refuse := storescript.S3Error(403, "RequestTimeTooSkewed")
				f.Set(storescript.Rule{
					When: func(r storescript.Request) bool {
						at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
						return err != nil || at.Sub(behind).Abs() > 15*time.Minute
					},
					Do: func(w http.ResponseWriter, r storescript.Request, next http.Handler) {
						if date {
							w.Header().Set("Date", behind.UTC().Format(http.TimeFormat))
						}
						refuse(w, r, next)
					},
				}, storescript.Rule{Do: storescript.Changed(func(_ storescript.Request, header http.Header, body []byte) []byte {
					header.Set("Date", behind.UTC().Format(http.TimeFormat))
					return body
				})})
				err := do(f)
				if date && err != nil {
					t.Errorf("got %v (%s)", err, fault.KindOf(err))
				}
				if !date && (!fault.Is(err, fault.Denied) || name != "stat" && !strings.Contains(fault.HintOf(err), "clock") || f.Met() > 5) {
					t.Errorf("got %v (%s, %q) after %d requests", err, fault.KindOf(err), fault.HintOf(err), f.Met())
				}
				tally.Add(1)
			})
		}
	}
}

// TestFramingIsFound: a service that keeps the framing of chunks in the object does not get away
// with a success, or at least not with the bytes.
func TestFramingIsFound(t *testing.T) {
	tally := evidence.Count(t, "s3-faults")
	for _, size := range []int{whole, inParts} {
		f := newFaulty(t, nil)
		f.service.KeepFraming(func(string) bool { return true })
		data := bytesOf(size)
		body := content(data)
		body.Body = bytes.NewReader(data)
		_, err := f.Create(t.Context(), "k", body)
		if size == inParts {
			if !fault.Is(err, fault.WrongBytes) || f.stands("k") != nil {
				t.Errorf("%d bytes: %v, and %d bytes stand", size, err, len(f.stands("k")))
			}
		} else if _, same, err := bucket.Holds(t.Context(), f, "k", body.Size, body.SHA256); err != nil || same {
			t.Errorf("%d bytes are taken for what was sent: %v, %v", size, same, err)
		}
		report, err := bucket.Probe(t.Context(), f.Store, bucket.ProbeOptions{Run: "r"})
		if unfit := report.Unfit(false); err != nil || unfit == nil || !strings.Contains(unfit.Error(), "read back") {
			t.Errorf("the probe finds %v, %v", unfit, err)
		}
		tally.Add(1)
	}
}

// TestAProbeOfASlowService: one write a second of a key is slow, not unfit.
func TestAProbeOfASlowService(t *testing.T) {
	tally := evidence.Count(t, "s3-faults")
	for _, refuse := range []storescript.Action{storescript.S3Error(429, "TooManyRequests"), storescript.S3Error(503, "SlowDown")} {
		f := newFaulty(t, nil)
		var mu sync.Mutex
		at := time.Now()
		now := func() time.Time { mu.Lock(); defer mu.Unlock(); return at }
		f.Set(storescript.Rule{When: storescript.OneWriteASecond(now), Do: refuse})
		report, err := bucket.Probe(t.Context(), f.bare, bucket.ProbeOptions{Run: "r", Now: now, Sleep: func(_ context.Context, d time.Duration) error {
			mu.Lock()
			defer mu.Unlock()
			at = at.Add(d)
			return nil
		}})
		if unfit := report.Unfit(false); err != nil || unfit != nil || len(report.Leftovers) > 0 || f.Met() == 0 {
			t.Errorf("%v, %v, left behind %q, %d requests were refused", err, unfit, report.Leftovers, f.Met())
		}
		tally.Add(1)
	}
}

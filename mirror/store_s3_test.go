package mirror_test

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest/storescript"
	"feedmirror/internal/bucket/s3store"
	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// s3World is a world whose bucket is a scripted S3 service over the world's folder.
type s3World struct {
	*world
	*storescript.Front
	service *storescript.S3
	dataset *feedsim.Dataset
}

// newS3World writes objects of more than largest bytes in parts.
func newS3World(t *testing.T, largest int64) *s3World {
	t.Helper()
	w := &s3World{world: newWorld(t, feedsim.Options{})}
	w.service = storescript.NewS3(t, w.dir)
	w.Front = storescript.NewFront(w.service, storescript.NameS3)
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	store, err := s3store.New(t.Context(), s3store.Options{
		Bucket: "b", Endpoint: storescript.Start(t, w.Front), Region: "eu-central-1", HTTPClient: &http.Client{Transport: transport},
		Credentials: storescript.Keys(), MaxSinglePut: largest, PartSize: 1 << 10, Retry: bucket.Policy{Sleep: w.pause},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.store = store
	w.dataset = w.world.dataset(permits, feedsim.Points)
	return w
}

// passFault is a fault that a pass meets while it copies and publishes a version.
type passFault struct {
	name  string
	rules []storescript.Rule
	exit  int
	says  string // in the report, where it fails
	first bool   // the pass is the first of its bucket
	never bool   // the rules are not to be met
	// largest is the size of objects above which they go in parts, bytes; 0: none does.
	largest int64
	paced   storescript.Action // what a second write of a key within a second meets
	leaves  bool               // uploads stay open
	repair  func(*s3World)     // what a person does before the next pass
}

// meet makes a pass meet each fault: it ends with the exit code that belongs to it, nothing in the
// bucket is untrue, and the next pass ends what this one could not.
func meet(t *testing.T, faults []passFault) {
	t.Helper()
	tally := evidence.Count(t, "s3-faults-sync")
	for _, c := range faults {
		t.Run(c.name, func(t *testing.T) {
			w := newS3World(t, cmp.Or(c.largest, 1<<30))
			before := w.release(w.dataset, feedsim.ReleaseSpec{})
			if !c.first {
				w.sync(0)
				w.published(permits, before)
				w.release(w.dataset, feedsim.ReleaseSpec{Add: 2, Parts: 2})
			}
			if c.paced != nil {
				c.rules = []storescript.Rule{{When: storescript.OneWriteASecond(w.clock.Now), Do: c.paced}}
			}
			w.Set(c.rules...)
			report := w.sync(c.exit)
			w.tells(report, c.says)
			if (w.Met() > 0) == c.never {
				t.Errorf("the rules were met %d times", w.Met())
			}
			w.whole("after the fault")
			if open := w.service.OpenUploads(); len(open) > 0 && !c.leaves {
				t.Errorf("uploads stay open: %q", open)
			}
			w.Set()
			if c.repair != nil {
				c.repair(w)
			}
			w.sync(0)
			w.published(permits, manifest.Number(w.dataset.Current()))
			tally.Add(1)
		})
	}
}

// tells wants words in a failure of the report or its hint.
func (w *world) tells(report mirror.Report, words string) {
	w.t.Helper()
	if words == "" {
		return
	}
	for _, failure := range report.Failures {
		if strings.Contains(failure.Message+failure.Hint, words) {
			return
		}
	}
	w.t.Errorf("no failure says %q: %+v", words, report.Failures)
}

// TestAPassMeetsOneBadAnswer: a fault of one answer is no fault of the pass, whatever the object.
func TestAPassMeetsOneBadAnswer(t *testing.T) {
	s3, after := storescript.S3Error, storescript.After
	answers := []struct {
		name string
		do   storescript.Action
	}{
		{"503", s3(503, "SlowDown")},
		{"stored, answered 503", after(s3(503, "ServiceUnavailable"))},
		{"200 with an error inside", s3(200, "InternalError")},
		{"stored, 200 with an error inside", after(s3(200, "InternalError"))},
		{"stored, the connection closed", after(storescript.HangUp())},
		{"409", s3(409, "ConditionalRequestConflict")},
		{"HTML with 502", storescript.Page(502)},
		{"HTML with 200", storescript.Page(200)},
		{"closed before headers", storescript.HangUp()},
	}
	objects := []struct{ name, ops, key string }{
		{"part", "put", "snapshot/"}, {"manifest", "put", "manifest.json"}, {"attachment", "put", "attachments/"},
		{"sums", "put", "SHA256SUMS"}, {"record", "put", "record.json"}, {"pointer", "put", "current/"},
		{"lease", "put", "leases/"}, {"shard", "put", "shards/"}, {"layout", "get", "layout.json"},
		{"begin", "begin", "snapshot/"}, {"part of a part", "part", "snapshot/"}, {"complete", "complete", "snapshot/"},
	}
	var list []passFault
	for i, object := range objects {
		for j, answer := range answers {
			if !evidence.Long() && (i%3 != 0 || j != i%len(answers)) {
				continue
			}
			one := passFault{name: object.name + ": " + answer.name, rules: met(object.ops, object.key, 1, answer.do)}
			if object.ops != "put" {
				one.largest = 1 << 10
			}
			one.leaves = object.ops == "begin" // whose answer was lost: nobody knows the upload's id
			if object.ops == "get" && answer.name == "409" {
				continue // a code of writes
			}
			list = append(list, one)
		}
	}
	meet(t, list)
}

func met(ops, key string, most int, do storescript.Action) []storescript.Rule {
	return []storescript.Rule{{Ops: ops, Key: key, Most: most, Do: do}}
}

// TestAPassMeetsAFaultyS3Service: whatever a service does for how long, nothing in the bucket is
// untrue, and the next pass ends what this one could not.
func TestAPassMeetsAFaultyS3Service(t *testing.T) {
	s3, after := storescript.S3Error, storescript.After
	const always = 0
	rotated := func(r storescript.Request) bool {
		return strings.Contains(r.Header.Get("Authorization"), "Credential=key/")
	}
	list := []passFault{
		{name: "200 with an error inside for each part", rules: met("put", "snapshot/", always, s3(200, "InternalError")), exit: 1, says: "InternalError"},
		{name: "complete: 200 with an error inside, always", rules: met("complete", "snapshot/", always, s3(200, "InternalError")), exit: 1, says: "InternalError", largest: 1 << 10},
		{name: "complete: stored, NoSuchUpload to the repeat", rules: met("complete", "", 3, after(s3(500, "InternalError"))), largest: 1 << 10},
		{name: "complete: NoSuchUpload, once", rules: met("complete", "", 1, s3(404, "NoSuchUpload")), largest: 1 << 10},
		{name: "the pointer: 503, always", rules: met("put", "current/", always, s3(503, "SlowDown")), exit: 1, says: "SlowDown"},
		{name: "the pointer: 409, always", rules: met("put", "current/", always, s3(409, "ConditionalRequestConflict")), exit: 1, says: "ConditionalRequestConflict"},
		{name: "the record: denied", rules: met("put", "record.json", always, s3(403, "AccessDenied")), exit: 1, says: "s3:PutObject"},
		{name: "403 for missing keys, first pass", rules: []storescript.Rule{missing(s3(403, "AccessDenied"))}, first: true, exit: 5, says: "s3:ListBucket"},
		{name: "403 for missing keys", rules: []storescript.Rule{missing(s3(403, "AccessDenied"))}, exit: 1, says: "s3:ListBucket"},
		{name: "403 for the pointer", rules: met("get head", "current/", always, s3(403, "AccessDenied")), exit: 1, says: "s3:ListBucket"},
		{name: "denied deletes, first pass", rules: met("delete", "", always, s3(403, "AccessDenied")), first: true},
		{name: "denied aborts", rules: append(met("part", "", always, s3(400, "InvalidPart")), met("abort", "", always, s3(403, "AccessDenied"))...), exit: 1, says: "stays open", largest: 1 << 10, leaves: true},
		{name: "ACLs refused", rules: []storescript.Rule{{When: func(r storescript.Request) bool { return r.Header.Get("X-Amz-Acl") != "" }, Do: s3(400, "AccessControlListNotSupported")}}, never: true, largest: 1 << 10},
		{name: "429 for a second write within a second", paced: s3(429, "TooManyRequests")},
		{name: "503 for a second write within a second", paced: s3(503, "SlowDown")},
		{name: "keys that expired for good", rules: []storescript.Rule{{When: rotated, Do: s3(400, "ExpiredToken")}}, exit: 5, says: "expired"},
		{name: "keys that expired in mid-run", rules: []storescript.Rule{{Skip: 12, When: rotated, Do: s3(400, "ExpiredToken")}}, exit: 1, says: "expired"},
		{name: "clocks that differ", rules: met("", "", always, skewed(40*time.Minute)), first: true},
		{name: "301", rules: met("", "", always, s3(301, "PermanentRedirect")), exit: 5, says: "region"},
		{name: "307", rules: met("", "", always, s3(307, "TemporaryRedirect")), exit: 5, says: "region"},
		{name: "lists: truncated without a token", rules: met("list", "", always, storescript.Text(`<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>`)), exit: 1, says: "no new token"},
		{name: "lists: the same token again", rules: met("list", "", always, storescript.Text(`<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken></ListBucketResult>`)), exit: 1, says: "no new token"},
		{name: "lists: foreign keys", rules: met("list", "", always, storescript.Text(`<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>zz</Key><Size>1</Size></Contents></ListBucketResult>`)), exit: 1, says: "proven complete"},
		{name: "lists: 503, always", rules: met("list", "", always, s3(503, "SlowDown")), exit: 1, says: "SlowDown"},
		{name: "HTML with 503 for everything", rules: met("", "", always, storescript.Page(503)), exit: 5, says: "503"},
		{name: "HTML with 403 for everything", rules: met("", "", always, storescript.Page(403)), exit: 5, says: "403"},
		{name: "HTML with 200 for everything", rules: met("", "", always, storescript.Page(200)), exit: 5, says: "ETag"},
		{name: "HTML with 200 for everything, first pass", rules: met("", "", always, storescript.Page(200)), first: true, exit: 5, says: "ETag"},
		{name: "closed before headers, always", rules: met("", "", always, storescript.HangUp()), exit: 5},
		{name: "head: 400 without a body", rules: met("head", "", always, s3(400, "")), exit: 1},
		{name: "head: 500 without a body, always", rules: met("head", "", always, s3(500, "")), exit: 1, says: "500"},
	}
	if !evidence.Long() { // the adapter's own tests meet all of them
		var few []passFault
		for i := 0; i < len(list); i += 4 {
			few = append(few, list[i])
		}
		list = few
	}
	meet(t, list)
}

// missing meets requests for keys that are not there.
func missing(do storescript.Action) storescript.Rule {
	return storescript.Rule{Ops: "get head", Do: func(w http.ResponseWriter, r storescript.Request, next http.Handler) {
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r.Request)
		if answer.Code == http.StatusNotFound {
			do(w, r, next)
			return
		}
		r.Request.Body = http.NoBody
		next.ServeHTTP(w, r.Request)
	}}
}

// skewed refuses what was not signed at its own time, which is behind, and tells that time always.
func skewed(behind time.Duration) storescript.Action {
	pass := storescript.Changed(func(_ storescript.Request, _ http.Header, body []byte) []byte { return body })
	refuse := storescript.S3Error(403, "RequestTimeTooSkewed")
	return func(w http.ResponseWriter, r storescript.Request, next http.Handler) {
		now := time.Now().Add(-behind)
		w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
		at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if err != nil || at.Sub(now).Abs() > 15*time.Minute {
			refuse(w, r, next)
			return
		}
		pass(w, r, next)
	}
}

// TestPruneMeetsDeniedDeletes: prune says so; syncs go on, and a prune that may delete ends it.
func TestPruneMeetsDeniedDeletes(t *testing.T) {
	w := newS3World(t, 1<<30)
	for range 4 {
		w.release(w.dataset, feedsim.ReleaseSpec{})
	}
	w.sync(0)
	w.Set(met("delete", "", 0, storescript.S3Error(403, "AccessDenied"))...)
	o := w.pruneOptions(manifest.KeepRules{Versions: 2})
	report, err := mirror.Prune(t.Context(), o)
	if err != nil || report.Exit != 5 || !strings.Contains(report.Refused[0].Hint, "s3:DeleteObject") {
		t.Errorf("prune ended with %d, %v: %+v", report.Exit, err, report)
	}
	w.whole("after a prune that was denied")
	w.release(w.dataset, feedsim.ReleaseSpec{})
	again := mirror.Run(t.Context(), w.options())
	if again.Exit != 0 && again.Exit != 6 {
		t.Errorf("sync ended with %d: %+v", again.Exit, again.Failures)
	}
	w.Set()
	w.prune(0, manifest.KeepRules{Versions: 2})
	w.sync(0)
	w.published(permits, manifest.Number(w.dataset.Current()))
	evidence.Count(t, "s3-faults-sync").Add(1)
}

// TestAPassMeetsFramingThatIsKept: what a service keeps with the framing of chunks is caught before
// a record names it, and a record before a pointer names it. A person clears it.
func TestAPassMeetsFramingThatIsKept(t *testing.T) {
	tally := evidence.Count(t, "s3-faults-sync")
	for name, c := range map[string]struct {
		key     string
		largest int64
		says    string
		clear   func(w *s3World, next manifest.Number)
	}{
		"a part":          {"snapshot/", 1 << 30, "prune --uncommitted", clearUncommitted},
		"a part in parts": {"snapshot/", 1 << 10, "sent were", func(*s3World, manifest.Number) {}}, // taken away at once
		"a manifest":      {"manifest.json", 1 << 30, "prune --uncommitted", clearUncommitted},
		"a record": {"record.json", 1 << 30, "Remove this object", func(w *s3World, next manifest.Number) {
			w.remove(manifest.RecordKey(permits, next))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newS3World(t, c.largest)
			before := w.release(w.dataset, feedsim.ReleaseSpec{})
			w.sync(0)
			next := w.release(w.dataset, feedsim.ReleaseSpec{Add: 1})
			w.service.KeepFraming(func(key string) bool { return strings.Contains(key, c.key) })
			w.tells(w.sync(1), c.says)
			w.published(permits, before)
			w.service.KeepFraming(nil)
			c.clear(w, next)
			w.sync(0)
			w.published(permits, next)
			tally.Add(1)
		})
	}
}

func clearUncommitted(w *s3World, next manifest.Number) {
	w.t.Helper()
	if _, err := mirror.ClearUncommitted(w.t.Context(), w.pruneOptions(manifest.KeepRules{}), permits, next); err != nil {
		w.t.Error(err)
	}
}

// remove takes an object away, as a person does.
func (w *s3World) remove(key string) {
	w.t.Helper()
	info, err := w.store.Stat(w.t.Context(), key)
	if err == nil {
		err = w.store.Delete(w.t.Context(), key, info.Tag)
	}
	if err != nil {
		w.t.Error(err)
	}
}

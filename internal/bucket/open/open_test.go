package open_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/open"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// TestFolders: a root is made absolute and clean, whatever it is written like.
func TestFolders(t *testing.T) {
	home := t.TempDir()
	t.Chdir(home)
	if err := os.Mkdir("real", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", "link"); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"file://" + home + "/abs":     "abs",
		"file://" + home + "/x/../y/": "y",
		"file:./dot":                  "dot",
		"file://./dots":               "dots",
		"file:plain/below":            "plain/below",
		"file:link":                   "real",
		"file:a%20b":                  "a b",
		"file://localhost" + home:     ".",
	} {
		store, err := open.Open(t.Context(), address, open.Options{})
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if _, err := bucket.CreateDocument(t.Context(), store, "d/x.json", []byte("{}")); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if _, err := os.Stat(filepath.Join(home, want, "d/x.json")); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		var keys []string
		for info, err := range store.List(t.Context(), "d/", "") {
			if err != nil {
				t.Errorf("%s: %v", address, err)
			}
			keys = append(keys, info.Key)
		}
		if len(keys) != 1 || keys[0] != "d/x.json" {
			t.Errorf("%s: listed %q", address, keys)
		}
	}
}

func TestFolderMustExist(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	_, err := open.Open(t.Context(), "file://"+missing, open.Options{MustExist: true})
	if !fault.Is(err, fault.BucketUnfit) {
		t.Errorf("got %v, want a fault.BucketUnfit", err)
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("the folder was created")
	}
}

func TestUsage(t *testing.T) {
	for address, wants := range map[string][]string{
		"":                                    {"scheme"},
		"/srv/mirror":                         {"scheme"},
		"ftp://host/x":                        {`"ftp"`},
		"s3://":                               {"no bucket"},
		"gs:///prefix":                        {"no bucket"},
		"file:":                               {"no folder"},
		"file://host/dir":                     {"three slashes"},
		"file:///dir?region=x":                {`"region" is no setting of file://`},
		"s3://key:secret@bucket":              {"credentials"},
		"s3://b?path_style=maybe&regoin=x&c=": {`path_style="maybe"`, `"regoin"`, `"c"`},
		"s3://b?region=a&region=b":            {"region is given twice"},
		"s3://b?object_lock_days=-1":          {"object_lock_days"},
		"s3://b:9000":                         {"endpoint="},
		"s3://b/p#x":                          {"%23"},
		"azblob://c?teir=Cool":                {`"teir"`},
		"%zz":                                 {"invalid URL escape"},
	} {
		_, err := open.Open(t.Context(), address, open.Options{})
		if !fault.Is(err, fault.Usage) || fault.HintOf(err) == "" || fault.SideOf(err) != fault.SideConfig {
			t.Errorf("%s: got %v, want a fault.Usage with a hint", address, err)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", address, err, want)
			}
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %q shows a secret", address, err)
		}
	}
	for _, good := range []string{"file:///x", "s3://b/p/q?region=eu-central-1&tags=a%3Db", "gs://b?user_project=p", "azblob://c/p?account=a"} {
		if err := open.Check(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

// TestS3Settings: every setting of the URL reaches the wire, and requests are counted and repeated.
func TestS3Settings(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret-of-anyone")
	var requests []*http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Clone(context.WithoutCancel(r.Context())))
		if len(requests) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("ETag", `"e"`)
	}))
	defer server.Close()
	counts := &bucket.Counts{}
	store, err := open.Open(t.Context(), "s3://b/p?region=eu-north-1&endpoint="+server.URL+
		"&storage_class=STANDARD_IA&sse_kms_key=k1&tags=team%3Ddata&acl=bucket-owner-full-control&requester_pays=true"+
		"&object_lock_mode=GOVERNANCE&object_lock_days=7", open.Options{
		HTTPClient: server.Client(), Counts: counts,
		Retry: bucket.Policy{Sleep: func(context.Context, time.Duration) error { return nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Create(t.Context(), "k", bucket.Content{
		Size: 0, SHA256: manifest.SumBytes(nil), Class: bucket.Data, Body: strings.NewReader(""),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(requests) != 2 || counts.Write.Load() != 2 {
		t.Fatalf("%d requests, %d counted, want 2", len(requests), counts.Write.Load())
	}
	last := requests[1]
	for name, want := range map[string]string{
		"X-Amz-Storage-Class": "STANDARD_IA", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": "k1",
		"X-Amz-Server-Side-Encryption": "aws:kms", "X-Amz-Tagging": "team=data", "X-Amz-Acl": "bucket-owner-full-control",
		"X-Amz-Request-Payer": "requester", "X-Amz-Object-Lock-Mode": "GOVERNANCE",
	} {
		if got := last.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(last.Header.Get("Authorization"), "/eu-north-1/s3/") || last.URL.Path != "/b/p/k" {
		t.Errorf("request %s, %s", last.URL, last.Header.Get("Authorization"))
	}
	until, err := time.Parse(time.RFC3339, last.Header.Get("X-Amz-Object-Lock-Retain-Until-Date"))
	if err != nil || time.Until(until) < 6*24*time.Hour || time.Until(until) > 8*24*time.Hour {
		t.Errorf("locked until %v, %v", until, err)
	}
}

package testservers

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Behind returns the same server behind a proxy of the test's own. change sees each request as the
// client sent it and may take headers away; what is left is signed anew, so that the server does
// what it does for a client that never sent them. change is called by many goroutines.
func (s S3) Behind(t testing.TB, change func(*http.Request)) S3 {
	t.Helper()
	target, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	front := &s3Front{server: s, target: target, change: change, client: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 32}}
	proxy := httptest.NewServer(front)
	t.Cleanup(func() { proxy.Close(); front.client.CloseIdleConnections() })
	s.Endpoint = proxy.URL
	return s
}

type s3Front struct {
	server S3
	target *url.URL
	change func(*http.Request)
	client *http.Transport
}

// ServeHTTP implements http.Handler.
func (f *s3Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.change(r)
	answer, err := f.send(r)
	if err != nil {
		panic(http.ErrAbortHandler) // the client sees a connection that ended, as with a server that died
	}
	defer answer.Body.Close()
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	if _, err := io.Copy(w, answer.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (f *s3Front) send(r *http.Request) (*http.Response, error) {
	address := *r.URL // its RawPath keeps the escapes of the request
	address.Scheme, address.Host = f.target.Scheme, f.target.Host
	sent := r.Clone(r.Context())
	sent.URL, sent.Host, sent.RequestURI = &address, f.target.Host, ""
	sent.ContentLength = r.ContentLength
	if r.ContentLength == 0 {
		sent.Body = http.NoBody
	}
	for _, name := range []string{"Authorization", "X-Amz-Date", "Expect", "Connection"} {
		sent.Header.Del(name)
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	keys := aws.Credentials{AccessKeyID: f.server.AccessKey, SecretAccessKey: f.server.SecretKey}
	if err := signer.SignHTTP(r.Context(), keys, sent, r.Header.Get("X-Amz-Content-Sha256"), "s3", f.server.Region, time.Now()); err != nil {
		return nil, err
	}
	return f.client.RoundTrip(sent)
}

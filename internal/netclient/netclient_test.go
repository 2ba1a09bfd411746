package netclient_test

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/internal/netclient"
)

// certificateFile writes the certificate of server as the PEM file that a customer would give.
func certificateFile(t *testing.T, server *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func mustNew(t *testing.T, options netclient.Options) *http.Client {
	t.Helper()
	client, err := netclient.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func get(t *testing.T, client *http.Client, address string) (status int, body string, failure error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(data), nil
}

func TestCAFileIsTrusted(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	}))
	defer server.Close()

	if _, _, err := get(t, mustNew(t, netclient.Options{}), server.URL); err == nil {
		t.Fatal("an unknown authority was trusted")
	}
	client := mustNew(t, netclient.Options{CAFile: certificateFile(t, server)})
	if _, body, err := get(t, client, server.URL); err != nil || body != "hello" {
		t.Fatalf("got %q, %v", body, err)
	}
}

func TestBadCAFileIsUsage(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("not a certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{empty, filepath.Join(t.TempDir(), "missing.pem"), t.TempDir()} {
		_, err := netclient.New(netclient.Options{CAFile: file})
		if !fault.Is(err, fault.Usage) || fault.SideOf(err) != fault.SideConfig {
			t.Errorf("%s: got %v, want a usage error of the settings", file, err)
		}
		if strings.Count(err.Error(), file) != 1 {
			t.Errorf("the error must name %s once: %v", file, err)
		}
		if fault.HintOf(err) == "" {
			t.Errorf("%s: no hint", file)
		}
	}
}

// connectProxy tunnels CONNECT requests and counts them; plain requests are refused.
func connectProxy(t *testing.T) (address string, tunnels *atomic.Int64) {
	t.Helper()
	tunnels = new(atomic.Int64)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}
		tunnels.Add(1)
		target, err := new(net.Dialer).DialContext(r.Context(), "tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		client, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() { _, _ = io.Copy(target, client); _ = target.Close() }()
		_, _ = io.Copy(client, target)
		_ = client.Close()
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL, tunnels
}

func TestProxyCarriesTheRequest(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "through")
	}))
	defer server.Close()
	proxy, tunnels := connectProxy(t)
	proxyURL, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}

	client := mustNew(t, netclient.Options{CAFile: certificateFile(t, server), Proxy: http.ProxyURL(proxyURL)})
	_, body, err := get(t, client, server.URL)
	if err != nil || body != "through" {
		t.Fatalf("got %q, %v", body, err)
	}
	if tunnels.Load() != 1 {
		t.Fatalf("the proxy saw %d tunnels, want 1", tunnels.Load())
	}
}

// The standard library reads the proxy's environment once a process and never for loopback, so
// the default is tested in a process of its own against a name that only the proxy can reach.
func TestProxyFromEnvironment(t *testing.T) {
	if os.Getenv("NETCLIENT_CHILD") == "1" {
		client := mustNew(t, netclient.Options{})
		_, _, viaProxy := get(t, client, "https://feed.invalid/")
		_, _, direct := get(t, client, "https://skipped.invalid/")
		if viaProxy == nil || direct == nil {
			t.Fatal("names under .invalid resolved")
		}
		return
	}
	proxy, tunnels := connectProxy(t)
	if out, err := rerun(t, "HTTPS_PROXY="+proxy, "NO_PROXY=skipped.invalid"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if tunnels.Load() != 1 {
		t.Fatalf("the proxy saw %d tunnels, want the one that NO_PROXY does not name", tunnels.Load())
	}
}

func TestProtocols(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	file := certificateFile(t, server)

	for want, options := range map[string]netclient.Options{
		"HTTP/2.0": {CAFile: file},
		"HTTP/1.1": {CAFile: file, HTTP1Only: true},
	} {
		if _, body, err := get(t, mustNew(t, options), server.URL); err != nil || body != want {
			t.Errorf("got %q, %v, want %s", body, err, want)
		}
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	server.Config.ErrorLog = quietLog()
	server.StartTLS()
	defer server.Close()
	_, _, err := get(t, mustNew(t, netclient.Options{CAFile: certificateFile(t, server)}), server.URL)
	if err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Fatalf("got %v, want a refusal of the protocol version", err)
	}
}

func TestRedirects(t *testing.T) {
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/from" {
			http.Redirect(w, r, server.URL+"/to", http.StatusFound)
		}
	}))
	defer server.Close()
	for want, options := range map[int]netclient.Options{
		http.StatusOK:    {},
		http.StatusFound: {RefuseRedirects: true},
	} {
		status, _, err := get(t, mustNew(t, options), server.URL+"/from")
		if err != nil || status != want {
			t.Errorf("got status %d, %v, want %d", status, err, want)
		}
	}
}

func TestBytesAreNotUnpacked(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("Accept-Encoding %q was sent", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "as sent")
	}))
	defer server.Close()
	if _, body, err := get(t, mustNew(t, netclient.Options{}), server.URL); err != nil || body != "as sent" {
		t.Fatalf("got %q, %v", body, err)
	}
}

func TestHeaderTimeoutEndsSilence(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)

	client := mustNew(t, netclient.Options{HeaderTimeout: 50 * time.Millisecond})
	_, _, err := get(t, client, server.URL+"/?signature=secret")
	if err == nil {
		t.Fatal("a silent server was waited for")
	}
	var network net.Error
	cause := netclient.Cause(err)
	if !errors.As(cause, &network) || !network.Timeout() {
		t.Errorf("%v is no timeout", cause)
	}
	if strings.Contains(cause.Error(), "secret") {
		t.Errorf("the cause shows the address: %v", cause)
	}
}

func TestSlowBodyIsNotLimited(t *testing.T) {
	next := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-next
		_, _ = io.WriteString(w, "late")
	}))
	defer server.Close()
	client := mustNew(t, netclient.Options{HeaderTimeout: 50 * time.Millisecond})
	if client.Timeout != 0 {
		t.Fatalf("the client limits a whole request to %s", client.Timeout)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	timer := time.AfterFunc(200*time.Millisecond, func() { close(next) })
	defer timer.Stop()
	if body, err := io.ReadAll(answer.Body); err != nil || string(body) != "late" {
		t.Fatalf("got %q, %v", body, err)
	}
}

package e2e_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// certified is a certificate for the addresses of this machine, and the file that an operator
// names in --ca-file.
type certified struct {
	config *tls.Config
	file   string
}

func newCertified(t *testing.T) certified {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority of the company's own"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4zero, net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate, certificate, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return certified{file: file, config: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}}
}

// tunnels are the connections of one listener, with bytes copied between pairs of them until a test ends.
type tunnels struct {
	mu    sync.Mutex
	open  []net.Conn
	group sync.WaitGroup
	ended bool
}

// serve accepts connections and hands each to handle, until the test ends.
func (p *tunnels) serve(t *testing.T, listener net.Listener, handle func(net.Conn)) {
	p.group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			p.group.Go(func() { handle(client) })
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		p.mu.Lock()
		p.ended = true
		for _, conn := range p.open {
			_ = conn.Close() // most have ended already
		}
		p.mu.Unlock()
		p.group.Wait()
	})
}

// keep remembers a connection, to be closed at the end; false when that has come.
func (p *tunnels) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, conn)
	return !p.ended
}

// splice copies both ways until one side ends. seen gets what the client sends.
func (p *tunnels) splice(client, server net.Conn, seen io.Writer) {
	defer client.Close() //nolint:errcheck // either side may have closed it
	defer server.Close() //nolint:errcheck // either side may have closed it
	if !p.keep(client) || !p.keep(server) {
		return
	}
	done := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(io.MultiWriter(server, seen), client); done <- struct{}{} }() // its end is all that counts
	go func() { _, _ = io.Copy(client, server); done <- struct{}{} }()
	<-done
}

// recorder keeps what was written.
type recorder struct {
	mu   sync.Mutex
	data bytes.Buffer
}

// Write implements io.Writer.
func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data.Write(p)
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data.String()
}

// front is a TLS port before a plain one. Its address is 0.0.0.0: it leads to this machine, and
// unlike 127.0.0.1 net/http sends requests for it through a proxy.
type front struct {
	address string    // 0.0.0.0:port
	seen    *recorder // what clients sent, decrypted
}

// newFront opens a front before target, an http URL.
func newFront(t *testing.T, with certified, target string) front {
	t.Helper()
	pairs := &tunnels{}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", with.config)
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	f := front{address: "0.0.0.0:" + port, seen: &recorder{}}
	target = strings.TrimPrefix(target, "http://")
	pairs.serve(t, listener, func(client net.Conn) {
		server, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", target)
		if err != nil {
			_ = client.Close() // the client is told by that
			return
		}
		pairs.splice(client, server, f.seen)
	})
	return f
}

// connectProxy is an HTTP proxy that only opens tunnels, as companies have them.
type connectProxy struct {
	url string

	mu     sync.Mutex
	asked  []string // host:port of each tunnel
	failed []error
}

func newConnectProxy(t *testing.T) *connectProxy {
	t.Helper()
	pairs := &tunnels{}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := &connectProxy{url: "http://" + listener.Addr().String()}
	pairs.serve(t, listener, func(client net.Conn) {
		if err := proxy.handle(t, pairs, client); err != nil {
			proxy.mu.Lock()
			defer proxy.mu.Unlock()
			proxy.failed = append(proxy.failed, errors.Join(err, client.Close()))
		}
	})
	return proxy
}

// handle reads a CONNECT up to its empty line and opens the tunnel.
func (p *connectProxy) handle(t *testing.T, pairs *tunnels, client net.Conn) error {
	var head []byte
	one := make([]byte, 1) // no byte of what follows may be taken
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		if _, err := io.ReadFull(client, one); err != nil {
			return err
		}
		head = append(head, one...)
	}
	method, rest, _ := strings.Cut(string(head), " ")
	host, _, _ := strings.Cut(rest, " ")
	p.mu.Lock()
	p.asked = append(p.asked, host)
	p.mu.Unlock()
	if method != http.MethodConnect {
		return errors.New("the proxy was asked for " + method + " " + host)
	}
	server, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return errors.Join(err, server.Close())
	}
	pairs.splice(client, server, io.Discard)
	return nil
}

// hosts returns the hosts that tunnels were opened to, each once, in order.
func (p *connectProxy) hosts(t *testing.T) []string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.failed) > 0 {
		t.Errorf("proxy: %v", errors.Join(p.failed...))
	}
	hosts := slices.Clone(p.asked)
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// sent is one request as it went over the wire.
type sent struct {
	method  string
	path    string // of the URL, decoded
	query   string
	length  int64 // Content-Length; -1 for none
	coding  []string
	header  http.Header
	trailer http.Header
	sha256  string // of the body's bytes
}

// recorder is a proxy that notes every request and changes none: the signature stays valid, since
// Host is passed on.
type recorder struct {
	mutex    sync.Mutex
	requests []sent
	broken   []string // requests that ended early
	server   *http.Server
	address  string
}

// record starts a recorder in front of a server.
func record(target string) (*recorder, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("record requests: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("record requests: %w", err)
	}
	r := &recorder{address: "http://" + listener.Addr().String()}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(to)
			request.Out.Host = request.In.Host
		},
		ErrorHandler: func(w http.ResponseWriter, request *http.Request, err error) {
			r.mutex.Lock()
			defer r.mutex.Unlock()
			r.broken = append(r.broken, fmt.Sprintf("%s %s after %v", request.Method, request.URL.Path, err))
			w.WriteHeader(http.StatusBadGateway)
		},
		Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 32},
	}
	r.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		note := sent{method: request.Method, path: request.URL.Path, query: request.URL.RawQuery, length: request.ContentLength,
			coding: request.TransferEncoding, header: request.Header.Clone(), trailer: request.Trailer.Clone()}
		body := &hashedBody{ReadCloser: request.Body, hash: sha256.New()}
		if request.ContentLength != 0 {
			request.Body = body
		}
		proxy.ServeHTTP(w, request)
		note.sha256 = hex.EncodeToString(body.hash.Sum(nil))
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.requests = append(r.requests, note)
	})}
	go func() { _ = r.server.Serve(listener) }() // ends by close
	return r, nil
}

func (r *recorder) close() error { return r.server.Close() }

// all returns the requests so far.
func (r *recorder) all() []sent {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return append([]sent(nil), r.requests...)
}

// brokenOff returns the requests that did not get through.
func (r *recorder) brokenOff() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return append([]string(nil), r.broken...)
}

// hashedBody hashes what is read of a body.
type hashedBody struct {
	io.ReadCloser
	hash hash.Hash
}

// Read implements io.Reader.
func (b *hashedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.hash.Write(p[:n])
	return n, err
}

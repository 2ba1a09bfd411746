package resilience_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"encoding/pem"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"feedmirror/internal/evidence"
	"feedmirror/internal/netclient"
)

// retirement is how an HTTP/2 server takes its connection out of service.
type retirement struct {
	name string
	code http2.ErrCode
	// when: before the answer (the stream is named as not served), between its header and its body, in
	// the middle of the body, or behind it.
	when string
	// silent servers send nothing more on the connection, and take what comes.
	silent bool
}

func retirements() []retirement {
	var list []retirement
	for _, code := range []http2.ErrCode{http2.ErrCodeNo, http2.ErrCodeEnhanceYourCalm, http2.ErrCodeInternal} {
		for _, when := range []string{"before the answer", "after the header", "in the body", "after the answer"} {
			list = append(list, retirement{name: code.String() + " " + when, code: code, when: when})
		}
	}
	return append(list, retirement{name: "silence", when: "before the answer", silent: true}, retirement{name: "silence in the body", when: "in the body", silent: true})
}

// TestHTTP2ConnectionsThatAreRetired sends GOAWAY at each request of a pass to the API in turn. The API's
// client speaks HTTP/2; downloads never do.
func TestHTTP2ConnectionsThatAreRetired(t *testing.T) {
	t.Parallel()
	tally := evidence.Count(t, "source-faults")
	w := newWorld(t, smallVersion())
	all := retirements()
	for number, r := range all {
		for at := range evidence.Size(1, 4) {
			nth := (number+at)%4 + 1 // a pass makes four calls
			t.Run(r.name, func(t *testing.T) {
				front := newFront(t, w.feed.URL(), r, nth)
				options, l := netclient.Options{CAFile: front.authority, RefuseRedirects: true}, limits{feedURL: front.url}
				if r.silent {
					options.PingAfter, l.idle = 200*time.Millisecond, time.Second
				}
				client, err := netclient.New(options)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(client.CloseIdleConnections)
				l.http = client
				place := w.memory()
				report := w.limitedPass(t, place, l, 0)
				if !front.struck() {
					t.Error("no connection was retired")
				}
				w.healed(t, place, report)
			})
			tally.Add(1)
		}
	}
	tally.Note("%d ways of an HTTP/2 server to retire a connection", len(all))
}

// front is an HTTP/2 server before an HTTP/1.1 one that retires one connection.
type front struct {
	t         *testing.T
	url       string
	authority string // file of its certificate
	target    string
	retire    retirement

	mu     sync.Mutex
	left   int // requests until then
	done   bool
	mute   *http2.Framer // the connection that has fallen silent
	open   []net.Conn
	served sync.WaitGroup
}

func newFront(t *testing.T, target string, r retirement, nth int) *front {
	t.Helper()
	// httptest is borrowed for its certificate.
	borrowed := httptest.NewTLSServer(http.NotFoundHandler())
	certificate := borrowed.TLS.Certificates[0]
	borrowed.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{certificate}})
	if err != nil {
		t.Fatal(err)
	}
	f := &front{t: t, url: "https://" + listener.Addr().String(), target: target, retire: r, left: nth, authority: filepath.Join(t.TempDir(), "ca.pem")}
	if err := os.WriteFile(f.authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}), 0o600); err != nil {
		t.Fatal(err)
	}
	f.served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			f.mu.Lock()
			f.open = append(f.open, conn)
			f.mu.Unlock()
			f.served.Go(func() {
				if err := f.serve(conn); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
					t.Log("front:", err) // the client may go at any moment
				}
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		f.mu.Lock()
		for _, conn := range f.open {
			_ = conn.Close()
		}
		f.mu.Unlock()
		f.served.Wait()
	})
	return f
}

func (f *front) struck() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done
}

// due reports whether this request is the one that meets the retirement.
func (f *front) due() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left--
	due := f.left == 0
	f.done = f.done || due
	return due
}

// stream is one request on its way in.
type stream struct {
	fields []hpack.HeaderField
	body   bytes.Buffer
}

// serve speaks HTTP/2 on one connection, a request at a time.
func (f *front) serve(conn net.Conn) error {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return err
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	streams := map[uint32]*stream{}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		ended := false
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				err = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.silent(framer) && !frame.IsAck() {
				err = framer.WritePing(true, frame.Data)
			}
		case *http2.MetaHeadersFrame:
			streams[frame.StreamID] = &stream{fields: frame.Fields}
			ended = frame.StreamEnded()
		case *http2.DataFrame:
			if at := streams[frame.StreamID]; at != nil {
				at.body.Write(frame.Data())
				ended = frame.StreamEnded()
			}
		}
		if err == nil && ended && !f.silent(framer) {
			err = f.answer(framer, frame.Header().StreamID, streams[frame.Header().StreamID])
		}
		if err != nil {
			return err
		}
	}
}

// silent reports whether a connection has fallen silent.
func (f *front) silent(framer *http2.Framer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mute == framer
}

// answer asks the target and sends what it says, retiring the connection on the way when that is due.
func (f *front) answer(framer *http2.Framer, id uint32, s *stream) error {
	retire := ""
	if f.due() {
		retire = f.retire.when
	}
	if retire == "before the answer" {
		return f.leave(framer, id-1)
	}
	status, header, body, err := f.ask(s)
	if err != nil {
		return err
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range append([]hpack.HeaderField{{Name: ":status", Value: status}}, header...) {
		if err := encoder.WriteField(field); err != nil {
			return err
		}
	}
	if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
		return err
	}
	if retire == "after the header" {
		return f.leave(framer, id)
	}
	half := len(body) / 2
	if err := framer.WriteData(id, false, body[:half]); err != nil {
		return err
	}
	if retire == "in the body" {
		return f.leave(framer, id)
	}
	if err := framer.WriteData(id, true, body[half:]); err != nil {
		return err
	}
	if retire == "after the answer" {
		return f.leave(framer, id)
	}
	return nil
}

// leave ends a connection whose last stream that was served is named.
func (f *front) leave(framer *http2.Framer, last uint32) error {
	if f.retire.silent {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.mute = framer
		return nil
	}
	if err := framer.WriteGoAway(last, f.retire.code, []byte("maintenance")); err != nil {
		return err
	}
	return net.ErrClosed
}

// ask sends a request on.
func (f *front) ask(s *stream) (status string, header []hpack.HeaderField, body []byte, err error) {
	var method, path string
	asked := make(http.Header)
	for _, field := range s.fields {
		switch field.Name {
		case ":method":
			method = field.Value
		case ":path":
			path = field.Value
		case ":authority", ":scheme":
		default:
			asked.Add(field.Name, field.Value)
		}
	}
	request, err := http.NewRequestWithContext(context.Background(), method, f.target+path, bytes.NewReader(s.body.Bytes()))
	if err != nil {
		return "", nil, nil, err
	}
	request.Header = asked
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return "", nil, nil, err
	}
	defer response.Body.Close()
	for _, name := range []string{"Content-Type", "Date"} {
		header = append(header, hpack.HeaderField{Name: map[string]string{"Content-Type": "content-type", "Date": "date"}[name], Value: response.Header.Get(name)})
	}
	body, err = io.ReadAll(response.Body)
	return response.Status[:3], header, body, err
}

package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
	"feedmirror/manifest"
)

// pipes is a network in memory, so that tests run on the fake clock of synctest: idle limits,
// pauses and lifetimes of links pass at once and exactly.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// visit is one request to the source.
type visit struct {
	w       http.ResponseWriter
	r       *http.Request
	name    string
	data    []byte
	nth     int // of this name, from 1
	signing int // which signing of this name the link is from, from 1
}

// world is a feed, a source and a bucket in one bubble.
type world struct {
	t      *testing.T
	engine *Engine
	counts *Counts

	mu       sync.Mutex
	files    map[string][]byte
	sums     map[string]manifest.SHA256
	signed   map[string]int // signings by name
	expiry   map[string]time.Time
	calls    []int // names a call
	visits   map[string]int
	complete map[string]int // answers sent to the end by serve
	ranges   []string
	objects  map[string][]byte
	creates  map[string]int
	opens    int
	silent   bool // the store attests no sha256

	lifetime time.Duration             // of links; an hour
	delay    time.Duration             // of the call that signs
	expired  func(http.ResponseWriter) // how the source tells expiry
	handle   func(v visit)             // the source; serve when nil
	linkHook func(names []string, links *feed.Links) error
	create   func(ctx context.Context, key string, content bucket.Content) (bucket.Info, error)
}

// run runs a test in a bubble with a world that is torn down at its end.
func run(t *testing.T, opts Options, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, counts: new(Counts), lifetime: time.Hour,
			files: map[string][]byte{}, sums: map[string]manifest.SHA256{}, signed: map[string]int{}, expiry: map[string]time.Time{},
			visits: map[string]int{}, complete: map[string]int{}, objects: map[string][]byte{}, creates: map[string]int{},
			expired: func(out http.ResponseWriter) { out.WriteHeader(http.StatusForbidden) },
		}
		network := newPipes()
		server := &http.Server{Handler: http.HandlerFunc(w.serveHTTP)}
		served := make(chan error, 1)
		go func() { served <- server.Serve(network) }()
		transport := &http.Transport{DialContext: network.dial, DisableCompression: true, MaxIdleConnsPerHost: 64}
		opts.HTTP, opts.Sink, opts.Linker, opts.Counts = transport, w, w, w.counts
		w.engine = New(opts)
		defer func() {
			transport.CloseIdleConnections()
			if err := server.Close(); err != nil {
				t.Errorf("close server: %v", err)
			}
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				t.Errorf("serve: %v", err)
			}
		}()
		test(w)
	})
}

func content(seed uint64, size int) []byte {
	var key [32]byte
	key[0], key[1], key[2] = byte(seed), byte(seed>>8), byte(seed>>16)
	data := make([]byte, size)
	_, _ = rand.NewChaCha8(key).Read(data)
	return data
}

// add puts a file into the world and returns what to ask for.
func (w *world) add(name string, size int) File {
	w.mu.Lock()
	defer w.mu.Unlock()
	data := content(uint64(len(w.files)), size)
	w.files[name], w.sums[name] = data, manifest.SumBytes(data)
	return File{Name: name, Key: "data/" + name, Size: int64(size), SHA256: w.sums[name]}
}

func sequence(files ...File) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for _, file := range files {
			if !yield(file, nil) {
				return
			}
		}
	}
}

// copy copies files as one job.
func (w *world) copy(files ...File) (Summary, error) {
	w.t.Helper()
	return w.engine.Copy(w.t.Context(), w.job("ds", files...), nil)
}

func (w *world) job(dataset string, files ...File) Job {
	return Job{Dataset: dataset, Version: 7, Lifetime: w.lifetime, Files: sequence(files...)}
}

// Links implements Linker.
func (w *world) Links(ctx context.Context, _ string, _ manifest.Number, names []string) (feed.Links, error) {
	links := feed.Links{Lifetime: w.lifetime, Received: time.Now()}
	if err := sleep(ctx, w.delay); err != nil {
		return feed.Links{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, len(names))
	for _, name := range names {
		data, ok := w.files[name]
		if !ok {
			links.Missing = append(links.Missing, name)
			continue
		}
		w.signed[name]++
		signature := fmt.Sprintf("SECRET%d", w.signed[name])
		w.expiry[name+signature] = time.Now().Add(w.lifetime)
		links.Entries = append(links.Entries, feed.Entry{
			Name: name, Size: int64(len(data)), SHA256: w.sums[name],
			URL: "http://localhost/" + name + "?sig=" + signature,
		})
	}
	if w.linkHook != nil {
		return links, w.linkHook(names, &links)
	}
	return links, nil
}

func (w *world) serveHTTP(out http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	signature := r.URL.Query().Get("sig")
	if r.Header.Get("Authorization") != "" || r.Method != http.MethodGet || r.Header.Get("Accept-Encoding") != "identity" {
		w.t.Errorf("request to the source: %s %v", r.Method, r.Header)
	}
	w.mu.Lock()
	w.visits[name]++
	if r.Header.Get("Range") != "" {
		w.ranges = append(w.ranges, r.Header.Get("Range"))
	}
	v := visit{w: out, r: r, name: name, data: w.files[name], nth: w.visits[name]}
	v.signing, _ = strconv.Atoi(strings.TrimPrefix(signature, "SECRET"))
	late := !time.Now().Before(w.expiry[name+signature])
	handle := w.handle
	w.mu.Unlock()
	switch {
	case late:
		w.expired(out)
	case handle != nil:
		handle(v)
	default:
		w.serve(v)
	}
}

// serve answers as a good source does.
func (w *world) serve(v visit) {
	v.w.Header().Set("ETag", `"`+v.name+`"`)
	http.ServeContent(v.w, v.r, "", time.Time{}, bytes.NewReader(v.data))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.complete[v.name]++
}

// cut sends the beginning of a good whole answer and then drops the connection.
func (v visit) cut(at int) {
	v.w.Header().Set("ETag", `"`+v.name+`"`)
	v.w.Header().Set("Content-Length", strconv.Itoa(len(v.data)))
	_, _ = v.w.Write(v.data[:at])
	v.flush()
	panic(http.ErrAbortHandler)
}

// stall sends the beginning of a good whole answer and then nothing more.
func (v visit) stall(at int) {
	v.w.Header().Set("Content-Length", strconv.Itoa(len(v.data)))
	_, _ = v.w.Write(v.data[:at])
	v.flush()
	<-v.r.Context().Done()
}

func (v visit) flush() { _ = http.NewResponseController(v.w).Flush() }

// Create implements Sink, as strictly as a store does: size and hash must agree.
func (w *world) Create(ctx context.Context, key string, c bucket.Content) (bucket.Info, error) {
	w.mu.Lock()
	w.creates[key]++
	create := w.create
	w.mu.Unlock()
	if create != nil {
		return create(ctx, key, c)
	}
	return w.store(ctx, key, c)
}

func (w *world) store(_ context.Context, key string, c bucket.Content) (bucket.Info, error) {
	data, err := io.ReadAll(c.Body)
	if err != nil {
		return bucket.Info{}, fmt.Errorf("put object: %w", err)
	}
	if int64(len(data)) != c.Size || sha256.Sum256(data) != c.SHA256 {
		w.t.Errorf("store was handed wrong bytes for %s and a clean end", key)
		return bucket.Info{}, &fault.Error{Op: "put object", Side: fault.SideBucket, Kind: fault.WrongBytes}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, taken := w.objects[key]; taken {
		return bucket.Info{}, &fault.Error{Op: "put object", Side: fault.SideBucket, Kind: fault.Exists}
	}
	w.objects[key] = data
	return w.info(key), nil
}

func (w *world) info(key string) bucket.Info {
	info := bucket.Info{Key: key, Size: int64(len(w.objects[key])), Tag: "1"}
	if !w.silent {
		sum := manifest.SumBytes(w.objects[key])
		info.SHA256 = &sum
	}
	return info
}

// Stat implements Sink.
func (w *world) Stat(_ context.Context, key string) (bucket.Info, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.objects[key]; !ok {
		return bucket.Info{}, &fault.Error{Op: "stat object", Side: fault.SideBucket, Kind: fault.NotFound}
	}
	return w.info(key), nil
}

// Open implements Sink.
func (w *world) Open(_ context.Context, key string, _, _ int64) (io.ReadCloser, bucket.Info, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opens++
	return io.NopCloser(bytes.NewReader(w.objects[key])), w.info(key), nil
}

// List implements Sink; the engine never lists.
func (w *world) List(context.Context, string, string) iter.Seq2[bucket.Info, error] {
	return func(func(bucket.Info, error) bool) { w.t.Error("the bucket was listed") }
}

// wantCopied checks that all files were copied and stand with their bytes.
func (w *world) wantCopied(summary Summary, err error, files ...File) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("copy: %v", err)
	}
	if summary.Failed != 0 || summary.Copied+summary.Present != int64(len(files)) {
		w.t.Fatalf("copied %d, present %d, failed %d of %d: %v", summary.Copied, summary.Present, summary.Failed, len(files), summary.Failures[:min(3, len(summary.Failures))])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, file := range files {
		if !bytes.Equal(w.objects[file.Key], w.files[file.Name]) {
			w.t.Errorf("%s does not hold the file's bytes", file.Key)
		}
	}
}

// wantFailed checks that the only file failed, with this kind, side and text, left nothing and
// told no secret.
func (w *world) wantFailed(summary Summary, err error, file File, kind fault.Kind, side fault.Side, text string) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("copy: %v", err)
	}
	if summary.Failed != 1 || len(summary.Failures) != 1 {
		w.t.Fatalf("summary %+v, want one failure", summary)
	}
	failure := summary.Failures[0].Err
	var told *fault.Error
	if !errors.As(failure, &told) {
		w.t.Fatalf("%v is no fault", failure)
	}
	if told.Kind != kind || told.Side != side || told.Dataset != "ds" || told.Version != 7 || told.Object == "" {
		w.t.Errorf("fault %+v, want kind %s and side %s of ds version 7", told, kind, side)
	}
	if !strings.Contains(failure.Error(), text) {
		w.t.Errorf("%q does not say %q", failure, text)
	}
	if all := fmt.Sprintf("%v %+v %#v %s", failure, failure, told, fault.HintOf(failure)); strings.Contains(all, "SECRET") {
		w.t.Errorf("the error holds the link's query: %s", all)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, stands := w.objects[file.Key]; stands {
		w.t.Errorf("%s stands", file.Key)
	}
}

// slowStore reads bodies with a pause after each buffer.
func slowStore(w *world, pause time.Duration) func(context.Context, string, bucket.Content) (bucket.Info, error) {
	return func(ctx context.Context, key string, c bucket.Content) (bucket.Info, error) {
		c.Body = &slowReader{body: c.Body, pause: pause}
		return w.store(ctx, key, c)
	}
}

type slowReader struct {
	body  io.Reader
	pause time.Duration
}

func (s *slowReader) Read(p []byte) (int, error) {
	time.Sleep(s.pause)
	n, err := s.body.Read(p)
	return n, err
}

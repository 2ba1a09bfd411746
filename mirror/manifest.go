package mirror

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
	"feedmirror/internal/transfer"
	"feedmirror/manifest"
)

// ManifestReader reads a version's manifest from its link, verified to the last byte, before
// anything of it is stored: a manifest that cannot be used must not claim its key.
type ManifestReader struct {
	Options transfer.Options // as for the engine of a pass
}

// Read hands the manifest's bytes to read, which may be called again from the start when the
// source breaks, and returns what read returned. Bytes that read leaves are verified all the same.
func (m ManifestReader) Read(ctx context.Context, job transfer.Job, linker transfer.Linker, read func(io.Reader) error) error {
	sink := &readingSink{read: read}
	options := m.Options
	options.Sink, options.Linker, options.Concurrency = sink, linker, 1
	options.Progress = nil
	summary, err := transfer.New(options).Copy(ctx, job, func(transfer.File, transfer.Outcome) {})
	if err != nil {
		return err
	}
	if summary.Failed > 0 {
		return summary.Failures[0].Err
	}
	return sink.verdict()
}

// readingSink is a sink that reads instead of storing.
type readingSink struct {
	read func(io.Reader) error
	mu   sync.Mutex
	err  error
}

func (s *readingSink) verdict() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Create implements bucket.Writer. An error of the source ends it as it would end a write; one of
// the reader is kept until the rest of the bytes proved to be those named.
func (s *readingSink) Create(_ context.Context, key string, content bucket.Content) (bucket.Info, error) {
	body := &watchedReader{source: content.Body}
	err := s.read(body)
	if body.err != nil {
		return bucket.Info{}, body.err
	}
	if _, drainErr := io.Copy(io.Discard, content.Body); drainErr != nil {
		return bucket.Info{}, drainErr
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	return bucket.Info{Key: key, Size: content.Size}, nil
}

// Stat implements bucket.Reader: nothing is ever there.
func (s *readingSink) Stat(_ context.Context, key string) (bucket.Info, error) {
	return bucket.Info{}, absent(key)
}

// Open implements bucket.Reader: nothing is ever there.
func (s *readingSink) Open(_ context.Context, key string, _, _ int64) (io.ReadCloser, bucket.Info, error) {
	return nil, bucket.Info{}, absent(key)
}

// List implements bucket.Reader: nothing is ever there.
func (s *readingSink) List(context.Context, string, string) iter.Seq2[bucket.Info, error] {
	return func(func(bucket.Info, error) bool) {}
}

func absent(key string) error {
	return &fault.Error{Op: "stat object", Object: key, Kind: fault.NotFound}
}

type watchedReader struct {
	source io.Reader
	err    error
}

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.source.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// manifestLinker hands out the link that came with the version's answer, and reads the version
// again for another: the feed's link call need not know the manifest.
type manifestLinker struct {
	feed   Signer
	answer feed.Answer
	used   bool
}

// Links implements transfer.Linker for a single name. It is called by one goroutine at a time.
func (l *manifestLinker) Links(ctx context.Context, dataset string, n manifest.Number, _ []string) (feed.Links, error) {
	if l.used {
		answer, err := l.feed.Version(ctx, dataset, n, func(feed.Entry) error { return nil })
		if err != nil {
			return feed.Links{}, err
		}
		l.answer = answer
	}
	l.used = true
	entry := l.answer.Manifest
	entry.Name = manifestName
	return feed.Links{Entries: []feed.Entry{entry}, Lifetime: l.answer.Lifetime, Received: l.answer.Received}, nil
}

const manifestName = "manifest.json"

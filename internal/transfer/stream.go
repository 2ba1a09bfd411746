package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// errClosed meets a reader that goes on after its write ended.
var errClosed = errors.New("stream is closed")

// unmetError is a whole body whose bytes are not those named.
type unmetError struct{ problem *problem }

func (u *unmetError) Error() string { return u.problem.cause.Error() }

// stream reads a file from its source, resumes it when the connection breaks, and verifies it.
// Its last bytes are handed out only when the size, the sha256 and the end of the body agree, so
// a reader that counts and never asks for the end is safe too. It cannot seek.
type stream struct {
	mu     sync.Mutex // a store's client may still read when its write has returned
	fetch  *fetch
	cancel context.CancelFunc
	body   *body
	hash   hash.Hash
	got    int64
	whole  bool // all bytes are there and verified
	err    error

	buffer     []byte // between the source and short reads; nil when read without
	start, end int
}

// newStream starts a try. It must be closed.
func (f *fetch) newStream(buffer []byte) *stream {
	ctx, cancel := context.WithCancel(f.task.job.ctx)
	f.ctx = ctx
	f.etag = ""
	return &stream{fetch: f, cancel: cancel, hash: sha256.New(), buffer: buffer}
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.start == s.end {
		n, err := s.next(s.buffer)
		if err != nil {
			return 0, err
		}
		s.start, s.end = 0, n
	}
	n := copy(p, s.buffer[s.start:s.end])
	s.start += n
	return n, nil
}

// readAll reads the whole file into p, which has its size.
func (s *stream) readAll(p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		n, err := s.next(p)
		switch {
		case err == io.EOF: //nolint:errorlint // next returns it bare
			return nil
		case err != nil:
			return err
		}
		p = p[n:]
	}
}

// next reads the next bytes of the file into p and hashes them.
func (s *stream) next(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.whole {
		return 0, io.EOF
	}
	n, err := s.advance(p)
	switch {
	case err != nil:
		s.err = err
		s.closeBody()
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// advance is next without the memory of errors. It returns zero for the end of an empty file.
func (s *stream) advance(p []byte) (int, error) {
	size := s.fetch.task.Size
	for {
		if s.body == nil {
			opened, err := s.fetch.open(s.got)
			if err != nil {
				return 0, err
			}
			s.body = opened
		}
		if s.got == size {
			return 0, s.verify()
		}
		n, err := s.body.Read(p[:min(int64(len(p)), size-s.got)])
		if n > 0 {
			return n, s.took(p[:n])
		}
		if err != nil {
			s.closeBody()
			if err := s.fetch.broken(s.got, err); err != nil {
				return 0, err
			}
		}
	}
}

// took books bytes, and verifies the file when they are the last ones.
func (s *stream) took(p []byte) error {
	s.hash.Write(p)
	s.got += int64(len(p))
	opts := &s.fetch.engine.opts
	opts.Progress(s.fetch.task.job.Dataset, len(p))
	if limiter := s.fetch.engine.limiter; limiter != nil {
		for left := len(p); left > 0; {
			part := min(left, limiter.Burst())
			if err := limiter.WaitN(s.fetch.ctx, part); err != nil {
				return fmt.Errorf("wait for bandwidth: %w", err)
			}
			left -= part
		}
	}
	if s.got == s.fetch.task.Size {
		return s.verify()
	}
	return nil
}

// verify checks that the body ends here and that its bytes are those named.
func (s *stream) verify() error {
	task := s.fetch.task
	whence := s.body.whence()
	var extra [1]byte
	n, _ := s.body.Read(extra[:]) // an error behind the last byte cannot harm: the sha256 decides
	s.closeBody()
	var sum manifest.SHA256
	s.hash.Sum(sum[:0])
	var cause error
	switch {
	case n > 0:
		cause = fmt.Errorf("the source sends more than the %d bytes named (%s)", task.Size, whence)
	case sum != task.SHA256:
		cause = fmt.Errorf("the source sent bytes with sha256 %s (%s), %s is named", sum, whence, task.SHA256)
	default:
		s.whole = true
		return nil
	}
	return &unmetError{&problem{verdict: wrong, kind: fault.WrongBytes, cause: cause, hint: hintBytes}}
}

func (s *stream) closeBody() {
	if s.body != nil {
		s.body.close()
		s.body = nil
	}
}

// close ends the stream, waits for a read that is under way, and returns the error that the
// stream met by itself.
func (s *stream) close() error {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeBody()
	err := s.err
	s.err = errClosed
	s.start, s.end = 0, 0 // the buffer goes to somebody else
	if errors.Is(err, context.Canceled) && s.fetch.task.job.ctx.Err() == nil {
		return nil // met because of close
	}
	return err
}

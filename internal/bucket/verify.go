package bucket

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// Verifier hands on a body and fails inside Read, where it would have said io.EOF or handed over
// the last byte, when the body is not exactly the bytes that were named. The last byte is held
// back until then: a store that commits once it has Content-Length bytes never gets a wrong body
// whole.
//
// An HTTP client may go on reading a request's body after it returned the answer. An adapter
// stops its Verifier before Create returns, so that the caller can seek, close or reuse the source.
type Verifier struct {
	mu     sync.Mutex
	source io.Reader
	hash   hash.Hash
	left   int64
	size   int64
	want   manifest.SHA256
	err    error
}

var errStopped = errors.New("body was stopped: its write is over")

// VerifyReader returns source checked against size (bytes) and sum. It hashes each byte once.
func VerifyReader(source io.Reader, size int64, sum manifest.SHA256) *Verifier {
	return &Verifier{source: source, hash: sha256.New(), left: size, size: size, want: sum}
}

// Read implements io.Reader. Wrong bytes are a fault.WrongBytes; an error of the source is
// returned as it came.
func (v *Verifier) Read(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err != nil {
		return 0, v.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if v.left < 0 {
		return 0, v.fail(fmt.Errorf("a size of %d bytes is named", v.size))
	}
	if v.left == 0 { // only an empty body comes here: others end with the read that fills them
		return v.finish(0)
	}
	if int64(len(p)) > v.left {
		p = p[:v.left]
	}
	n, err := v.source.Read(p)
	v.hash.Write(p[:n])
	v.left -= int64(n)
	switch {
	case v.left == 0:
		return v.finish(n)
	case err == io.EOF:
		return 0, v.fail(fmt.Errorf("ended after %d of %d bytes", v.size-v.left, v.size))
	case err != nil:
		v.err = err
		return 0, err
	}
	return n, nil
}

// finish looks for one byte too many and compares hashes before the last n bytes are handed over.
func (v *Verifier) finish(n int) (int, error) {
	var extra [1]byte
	for tries := 0; ; tries++ {
		more, err := v.source.Read(extra[:])
		if more > 0 {
			return 0, v.fail(fmt.Errorf("more than %d bytes", v.size))
		}
		if err == io.EOF {
			break
		}
		if err == nil && tries == 100 {
			err = io.ErrNoProgress
		}
		if err != nil {
			v.err = err
			return 0, err
		}
	}
	var got manifest.SHA256
	v.hash.Sum(got[:0])
	if got != v.want {
		return 0, v.fail(fmt.Errorf("sha256 is %s, want %s", got, v.want))
	}
	v.err = io.EOF
	return n, io.EOF
}

func (v *Verifier) fail(cause error) error {
	v.err = &fault.Error{Op: "verify bytes", Kind: fault.WrongBytes, Err: cause}
	return v.err
}

// Stop ends reading: a Read in progress is waited for, later ones fail without touching the
// source.
func (v *Verifier) Stop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err == nil {
		v.err = errStopped
	}
}

// Verified reports whether the whole body was read and is what was named.
func (v *Verifier) Verified() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return errors.Is(v.err, io.EOF)
}

// Failure returns the first error of the body, nil while there is none or when it ended well.
// Adapters ask it before they judge a failed request: the body is the cause then, not the store.
func (v *Verifier) Failure() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if errors.Is(v.err, io.EOF) || errors.Is(v.err, errStopped) {
		return nil
	}
	return v.err
}

package feedsim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
)

// blob is the content of a file: known by size and hash, written by range, so that it need not be in memory.
type blob struct {
	size   int64
	sha256 string                                  // 64 hex digits
	write  func(w io.Writer, from, to int64) error // writes the bytes [from, to)
}

// newBytesBlob returns a blob that is held in memory.
func newBytesBlob(data []byte) blob {
	sum := sha256.Sum256(data)
	return blob{
		size:   int64(len(data)),
		sha256: hex.EncodeToString(sum[:]),
		write: func(w io.Writer, from, to int64) error {
			_, err := w.Write(data[from:to])
			return err
		},
	}
}

// newStreamBlob returns a blob whose bytes are rendered anew each time. It renders once to learn size and hash.
func newStreamBlob(render func(w io.Writer) error) (blob, error) {
	hash := sha256.New()
	var counted countingWriter
	if err := render(io.MultiWriter(hash, &counted)); err != nil {
		return blob{}, fmt.Errorf("render blob: %w", err)
	}
	write := func(w io.Writer, from, to int64) error {
		err := render(&windowWriter{next: w, skip: from, left: to - from})
		if errors.Is(err, errWindowFull) {
			return nil
		}
		return err
	}
	return blob{size: counted.n, sha256: hex.EncodeToString(hash.Sum(nil)), write: write}, nil
}

// all returns the whole content; only for small blobs.
func (b blob) all() ([]byte, error) {
	var out bytes.Buffer
	err := b.write(&out, 0, b.size)
	return out.Bytes(), err
}

type countingWriter struct{ n int64 }

func (c *countingWriter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// errWindowFull ends a rendering whose wanted range has been written.
var errWindowFull = errors.New("window full")

// windowWriter passes on a range of what is written to it.
type windowWriter struct {
	next       io.Writer
	skip, left int64
}

func (w *windowWriter) Write(p []byte) (int, error) {
	whole := len(p)
	if skip := min(w.skip, int64(len(p))); skip > 0 {
		w.skip -= skip
		p = p[skip:]
	}
	if take := min(w.left, int64(len(p))); take > 0 {
		if _, err := w.next.Write(p[:take]); err != nil {
			return 0, err
		}
		w.left -= take
	}
	if w.left == 0 {
		return whole, errWindowFull
	}
	return whole, nil
}

// kind is the group of a version's answer that a file belongs to.
type kind string

const (
	kindSnapshot   kind = "snapshot"
	kindChanges    kind = "changes"
	kindIDMap      kind = "idMap"
	kindSchema     kind = "schema"
	kindManifest   kind = "manifest"
	kindExtra      kind = "extra"
	kindAttachment kind = "attachments"
)

// file is one file of a version. Its name is the path in the manifest, or the attachment's name.
type file struct {
	kind        kind
	name        string
	filename    string
	contentType string
	blob
}

const parquetType = "application/vnd.apache.parquet"

func newFile(kind kind, name, contentType string, content blob) file {
	return file{kind: kind, name: name, filename: path.Base(name), contentType: contentType, blob: content}
}

// fileSet is an ordered set of attachments. It may be made while it is read, so that a million need no memory.
type fileSet interface {
	len() int
	at(i int) file
	find(name string) (file, bool)
}

// fileSlice is a small fileSet.
type fileSlice []file

func (s fileSlice) len() int      { return len(s) }
func (s fileSlice) at(i int) file { return s[i] }

func (s fileSlice) find(name string) (file, bool) {
	for _, f := range s {
		if f.name == name {
			return f, true
		}
	}
	return file{}, false
}

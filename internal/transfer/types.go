package transfer

import (
	"context"
	"iter"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/feed"
	"feedmirror/manifest"
)

// File is one file to copy.
type File struct {
	Name   string // what the feed is asked for: a manifest path or an attachment name
	Key    string // where it goes
	Size   int64  // bytes, as the manifest says
	SHA256 manifest.SHA256
}

// Job is what one version of a dataset needs.
type Job struct {
	Dataset string
	Version manifest.Number
	// Lifetime is how long links live by the version's own answer; zero when it did not say. The
	// answers of the link call correct it.
	Lifetime time.Duration
	// Files yields what is to be copied, in the order in which it should start. It is pulled a
	// batch ahead of need, never all at once; an error it yields ends the job with that error.
	Files iter.Seq2[File, error]
}

// Linker signs links. Its errors end a job: it has retried what is worth a retry. Received of an
// answer must come from the same clock as Options.Now.
type Linker interface {
	Links(ctx context.Context, dataset string, version manifest.Number, names []string) (feed.Links, error)
}

// Sink is where files go, and where a key that turns out to be taken is read. Creates with a
// seekable body are retried by the sink itself, others by the engine.
type Sink interface {
	bucket.Writer
	bucket.Reader
}

// Status says how a file ended.
type Status int

// The ends of a file.
const (
	Copied  Status = iota // fetched, verified and written by us
	Present               // stood already and holds the file, by the store's own sha256 or by reading it
	Failed
)

// Outcome is the end of one file.
type Outcome struct {
	Status Status
	Info   bucket.Info // what the store said; empty for Failed
	Err    error       // why it failed: a fault.Error with dataset, version, object and side
}

// Failure is a file that was not copied.
type Failure struct {
	File File
	Err  error
}

// maxFailures bounds the list in a Summary; a version can list a million files.
const maxFailures = 100

// Summary counts the files of a job. Files that a stopped job did not begin, or gave up, are not
// in it.
type Summary struct {
	Copied      int64
	CopiedBytes int64
	Present     int64
	Failed      int64
	Failures    []Failure // the first 100; Failed counts all
}

func (s *Summary) add(file File, outcome Outcome) {
	switch outcome.Status {
	case Copied:
		s.Copied++
		s.CopiedBytes += file.Size
	case Present:
		s.Present++
	case Failed:
		s.Failed++
		if len(s.Failures) < maxFailures {
			s.Failures = append(s.Failures, Failure{File: file, Err: outcome.Err})
		}
	}
}

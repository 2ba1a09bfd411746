package transfer

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Options set up an Engine. HTTP, Sink and Linker are needed; zero values of the others stand
// for the defaults named here.
type Options struct {
	// HTTP sends requests to signed links, one connection a download (HTTP/1.1, no compression;
	// see Guard). It is no http.Client on purpose: that would follow redirects, keep cookies, time
	// bodies out and put links into its errors.
	HTTP   http.RoundTripper
	Sink   Sink
	Linker Linker

	// Concurrency is the number of files in flight over all jobs; 16. While as many are larger
	// than 1 MiB, an eighth more (one at least) are in flight if they are smaller.
	Concurrency int
	Attempts    int           // tries of one file without progress; 5
	IdleTimeout time.Duration // silence that ends a connection; 30 s
	MinRate     int64         // bytes a second, on average over RateWindow; 1024, negative: none
	RateWindow  time.Duration // time spent reading; 60 s
	Bandwidth   int64         // bytes a second over all files; 0: no limit
	Backoff     time.Duration // first pause after a failed try, doubled for each further one; 1 s
	MaxWait     time.Duration // the longest Retry-After that is waited for; 5 min
	UserAgent   string        // "feedmirror"

	Now func() time.Time // with a monotonic reading; time.Now
	// Progress is told of bytes as they arrive, also of those that are fetched again. It is
	// called by many goroutines and must be quick.
	Progress func(dataset string, bytes int)
	Counts   *Counts // nil: counted for nobody
}

// Counts are what an engine did, over all jobs.
type Counts struct {
	Requests  atomic.Int64 // GETs sent to the source
	Bytes     atomic.Int64 // body bytes received from it
	Retries   atomic.Int64 // tries that failed and were followed by another
	LinkCalls atomic.Int64 // calls of the Linker
	Links     atomic.Int64 // names in those calls
	Renewed   atomic.Int64 // of them, names that had a link before
}

func (o Options) withDefaults() Options {
	setDefault(&o.Concurrency, 16)
	setDefault(&o.Attempts, 5)
	setDefault(&o.IdleTimeout, 30*time.Second)
	if o.MinRate == 0 {
		o.MinRate = 1024
	}
	setDefault(&o.RateWindow, time.Minute)
	setDefault(&o.Backoff, time.Second)
	setDefault(&o.MaxWait, 5*time.Minute)
	if o.UserAgent == "" {
		o.UserAgent = "feedmirror"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = func(string, int) {}
	}
	if o.Counts == nil {
		o.Counts = new(Counts)
	}
	return o
}

func setDefault[T int | time.Duration](value *T, standard T) {
	if *value <= 0 {
		*value = standard
	}
}

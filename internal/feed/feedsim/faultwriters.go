package feedsim

import (
	"errors"
	"io"
	"net/http"
	"time"
)

var (
	// errDropped ends an answer by closing the connection.
	errDropped = errors.New("connection dropped by a fault")
	// errTruncated ends an answer early but properly.
	errTruncated = errors.New("answer truncated by a fault")
)

// flush hands what was written so far to the client. A client that has gone shows at the next write.
func flush(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() }

// cutWriter passes on some bytes, then fails with end.
type cutWriter struct {
	response http.ResponseWriter
	next     io.Writer
	left     int64
	end      error
}

func (c *cutWriter) Write(p []byte) (int, error) {
	n := min(c.left, int64(len(p)))
	if _, err := c.next.Write(p[:n]); err != nil {
		return 0, err
	}
	c.left -= n
	if c.left > 0 {
		return len(p), nil
	}
	if err := flush(c.response); err != nil {
		return 0, err
	}
	return int(n), c.end
}

// flipWriter inverts one byte.
type flipWriter struct {
	next     io.Writer
	at, done int64
}

func (f *flipWriter) Write(p []byte) (int, error) {
	if at := f.at - f.done; at >= 0 && at < int64(len(p)) {
		p = append([]byte(nil), p...) // the caller's bytes are the file's own
		p[at] ^= 0xff
	}
	f.done += int64(len(p))
	return f.next.Write(p)
}

// stallWriter stops once.
type stallWriter struct {
	exchange *exchange
	response http.ResponseWriter
	next     io.Writer
	left     int64
	released <-chan struct{}
	limit    time.Duration
	done     bool
}

func (s *stallWriter) Write(p []byte) (int, error) {
	if s.done || int64(len(p)) < s.left {
		s.left -= int64(len(p))
		return s.next.Write(p)
	}
	n, err := s.next.Write(p[:s.left])
	if err == nil {
		err = flush(s.response)
	}
	if err != nil {
		return n, err
	}
	s.done = true
	if !s.wait() { // the rest would count as sent, and fit into buffers that nobody reads
		return n, errDropped
	}
	rest, err := s.next.Write(p[n:])
	return n + rest, err
}

// wait returns false when the client or the feed gave up.
func (s *stallWriter) wait() bool {
	var limit <-chan time.Time
	if s.limit > 0 {
		timer := time.NewTimer(s.limit)
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case <-s.released:
	case <-limit:
	case <-s.exchange.http.Context().Done():
		return false
	case <-s.exchange.feed.stop:
		return false
	}
	return true
}

// dripsPerSecond is how often a slow answer sends something.
const dripsPerSecond = 20

// dripWriter sends at a rate.
type dripWriter struct {
	exchange *exchange
	response http.ResponseWriter
	next     io.Writer
	rate     int
}

func (d *dripWriter) Write(p []byte) (int, error) {
	written := 0
	step := max(1, d.rate/dripsPerSecond)
	for written < len(p) {
		next := p[written:min(len(p), written+step)]
		pause := time.Duration(float64(len(next)) / float64(d.rate) * float64(time.Second))
		if !d.exchange.feed.waitFor(d.exchange.http.Context(), pause) {
			return written, errDropped
		}
		n, err := d.next.Write(next)
		written += n
		if err == nil {
			err = flush(d.response)
		}
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

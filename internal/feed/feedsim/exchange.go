package feedsim

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// answer is what is about to be sent.
type answer struct {
	status int
	header http.Header
	size   int64 // bytes of the body; -1: not known, sent in chunks
	body   func(w io.Writer) error
	whole  bool // the body reaches the end of the file
}

// exchange is one request under way, on either port.
type exchange struct {
	feed  *Feed
	http  *http.Request
	fault Fault // zero for none
	event Event
	size  int64 // of the answer's body, -1 when not known

	recorded *Event // in the journal
}

// record writes down what has become of the request.
func (x *exchange) record() {
	x.event.End = time.Now()
	x.feed.log.end(x.recorded, x.event)
}

// exchange serves one request: finds its fault, makes the answer, sends it and logs what happened.
func (f *Feed) exchange(w http.ResponseWriter, r *http.Request, request Request, make func(*exchange) answer) {
	request.Range = r.Header.Get("Range")
	x := &exchange{feed: f, http: r, event: Event{
		Request: request, Start: time.Now(),
		Authorization: r.Header.Get("Authorization") != "", Cookie: r.Header.Get("Cookie") != "",
	}}
	x.fault = f.faultFor(request)
	x.event.Fault = x.fault.name
	x.recorded = f.log.begin(x.event)
	defer x.record()
	if x.fault.before != nil {
		x.fault.before(f)
	}
	var a answer
	if x.fault.instead != nil {
		a = x.fault.instead(x)
	} else {
		a = make(x)
	}
	if x.fault.change != nil {
		a = x.fault.change(a)
	}
	x.send(w, a)
}

// send writes the answer. A connection that is to be cut ends in the panic that net/http knows for it.
func (x *exchange) send(w http.ResponseWriter, a answer) {
	if x.fault.cutBefore {
		panic(http.ErrAbortHandler)
	}
	header := w.Header()
	header.Set("Date", x.feed.clock.Now().Format(http.TimeFormat))
	for key, values := range a.header {
		header[key] = values
	}
	if a.size >= 0 {
		header.Set("Content-Length", strconv.FormatInt(a.size, 10))
	}
	w.WriteHeader(a.status)
	x.event.Status, x.size = a.status, a.size
	if a.body == nil {
		return
	}
	counted := &sentWriter{exchange: x, next: w, complete: a.whole && !x.fault.spoils}
	var out io.Writer = counted
	if x.fault.writer != nil {
		out = x.fault.writer(x, w, out)
	}
	err := a.body(out)
	if closer, ok := out.(io.Closer); ok && err == nil {
		err = closer.Close()
	}
	x.event.Complete = err == nil && counted.complete
	if err != nil && !errors.Is(err, errTruncated) {
		panic(http.ErrAbortHandler)
	}
}

// sentWriter counts the bytes of the body that were handed to the connection. It records the event before it hands
// over the last byte: whoever has received a whole answer finds it in the log.
type sentWriter struct {
	exchange *exchange
	next     io.Writer
	complete bool
}

func (s *sentWriter) Write(p []byte) (int, error) {
	x := s.exchange
	if len(p) == 0 || x.size < 0 || x.event.Sent+int64(len(p)) < x.size {
		n, err := s.next.Write(p)
		x.event.Sent += int64(n)
		return n, err
	}
	n, err := s.next.Write(p[:len(p)-1])
	x.event.Sent += int64(n)
	if err != nil {
		return n, err
	}
	x.event.Sent++
	x.event.Complete = s.complete
	x.record()
	last, err := s.next.Write(p[len(p)-1:])
	if err != nil {
		x.event.Sent--
	}
	return n + last, err
}

package testservers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
)

// Servers starts each kind of server at most once, when a test first asks for it, and shares it
// among the tests of one test binary. Tests keep apart by asking for buckets of their own.
type Servers struct {
	versity once[S3]
	weed    once[S3]
	azurite once[Azure]
	gcs     once[GCS]
	trino   once[Trino]

	mutex     sync.Mutex
	processes []*process
	closers   []func()
}

// New returns Servers of which none runs yet.
func New() *Servers { return &Servers{} }

// once is a server that is started when it is first asked for. A start that did not work is not
// tried again: every further test that needs the server fails with the same error.
type once[T any] struct {
	sync.Once
	server T
	err    error
}

// get returns the server, or fails the test.
func (o *once[T]) get(t testing.TB, start func() (T, error)) T {
	t.Helper()
	o.Do(func() { o.server, o.err = start() })
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o.server
}

// Run runs the tests of a binary, stops the servers that they started and returns the exit code.
// When a test failed the servers' logs stay, and it says where. TestMain calls it:
//
//	func TestMain(m *testing.M) { os.Exit(servers.Run(m)) }
func (s *Servers) Run(m *testing.M) int {
	code := m.Run()
	if err := s.Close(code != 0, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// Close stops all servers. With keepLogs their logs stay, and their paths go to out; the data
// goes in any case. The error names servers that ended by themselves.
func (s *Servers) Close(keepLogs bool, out io.Writer) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var failure error
	for _, server := range s.processes {
		stopped := errors.Join(server.broken(), server.stop())
		log, err := server.discard(keepLogs || stopped != nil)
		if log != "" {
			_, printed := fmt.Fprintf(out, "log of %s: %s\n", server.name, log)
			err = errors.Join(err, printed)
		}
		failure = errors.Join(failure, stopped, err)
	}
	for _, closeServer := range s.closers {
		closeServer()
	}
	s.processes, s.closers = nil, nil
	return failure
}

// start runs a plan and remembers the process for Close.
func (s *Servers) start(p plan) ([]int, error) {
	server, ports, err := start(p)
	if err != nil {
		return nil, err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.processes = append(s.processes, server)
	return ports, nil
}

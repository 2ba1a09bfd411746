package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// lines joins events as `go test -json` writes them.
func lines(events ...string) string { return strings.Join(events, "\n") + "\n" }

func TestCheck(t *testing.T) {
	const pass = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"quiet unless it fails\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"pass","Package":"p","Elapsed":2.5}
`
	tests := []struct {
		name    string
		in      string
		good    bool
		closing string
		shows   []string
		hides   []string
	}{
		{
			name: "passed", in: pass, good: true, closing: "1 passed, 0 failed",
			shows: []string{"ok        2.5 s     1 tests  p\n", "slowest packages:\n"},
			hides: []string{"quiet unless it fails"},
		},
		{
			name: "failed test with its output",
			in: lines(`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: got 1, want 2\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\n"}`,
				`{"Action":"fail","Package":"p","Elapsed":0.1}`),
			closing: "0 passed, 1 failed",
			shows:   []string{"FAIL  p  TestA\n", "got 1, want 2"},
			hides:   []string{"slowest"},
		},
		{
			name: "a skipped test beside a passed one",
			in: pass + lines(`{"Action":"run","Package":"q","Test":"TestB"}`,
				`{"Action":"output","Package":"q","Test":"TestB","Output":"    b_test.go:9: no server\n"}`,
				`{"Action":"skip","Package":"q","Test":"TestB"}`,
				`{"Action":"pass","Package":"q"}`),
			closing: "1 passed, 1 failed",
			shows:   []string{"SKIP  q  TestB\n", "no server", "1 skipped", "FAIL      0.0 s     1 tests  q"},
		},
		{
			name: "package without test files", in: pass + `{"Action":"skip","Package":"q"}` + "\n",
			good: true, closing: "1 passed, 0 failed", hides: []string{"skipped"},
		},
		{
			name: "package that does not compile",
			in: lines(`{"ImportPath":"q [q.test]","Action":"build-output","Output":"q/b.go:4:2: undefined: x\n"}`,
				`{"ImportPath":"q [q.test]","Action":"build-fail"}`,
				`{"Action":"start","Package":"q"}`,
				`{"Action":"output","Package":"q","Output":"FAIL\tq [build failed]\n"}`,
				`{"Action":"fail","Package":"q","FailedBuild":"q [q.test]"}`),
			closing: "0 passed, 1 failed",
			shows:   []string{"undefined: x", "FAIL  q"},
		},
		{
			name: "time limit: the package fails and a test never ends",
			in: lines(`{"Action":"start","Package":"q"}`, `{"Action":"run","Package":"q","Test":"TestB"}`,
				`{"Action":"output","Package":"q","Test":"TestB","Output":"panic: test timed out\n"}`,
				`{"Action":"fail","Package":"q"}`),
			closing: "0 passed, 2 failed",
			shows:   []string{"FAIL (never ended)  q  TestB", "panic: test timed out"},
		},
		{
			name: "stream cut off", in: `{"Action":"start","Package":"q"}` + "\n" + `{"Action":"ru`,
			closing: "0 passed, 1 failed", shows: []string{"FAIL (never ended)  q", `{"Action":"ru`},
		},
		{name: "nothing ran", in: "", closing: "0 passed, 0 failed", shows: []string{"no test ran"}},
		{
			name: "what is no event is shown", in: "warning: from a child process\n" + pass,
			good: true, closing: "1 passed, 0 failed", shows: []string{"warning: from a child process"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			got, err := check(strings.NewReader(test.in), &out)
			if err != nil {
				t.Fatal(err)
			}
			if got.good() != test.good {
				t.Errorf("good is %t, want %t", got.good(), test.good)
			}
			if !strings.HasSuffix(out.String(), "\n"+test.closing+"\n") {
				t.Errorf("the last line is not %q", test.closing)
			}
			for _, want := range test.shows {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the report lacks %q", want)
				}
			}
			for _, unwanted := range test.hides {
				if strings.Contains(out.String(), unwanted) {
					t.Errorf("the report shows %q", unwanted)
				}
			}
			if t.Failed() {
				t.Logf("report:\n%s", out.String())
			}
		})
	}
}

func TestCheckTellsWhatItCannotReadOrWrite(t *testing.T) {
	broken := errors.New("pipe broke")
	if _, err := check(iotest.ErrReader(broken), io.Discard); !errors.Is(err, broken) {
		t.Errorf("reading: got %v, want %v", err, broken)
	}
	in := strings.NewReader(`{"Action":"pass","Package":"p"}` + "\n")
	if _, err := check(in, failingWriter{broken}); !errors.Is(err, broken) {
		t.Errorf("writing: got %v, want %v", err, broken)
	}
}

// failingWriter refuses every write.
type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

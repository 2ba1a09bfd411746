package transfer

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"feedmirror/internal/fault"
)

// bothSizes runs a test with a file that is fetched whole and with one that is streamed.
func bothSizes(t *testing.T, opts Options, test func(w *world, file File)) {
	t.Helper()
	for _, size := range []int{200_000, 2_000_003} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			run(t, opts, func(w *world) { test(w, w.add("snapshot/part-0000.parquet", size)) })
		})
	}
}

// first answers the first visit of a name with handle and later ones well.
func (w *world) first(handle func(v visit)) {
	w.handle = func(v visit) {
		if v.nth == 1 {
			handle(v)
			return
		}
		w.serve(v)
	}
}

func TestResumesABrokenBody(t *testing.T) {
	bothSizes(t, Options{}, func(w *world, file File) {
		w.first(func(v visit) { v.cut(len(v.data) / 3) })
		summary, err := w.copy(file)
		w.wantCopied(summary, err, file)
		if want := fmt.Sprintf("bytes=%d-", file.Size/3); len(w.ranges) != 1 || w.ranges[0] != want {
			t.Errorf("ranges %q, want %q", w.ranges, want)
		}
		if w.visits[file.Name] != 2 || w.signed[file.Name] != 1 || w.creates[file.Key] != 1 {
			t.Errorf("%d visits, signed %d times, created %d times, want 2, 1, 1",
				w.visits[file.Name], w.signed[file.Name], w.creates[file.Key])
		}
	})
}

func TestResumesMoreOftenThanTriesWhileItMoves(t *testing.T) {
	run(t, Options{Attempts: 2}, func(w *world) {
		file := w.add("snapshot/part-0000.parquet", 3<<20)
		w.handle = func(v visit) {
			start, _ := strconv.Atoi(trimRange(v.r))
			if start+300_000 >= len(v.data) {
				w.serve(v)
				return
			}
			if start > 0 {
				v.w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, len(v.data)-1, len(v.data)))
				v.w.WriteHeader(http.StatusPartialContent)
			}
			_, _ = v.w.Write(v.data[start : start+300_000])
			v.flush()
			panic(http.ErrAbortHandler)
		}
		summary, err := w.copy(file)
		w.wantCopied(summary, err, file)
		if w.visits[file.Name] < 10 {
			t.Errorf("%d visits, want one for each 300,000 bytes", w.visits[file.Name])
		}
	})
}

func trimRange(r *http.Request) string {
	text := r.Header.Get("Range")
	if text == "" {
		return "0"
	}
	return text[len("bytes=") : len(text)-1]
}

// A source that cannot or will not resume is started over, and what it sends is never mixed.
func TestStartsOverWhereItCannotResume(t *testing.T) {
	answers := map[string]func(v visit){
		"range ignored": func(v visit) { _, _ = v.w.Write(v.data) },
		"wrong start": func(v visit) {
			v.w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(v.data)-1, len(v.data)))
			v.w.WriteHeader(http.StatusPartialContent)
			_, _ = v.w.Write(v.data)
		},
		"other total": func(v visit) {
			start, _ := strconv.Atoi(trimRange(v.r))
			v.w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, len(v.data)-1, len(v.data)+5))
			v.w.WriteHeader(http.StatusPartialContent)
			_, _ = v.w.Write(v.data[start:])
		},
		"no content range": func(v visit) {
			start, _ := strconv.Atoi(trimRange(v.r))
			v.w.WriteHeader(http.StatusPartialContent)
			_, _ = v.w.Write(v.data[start:])
		},
		"other generation": func(v visit) {
			start, _ := strconv.Atoi(trimRange(v.r))
			v.w.Header().Set("ETag", `"another"`)
			v.w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, len(v.data)-1, len(v.data)))
			v.w.WriteHeader(http.StatusPartialContent)
			_, _ = v.w.Write(content(99, len(v.data)-start))
		},
		"416": func(v visit) { v.w.WriteHeader(http.StatusRequestedRangeNotSatisfiable) },
		"gzip": func(v visit) {
			v.w.Header().Set("Content-Encoding", "gzip")
			v.w.WriteHeader(http.StatusPartialContent)
		},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			bothSizes(t, Options{}, func(w *world, file File) {
				w.handle = func(v visit) {
					switch v.nth {
					case 1:
						v.cut(len(v.data) / 3)
					case 2:
						answer(v)
					default:
						w.serve(v)
					}
				}
				summary, err := w.copy(file)
				w.wantCopied(summary, err, file)
				signed := 1 // seen before bytes were mixed, so that the link is not to blame
				if name == "gzip" {
					signed = 2
				}
				if w.visits[file.Name] != 3 || w.signed[file.Name] != signed {
					t.Errorf("%d visits, signed %d times, want 3 and %d", w.visits[file.Name], w.signed[file.Name], signed)
				}
			})
		})
	}
}

// What a source does for ever ends the file within a bound, and says what it did.
func TestGivesUpOnWhatTheSourceDoesForEver(t *testing.T) {
	flipped := func(data []byte) []byte {
		data = append([]byte(nil), data...)
		data[len(data)/2] ^= 1
		return data
	}
	tests := []struct {
		name   string
		handle func(v visit)
		kind   fault.Kind
		text   string
		visits int // at most
	}{
		{"html", func(v visit) {
			v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = v.w.Write([]byte("<html>please log in</html>"))
		}, fault.WrongBytes, "text/html", 3},
		{"gzip", func(v visit) {
			v.w.Header().Set("Content-Encoding", "gzip")
			packed := gzip.NewWriter(v.w)
			_, _ = packed.Write(v.data)
			_ = packed.Close()
		}, fault.Malformed, "encoded (gzip)", 3},
		{"length too small", func(v visit) {
			v.w.Header().Set("Content-Length", strconv.Itoa(len(v.data)-500))
			_, _ = v.w.Write(v.data[:len(v.data)-500])
		}, fault.WrongBytes, "are named", 3},
		{"short for ever, ranges ignored", func(v visit) {
			v.flush()
			_, _ = v.w.Write(v.data[:len(v.data)-500])
		}, fault.WrongBytes, "ends the body at byte", 5},
		{"short with a clean end", func(v visit) {
			if v.r.Header.Get("Range") != "" {
				v.w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return
			}
			v.flush() // chunked
			_, _ = v.w.Write(v.data[:len(v.data)-500])
		}, fault.WrongBytes, "nothing from byte", 5},
		{"extra byte", func(v visit) {
			v.flush()
			_, _ = v.w.Write(append(v.data[:len(v.data):len(v.data)], 'x'))
		}, fault.WrongBytes, "more than", 3},
		{"flipped byte", func(v visit) { _, _ = v.w.Write(flipped(v.data)) }, fault.WrongBytes, "sha256", 3},
		{"403", func(v visit) {
			v.w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(v.w, "<Error><Code>AccessDenied</Code><Request>%s</Request></Error>", v.r.RequestURI)
		}, fault.Denied, "status 403 AccessDenied", 2},
		{"404", func(v visit) { v.w.WriteHeader(http.StatusNotFound) }, fault.NotFound, "status 404", 5},
		{"503", func(v visit) { v.w.WriteHeader(http.StatusServiceUnavailable) }, fault.Transient, "status 503", 5},
		{"teapot", func(v visit) { v.w.WriteHeader(http.StatusTeapot) }, fault.Malformed, "status 418", 2},
		{"dropped", func(visit) { panic(http.ErrAbortHandler) }, fault.Transient, "EOF", 10},
		{"slice unasked", func(v visit) {
			v.w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(v.data)-1, len(v.data)))
			v.w.WriteHeader(http.StatusPartialContent)
			_, _ = v.w.Write(v.data)
		}, fault.WrongBytes, "slice", 3},
		{"silent body", func(v visit) { v.stall(10) }, fault.Transient, "nothing for too long", 5},
		{"silent", func(v visit) { <-v.r.Context().Done() }, fault.Transient, "nothing for too long", 5},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bothSizes(t, Options{}, func(w *world, file File) {
				w.handle = test.handle
				summary, err := w.copy(file)
				w.wantFailed(summary, err, file, test.kind, fault.SideSource, test.text)
				if got := w.visits[file.Name]; got > test.visits || got < 2 {
					t.Errorf("%d visits, want 2 to %d", got, test.visits)
				}
			})
		})
	}
}

// The same faults, once, cost a try and nothing else.
func TestSurvivesWhatTheSourceDoesOnce(t *testing.T) {
	tests := map[string]struct {
		handle func(v visit)
		signed int
	}{
		"html":            {func(v visit) { _, _ = v.w.Write([]byte("<html>")) }, 2},
		"flipped byte":    {func(v visit) { _, _ = v.w.Write(content(99, len(v.data))) }, 2},
		"extra byte":      {func(v visit) { v.flush(); _, _ = v.w.Write(append(v.data[:len(v.data):len(v.data)], 'x')) }, 2},
		"short clean end": {func(v visit) { v.flush(); _, _ = v.w.Write(v.data[:len(v.data)-500]) }, 2},
		"403 empty":       {func(v visit) { v.w.WriteHeader(403) }, 2},
		"403 html":        {func(v visit) { v.w.WriteHeader(403); _, _ = v.w.Write([]byte("<html>no</html>")) }, 2},
		"403 xml":         {func(v visit) { v.w.WriteHeader(403); _, _ = v.w.Write([]byte("<Code>AccessDenied</Code>")) }, 2},
		"400 request":     {func(v visit) { v.w.WriteHeader(400); _, _ = v.w.Write([]byte("<Code>ExpiredRequest</Code>")) }, 2},
		"400 token":       {func(v visit) { v.w.WriteHeader(400); _, _ = v.w.Write([]byte("<Code>ExpiredToken</Code>")) }, 2},
		"401":             {func(v visit) { v.w.WriteHeader(401) }, 2},
		"404":             {func(v visit) { v.w.WriteHeader(404) }, 2},
		"408":             {func(v visit) { v.w.WriteHeader(408) }, 1},
		"425":             {func(v visit) { v.w.WriteHeader(425) }, 1},
		"429":             {func(v visit) { v.w.WriteHeader(429) }, 1},
		"500":             {func(v visit) { v.w.WriteHeader(500) }, 1},
		"502":             {func(v visit) { v.w.WriteHeader(502) }, 1},
		"504":             {func(v visit) { v.w.WriteHeader(504) }, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bothSizes(t, Options{}, func(w *world, file File) {
				w.first(test.handle)
				summary, err := w.copy(file)
				w.wantCopied(summary, err, file)
				if w.visits[file.Name] != 2 || w.signed[file.Name] != test.signed {
					t.Errorf("%d visits, signed %d times, want 2 and %d", w.visits[file.Name], w.signed[file.Name], test.signed)
				}
			})
		})
	}
}

// An edge that remembers a 404 forgets it after a while, or for another link.
func TestWaitsForAFileThatIsNotThereYet(t *testing.T) {
	run(t, Options{}, func(w *world) {
		file := w.add("document:late", 1000)
		began := time.Now()
		w.handle = func(v visit) {
			if time.Since(began) < 20*time.Second {
				v.w.WriteHeader(http.StatusNotFound)
				return
			}
			w.serve(v)
		}
		summary, err := w.copy(file)
		w.wantCopied(summary, err, file)
	})
}

func TestRetryAfterIsAFloor(t *testing.T) {
	tests := []struct {
		name, after string
		least, most time.Duration
	}{
		{"seconds", "7", 7 * time.Second, 8 * time.Second},
		{"date", "date", 7 * time.Second, 8 * time.Second},
		{"negative", "-1", 500 * time.Millisecond, 2 * time.Second},
		{"rubbish", "soon", 500 * time.Millisecond, 2 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			run(t, Options{}, func(w *world) {
				file := w.add("document:a", 1000)
				var refused, came time.Time
				w.handle = func(v visit) {
					if v.nth > 1 {
						came = time.Now()
						w.serve(v)
						return
					}
					refused = time.Now()
					after := test.after
					if after == "date" {
						after = time.Now().Add(7 * time.Second).UTC().Format(http.TimeFormat)
					}
					v.w.Header().Set("Retry-After", after)
					v.w.WriteHeader(http.StatusServiceUnavailable)
				}
				summary, err := w.copy(file)
				w.wantCopied(summary, err, file)
				if gap := came.Sub(refused); gap < test.least || gap > test.most {
					t.Errorf("came back after %s, want %s to %s", gap, test.least, test.most)
				}
			})
		})
	}
}

func TestRetryAfterBeyondReasonFailsAtOnce(t *testing.T) {
	run(t, Options{}, func(w *world) {
		file := w.add("document:a", 1000)
		w.handle = func(v visit) {
			v.w.Header().Set("Retry-After", "86400")
			v.w.WriteHeader(http.StatusTooManyRequests)
		}
		summary, err := w.copy(file)
		w.wantFailed(summary, err, file, fault.Transient, fault.SideSource, "24h0m0s")
		if w.visits[file.Name] != 1 {
			t.Errorf("%d visits, want 1", w.visits[file.Name])
		}
	})
}

// drip writes a body in equal portions at equal intervals. It does not wait behind the last one:
// the client sends its next request then, and a server that has met one byte of that no longer
// sees the connection close.
func (v visit) drip(portion int, every time.Duration) {
	v.w.Header().Set("Content-Length", strconv.Itoa(len(v.data)))
	for data := v.data; len(data) > 0; {
		if len(data) < len(v.data) {
			select {
			case <-time.After(every):
			case <-v.r.Context().Done():
				return
			}
		}
		n := min(portion, len(data))
		if _, err := v.w.Write(data[:n]); err != nil {
			return
		}
		v.flush()
		data = data[n:]
	}
}

func TestSlowButEvenIsFineADripIsNot(t *testing.T) {
	t.Run("even", func(t *testing.T) {
		run(t, Options{}, func(w *world) {
			file := w.add("snapshot/part-0000.parquet", 64<<20)
			w.handle = func(v visit) { v.drip(64<<20/100, time.Second) }
			summary, err := w.copy(file)
			w.wantCopied(summary, err, file)
			if w.visits[file.Name] != 1 {
				t.Errorf("%d visits, want 1", w.visits[file.Name])
			}
		})
	})
	t.Run("drip", func(t *testing.T) {
		bothSizes(t, Options{}, func(w *world, file File) {
			w.handle = func(v visit) { v.drip(1, 10*time.Second) }
			began := time.Now()
			summary, err := w.copy(file)
			w.wantFailed(summary, err, file, fault.Transient, fault.SideSource, "slower than the least rate")
			if took := time.Since(began); took > 10*time.Minute {
				t.Errorf("took %s", took)
			}
		})
	})
}

// A store that is slower than the source must not look like a slow source.
func TestSlowStoreIsNoSlowSource(t *testing.T) {
	run(t, Options{}, func(w *world) {
		file := w.add("snapshot/part-0000.parquet", 2<<20)
		w.create = slowStore(w, 100*time.Second)
		summary, err := w.copy(file)
		w.wantCopied(summary, err, file)
		if w.visits[file.Name] != 1 {
			t.Errorf("%d visits, want 1", w.visits[file.Name])
		}
	})
}

package transfer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/internal/feed"
	"feedmirror/manifest"
)

// checkSigned checks that no name was signed, and no file fetched to its end, more often.
func (w *world) checkSigned(most int) {
	w.t.Helper()
	for name, times := range w.signed {
		if times > most {
			w.t.Errorf("%s was signed %d times", name, times)
		}
		if w.complete[name] > 1 {
			w.t.Errorf("%s was fetched to its end %d times", name, w.complete[name])
		}
	}
}

// Links live 5 s, 300 files take 40 s, and one worker is stalled in mid-file.
func TestShortLivedLinksAreSignedAtMostTwice(t *testing.T) {
	for _, test := range []struct{ workers, size int }{{1, 1000}, {2, 1000}, {4, 1000}, {16, 1000}, {4, smallFile + 1000}} {
		t.Run(fmt.Sprintf("%d workers, %d bytes", test.workers, test.size), func(t *testing.T) {
			run(t, Options{Concurrency: test.workers, IdleTimeout: 8 * time.Second}, func(w *world) {
				w.lifetime, w.delay = 5*time.Second, 20*time.Millisecond
				files := make([]File, 300)
				for i := range files {
					files[i] = w.add(fmt.Sprintf("document:%d", i), test.size)
				}
				w.handle = func(v visit) {
					if v.name == "document:100" && v.nth == 1 {
						v.stall(500)
						return
					}
					time.Sleep(40 * time.Second * time.Duration(test.workers) / 300)
					w.serve(v)
				}
				summary, err := w.copy(files...)
				w.wantCopied(summary, err, files...)
				w.checkSigned(2)
				if again := w.counts.Renewed.Load(); again > 15 {
					t.Errorf("%d of 300 names were signed again", again)
				}
				if requests := w.counts.Requests.Load(); requests != 301 {
					t.Errorf("%d requests, want one a file and one to go on after the stall", requests)
				}
			})
		})
	}
}

// A queue of full batches expires at once: what is in flight and what is queued behind it gets
// new links in shared calls, not one call a worker and try.
func TestOneCallRenewsAllThatExpired(t *testing.T) {
	run(t, Options{Concurrency: 8, IdleTimeout: time.Hour}, func(w *world) {
		w.lifetime = 10 * time.Minute // long enough for full batches
		files := make([]File, 200)
		for i := range files {
			files[i] = w.add(fmt.Sprintf("document:%d", i), 1000)
		}
		w.handle = func(v visit) {
			time.Sleep(2 * time.Minute)
			w.serve(v)
		}
		summary, err := w.copy(files...)
		w.wantCopied(summary, err, files...)
		w.checkSigned(2)
		if len(w.calls) > 20 {
			t.Errorf("calls of %v names", w.calls)
		}
	})
}

// All links are refused early, at the same instant, with eight files in flight.
func TestEarlyExpiryIsRenewedInOneCall(t *testing.T) {
	for _, status := range []int{400, 401, 403} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			run(t, Options{Concurrency: 8}, func(w *world) {
				w.delay = 50 * time.Millisecond
				files := make([]File, 8)
				for i := range files {
					files[i] = w.add(fmt.Sprintf("snapshot/part-%04d.parquet", i), 2<<20)
				}
				w.handle = func(v visit) {
					switch {
					case v.nth == 1:
						v.cut(1 << 20)
					case v.signing == 1:
						v.w.WriteHeader(status)
					default:
						w.serve(v)
					}
				}
				summary, err := w.copy(files...)
				w.wantCopied(summary, err, files...)
				w.checkSigned(2)
				for _, file := range files {
					if w.creates[file.Key] != 1 {
						t.Errorf("%s was written %d times, want one write that goes on", file.Key, w.creates[file.Key])
					}
				}
				if len(w.calls) > 9 {
					t.Errorf("calls of %v names, want no more than one a file", w.calls)
				}
			})
		})
	}
}

// Each link that served some bytes and is then refused earns a fresh one.
func TestLinksRefusedAgainAndAgainInMidFile(t *testing.T) {
	bothSizes(t, Options{}, func(w *world, file File) {
		refusals := 0
		w.handle = func(v visit) {
			switch {
			case v.nth == 1:
				v.cut(len(v.data) / 3)
			case v.nth%2 == 0 && refusals < 3:
				refusals++
				v.w.WriteHeader(http.StatusForbidden)
			case refusals < 3:
				start, _ := strconv.Atoi(trimRange(v.r))
				v.w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, len(v.data)-1, len(v.data)))
				v.w.Header().Set("Content-Length", strconv.Itoa(len(v.data)-start))
				v.w.WriteHeader(http.StatusPartialContent)
				_, _ = v.w.Write(v.data[start : start+10])
				v.flush()
				panic(http.ErrAbortHandler)
			default:
				w.serve(v)
			}
		}
		w.engine.opts.Attempts = 10
		summary, err := w.copy(file)
		w.wantCopied(summary, err, file)
		if w.signed[file.Name] != 4 || w.creates[file.Key] != 1 {
			w.t.Errorf("signed %d times, %d creates", w.signed[file.Name], w.creates[file.Key])
		}
	})
}

// A source that refuses every first link must not make signed files pile up.
func TestRefusedLinksDoNotSignAhead(t *testing.T) {
	run(t, Options{Concurrency: 4}, func(w *world) {
		files := make([]File, 2000)
		for i := range files {
			files[i] = w.add(fmt.Sprintf("document:%d", i), 10)
		}
		ahead, most := 0, 0
		w.linkHook = func(names []string, _ *feed.Links) error {
			ahead = len(w.signed) - len(w.complete)
			most = max(most, ahead)
			return nil
		}
		w.handle = func(v visit) {
			if v.signing == 1 {
				v.w.WriteHeader(http.StatusForbidden)
				return
			}
			w.serve(v)
		}
		summary, err := w.copy(files...)
		w.wantCopied(summary, err, files...)
		w.checkSigned(2)
		if most > 2*maxBatch+50 {
			t.Errorf("%d names were signed ahead", most)
		}
	})
}

// Links that are expired when they come are tried once each, and the job ends.
func TestLinksBornExpired(t *testing.T) {
	run(t, Options{}, func(w *world) {
		files := []File{w.add("document:a", 10), w.add("document:b", 10), w.add("document:c", 2<<20)}
		w.linkHook = func(_ []string, links *feed.Links) error {
			links.Lifetime = 1
			return nil
		}
		summary, err := w.engine.Copy(w.t.Context(), Job{Dataset: "ds", Version: 7, Lifetime: 1, Files: sequence(files...)}, nil)
		w.wantCopied(summary, err, files...)
		w.checkSigned(2)
	})
}

func TestMissingFileFailsAloneAndAtOnce(t *testing.T) {
	run(t, Options{}, func(w *world) {
		good := w.add("document:good", 1000)
		lost := File{Name: "changes/part-0000.parquet", Key: "data/lost", Size: 5}
		summary, err := w.copy(lost, good)
		w.wantFailed(summary, err, lost, fault.Missing, fault.SideFeed, "no file of this name")
		if summary.Copied != 1 || w.visits[lost.Name] != 0 || len(w.calls) != 1 {
			t.Errorf("summary %+v, calls %v", summary, w.calls)
		}
	})
}

func TestLinkToOtherBytesIsNotFollowed(t *testing.T) {
	changes := map[string]func(*feed.Entry){
		"size":   func(entry *feed.Entry) { entry.Size++ },
		"sha256": func(entry *feed.Entry) { entry.SHA256[3] ^= 1 },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			run(t, Options{}, func(w *world) {
				file := w.add("document:a", 1000)
				w.linkHook = func(_ []string, links *feed.Links) error {
					change(&links.Entries[0])
					return nil
				}
				summary, err := w.copy(file)
				w.wantFailed(summary, err, file, fault.Malformed, fault.SideFeed, "the manifest names")
				if w.visits[file.Name] != 0 {
					t.Error("the file was fetched")
				}
			})
		})
	}
}

func TestNameLeftOutOfTheAnswer(t *testing.T) {
	run(t, Options{}, func(w *world) {
		file := w.add("document:a", 1000)
		w.linkHook = func(_ []string, links *feed.Links) error {
			links.Entries[0].Name = "document:other"
			return nil
		}
		summary, err := w.copy(file)
		w.wantFailed(summary, err, file, fault.Malformed, fault.SideFeed, "neither links")
	})
}

func TestLinkThatCannotBeUsed(t *testing.T) {
	for _, link := range []string{
		"", "/relative?sig=SECRET1", "ftp://host/a?sig=SECRET1", "http://example.com/a?sig=SECRET1",
		"https://user:SECRET1@example.com/a", "http://localhost/a b?sig=SECRET1", "http://localhost/a\r\nX: y?sig=SECRET1",
	} {
		t.Run(fmt.Sprintf("%q", link), func(t *testing.T) {
			run(t, Options{}, func(w *world) {
				file := w.add("document:a", 1000)
				w.linkHook = func(_ []string, links *feed.Links) error {
					links.Entries[0].URL = link
					return nil
				}
				summary, err := w.copy(file)
				w.wantFailed(summary, err, file, fault.Malformed, fault.SideSource, "the link")
			})
		})
	}
}

// A refusal by the feed ends the job: every other file would meet it too.
func TestFeedRefusalStopsTheJob(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Denied, fault.Gone, fault.NotSubscribed, fault.Transient} {
		t.Run(string(kind), func(t *testing.T) {
			run(t, Options{}, func(w *world) {
				files := make([]File, 1000)
				for i := range files {
					files[i] = w.add(fmt.Sprintf("document:%d", i), 10)
				}
				w.linkHook = func([]string, *feed.Links) error {
					if len(w.calls) == 3 {
						return &fault.Error{Op: "sign links", Side: fault.SideFeed, Kind: kind}
					}
					return nil
				}
				summary, err := w.copy(files...)
				if !fault.Is(err, kind) {
					t.Fatalf("copy: %v, want %s", err, kind)
				}
				if summary.Failed != 0 || summary.Copied > 400 || len(w.calls) != 3 {
					t.Errorf("summary %+v after %d calls", summary, len(w.calls))
				}
			})
		})
	}
}

// fixedLinks signs one file with one URL.
type fixedLinks struct {
	file File
	url  string
}

func (f fixedLinks) Links(context.Context, string, manifest.Number, []string) (feed.Links, error) {
	return feed.Links{Entries: []feed.Entry{{Name: f.file.Name, Size: f.file.Size, SHA256: f.file.SHA256, URL: f.url}}}, nil
}

// The request line must hold the link's target byte for byte.
func TestLinkIsSentAsItIs(t *testing.T) {
	for _, target := range []string{
		"/a%2Fb%3D/c%20d+e@f;g=h?X-Sig=%2B%2F%3B%22==&x=a+b;c",
		"/a?b", "/?", "?sig=1", "", "//double//slash?x=%2f", "/%41%7e~?%41", "/a/../b/./c?..", "/ä?ö=ü",
		`/quo"te?<x>|{y}^[z]\`, "/a?b?c=d?", "/star*(paren)'", "/%zz?%",
	} {
		t.Run(target, func(t *testing.T) {
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = listener.Close() }()
			lines := make(chan string, 1)
			go answerOnce(listener, lines, "hello")
			file := File{Name: "f", Key: "k", Size: 5, SHA256: sha256.Sum256([]byte("hello"))}
			transport := &http.Transport{DisableCompression: true}
			Guard(transport, GuardOptions{Loopback: true})
			defer transport.CloseIdleConnections()
			w := &world{t: t, objects: map[string][]byte{}, creates: map[string]int{}}
			engine := New(Options{
				HTTP: transport, Sink: w,
				Linker: fixedLinks{file: file, url: "http://" + listener.Addr().String() + target + "#fragment"},
			})
			summary, err := engine.Copy(t.Context(), Job{Dataset: "ds", Version: 7, Files: sequence(file)}, nil)
			if err != nil || summary.Copied != 1 {
				t.Fatalf("%+v, %v", summary, err)
			}
			want := target
			if !strings.HasPrefix(want, "/") {
				want = "/" + want
			}
			if got := <-lines; got != "GET "+want+" HTTP/1.1" {
				t.Errorf("sent %q, want %q", got, want)
			}
		})
	}
}

func answerOnce(listener net.Listener, lines chan<- string, body string) {
	defer close(lines)
	conn, err := listener.Accept()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	first := ""
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		if first == "" {
			first = line
		}
		if line == "" {
			break
		}
	}
	lines <- first
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func TestLinkIsNotPrinted(t *testing.T) {
	secret := &task{File: File{Name: "a"}, link: link{url: "https://host/?sig=SECRET"}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, secret.link); strings.Contains(text, "SECRET") {
			t.Errorf("%s prints %s", format, text)
		}
	}
}

// A certificate that nobody we trust signed is no reason to try again.
func TestUnknownCertificateIsFinal(t *testing.T) {
	server := newTLSServer(t)
	file := File{Name: "f", Key: "k", Size: 5, SHA256: sha256.Sum256([]byte("hello"))}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	w := &world{t: t, objects: map[string][]byte{}, creates: map[string]int{}}
	counts := new(Counts)
	engine := New(Options{HTTP: transport, Sink: w, Counts: counts, Linker: fixedLinks{file: file, url: server + "/a?sig=SECRET"}})
	summary, err := engine.Copy(t.Context(), Job{Dataset: "ds", Version: 7, Files: sequence(file)}, nil)
	w.wantFailed(summary, err, file, fault.Denied, fault.SideSource, "certificate")
	if counts.Requests.Load() != 1 {
		t.Errorf("%d requests, want 1", counts.Requests.Load())
	}
}

func TestContextEndsTheJob(t *testing.T) {
	run(t, Options{}, func(w *world) {
		files := make([]File, 60)
		for i := range files {
			files[i] = w.add(fmt.Sprintf("document:%d", i), 2<<20*(i%2)+10)
		}
		w.handle = func(v visit) { v.drip(1000, time.Second) }
		ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
		defer cancel()
		began := time.Now()
		reported := 0
		summary, err := w.engine.Copy(ctx, w.job("ds", files...), func(File, Outcome) { reported++ })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("copy: %v", err)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("took %s", took)
		}
		if summary.Failed != 0 || int64(reported) != summary.Copied {
			t.Errorf("summary %+v, %d reported: files that were given up are no failures", summary, reported)
		}
		for key, data := range w.objects {
			if !bytes.Equal(data, w.files[strings.TrimPrefix(key, "data/")]) {
				t.Errorf("%s holds other bytes", key)
			}
		}
	})
}

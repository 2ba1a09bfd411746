package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// A small dataset that comes while another one has many or huge files ends about as soon as it
// would alone.
func TestDatasetsShareTheWorkers(t *testing.T) {
	tests := map[string]struct {
		count, size int
		took        time.Duration // a file of the other dataset
	}{
		"many small files": {2000, 100, time.Second},
		"huge files":       {40, smallFile + 1, 10 * time.Minute},
		"all files 404":    {500, 0, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			run(t, Options{Concurrency: 8, IdleTimeout: time.Hour}, func(w *world) {
				w.lifetime = 24 * time.Hour
				others := make([]File, test.count)
				for i := range others {
					others[i] = w.add(fmt.Sprintf("other:%d", i), test.size)
				}
				mine := make([]File, 20)
				for i := range mine {
					mine[i] = w.add(fmt.Sprintf("mine:%d", i), 100)
				}
				w.handle = func(v visit) {
					switch {
					case v.name[:4] == "mine":
						time.Sleep(time.Second)
					case test.took == 0:
						v.w.WriteHeader(http.StatusNotFound)
						return
					default:
						time.Sleep(test.took)
					}
					w.serve(v)
				}
				var both sync.WaitGroup
				both.Go(func() {
					if _, err := w.engine.Copy(w.t.Context(), w.job("other", others...), nil); err != nil {
						t.Errorf("copy the other: %v", err)
					}
				})
				time.Sleep(10 * time.Second)
				synctest.Wait()
				began := time.Now()
				summary, err := w.engine.Copy(w.t.Context(), w.job("mine", mine...), nil)
				w.wantCopied(summary, err, mine...)
				// Alone it takes 3 s. With half the workers, or the one kept for small files, more.
				if took := time.Since(began); took > 22*time.Second {
					t.Errorf("20 files of a second took %s", took)
				}
				both.Wait()
			})
		})
	}
}

// As many files are in flight as asked for, and one small one more beside large ones.
func TestConcurrencyIsKept(t *testing.T) {
	tests := map[string]struct {
		sizes []int
		want  int64
	}{
		"small": {[]int{10}, 4}, "large": {[]int{smallFile + 1}, 4}, "both": {[]int{smallFile + 1, 10}, 5},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			run(t, Options{Concurrency: 4}, func(w *world) {
				var files []File
				for i := range 40 {
					files = append(files, w.add(fmt.Sprintf("document:%d", i), test.sizes[i%len(test.sizes)]))
				}
				var now, large, most, mostLarge int64
				w.handle = func(v visit) {
					isLarge := int64(len(v.data) / smallFile)
					w.mu.Lock()
					now++
					large += isLarge
					most, mostLarge = max(most, now), max(mostLarge, large)
					w.mu.Unlock()
					time.Sleep(time.Second)
					w.mu.Lock()
					now-- // before the answer: its end lets the next request start
					large -= isLarge
					w.mu.Unlock()
					w.serve(v)
				}
				summary, err := w.copy(files...)
				w.wantCopied(summary, err, files...)
				if most != test.want || mostLarge > 4 {
					t.Errorf("%d requests at once, %d of them for large files, want %d", most, mostLarge, test.want)
				}
			})
		})
	}
}

// The sequence is pulled a batch ahead, so that memory does not grow with its length.
func TestSequenceIsPulledAsNeeded(t *testing.T) {
	run(t, Options{Concurrency: 4}, func(w *world) {
		file := w.add("document:a", 10)
		var pulled atomic.Int64
		ended, most := int64(0), int64(0)
		job := Job{Dataset: "ds", Version: 7, Lifetime: time.Hour, Files: func(yield func(File, error) bool) {
			for i := range 5_000 {
				pulled.Add(1)
				next := file
				next.Key = fmt.Sprintf("data/%d", i)
				if !yield(next, nil) {
					return
				}
			}
		}}
		w.create = func(_ context.Context, _ string, c bucket.Content) (bucket.Info, error) {
			_, err := io.Copy(io.Discard, c.Body)
			return bucket.Info{}, err
		}
		summary, err := w.engine.Copy(w.t.Context(), job, func(File, Outcome) {
			ended++
			most = max(most, pulled.Load()-ended)
		})
		if err != nil || summary.Copied != 5_000 {
			t.Fatalf("summary %+v, %v", summary, err)
		}
		if most > 3*maxBatch {
			t.Errorf("%d files were held at once", most)
		}
	})
}

func TestErrorOfTheSequenceEndsTheJob(t *testing.T) {
	run(t, Options{}, func(w *world) {
		file := w.add("document:a", 10)
		broken := errors.New("manifest cannot be read")
		job := Job{Dataset: "ds", Version: 7, Lifetime: time.Hour, Files: func(yield func(File, error) bool) {
			if yield(file, nil) {
				yield(File{}, broken)
			}
		}}
		if _, err := w.engine.Copy(w.t.Context(), job, nil); !errors.Is(err, broken) {
			t.Errorf("copy: %v", err)
		}
	})
}

func TestEmptyJob(t *testing.T) {
	run(t, Options{}, func(w *world) {
		summary, err := w.copy()
		w.wantCopied(summary, err)
		if len(w.calls) != 0 {
			t.Error("asked for links")
		}
	})
}

// One name under two keys is signed once and copied to both.
func TestOneNameUnderTwoKeys(t *testing.T) {
	run(t, Options{}, func(w *world) {
		first := w.add("document:a", 10)
		second := first
		second.Key = "data/elsewhere"
		summary, err := w.copy(first, second)
		w.wantCopied(summary, err, first, second)
		if w.signed[first.Name] != 1 {
			t.Errorf("signed %d times", w.signed[first.Name])
		}
	})
}

func TestDoneIsCalledOnceForEachFile(t *testing.T) {
	run(t, Options{}, func(w *world) {
		files := make([]File, 500)
		for i := range files {
			files[i] = w.add(fmt.Sprintf("document:%d", i), 10)
		}
		w.objects[files[3].Key] = w.files[files[3].Name]
		lost := File{Name: "lost", Key: "data/lost", Size: 1}
		ends := map[string]int{} // no lock: calls must not overlap
		summary, err := w.engine.Copy(w.t.Context(), w.job("ds", append(files, lost)...), func(file File, outcome Outcome) {
			ends[file.Key]++
			if (outcome.Err != nil) != (outcome.Status == Failed) || outcome.Status != Failed && outcome.Info.Size != file.Size {
				t.Errorf("%s: %+v", file.Key, outcome)
			}
		})
		if err != nil || summary.Copied != 499 || summary.Present != 1 || summary.Failed != 1 || summary.CopiedBytes != 4990 {
			t.Fatalf("summary %+v, %v", summary, err)
		}
		if !fault.Is(summary.Failures[0].Err, fault.Missing) {
			t.Errorf("failure %v", summary.Failures[0].Err)
		}
		for key, times := range ends {
			if times != 1 {
				t.Errorf("%s ended %d times", key, times)
			}
		}
		if len(ends) != 501 {
			t.Errorf("%d files ended, want 501", len(ends))
		}
	})
}

func TestBandwidthIsShared(t *testing.T) {
	run(t, Options{Bandwidth: 1 << 20}, func(w *world) {
		files := make([]File, 10)
		for i := range files {
			files[i] = w.add(fmt.Sprintf("snapshot/part-%04d.parquet", i), 2<<20)
		}
		began := time.Now()
		summary, err := w.copy(files...)
		w.wantCopied(summary, err, files...)
		if took := time.Since(began); took < 19*time.Second || took > 21*time.Second {
			t.Errorf("20 MiB at 1 MiB/s took %s", took)
		}
	})
}

func TestProgressAndCounts(t *testing.T) {
	var told atomic.Int64
	opts := Options{Progress: func(dataset string, n int) {
		if dataset == "ds" {
			told.Add(int64(n))
		}
	}}
	run(t, opts, func(w *world) {
		file := w.add("snapshot/part-0000.parquet", 2<<20)
		w.first(func(v visit) { v.cut(1 << 20) })
		summary, err := w.copy(file)
		w.wantCopied(summary, err, file)
		if told.Load() != file.Size || w.counts.Bytes.Load() != file.Size {
			t.Errorf("told of %d bytes, counted %d, want %d", told.Load(), w.counts.Bytes.Load(), file.Size)
		}
		if w.counts.Requests.Load() != 2 || w.counts.Retries.Load() != 1 || w.counts.LinkCalls.Load() != 1 || w.counts.Links.Load() != 1 {
			t.Errorf("counts %+v", w.counts)
		}
	})
}

package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

func bucketFault(kind fault.Kind) error {
	return &fault.Error{Op: "put object", Side: fault.SideBucket, Kind: kind, Status: 503}
}

// A key that a rival wrote meanwhile is present when it holds the file and a conflict otherwise;
// a store that attests nothing is read.
func TestKeyThatIsTaken(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("silent %v", silent), func(t *testing.T) {
			bothSizes(t, Options{}, func(w *world, file File) {
				w.silent = silent
				w.objects[file.Key] = w.files[file.Name]
				summary, err := w.copy(file)
				w.wantCopied(summary, err, file)
				if summary.Present != 1 || w.creates[file.Key] != 1 {
					w.t.Errorf("summary %+v after %d creates", summary, w.creates[file.Key])
				}
				if read := w.opens > 0; read != silent {
					w.t.Errorf("read the object: %v", read)
				}
			})
			bothSizes(t, Options{}, func(w *world, file File) {
				w.silent = silent
				other := content(99, int(file.Size))
				w.objects[file.Key] = other
				summary, err := w.copy(file)
				if err != nil || summary.Failed != 1 || !fault.Is(summary.Failures[0].Err, fault.Conflict) {
					w.t.Fatalf("summary %+v, %v, want a conflict", summary, err)
				}
				if fault.HintOf(summary.Failures[0].Err) == "" {
					w.t.Error("no hint")
				}
				if string(w.objects[file.Key]) != string(other) {
					w.t.Error("the object was changed")
				}
			})
		})
	}
}

// A streamed write that the store fails is fetched again; what was only said to have failed is
// found standing and not sent twice.
func TestStreamedWriteIsRepeated(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Transient, fault.Contended, fault.WrongBytes} {
		for _, stored := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stored %v", kind, stored), func(t *testing.T) {
				run(t, Options{}, func(w *world) {
					file := w.add("snapshot/part-0000.parquet", 2<<20)
					w.create = func(ctx context.Context, key string, c bucket.Content) (bucket.Info, error) {
						if w.creates[key] > 1 {
							return w.store(ctx, key, c)
						}
						if stored {
							if _, err := w.store(ctx, key, c); err != nil {
								return bucket.Info{}, err
							}
						} else if _, err := io.CopyN(io.Discard, c.Body, 700_000); err != nil {
							return bucket.Info{}, err
						}
						return bucket.Info{}, bucketFault(kind)
					}
					summary, err := w.copy(file)
					w.wantCopied(summary, err, file)
					want := 2
					if stored {
						want = 1
					}
					if w.creates[file.Key] != want || w.visits[file.Name] != want || summary.Copied != 1 {
						t.Errorf("%d creates, %d visits, want %d; summary %+v", w.creates[file.Key], w.visits[file.Name], want, summary)
					}
				})
			})
		}
	}
}

// The sink repeats seekable writes itself: the engine must not multiply them.
func TestSmallWriteIsNotRepeatedTwice(t *testing.T) {
	run(t, Options{}, func(w *world) {
		file := w.add("document:a", 1000)
		w.create = func(_ context.Context, _ string, c bucket.Content) (bucket.Info, error) {
			if _, ok := c.Body.(io.Seeker); !ok {
				t.Error("the body cannot seek")
			}
			return bucket.Info{}, bucketFault(fault.Transient)
		}
		summary, err := w.copy(file)
		w.wantFailed(summary, err, file, fault.Transient, fault.SideBucket, "503")
		if w.creates[file.Key] != 1 || w.visits[file.Name] != 1 {
			t.Errorf("%d creates, %d visits, want 1 each", w.creates[file.Key], w.visits[file.Name])
		}
	})
}

func TestStreamedWriteThatAlwaysFails(t *testing.T) {
	run(t, Options{}, func(w *world) {
		file := w.add("snapshot/part-0000.parquet", 2<<20)
		w.create = func(context.Context, string, bucket.Content) (bucket.Info, error) {
			return bucket.Info{}, bucketFault(fault.Transient)
		}
		summary, err := w.copy(file)
		w.wantFailed(summary, err, file, fault.Transient, fault.SideBucket, "503")
		if w.creates[file.Key] != 5 {
			t.Errorf("%d creates, want 5", w.creates[file.Key])
		}
	})
}

// What meets every file stops the job, and the error tells.
func TestBucketRefusalStopsTheJob(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Denied, fault.NoSpace, fault.BucketUnfit} {
		for _, count := range []int{1, 1000} {
			t.Run(fmt.Sprintf("%s of %d", kind, count), func(t *testing.T) {
				run(t, Options{}, func(w *world) {
					files := make([]File, count)
					for i := range files {
						files[i] = w.add(fmt.Sprintf("document:%d", i), 10)
					}
					w.create = func(context.Context, string, bucket.Content) (bucket.Info, error) {
						return bucket.Info{}, bucketFault(kind)
					}
					summary, err := w.copy(files...)
					if !fault.Is(err, kind) || fault.SideOf(err) != fault.SideBucket {
						t.Fatalf("copy: %v, want %s", err, kind)
					}
					if summary.Failed < 1 || len(w.creates) > 32 {
						t.Errorf("summary %+v, %d creates", summary, len(w.creates))
					}
				})
			})
		}
	}
}

// A client may read on after its request ended: it must not get bytes, nor keep the file open.
func TestReadAfterTheWriteEnded(t *testing.T) {
	run(t, Options{}, func(w *world) {
		file := w.add("snapshot/part-0000.parquet", 2<<20)
		late := make(chan error, 1)
		w.create = func(ctx context.Context, key string, c bucket.Content) (bucket.Info, error) {
			if w.creates[key] > 1 {
				return w.store(ctx, key, c)
			}
			go func() {
				time.Sleep(time.Minute)
				_, err := c.Body.Read(make([]byte, 10))
				late <- err
			}()
			return bucket.Info{}, bucketFault(fault.Transient)
		}
		summary, err := w.copy(file)
		w.wantCopied(summary, err, file)
		if err := <-late; !errors.Is(err, errClosed) {
			t.Errorf("late read: %v", err)
		}
	})
}

// A store that reports success without having read the body has not stored the file.
func TestStoreThatDoesNotRead(t *testing.T) {
	run(t, Options{}, func(w *world) {
		file := w.add("snapshot/part-0000.parquet", 2<<20)
		w.create = func(context.Context, string, bucket.Content) (bucket.Info, error) { return bucket.Info{}, nil }
		summary, err := w.copy(file)
		w.wantFailed(summary, err, file, fault.Internal, fault.SideBucket, "not verified")
	})
}

// A store that counts bytes and never asks for the end must not get wrong bytes whole.
func TestLastByteWaitsForTheHash(t *testing.T) {
	run(t, Options{Attempts: 1}, func(w *world) {
		file := w.add("snapshot/part-0000.parquet", 2<<20)
		w.handle = func(v visit) {
			data := append([]byte(nil), v.data...)
			data[0] ^= 1
			_, _ = v.w.Write(data)
		}
		w.create = func(_ context.Context, _ string, c bucket.Content) (bucket.Info, error) {
			n, err := io.CopyN(io.Discard, c.Body, c.Size)
			if err == nil {
				t.Errorf("%d wrong bytes were handed over", n)
			}
			return bucket.Info{}, fmt.Errorf("put object: %w", err)
		}
		summary, err := w.copy(file)
		w.wantFailed(summary, err, file, fault.WrongBytes, fault.SideSource, "sha256")
	})
}

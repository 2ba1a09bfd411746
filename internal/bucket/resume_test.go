package bucket_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/fault"
)

// cuts breaks every body after some bytes, and every listing after some keys.
type cuts struct {
	bucket.Store
	bytes, keys int
	change      func() // called when something broke
	opens       int
	lists       int
}

func (c *cuts) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, bucket.Info, error) {
	c.opens++
	body, info, err := c.Store.Open(ctx, key, offset, length)
	if err != nil {
		return nil, bucket.Info{}, err
	}
	return &cutBody{ReadCloser: body, left: c.bytes, change: c.change}, info, nil
}

type cutBody struct {
	io.ReadCloser
	left   int
	change func()
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		if b.change != nil {
			b.change()
		}
		return 0, buckettest.Unavailable()
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (c *cuts) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	c.lists++
	return func(yield func(bucket.Info, error) bool) {
		n := 0
		for info, err := range c.Store.List(ctx, prefix, after) {
			if n == c.keys {
				yield(bucket.Info{}, buckettest.Unavailable())
				return
			}
			n++
			if !yield(info, err) {
				return
			}
		}
	}
}

func TestBodiesGoOn(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 1000)
	beneath := folder(t)
	if _, err := beneath.Create(t.Context(), "k", content(data)); err != nil {
		t.Fatal(err)
	}
	broken := &cuts{Store: beneath, bytes: 700}
	got, _, err := bucket.ReadAll(t.Context(), bucket.WithRetry(broken, newClock().policy()), "k", 1<<20)
	if err != nil || !bytes.Equal(got, data) || broken.opens != 15 {
		t.Errorf("%d bytes, %v, %d opens", len(got), err, broken.opens)
	}
	body, _, err := bucket.WithRetry(broken, newClock().policy()).Open(t.Context(), "k", 5, 2000)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(body); err != nil || !bytes.Equal(got, data[5:2005]) {
		t.Errorf("range: %d bytes, %v", len(got), err)
	}
	broken.bytes, broken.opens = 0, 0
	if _, _, err = bucket.ReadAll(t.Context(), bucket.WithRetry(broken, newClock().policy()), "k", 1<<20); !fault.Is(err, fault.Transient) || broken.opens != 5 {
		t.Errorf("without progress: %v after %d opens, want 5", err, broken.opens)
	}
}

// TestBodiesOfTwoStates: an object that changed in between is never stitched together.
func TestBodiesOfTwoStates(t *testing.T) {
	beneath := folder(t)
	tag, err := beneath.Swap(t.Context(), "k", bucket.Absent, bytes.Repeat([]byte("a"), 1000))
	if err != nil {
		t.Fatal(err)
	}
	broken := &cuts{Store: beneath, bytes: 700, change: func() {
		tag, err = beneath.Swap(context.Background(), "k", tag, bytes.Repeat([]byte("b"), 1000))
	}}
	if _, _, readErr := bucket.ReadAll(t.Context(), bucket.WithRetry(broken, newClock().policy()), "k", 1<<20); err != nil || !fault.Is(readErr, fault.Conflict) {
		t.Errorf("got %v (swap: %v), want a fault.Conflict", readErr, err)
	}
	info, err := beneath.Stat(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	info.Tag = "another state"
	if _, err := bucket.NewReaderAt(t.Context(), beneath, info).ReadAt(make([]byte, 5), 0); !fault.Is(err, fault.Conflict) {
		t.Errorf("ReaderAt: got %v, want a fault.Conflict", err)
	}
}

func TestListsGoOn(t *testing.T) {
	beneath := folder(t)
	var want []string
	for i := range 20 {
		key := fmt.Sprintf("k/%02d", i)
		want = append(want, key)
		if _, err := bucket.CreateDocument(t.Context(), beneath, key, nil); err != nil {
			t.Fatal(err)
		}
	}
	broken := &cuts{Store: beneath, keys: 3}
	store := bucket.WithRetry(broken, newClock().policy())
	var got []string
	for info, err := range store.List(t.Context(), "k/", "k/01") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.Key)
	}
	if !slices.Equal(got, want[2:]) || broken.lists != 6 {
		t.Errorf("got %q in %d lists", got, broken.lists)
	}
	broken.keys, broken.lists = 0, 0
	var last error
	for _, err := range store.List(t.Context(), "k/", "") {
		last = err
	}
	if !fault.Is(last, fault.Transient) || broken.lists != 5 {
		t.Errorf("without progress: %v after %d lists, want 5", last, broken.lists)
	}
}

// TestFootersAreCheap: the end of a file that fits into a window costs one request.
func TestFootersAreCheap(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 20_000)
	beneath := folder(t)
	info, err := beneath.Create(t.Context(), "k", content(data))
	if err != nil {
		t.Fatal(err)
	}
	counts := &bucket.Counts{}
	reader := bucket.NewReaderAt(t.Context(), bucket.WithCounts(beneath, counts), info)
	for _, length := range []int64{8, 100, 30_000} {
		p := make([]byte, length)
		if _, err := reader.ReadAt(p, reader.Size()-length); err != nil || !bytes.Equal(p, data[len(data)-int(length):]) {
			t.Errorf("last %d bytes: %v", length, err)
		}
	}
	if n := counts.Read.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestHolds(t *testing.T) {
	data := []byte("abc")
	s := folder(t)
	if _, err := s.Create(t.Context(), "k", content(data)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key  string
		data string
		want bool
	}{{"k", "abc", true}, {"k", "abd", false}, {"k", "ab", false}, {"missing", "abc", false}} {
		named := content([]byte(c.data))
		if _, got, err := bucket.Holds(t.Context(), s, c.key, named.Size, named.SHA256); err != nil || got != c.want {
			t.Errorf("%s holds %q: %t, %v", c.key, c.data, got, err)
		}
	}
	flipped := &buckettest.FlipBit{Store: s, Key: "k", Offset: 2}
	if _, got, err := bucket.Holds(t.Context(), flipped, "k", 3, content(data).SHA256); err != nil || got {
		t.Errorf("damaged bytes: %t, %v", got, err)
	}
	failing := &buckettest.FailNth{Store: s, Op: buckettest.OpStat, From: 1}
	if _, _, err := bucket.Holds(t.Context(), failing, "k", 3, content(data).SHA256); err == nil {
		t.Error("an unreadable store counts as an answer")
	}
}

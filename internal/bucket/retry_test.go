package bucket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/bucket/localstore"
	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

func folder(t *testing.T) bucket.Store {
	t.Helper()
	store, err := localstore.New(localstore.Options{Root: t.TempDir()})
	if err != nil {
		t.Fatalf("open folder: %v", err)
	}
	return store
}

// clock is a policy on a clock that only pauses move.
type clock struct {
	now    time.Time
	pauses []time.Duration
	count  atomic.Int64
}

func (c *clock) policy() bucket.Policy {
	return bucket.Policy{
		Retries: &c.count,
		Now:     func() time.Time { return c.now },
		Sleep: func(_ context.Context, d time.Duration) error {
			c.now = c.now.Add(d)
			c.pauses = append(c.pauses, d)
			return nil
		},
	}
}

func newClock() *clock { return &clock{now: time.Unix(1_000_000, 0)} }

func answer(status int, kind fault.Kind, after time.Duration) error {
	return &fault.Error{Op: "test", Side: fault.SideBucket, Kind: kind, Status: status, After: after, Err: fmt.Errorf("status %d", status)}
}

func content(data []byte) bucket.Content {
	return bucket.Content{Size: int64(len(data)), SHA256: manifest.SumBytes(data), Body: bytes.NewReader(data)}
}

// call runs one method against a store that holds the document "k".
func call(ctx context.Context, store bucket.Store, op buckettest.Op) error {
	switch op {
	case buckettest.OpStat:
		_, err := store.Stat(ctx, "k")
		return err
	case buckettest.OpOpen:
		_, _, err := bucket.ReadAll(ctx, store, "k", 100)
		return err
	case buckettest.OpCreate:
		_, err := store.Create(ctx, "new", content([]byte("new")))
		return err
	case buckettest.OpSwap:
		_, err := store.Swap(ctx, "swapped", bucket.Absent, []byte("new"))
		return err
	default:
		return store.Delete(ctx, "gone", "t")
	}
}

func TestWhatIsRepeated(t *testing.T) {
	transient := answer(http.StatusInternalServerError, fault.Transient, 0) // 503 would add pauses for one key
	contended := answer(http.StatusConflict, fault.Contended, 0)
	denied := answer(http.StatusForbidden, fault.Denied, 0)
	const once, all = 1, 5
	for _, c := range []struct {
		op   buckettest.Op
		err  error
		want int64 // calls when it fails for ever
	}{
		{buckettest.OpStat, transient, all}, {buckettest.OpOpen, transient, all}, {buckettest.OpDelete, transient, all},
		{buckettest.OpCreate, transient, all}, {buckettest.OpCreate, contended, all},
		{buckettest.OpSwap, transient, once}, {buckettest.OpSwap, contended, all},
		{buckettest.OpStat, denied, once}, {buckettest.OpCreate, denied, once}, {buckettest.OpDelete, denied, once},
		{buckettest.OpSwap, denied, once}, {buckettest.OpOpen, denied, once},
	} {
		for _, fails := range []int64{1, 1000} {
			beneath := folder(t)
			if _, err := bucket.CreateDocument(t.Context(), beneath, "k", []byte("here")); err != nil {
				t.Fatal(err)
			}
			failing := &buckettest.FailNth{Store: beneath, Op: c.op, From: 1, To: fails, Err: c.err}
			clock := newClock()
			err := call(t.Context(), bucket.WithRetry(failing, clock.policy()), c.op)
			want := min(c.want, fails+1)
			if failing.Calls() != want || clock.count.Load() != want-1 || len(clock.pauses) != int(want-1) {
				t.Errorf("%s, %v, %d times: %d calls, %d counted, pauses %v; want %d calls", c.op, c.err, fails, failing.Calls(), clock.count.Load(), clock.pauses, want)
			}
			if (err == nil) != (c.want > 1 && fails == 1) || (err != nil && !errors.Is(err, c.err)) {
				t.Errorf("%s, %v, %d times: got %v", c.op, c.err, fails, err)
			}
		}
	}
}

func TestPauses(t *testing.T) {
	for name, c := range map[string]struct {
		after    time.Duration
		deadline time.Duration // 0: none
		calls    int64
		least    time.Duration // of all pauses
		most     time.Duration // of the first pause
	}{
		"jittered":                 {0, 0, 5, 100 * time.Millisecond, 300 * time.Millisecond},
		"Retry-After is a floor":   {30 * time.Second, 0, 5, 30 * time.Second, 30 * time.Second},
		"too long a wish":          {time.Hour, 0, 1, 0, 0},
		"longer than the deadline": {30 * time.Second, 10 * time.Second, 1, 0, 0},
	} {
		failing := &buckettest.FailNth{
			Store: folder(t), Op: buckettest.OpStat, From: 1, To: 100,
			Err: answer(http.StatusServiceUnavailable, fault.Transient, c.after),
		}
		clock := newClock()
		clock.now = time.Now() // a context's deadline is one of the real clock
		ctx := t.Context()
		if c.deadline > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, c.deadline)
			defer cancel()
		}
		_, err := bucket.WithRetry(failing, clock.policy()).Stat(ctx, "k")
		if !fault.Is(err, fault.Transient) || failing.Calls() != c.calls {
			t.Errorf("%s: %v after %d calls", name, err, failing.Calls())
		}
		for i, pause := range clock.pauses {
			if pause < c.least || (i == 0 && pause > c.most) {
				t.Errorf("%s: pauses %v", name, clock.pauses)
			}
		}
	}
}

// TestLostAnswers: a create whose answer was lost is a success when its own bytes stand, whether
// it can be sent again or not, and never when others do.
func TestLostAnswers(t *testing.T) {
	data := []byte("these bytes")
	for name, body := range map[string]io.Reader{
		"seeks": bytes.NewReader(data), "streams": struct{ io.Reader }{bytes.NewReader(data)},
	} {
		beneath := folder(t)
		store := bucket.WithRetry(&buckettest.LostAnswer{Store: beneath, Nth: 1}, newClock().policy())
		c := content(data)
		c.Body = body
		info, err := store.Create(t.Context(), "k", c)
		if err != nil || info.Size != int64(len(data)) || info.Tag == bucket.Absent {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
	}
	rival := &rivalCreate{Store: folder(t)}
	_, err := bucket.WithRetry(rival, newClock().policy()).Create(t.Context(), "k", content(data))
	if !fault.Is(err, fault.Exists) {
		t.Errorf("a rival's bytes stand: got %v, want a fault.Exists", err)
	}
	store := bucket.WithRetry(folder(t), newClock().policy())
	for _, want := range []fault.Kind{"", fault.Exists} {
		if _, err := store.Create(t.Context(), "k", content(data)); fault.KindOf(err) != want {
			t.Errorf("without a lost answer: got %v, want %q", err, want)
		}
	}
	lost := &buckettest.LostAnswer{Store: folder(t), Nth: 1}
	if _, err := bucket.WithRetry(lost, newClock().policy()).Swap(t.Context(), "p", bucket.Absent, data); !fault.Is(err, fault.Transient) {
		t.Errorf("lost swap: got %v, want it returned", err)
	}
}

// rivalCreate lets another writer win while the first answer is lost.
type rivalCreate struct {
	bucket.Store
	asked bool
}

func (r *rivalCreate) Create(ctx context.Context, key string, c bucket.Content) (bucket.Info, error) {
	if r.asked {
		return r.Store.Create(ctx, key, c)
	}
	r.asked = true
	if _, err := r.Store.Create(ctx, key, content([]byte("a rival's"))); err != nil {
		return bucket.Info{}, err
	}
	return bucket.Info{}, buckettest.Unavailable()
}

// TestBrokenSourceIsNotRepeated: the source is not the store's; sending again is its owner's call.
func TestBrokenSourceIsNotRepeated(t *testing.T) {
	counts := &bucket.Counts{}
	store := bucket.WithRetry(bucket.WithCounts(folder(t), counts), newClock().policy())
	c := content([]byte("abc"))
	c.Body = &brokenSeeker{}
	_, err := store.Create(t.Context(), "k", c)
	if !fault.Is(err, fault.Transient) || counts.Write.Load() != 1 {
		t.Errorf("%v after %d writes, want 1", err, counts.Write.Load())
	}
	c = content([]byte("abc"))
	c.Body = bytes.NewReader([]byte("xyz"))
	if _, err = store.Create(t.Context(), "k", c); !fault.Is(err, fault.WrongBytes) || counts.Write.Load() != 2 {
		t.Errorf("%v after %d writes, want 2", err, counts.Write.Load())
	}
}

type brokenSeeker struct{}

func (brokenSeeker) Read([]byte) (int, error) {
	return 0, &fault.Error{Op: "read link", Side: fault.SideSource, Kind: fault.Transient}
}
func (brokenSeeker) Seek(int64, int) (int64, error) { return 0, nil }

// TestOneWriteASecond: after a 429 the next write of that key waits, others do not.
func TestOneWriteASecond(t *testing.T) {
	failing := &buckettest.FailNth{
		Store: folder(t), Op: buckettest.OpSwap, From: 1, Err: answer(http.StatusTooManyRequests, fault.Transient, 0),
	}
	clock := newClock()
	store := bucket.WithRetry(failing, clock.policy())
	if _, err := store.Swap(t.Context(), "p", bucket.Absent, []byte("1")); !fault.Is(err, fault.Transient) {
		t.Fatalf("got %v", err)
	}
	if _, err := store.Swap(t.Context(), "q", bucket.Absent, []byte("1")); err != nil || len(clock.pauses) != 0 {
		t.Fatalf("another key: %v after pauses %v", err, clock.pauses)
	}
	if _, err := store.Swap(t.Context(), "p", bucket.Absent, []byte("1")); err != nil {
		t.Fatal(err)
	}
	if len(clock.pauses) != 1 || clock.pauses[0] != time.Second {
		t.Errorf("pauses %v, want 1 s", clock.pauses)
	}
	if _, err := store.Swap(t.Context(), "p", bucket.Absent, []byte("1")); !fault.Is(err, fault.Conflict) || len(clock.pauses) != 1 {
		t.Errorf("later: %v, pauses %v", err, clock.pauses)
	}
}

package buckettest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

func swapGroups() []group {
	return []group{
		{"swap", testSwap},
		{"swap-race", testSwapRace},
		{"swap-create-race", testSwapCreateRace},
	}
}

func testSwap(t testing.TB, s *subject) {
	ctx := t.Context()
	first, err := s.Swap(ctx, "p.json", bucket.Absent, []byte(`{"revision":1}`))
	if err != nil || first == bucket.Absent {
		t.Fatalf("swap from absent: tag %q, %v", first, err)
	}
	s.wantTag(t, "p.json", first)
	_, err = s.Swap(ctx, "p.json", bucket.Absent, []byte(`{"revision":9}`))
	wantKind(t, err, fault.Conflict)
	second, err := s.Swap(ctx, "p.json", first, []byte(`{"revision":2}`))
	if err != nil || second == first {
		t.Fatalf("swap: tag %q after %q, %v", second, first, err)
	}
	s.wantTag(t, "p.json", second)
	_, err = s.Swap(ctx, "p.json", first, []byte(`{"revision":3}`))
	wantKind(t, err, fault.Conflict)
	s.wantBytes(t, "p.json", []byte(`{"revision":2}`))
	_, err = s.Swap(ctx, "missing.json", second, []byte(`{}`))
	wantKind(t, err, fault.Conflict)
	s.wantAbsent(t, "missing.json")
	third, err := s.Swap(ctx, "p.json", second, nil)
	if err != nil {
		t.Fatalf("swap to nothing: %v", err)
	}
	s.wantBytes(t, "p.json", nil)
	s.wantTag(t, "p.json", third)
	s.swapCreated(t)
	s.wantKeys(t, "c.json", "p.json")
}

// swapCreated swaps a document that was created, and creates over one that was swapped.
func (s *subject) swapCreated(t testing.TB) {
	t.Helper()
	info, err := bucket.CreateDocument(t.Context(), s, "c.json", []byte("1"))
	if err != nil {
		t.Fatalf("create document: %v", err)
	}
	if _, err := s.Swap(t.Context(), "c.json", info.Tag, []byte("2")); err != nil {
		t.Fatalf("swap a created document: %v", err)
	}
	s.wantBytes(t, "c.json", []byte("2"))
	_, err = bucket.CreateDocument(t.Context(), s, "c.json", []byte("3"))
	wantKind(t, err, fault.Exists)
	s.wantBytes(t, "c.json", []byte("2"))
}

func (s *subject) wantTag(t testing.TB, key string, want bucket.Tag) {
	t.Helper()
	stat, err := s.Stat(t.Context(), key)
	if err != nil || stat.Tag != want {
		t.Fatalf("stat %q: tag %q, want %q (%v)", key, stat.Tag, want, err)
	}
	_, info, err := bucket.ReadAll(t.Context(), s, key, 1<<20)
	if err != nil || info.Tag != want {
		t.Fatalf("open %q: tag %q, want %q (%v)", key, info.Tag, want, err)
	}
}

// testSwapRace lets writers count up one document together: every success must be in the sum.
func testSwapRace(t testing.TB, s *subject) {
	if !s.Guarantees().CompareAndSwap {
		t.Fatal("the store declares no compare-and-swap: the mirror cannot use it")
	}
	ctx := t.Context()
	if _, err := s.Swap(ctx, "n.json", bucket.Absent, []byte(`{"n":0}`)); err != nil {
		t.Fatalf("swap from absent: %v", err)
	}
	const writers, rounds = 16, 3
	errs := race(writers, func(int) error {
		for range rounds {
			if err := CountUp(ctx, s, "n.json"); err != nil {
				return err
			}
		}
		return nil
	})
	for i, err := range errs {
		if err != nil {
			t.Errorf("writer %d: %v", i, err)
		}
	}
	s.wantBytes(t, "n.json", fmt.Appendf(nil, `{"n":%d}`, writers*rounds))
}

// CountUp adds one to {"n":...} at key by compare-and-swap, trying again after a lost race.
func CountUp(ctx context.Context, s bucket.Store, key string) error {
	for range 2000 {
		data, info, err := bucket.ReadAll(ctx, s, key, 1000)
		if err != nil {
			return err
		}
		var counter struct {
			N int `json:"n"`
		}
		if err := json.Unmarshal(data, &counter); err != nil {
			return fmt.Errorf("decode %q: %w", data, err)
		}
		_, err = s.Swap(ctx, key, info.Tag, fmt.Appendf(nil, `{"n":%d}`, counter.N+1))
		if err == nil {
			return nil
		}
		if !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Contended) {
			return err
		}
	}
	return fmt.Errorf("count up %s: lost every race", key)
}

// testSwapCreateRace: creates and swaps from nothing share one winner.
func testSwapCreateRace(t testing.TB, s *subject) {
	ctx := t.Context()
	for round := range 2 {
		key := fmt.Sprintf("r/%d.json", round)
		errs := race(8, func(i int) error {
			if i%2 == 0 {
				_, err := s.Swap(ctx, key, bucket.Absent, fmt.Appendf(nil, "%d", i))
				return err
			}
			_, err := bucket.CreateDocument(ctx, s, key, fmt.Appendf(nil, "%d", i))
			return err
		})
		winners := 0
		for i, err := range errs {
			switch {
			case err == nil:
				winners++
				s.wantBytes(t, key, fmt.Appendf(nil, "%d", i))
			case !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Exists) && !fault.Is(err, fault.Contended):
				t.Errorf("writer %d: %v", i, err)
			}
		}
		if winners != 1 {
			t.Fatalf("%d winners, want 1", winners)
		}
	}
}

func deleteGroups() []group {
	return []group{{"delete", testDelete}, {"delete-stale", testDeleteStale}}
}

func testDelete(t testing.TB, s *subject) {
	info := s.mustCreate(t, "d/a", []byte("a"))
	s.mustCreate(t, "d/b", []byte("b"))
	if err := s.Delete(t.Context(), "d/a", info.Tag); err != nil {
		t.Fatalf("delete: %v", err)
	}
	s.wantAbsent(t, "d/a")
	if err := s.Delete(t.Context(), "d/a", info.Tag); err != nil {
		t.Fatalf("delete of a key that is gone: %v", err)
	}
	if err := s.Delete(t.Context(), "never/was", info.Tag); err != nil {
		t.Fatalf("delete of a key that never was: %v", err)
	}
	s.wantKeys(t, "d/b")
	s.mustCreate(t, "d/a", []byte("again"))
	s.wantBytes(t, "d/a", []byte("again"))
}

// testDeleteStale: without a rival even a store without conditional deletes must see that the
// object is another one.
func testDeleteStale(t testing.TB, s *subject) {
	first, err := s.Swap(t.Context(), "p.json", bucket.Absent, []byte("1"))
	if err != nil {
		t.Fatalf("swap: %v", err)
	}
	if _, err := s.Swap(t.Context(), "p.json", first, []byte("2")); err != nil {
		t.Fatalf("swap: %v", err)
	}
	wantKind(t, s.Delete(t.Context(), "p.json", first), fault.Conflict)
	wantKind(t, s.Delete(t.Context(), "p.json", bucket.Absent), fault.Conflict)
	s.wantBytes(t, "p.json", []byte("2"))
}

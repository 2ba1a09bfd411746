package rows

import "testing"

// TestOneIDInEveryRowTakesNoMemoryEach: a Parquet file of some KiB can say so.
func TestOneIDInEveryRowTakesNoMemoryEach(t *testing.T) {
	h := newHeap(2, t.TempDir())
	t.Cleanup(func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	})
	const one = uint64(7)
	for n := range uint64(50_000) {
		if err := h.add(fact{id: one, sum: n}); err != nil {
			t.Fatal(err)
		}
		if n%10_000 == 0 {
			if err := h.add(fact{id: one + 1 + n, sum: n}); err != nil {
				t.Fatal(err)
			}
		}
	}
	sorter := &sorter{crowded: 100}
	list, err := sorter.partition(0, h, 0)
	if err != nil {
		t.Fatal(err)
	}
	ones, others := 0, 0
	for _, f := range list {
		if f.id == one {
			ones++
		} else {
			others++
		}
	}
	if ones != keptOfOne || others != 5 || cap(sorter.raw) > 1<<12 {
		t.Errorf("kept %d of one id and %d others, in a list of %d", ones, others, cap(sorter.raw))
	}
}

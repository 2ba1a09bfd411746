package ledger

import (
	"slices"
	"testing"
	"time"
)

// FuzzDecode reads damaged ledgers. They are an error or entries that can be stored again, never a panic.
func FuzzDecode(f *testing.F) {
	at := time.Date(2026, 3, 1, 6, 0, 0, 1000, time.UTC)
	for _, entries := range [][]Entry{
		nil, {{Key: "a", Level: "bytes", CheckedAt: at, Tag: 7}},
		{{Key: "a", Level: "bytes", CheckedAt: at, Tag: 7}, {Key: "a", Level: "checksum", CheckedAt: at.Add(time.Hour)}, {Key: "b/c", Level: "bytes", CheckedAt: at, Tag: 1 << 63}},
	} {
		data, err := Encode(entries)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("PAR1PAR1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := Decode(data)
		if err != nil {
			return
		}
		slices.SortStableFunc(entries, compare)
		stored, err := Encode(entries)
		if err != nil {
			t.Fatalf("encode what was decoded: %v", err)
		}
		again, err := Decode(stored)
		if err != nil || len(again) != len(entries) {
			t.Fatalf("%d entries became %d, %v", len(entries), len(again), err)
		}
		slices.SortStableFunc(again, compare)
		for i, e := range again {
			if e.Key != entries[i].Key || e.Level != entries[i].Level {
				t.Fatalf("entry %d was %+v and is %+v", i, entries[i], e)
			}
		}
	})
}

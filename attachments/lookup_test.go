package attachments

import (
	"context"
	"errors"
	"strings"
	"testing"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

func TestLookUpCostsLittle(t *testing.T) {
	for name, test := range map[string]struct {
		wanted, stored int // both count from the first numbered attachment
		atMost         int // requests
	}{
		"nothing wanted":                         {wanted: 0, stored: 5000, atMost: 0},
		"few":                                    {wanted: 4, stored: 50_000, atMost: 4},
		"first pass, empty bucket":               {wanted: 20_000, stored: 0, atMost: 1},
		"after a crash at the end":               {wanted: 20_000, stored: 20_000, atMost: 25},
		"after a crash half way":                 {wanted: 20_000, stored: 10_000, atMost: 15},
		"a few hundred in a great bucket":        {wanted: 60, stored: 100_000, atMost: 62},
		"as many as the listing has pages":       {wanted: 100, stored: 100_000, atMost: 102},
		"more than the listing has pages":        {wanted: 300, stored: 100_000, atMost: 105},
		"hashes that the bucket has in a corner": {wanted: 6, stored: 3, atMost: 1},
	} {
		t.Run(name, func(t *testing.T) {
			wanted, err := wantedOf(firstN(test.wanted))
			if err != nil {
				t.Fatal(err)
			}
			store := newFakeBucket(firstN(test.stored))
			if err := wanted.LookUp(t.Context(), store); err != nil {
				t.Fatal(err)
			}
			if got, want := wanted.Counts().Present, min(test.wanted, test.stored); got != want {
				t.Errorf("present %d, want %d", got, want)
			}
			if store.requests() > test.atMost {
				t.Errorf("%d pages and %d heads, want at most %d requests", store.pages, store.heads, test.atMost)
			}
			if store.concurrency > headsAtOnce {
				t.Errorf("%d heads at once", store.concurrency)
			}
			t.Logf("%d pages and %d heads", store.pages, store.heads)
		})
	}
}

// A listing that is left half way must not lose what lies behind it, nor look twice at what lies
// before: hashes that the bucket has are mixed with hashes that it lacks.
func TestLookUpFindsEverythingWhereverTheListingStops(t *testing.T) {
	const stored = 30_000
	for _, count := range []int{6, 10, 29, 40, 400} {
		var list []manifest.Attachment
		for i := range count {
			list = append(list, numbered(i*7), numbered(stored+i))
		}
		wanted, err := wantedOf(stream(list))
		if err != nil {
			t.Fatal(err)
		}
		store := newFakeBucket(firstN(stored))
		store.put(manifest.AttachmentPrefix+"README", 12)
		store.put(manifest.AttachmentPrefix+"zz/"+strings.Repeat("z", 64), 12)
		if err := wanted.LookUp(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		if got := wanted.Counts().Present; got != count {
			t.Errorf("%d of %d found", got, count)
		}
		missing := namesOf(t, wanted.Missing(stream(list)))
		if len(missing) != count {
			t.Errorf("%d missing, want %d", len(missing), count)
		}
		if limit := min(2*count, stored/pageObjects) + 5; store.requests() > limit {
			t.Errorf("%d hashes cost %d pages and %d heads, want at most %d", 2*count, store.pages, store.heads, limit)
		}
	}
}

func TestAnObjectWithAnotherSizeIsAConflict(t *testing.T) {
	for _, wantedCount := range []int{3, 30} { // by single lookups, by listing
		wanted, err := wantedOf(firstN(wantedCount))
		if err != nil {
			t.Fatal(err)
		}
		store := newFakeBucket(firstN(wantedCount))
		key := manifest.AttachmentKey(numbered(2).SHA256)
		store.put(key, numbered(2).Size-1)
		err = wanted.LookUp(t.Context(), store)
		if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), key) || fault.HintOf(err) == "" {
			t.Errorf("%d wanted: %v", wantedCount, err)
		}
	}
}

func TestAnObjectWithAnotherAttestedHashIsAConflict(t *testing.T) {
	wanted, err := wantedOf(firstN(3))
	if err != nil {
		t.Fatal(err)
	}
	store := newFakeBucket(firstN(3))
	store.sums[manifest.AttachmentKey(numbered(1).SHA256)] = numbered(2).SHA256
	if err := wanted.LookUp(t.Context(), store); !fault.Is(err, fault.Conflict) {
		t.Fatalf("look up: %v", err)
	}
}

func TestAnObjectOfUnknownSizeIsNotPresent(t *testing.T) {
	for _, wantedCount := range []int{3, 30} {
		wanted, err := wantedOf(firstN(wantedCount))
		if err != nil {
			t.Fatal(err)
		}
		store := newFakeBucket(firstN(wantedCount))
		store.put(manifest.AttachmentKey(numbered(2).SHA256), -1)
		if err := wanted.LookUp(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		if missing := namesOf(t, wanted.Missing(firstN(wantedCount))); len(missing) != 1 || missing[0] != numbered(2).Name {
			t.Errorf("%d wanted: missing %v", wantedCount, missing)
		}
	}
}

func TestHeldHashesAreNotLookedAt(t *testing.T) {
	wanted, err := wantedOf(firstN(40))
	if err != nil {
		t.Fatal(err)
	}
	var held []manifest.SHA256
	for i := range 38 {
		held = append(held, numbered(i).SHA256)
	}
	if err := wanted.MarkHeld(streamSums(held)); err != nil {
		t.Fatal(err)
	}
	store := newFakeBucket(firstN(0))
	if err := wanted.LookUp(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if store.heads != 2 || store.pages != 0 {
		t.Errorf("%d heads and %d pages for two unknown hashes", store.heads, store.pages)
	}
	if counts := wanted.Counts(); counts != (WantedCounts{Objects: 40, Held: 38}) {
		t.Errorf("counts %+v", counts)
	}
}

func TestLookUpReportsTheStoresErrors(t *testing.T) {
	denied := &fault.Error{Op: "list objects", Side: fault.SideBucket, Kind: fault.Denied}
	for name, test := range map[string]struct {
		wanted int
		spoil  func(*fakeBucket)
	}{
		"single":  {wanted: 3, spoil: func(b *fakeBucket) { b.statErr = denied }},
		"listing": {wanted: 30, spoil: func(b *fakeBucket) { b.listErr = denied }},
	} {
		wanted, err := wantedOf(firstN(test.wanted))
		if err != nil {
			t.Fatal(err)
		}
		store := newFakeBucket(firstN(30))
		test.spoil(store)
		if err := wanted.LookUp(t.Context(), store); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLookUpEndsWithItsContext(t *testing.T) {
	wanted, err := wantedOf(firstN(5))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := wanted.LookUp(ctx, newFakeBucket(firstN(5))); !errors.Is(err, context.Canceled) {
		t.Fatalf("look up: %v", err)
	}
}

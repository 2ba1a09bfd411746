package audit

import (
	"bytes"
	"slices"

	"feedmirror/manifest"
)

// digestTable is a set of attachment objects: 40 bytes each. Additions are sorted in when they
// amount to as much as is there, so that many versions that name the same objects stay small.
type digestTable struct {
	sorted []digest
	fresh  []digest
}

type digest struct {
	sum  manifest.SHA256
	size int64 // bytes
}

const freshAtLeast = 1 << 16

func (t *digestTable) add(sum manifest.SHA256, size int64) {
	t.fresh = append(t.fresh, digest{sum, size})
	if len(t.fresh) >= max(freshAtLeast, len(t.sorted)) {
		t.settle()
	}
}

// settle returns the objects in the order of their hashes. An object named with two sizes stands
// twice; one of them will not fit what is stored.
func (t *digestTable) settle() []digest {
	if len(t.fresh) > 0 {
		t.sorted = append(t.sorted, t.fresh...)
		t.fresh = nil
		slices.SortFunc(t.sorted, func(a, b digest) int {
			if order := bytes.Compare(a.sum[:], b.sum[:]); order != 0 {
				return order
			}
			return int(a.size - b.size)
		})
		t.sorted = slices.Compact(t.sorted)
	}
	return t.sorted
}

package buckettest_test

import (
	"testing"
	"time"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/evidence"
)

func TestMemoryConformance(t *testing.T) {
	forms := map[string]bool{"content tags": false}
	if evidence.Long() {
		forms["fresh tags"] = true
	}
	for name, fresh := range forms {
		t.Run(name, func(t *testing.T) {
			buckettest.Run(t, func(*testing.T) bucket.Store {
				store := buckettest.NewMemory()
				store.FreshTags, store.Now = fresh, time.Now
				return store
			})
		})
	}
}

// TestAFingerprintIsOfWhatIsHeld: not of the way there.
func TestAFingerprintIsOfWhatIsHeld(t *testing.T) {
	one, other := buckettest.NewMemory(), buckettest.NewMemory()
	empty := one.Fingerprint()
	put := func(store *buckettest.Memory, key, text string) bucket.Tag {
		tag, err := store.Swap(t.Context(), key, bucket.Absent, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return tag
	}
	put(one, "a", "1")
	put(one, "b", "2")
	put(other, "b", "2")
	gone := put(other, "c", "3")
	put(other, "a", "1")
	if one.Fingerprint() == other.Fingerprint() {
		t.Error("an object more makes no difference")
	}
	if err := other.Delete(t.Context(), "c", gone); err != nil {
		t.Fatal(err)
	}
	if one.Fingerprint() != other.Fingerprint() || one.Fingerprint() == empty {
		t.Error("two stores that hold the same have other fingerprints, or an empty one the same")
	}
	clone := one.Clone()
	put(clone, "d", "4")
	if len(one.Keys()) != 2 || len(clone.Keys()) != 3 || string(clone.Bytes("d")) != "4" {
		t.Errorf("keys %v and %v of the clone", one.Keys(), clone.Keys())
	}
}

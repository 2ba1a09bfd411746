package attachments

import (
	"errors"
	"iter"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// drawConsistent draws attachments whose size follows from their hash.
func drawConsistent(t *rapid.T) manifest.Attachment {
	i := rapid.IntRange(0, 20).Draw(t, "content")
	a := numbered(i)
	a.Name = rapid.StringMatching(`source:[a-z]{3,6}`).Draw(t, "name")
	return a
}

func TestWantedAgreesWithMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(drawConsistent), 0, 40).Draw(t, "manifest")
		subset := func(label string) map[manifest.SHA256]bool {
			set := make(map[manifest.SHA256]bool)
			for _, i := range rapid.SliceOfN(rapid.IntRange(0, 25), 0, 12).Draw(t, label) {
				set[numbered(i).SHA256] = true
			}
			return set
		}
		held, stored, done := subset("held"), subset("stored"), subset("done")
		wanted, err := wantedOf(stream(list))
		if err != nil {
			t.Fatal(err)
		}
		var want manifest.RecordAttachments
		objects := make(map[manifest.SHA256]bool)
		var missing []string
		for _, a := range list {
			want.Count++
			if held[a.SHA256] {
				want.Carried++
			}
			if objects[a.SHA256] {
				continue
			}
			objects[a.SHA256] = true
			want.Objects++
			want.Bytes += a.Size
			if !held[a.SHA256] {
				want.NewObjects++
				want.NewBytes += a.Size
			}
			if !held[a.SHA256] && !stored[a.SHA256] && !done[a.SHA256] {
				missing = append(missing, a.Name)
			}
		}
		if err := wanted.MarkHeld(streamSums(keysOf(held))); err != nil {
			t.Fatal(err)
		}
		store := newFakeBucket(func(yield func(manifest.Attachment, error) bool) {
			for i := range 26 {
				if a := numbered(i); stored[a.SHA256] && !yield(a, nil) {
					return
				}
			}
		})
		if err := wanted.LookUp(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		for sum := range done {
			if err := wanted.MarkDone(sum); (err == nil) != objects[sum] {
				t.Fatalf("mark done: %v, wanted %v", err, objects[sum])
			}
		}
		got, err := wanted.Summarize(stream(list))
		if err != nil || got != want {
			t.Fatalf("summary %+v, %v; want %+v", got, err, want)
		}
		if got := namesOf(t, wanted.Missing(stream(list))); strings.Join(got, " ") != strings.Join(missing, " ") {
			t.Fatalf("missing %v, want %v", got, missing)
		}
	})
}

func keysOf(set map[manifest.SHA256]bool) []manifest.SHA256 {
	var keys []manifest.SHA256
	for key := range set {
		keys = append(keys, key)
	}
	return keys
}

type fataler interface{ Fatal(args ...any) }

func namesOf(t fataler, seq iter.Seq2[manifest.Attachment, error]) []string {
	var names []string
	for a, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, a.Name)
	}
	return names
}

func TestOneHashWithTwoSizesIsRefused(t *testing.T) {
	for _, sizes := range [][2]int64{{0, 1}, {2048, 2049}, {1 << 23, 1<<23 - 1}, {16 << 20, 32 << 20}, {1 << 53, 1<<53 - 1}, {5, 5 + 1<<24}} {
		a, b := numbered(1), numbered(1)
		a.Size, b.Name, b.Size = sizes[0], "source:other", sizes[1]
		_, err := wantedOf(stream([]manifest.Attachment{a, numbered(2), b}))
		if !fault.Is(err, fault.Malformed) || !strings.Contains(err.Error(), a.SHA256.String()) {
			t.Errorf("sizes %v: %v", sizes, err)
		}
	}
}

func TestAnotherNameLeadsToBytesWhoseFirstNameIsLost(t *testing.T) {
	lost, twin := numbered(1), numbered(1)
	lost.Name, twin.Name = "source:lost", "source:twin"
	list := []manifest.Attachment{lost, numbered(2), twin}
	wanted, err := wantedOf(stream(list))
	if err != nil {
		t.Fatal(err)
	}
	if err := wanted.MarkDone(numbered(2).SHA256); err != nil {
		t.Fatal(err)
	}
	if got := namesOf(t, wanted.Missing(stream(list))); len(got) != 1 || got[0] != "source:lost" {
		t.Fatalf("missing %v", got)
	}
	if got := namesOf(t, wanted.Missing(stream(list[1:]))); len(got) != 1 || got[0] != "source:twin" {
		t.Fatalf("missing without the lost name %v", got)
	}
}

func TestAStreamThatIsNotTheOneThatWasAddedIsRefused(t *testing.T) {
	wanted, err := wantedOf(firstN(3))
	if err != nil {
		t.Fatal(err)
	}
	resized := numbered(1)
	resized.Size++
	broken := errors.New("connection reset")
	for name, test := range map[string]struct {
		stream iter.Seq2[manifest.Attachment, error]
		kind   fault.Kind
		cause  error
	}{
		"unknown hash": {stream: stream([]manifest.Attachment{numbered(7)}), kind: fault.Internal},
		"other size":   {stream: stream([]manifest.Attachment{resized}), kind: fault.Internal},
		"broken":       {stream: failing(nil, broken), cause: broken},
	} {
		var missingErr error
		for _, err := range wanted.Missing(test.stream) {
			missingErr = err
		}
		_, sumErr := wanted.Summarize(test.stream)
		for _, err := range []error{missingErr, sumErr} {
			if err == nil || fault.KindOf(err) != test.kind || test.cause != nil && !errors.Is(err, test.cause) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestHeldDigestsThatCannotBeReadAreAnError(t *testing.T) {
	wanted, err := wantedOf(firstN(1))
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("index is cut")
	err = wanted.MarkHeld(func(yield func(manifest.SHA256, error) bool) { yield(manifest.SHA256{}, broken) })
	if !errors.Is(err, broken) {
		t.Fatalf("mark held: %v", err)
	}
}

func BenchmarkWantedSeal(b *testing.B) {
	const count = 100_000
	for b.Loop() {
		wanted, err := wantedOf(firstN(count))
		if err != nil || wanted.Counts().Objects != count {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/name")
}

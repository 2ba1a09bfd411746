package attachments

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// drawAttachment draws from few names, sizes and hashes, so that they meet often.
func drawAttachment(t *rapid.T) manifest.Attachment {
	return manifest.Attachment{
		Name:   fmt.Sprintf("source:%d", rapid.IntRange(0, 12).Draw(t, "name")),
		Size:   int64(rapid.IntRange(0, 2).Draw(t, "size")),
		SHA256: manifest.SumBytes([]byte{byte(rapid.IntRange(0, 2).Draw(t, "sum"))}),
	}
}

type comparison struct {
	duplicate bool            // the answer names one twice
	wrong     bool            // something of the manifest contradicts
	both      int             // names in both, in agreement
	only      int             // names only in the manifest
	unmatched map[string]bool // names only in the answer
}

// compareNaively is what Names does, with maps of whole names. It stops at the first contradiction.
func compareNaively(answer, listed []manifest.Attachment) comparison {
	result := comparison{unmatched: make(map[string]bool)}
	facts := make(map[string]manifest.Attachment)
	for _, a := range answer {
		if _, ok := facts[a.Name]; ok {
			result.duplicate = true
		}
		facts[a.Name] = a
		result.unmatched[a.Name] = true
	}
	seen := make(map[string]bool)
	for _, a := range listed {
		fact, ok := facts[a.Name]
		if seen[a.Name] || ok && (fact.Size != a.Size || fact.SHA256 != a.SHA256) {
			result.wrong = true
			return result
		}
		seen[a.Name] = true
		delete(result.unmatched, a.Name)
		if ok {
			result.both++
		} else {
			result.only++
		}
	}
	return result
}

func compareCompactly(t *rapid.T, answer, listed []manifest.Attachment) comparison {
	result := comparison{unmatched: make(map[string]bool)}
	var names Names
	for _, a := range answer {
		names.Add(a)
	}
	if err := names.Seal(); err != nil {
		result.duplicate = true
		return result
	}
	for _, a := range listed {
		agreement, err := names.Match(a)
		switch {
		case err != nil:
			if !fault.Is(err, fault.Malformed) || !strings.Contains(err.Error(), a.Name) {
				t.Fatalf("error %v does not name %s", err, a.Name)
			}
			result.wrong = true
			return result
		case agreement == InBoth:
			result.both++
		default:
			result.only++
		}
	}
	unmatched, err := names.Finish()
	result.wrong = err != nil
	for _, a := range answer {
		if names.Unmatched(a.Name) {
			result.unmatched[a.Name] = true
		}
	}
	if err == nil && unmatched != len(result.unmatched) {
		t.Fatalf("unmatched %d, named %d", unmatched, len(result.unmatched))
	}
	return result
}

func TestNamesAgreeWithNaiveComparison(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		answer := rapid.SliceOfN(rapid.Custom(drawAttachment), 0, 8).Draw(t, "answer")
		if rapid.Bool().Draw(t, "distinct answer") {
			answer = distinctNames(answer)
		}
		listed := rapid.SliceOfN(rapid.Custom(drawAttachment), 0, 8).Draw(t, "manifest")
		if rapid.Bool().Draw(t, "mostly agreeing") {
			listed = append(distinctNames(answer), listed[:min(1, len(listed))]...)
		}
		want, got := compareNaively(answer, listed), compareCompactly(t, answer, listed)
		if want.duplicate != got.duplicate {
			t.Fatalf("duplicate in the answer: want %v, got %v", want.duplicate, got.duplicate)
		}
		if want.duplicate {
			return
		}
		if want.wrong != got.wrong {
			t.Fatalf("contradiction: want %v, got %v", want.wrong, got.wrong)
		}
		if !want.wrong && fmt.Sprint(want) != fmt.Sprint(got) {
			t.Fatalf("want %v, got %v", want, got)
		}
	})
}

func distinctNames(list []manifest.Attachment) []manifest.Attachment {
	var kept []manifest.Attachment
	seen := make(map[string]bool)
	for _, a := range list {
		if !seen[a.Name] {
			kept = append(kept, a)
		}
		seen[a.Name] = true
	}
	return kept
}

func TestNamesTellWhichNameIsListedTwice(t *testing.T) {
	var names Names
	for i := range 3 {
		names.Add(numbered(i))
	}
	names.Add(numbered(1))
	if err := names.Seal(); !fault.Is(err, fault.Malformed) {
		t.Fatalf("seal: %v", err)
	}
	for i := range 3 {
		if got := names.Duplicated(numbered(i).Name); got != (i == 1) {
			t.Errorf("name %d duplicated: %v", i, got)
		}
	}
}

func TestNamesFindDuplicatesThatOnlyTheManifestHas(t *testing.T) {
	var names Names
	if err := names.Seal(); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{5, 6, 5} {
		if agreement, err := names.Match(numbered(i)); err != nil || agreement != OnlyManifest {
			t.Fatalf("match: %v, %v", agreement, err)
		}
	}
	if _, err := names.Finish(); !fault.Is(err, fault.Malformed) {
		t.Fatalf("finish: %v", err)
	}
	if !names.Duplicated(numbered(5).Name) || names.Duplicated(numbered(6).Name) {
		t.Error("the wrong name is called duplicated")
	}
}

func TestNamesCanBeMatchedAgainAfterRestart(t *testing.T) {
	var names Names
	for i := range 4 {
		names.Add(numbered(i))
	}
	if err := names.Seal(); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 1, 9} {
		if _, err := names.Match(numbered(i)); err != nil {
			t.Fatal(err)
		}
	}
	names.Restart()
	for _, i := range []int{0, 1, 2, 9} {
		if _, err := names.Match(numbered(i)); err != nil {
			t.Fatal(err)
		}
	}
	if unmatched, err := names.Finish(); err != nil || unmatched != 1 || !names.Unmatched(numbered(3).Name) {
		t.Fatalf("unmatched %d, %v", unmatched, err)
	}
}

func TestUnsealedTablesRefuseToAnswer(t *testing.T) {
	var names Names
	names.Add(numbered(1))
	if _, err := names.Match(numbered(1)); !fault.Is(err, fault.Internal) {
		t.Errorf("match: %v", err)
	}
	if _, err := names.Finish(); !fault.Is(err, fault.Internal) {
		t.Errorf("finish: %v", err)
	}
	var wanted Wanted
	wanted.Add(numbered(1))
	if err := wanted.LookUp(t.Context(), newFakeBucket(firstN(0))); !fault.Is(err, fault.Internal) {
		t.Errorf("look up: %v", err)
	}
	if err := wanted.MarkDone(numbered(1).SHA256); !fault.Is(err, fault.Internal) {
		t.Errorf("mark done: %v", err)
	}
	if err := wanted.MarkHeld(streamSums(nil)); !fault.Is(err, fault.Internal) {
		t.Errorf("mark held: %v", err)
	}
	for _, err := range wanted.Missing(firstN(1)) {
		if !fault.Is(err, fault.Internal) {
			t.Errorf("missing: %v", err)
		}
	}
}

// liveBytes returns the bytes that the heap holds after a collection.
func liveBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestAMillionNamesTakeAtMost64BytesEach(t *testing.T) {
	const count = 1_000_000
	before := liveBytes()
	var names Names
	for i := range count {
		names.Add(numbered(i))
	}
	if err := names.Seal(); err != nil {
		t.Fatal(err)
	}
	perName := float64(liveBytes()-before) / count
	if perName > 32 {
		t.Errorf("names take %.2f bytes each, want at most 32", perName)
	}
	var wanted Wanted
	for a, err := range firstN(count) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := names.Match(a); err != nil {
			t.Fatal(err)
		}
		wanted.Add(a)
	}
	if err := wanted.Seal(); err != nil {
		t.Fatal(err)
	}
	both := float64(liveBytes()-before) / count
	t.Logf("names %.2f bytes each, names and wanted hashes %.2f", perName, both)
	if both > 64 {
		t.Errorf("names and wanted hashes take %.2f bytes a name, want at most 64", both)
	}
	if unmatched, err := names.Finish(); err != nil || unmatched != 0 {
		t.Fatalf("finish: %d, %v", unmatched, err)
	}
	runtime.KeepAlive(&names)
	runtime.KeepAlive(&wanted)
}

func BenchmarkNames(b *testing.B) {
	const count = 100_000
	list := make([]manifest.Attachment, count)
	for i := range list {
		list[i] = numbered(i)
	}
	b.ReportAllocs()
	for b.Loop() {
		var names Names
		for _, a := range list {
			names.Add(a)
		}
		if err := names.Seal(); err != nil {
			b.Fatal(err)
		}
		for _, a := range list {
			if _, err := names.Match(a); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/name")
}

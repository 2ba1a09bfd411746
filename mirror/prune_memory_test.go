package mirror

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"runtime"
	"slices"
	"testing"

	"feedmirror/internal/evidence"
	"feedmirror/manifest"
	"feedmirror/state"
)

// numbered returns the hash of a number: as evenly spread as those of files.
func numbered(n int) manifest.SHA256 {
	return manifest.SumBytes(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestAMillionNamesOfManyVersionsStaySmall lets three versions name the same attachments: a million in its long
// form.
func TestAMillionNamesOfManyVersionsStaySmall(t *testing.T) {
	names := evidence.Size(100_000, maxMarks)
	before := heap()
	set := new(hashSet)
	for range 3 {
		for n := range names {
			set.add(numbered(n))
		}
	}
	if !set.has(numbered(7)) || set.has(numbered(names)) || !set.hasStart(state.StartOf(numbered(names-1))) || set.hasStart(state.StartOf(numbered(names))) {
		t.Error("the set does not hold what was added, or more")
	}
	if used := heap() - before; used > 64*int64(names) {
		t.Errorf("%d bytes a name, want at most 64", used/int64(names))
	}
	runtime.KeepAlive(set)
}

// TestPruneJSONOfAMillionAttachmentsCanBeReadBack: it must stay below 32 bytes an attachment, of which a
// document may have 32 MiB.
func TestPruneJSONOfAMillionAttachmentsCanBeReadBack(t *testing.T) {
	names := evidence.Size(100_000, maxMarks)
	doc := state.Prune{State: state.PruneDeciding, Attachments: make([]state.HashStart, 0, names)}
	for n := range names {
		doc.Attachments = append(doc.Attachments, state.StartOf(numbered(n)))
	}
	slices.SortFunc(doc.Attachments, state.HashStart.Compare)
	body, err := manifest.EncodeDocument(doc)
	if err != nil {
		t.Fatal(err)
	}
	if len(body) > 32*names {
		t.Errorf("prune.json has %d bytes", len(body))
	}
	read := new(state.Prune)
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(read); err != nil {
		t.Fatal(err)
	}
	if !read.TakesAttachment(numbered(99_999)) || read.TakesAttachment(numbered(names+1)) {
		t.Error("what was read back lists something else")
	}
}

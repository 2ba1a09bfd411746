package mirror

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"runtime"
	"slices"
	"testing"

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

// TestAMillionNamesOfManyVersionsStaySmall: three versions that name the same million attachments.
func TestAMillionNamesOfManyVersionsStaySmall(t *testing.T) {
	before := heap()
	set := new(hashSet)
	for range 3 {
		for n := range maxMarks {
			set.add(numbered(n))
		}
	}
	if !set.has(numbered(7)) || set.has(numbered(maxMarks)) || !set.hasStart(state.StartOf(numbered(maxMarks-1))) || set.hasStart(state.StartOf(numbered(maxMarks))) {
		t.Error("the set does not hold what was added, or more")
	}
	if used := heap() - before; used > 64*maxMarks {
		t.Errorf("%d bytes a name, want at most 64", used/maxMarks)
	}
	runtime.KeepAlive(set)
}

// TestPruneJSONOfAMillionAttachmentsCanBeReadBack: it must stay below what is read of a document.
func TestPruneJSONOfAMillionAttachmentsCanBeReadBack(t *testing.T) {
	doc := state.Prune{State: state.PruneDeciding, Attachments: make([]state.HashStart, 0, maxMarks)}
	for n := range maxMarks {
		doc.Attachments = append(doc.Attachments, state.StartOf(numbered(n)))
	}
	slices.SortFunc(doc.Attachments, state.HashStart.Compare)
	body, err := manifest.EncodeDocument(doc)
	if err != nil {
		t.Fatal(err)
	}
	if len(body) > 32<<20 {
		t.Errorf("prune.json has %d bytes", len(body))
	}
	read := new(state.Prune)
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(read); err != nil {
		t.Fatal(err)
	}
	if !read.TakesAttachment(numbered(123_456)) || read.TakesAttachment(numbered(maxMarks+1)) {
		t.Error("what was read back lists something else")
	}
}

package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"feedmirror/manifest/jsonstream"
)

// manyAttachments generates a manifest with count attachments while it is read.
type manyAttachments struct {
	count, next int
	rest        []byte
	read        int64
}

func (m *manyAttachments) Read(p []byte) (int, error) {
	if len(m.rest) == 0 {
		switch {
		case m.next == 0:
			m.rest = append(m.rest, `{"datasetId":"ds_a","version":42,"attachments":[`...)
		case m.next <= m.count:
			if m.next > 1 {
				m.rest = append(m.rest, ",\n    "...)
			}
			m.rest = fmt.Appendf(m.rest, `{"file":"document:%064x","filename":"permit-%d.pdf","contentType":"application/pdf","sizeBytes":%d,"sha256":"%064[1]x"}`, m.next, m.next, m.next)
		case m.next == m.count+1:
			m.rest = append(m.rest, `],"files":[]}`...)
		default:
			return 0, io.EOF
		}
		m.next++
	}
	n := copy(p, m.rest)
	m.rest = m.rest[:copy(m.rest, m.rest[n:])]
	m.read += int64(n)
	return n, nil
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestMemoryDoesNotGrowWithAttachments(t *testing.T) {
	const count, allowed = 1_000_000, 1 << 20
	before, peak, seen := heap(), uint64(0), 0
	source := &manyAttachments{count: count}
	m, err := DecodeManifest(source, func(Attachment) error {
		if seen++; seen%100_000 == 0 {
			peak = max(peak, heap())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen != count || m.Version != 42 {
		t.Errorf("saw %d attachments of %d, version %d", seen, count, m.Version)
	}
	if source.read < 2*MaxManifestBytes {
		t.Errorf("%d bytes do not show that attachments are out of the manifest's bound", source.read)
	}
	if peak > before+allowed {
		t.Errorf("heap grew from %d to %d bytes", before, peak)
	}
}

// repeat yields head, then fill for ever, and counts what was taken.
type repeat struct {
	head, fill string
	taken      int64
}

func (r *repeat) Read(p []byte) (int, error) {
	if r.head == "" {
		r.head = strings.Repeat(r.fill, 8192)
	}
	n := copy(p, r.head)
	r.head = r.head[n:]
	r.taken += int64(n)
	return n, nil
}

func TestEndlessInputEndsAtItsLimit(t *testing.T) {
	// A small bound takes the same path as the real one and less time.
	const bound = 2 << 20
	const token, whole = jsonstream.MaxToken + 1<<17, bound + 1<<17
	for name, test := range map[string]struct {
		head, fill string
		most       int64 // bytes taken until it is refused
	}{
		"name of an entry":      {`{"attachments":[{"file":"`, "xxxx", MaxEntryBytes + 1<<16},
		"unknown in an entry":   {`{"attachments":[{"file":"a","x":[`, "1,", MaxEntryBytes + 1<<16},
		"unknown string":        {`{"x":"`, "xxxx", token},
		"unknown list":          {`{"x":[`, "[1],", whole},
		"brackets":              {`{"x":`, "[", 1 << 17},
		"members":               {`{`, `"x":1,`, whole},
		"groups":                {`{"files":{`, `"x":1,`, whole},
		"empty groups in files": {`{"files":{`, `"x":[{}],`, whole},
		"white space":           {``, "    ", whole},
		"space between":         {`{"attachments":[`, "    ", whole},
	} {
		t.Run(name, func(t *testing.T) {
			in := &repeat{head: test.head + test.fill, fill: test.fill}
			before := heap()
			_, err := decodeManifest(in, func(Attachment) error { return nil }, bound, MaxFiles)
			if !errors.Is(err, jsonstream.ErrTooLarge) {
				t.Errorf("want ErrTooLarge, got %v", err)
			}
			if in.taken > test.most {
				t.Errorf("took %d bytes, more than %d", in.taken, test.most)
			}
			if after := heap(); after > before+4<<20 {
				t.Errorf("heap grew from %d to %d bytes", before, after)
			}
		})
	}
}

func TestMoreFilesThanAllowedAreRefused(t *testing.T) {
	text := `{"files":[` + entry("path", "snapshot/a") + "," + entry("path", "snapshot/b") + `]}`
	if m, err := decodeManifest(strings.NewReader(text), nil, MaxManifestBytes, 2); err != nil || len(m.Files) != 2 {
		t.Errorf("just as many as allowed: got %d files, %v", len(m.Files), err)
	}
	if _, err := decodeManifest(strings.NewReader(text), nil, MaxManifestBytes, 1); err == nil || !strings.Contains(err.Error(), "more than 1 files") {
		t.Errorf("one file too many: got %v", err)
	}
}

func BenchmarkDecodeManifest(b *testing.B) {
	text, err := io.ReadAll(&manyAttachments{count: 100_000})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeManifest(bytes.NewReader(text), func(Attachment) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

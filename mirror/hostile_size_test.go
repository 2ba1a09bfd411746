package mirror_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"feedmirror/internal/bucket"
	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
	"feedmirror/mirror"
)

// heapPeak measures the greatest memory in use while work runs, garbage collected, above what was
// in use before. forget is called before each look, to drop what the test itself piles up.
func heapPeak(forget, work func()) int64 {
	forget()
	before := liveHeap()
	var greatest int64
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				forget()
				greatest = max(greatest, liveHeap())
			}
		}
	}()
	work()
	close(done)
	<-stopped
	return max(greatest-before, 0)
}

// attachmentSink keeps the hashes of attachment objects and drops their bytes, once they proved to
// be the right ones: a million small files would measure the disk. It stores all else.
type attachmentSink struct {
	bucket.Store
	size int64 // of every object

	mu     sync.Mutex
	sums   []manifest.SHA256 // room for all of them from the start
	sorted bool
}

// Create implements bucket.Writer.
func (s *attachmentSink) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	if !strings.HasPrefix(key, manifest.AttachmentPrefix) {
		return s.Store.Create(ctx, key, content)
	}
	if _, err := io.Copy(io.Discard, bucket.VerifyReader(content.Body, content.Size, content.SHA256)); err != nil {
		return bucket.Info{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sums, s.sorted = append(s.sums, content.SHA256), false
	return bucket.Info{Key: key, Size: content.Size}, nil
}

// Stat implements bucket.Reader.
func (s *attachmentSink) Stat(ctx context.Context, key string) (bucket.Info, error) {
	if !strings.HasPrefix(key, manifest.AttachmentPrefix) {
		return s.Store.Stat(ctx, key)
	}
	for info, err := range s.List(ctx, key, "") {
		return info, err
	}
	return bucket.Info{}, &fault.Error{Op: "stat object", Object: key, Side: fault.SideBucket, Kind: fault.NotFound}
}

// List implements bucket.Reader.
func (s *attachmentSink) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	if !strings.HasPrefix(prefix, manifest.AttachmentPrefix) {
		return s.Store.List(ctx, prefix, after)
	}
	s.mu.Lock()
	if !s.sorted {
		slices.SortFunc(s.sums, func(a, b manifest.SHA256) int { return bytes.Compare(a[:], b[:]) })
		s.sorted = true
	}
	sums := s.sums
	s.mu.Unlock()
	return func(yield func(bucket.Info, error) bool) {
		for _, sum := range sums {
			key := manifest.AttachmentKey(sum)
			if strings.HasPrefix(key, prefix) && key > after && !yield(bucket.Info{Key: key, Size: s.size}, nil) {
				return
			}
		}
	}
}

// mirrorAttachments mirrors a version with so many attachments and returns the peak of memory in
// use above what was in use before the pass.
func mirrorAttachments(t *testing.T, count int) int64 {
	t.Helper()
	w := newWorldAlone(t, feedsim.Options{})
	w.damaged = true // the attachments' bytes are nowhere
	const size = 16
	if _, err := w.feed.AddBulk(feedsim.BulkSpec{Dataset: permits, Attachments: count, AttachmentBytes: size}); err != nil {
		t.Fatal(err)
	}
	sink := &attachmentSink{Store: w.store, size: size, sums: make([]manifest.SHA256, 0, count)}
	w.store = sink
	options := w.options()
	options.Log = zerolog.Nop()
	options.ManifestMemory = 2 // it is streamed at every size
	var report mirror.Report
	peak := heapPeak(w.feed.ResetLog, func() { report = mirror.Run(t.Context(), options) })
	if report.Exit != 0 || report.Files.Copied < int64(count) || len(sink.sums) != count {
		t.Fatalf("ended with %d: copied %d, stored %d, failures %+v", report.Exit, report.Files.Copied, len(sink.sums), report.Failures)
	}
	if sums := w.record(permits, 1).Attachments; sums.Count != int64(count) || sums.Objects != int64(count) || sums.Bytes != int64(count)*size || sums.NewObjects != sums.Objects {
		t.Errorf("the record counts %+v", sums)
	}
	w.published(permits, 1)
	return peak
}

// TestAMillionAttachmentsThroughAPass measures what a name costs: the difference of two sizes, so
// that buffers, connections and a manifest in memory do not count.
func TestAMillionAttachmentsThroughAPass(t *testing.T) {
	tally := evidence.Count(t, "million-attachments")
	count := evidence.Size(2_000, 1_000_000)
	if !evidence.Long() {
		mirrorAttachments(t, count)
		tally.Add(count)
		return
	}
	const base = 50_000
	small := int64(0)
	for range 3 { // what is under way at a small pass's peak differs by several MiB from run to run
		small = max(small, mirrorAttachments(t, base))
	}
	large := mirrorAttachments(t, count)
	each := (large - small) / int64(count-base)
	tally.Note("%d bytes a name at the peak (%d MiB for %d names, %d MiB for %d)", each, large>>20, count, small>>20, base)
	if each > 64 {
		t.Errorf("a name costs %d bytes of memory, at most 64 are promised", each)
	}
	tally.Add(count)
}

// repeated writes a text until so many bytes are written.
func repeated(w io.Writer, bytes int64, text func(n int) string) error {
	for n := 0; bytes > 0; n++ {
		one := text(n)
		if _, err := io.WriteString(w, one); err != nil {
			return err
		}
		bytes -= int64(len(one))
	}
	return nil
}

// TestAVersionAnswerOfAGibibyte streams answers about a version as long as they may be, and longer.
// Memory stays flat.
func TestAVersionAnswerOfAGibibyte(t *testing.T) {
	tally := evidence.Count(t, "version-answer-1GiB")
	gibibyte := int64(evidence.Size(8<<20, 1<<30))
	padding := `"` + strings.Repeat("x", 60<<10) + `",`
	padded := func(bytes int64) feedsim.Fault {
		return feedsim.Insert("{", func(w io.Writer) error {
			if _, err := io.WriteString(w, `"padding":[`); err != nil {
				return err
			}
			if err := repeated(w, bytes, func(int) string { return padding }); err != nil {
				return err
			}
			_, err := io.WriteString(w, `0],`)
			return err
		})
	}
	tests := map[string]struct {
		answer feedsim.Fault
		exit   int
		says   string
		long   bool // only there the limit is met
	}{
		"as long as it may be": {answer: padded(gibibyte - 1<<20)},
		"longer":               {answer: padded(gibibyte + 1<<20), exit: 1, says: "larger than 1073741824 bytes", long: true},
		"of entries that the manifest lacks": {exit: 1, says: "attachments that its manifest does not", answer: feedsim.Insert(`"attachments":[`, func(w io.Writer) error {
			filler := strings.Repeat("x", 60<<10)
			return repeated(w, gibibyte-1<<20, func(n int) string {
				return fmt.Sprintf(`{"file":"source:%d","filename":"a","sizeBytes":1,"sha256":"%064x","url":"https://x/","more":"%s"},`, n, n+1, filler)
			})
		})},
		"of one entry": {exit: 1, says: "more bytes than allowed", answer: feedsim.Stream(func(w io.Writer) error {
			if _, err := io.WriteString(w, `{"files":{"attachments":[{"file":"source:1","more":[`); err != nil {
				return err
			}
			return repeated(w, gibibyte, func(int) string { return padding })
		})},
	}
	for _, name := range sortedNames(tests) {
		test := tests[name]
		if test.long && !evidence.Long() {
			continue
		}
		// One after the other: what a neighbour holds would be measured too.
		w := newWorldAlone(t, feedsim.Options{})
		d := w.dataset(permits, feedsim.Points)
		w.release(d, feedsim.ReleaseSpec{})
		w.release(d, feedsim.ReleaseSpec{Add: 1})
		w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Resource: "versions", Version: 2, Times: feedsim.Always}, test.answer)
		var report mirror.Report
		peak := heapPeak(w.feed.ResetLog, func() { report = w.sync(test.exit) })
		if test.exit != 0 && (len(report.Failures) != 1 || !strings.Contains(report.Failures[0].Kind+report.Failures[0].Message, test.says)) {
			t.Errorf("%s: failures %+v, want one that says %q", name, report.Failures, test.says)
		}
		if peak > 32<<20 {
			t.Errorf("%s: %d MiB in use", name, peak>>20)
		}
		tally.Note("%s: %d MiB in use at the peak", name, peak>>20)
		w.feed.ClearScript()
		w.sync(0)
		w.published(permits, 2)
		tally.Add(1)
	}
}

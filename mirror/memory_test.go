package mirror

import (
	"fmt"
	"testing"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/internal/transfer"
	"feedmirror/manifest"
)

type quiet struct{}

func (quiet) Planned(string, int64, int64) {}
func (quiet) Finished(string)              {}
func (quiet) Stage(string, string)         {}

// TestAMillionAttachmentsLeaveNothingBehindEach ends many files, well and badly: what is kept must
// not grow with them.
func TestAMillionAttachmentsLeaveNothingBehindEach(t *testing.T) {
	p := newPass(Options{Observer: quiet{}, Now: time.Now})
	w := &worker{pass: p}
	c := newVersionCopy(w, step{number: 2})
	for n := range 10_000 {
		file := transfer.File{Name: fmt.Sprintf("source:%d", n), Key: manifest.AttachmentKey(manifest.SumBytes([]byte{byte(n), byte(n >> 8)}))}
		c.fileDone(file, transfer.Outcome{Status: transfer.Copied})
		c.fileDone(file, transfer.Outcome{Status: transfer.Failed, Err: &fault.Error{Op: "read file", Kind: fault.WrongBytes}})
	}
	c.fileDone(transfer.File{Name: "changes/x", Key: manifest.AttachmentKey(manifest.SumBytes(nil))},
		transfer.Outcome{Status: transfer.Failed, Err: &fault.Error{Op: "read file", Kind: fault.Missing}})
	c.fileDone(transfer.File{Name: "schema.json", Key: "k"}, transfer.Outcome{Status: transfer.Failed, Err: &fault.Error{Op: "read file", Kind: fault.Transient}})
	if len(c.streamed) != 0 || len(c.failures) > 2*maxFailures || c.lostChanges {
		t.Errorf("kept %d keys and %d failures; changes taken for lost: %v", len(c.streamed), len(c.failures), c.lostChanges)
	}
	if failed := p.tally.report.Files.Failed; failed != 10_002 {
		t.Errorf("counted %d failed files", failed)
	}
	if err := c.afterCopy(); !fault.Is(err, fault.Transient) {
		t.Errorf("the failure that says most is %v", err)
	}
}

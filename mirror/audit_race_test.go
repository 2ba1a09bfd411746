package mirror_test

import (
	"context"
	"testing"
	"time"

	"feedmirror/internal/audit"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/manifest"
)

// TestAnAuditBesideAPassAccusesNobody runs a whole pass at each request of an audit.
func TestAnAuditBesideAPassAccusesNobody(t *testing.T) {
	for nth := int64(1); nth <= 24; nth++ {
		t.Run(manifest.Number(nth).Padded(), func(t *testing.T) { auditBesideAPass(t, nth) })
	}
}

func auditBesideAPass(t *testing.T, nth int64) {
	w, d := permitsWorld(t)
	w.sync(0)
	reader := &callAt{Store: w.store, nth: nth, then: func() {
		w.release(d, feedsim.ReleaseSpec{Add: 1, Parts: 2})
		w.sync(0)
	}}
	report, err := audit.Run(context.Background(), audit.Options{Reader: reader, Level: audit.LevelBytes, Workers: 1,
		Now: time.Now})
	if err != nil || len(report.Findings) != 0 {
		t.Errorf("a pass at request %d of the audit: %v, findings %+v", nth, err, report.Findings)
	}
	for _, note := range report.Notes {
		if note.Kind == audit.KindOrphan {
			t.Errorf("a pass at request %d of the audit: note %+v", nth, note)
		}
	}
}

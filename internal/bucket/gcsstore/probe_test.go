package gcsstore_test

import (
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/gcsstore"
)

// What doctor says of Cloud Storage: everything that is declared is there.
func TestProbe(t *testing.T) {
	front := newFront(t, "http://"+servers.FakeGCS(t).Host)
	store := openAt(t, front.URL, gcsstore.Options{Prefix: "p"})
	report, err := bucket.Probe(t.Context(), store, bucket.ProbeOptions{Run: "run"})
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range report.Findings {
		if finding.Verdict != bucket.VerdictOK {
			t.Errorf("%+v", finding)
		}
	}
	if report.Observed != store.Guarantees() {
		t.Errorf("observed %+v, declared %+v", report.Observed, store.Guarantees())
	}
}

// The fake alone lacks conditional deletes, and the probe sees it.
func TestProbeOfTheFakeAlone(t *testing.T) {
	report, err := bucket.Probe(t.Context(), openStore(t), bucket.ProbeOptions{Run: "run"})
	if err != nil || report.Unfit(false) != nil {
		t.Fatalf("%v, %v", err, report.Unfit(false))
	}
	finding, found := report.Finding(bucket.CheckConditionalDelete)
	if !found || finding.Verdict != bucket.VerdictLacking {
		t.Errorf("got %+v", finding)
	}
}

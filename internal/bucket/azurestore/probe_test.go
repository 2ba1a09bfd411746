package azurestore_test

import (
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/azurestore"
)

// What doctor says of Azure: everything that is declared is there. An MD5 is kept, too, but only
// of small objects, and so not declared.
func TestProbe(t *testing.T) {
	store := openStore(t, azurestore.Options{Prefix: "p"})
	report, err := bucket.Probe(t.Context(), store, bucket.ProbeOptions{Run: "run"})
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range report.Findings {
		if finding.Verdict != bucket.VerdictOK {
			t.Errorf("%+v", finding)
		}
	}
	want := store.Guarantees()
	want.Attests = "md5"
	if report.Observed != want {
		t.Errorf("observed %+v, want %+v", report.Observed, want)
	}
}

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"feedmirror/internal/feed/feedsim"
)

// weakPlace is a versitygw that ignores conditions.
func weakPlace(t *testing.T) place {
	return s3Place(t, without("If-None-Match", "If-Match")(t, servers.VersityGW(t)))
}

// TestAStoreThatIgnoresConditionsNeedsAWord refuses such a store, names the flag, takes it from every
// layer of settings, tells the rules once, and asks for it again wherever something is written.
func TestAStoreThatIgnoresConditionsNeedsAWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, weakPlace(t), feedsim.Options{})
	d := w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Points, Rows: 4}, feedsim.ReleaseSpec{}, feedsim.ReleaseSpec{Add: 1})
	const flag = "--accept-weak-locking"
	for _, command := range []string{"sync", "doctor"} {
		if said := w.refuses(nil, command); !strings.Contains(said, flag) {
			t.Errorf("%s does not name the way out: %s", command, said)
		}
	}
	if said := w.run(0, "doctor", flag).out; !strings.Contains(said, "concurrencyPolicy: Forbid") {
		t.Errorf("doctor does not tell the rules: %s", said)
	}
	if said := w.run(0, "sync", flag).out; strings.Count(said, "concurrencyPolicy: Forbid") != 1 {
		t.Errorf("the first sync does not tell the rules once: %s", said)
	}
	var layout struct {
		Guarantees struct{ AtomicCreate, CompareAndSwap bool }
	}
	if w.document("_mirror/layout.json", &layout); layout.Guarantees.AtomicCreate || layout.Guarantees.CompareAndSwap {
		t.Errorf("layout.json says %+v", layout)
	}
	settings := filepath.Join(w.home, "mirror.yaml")
	if err := os.WriteFile(settings, []byte("accept_weak_locking: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	accepted := []string{"MIRROR_ACCEPT_WEAK_LOCKING=true"}
	w.release(d, feedsim.ReleaseSpec{Major: true})
	if said := w.run(0, "sync", "--config", settings).out; strings.Contains(said, "Forbid") {
		t.Errorf("the second sync tells the rules again: %s", said)
	}
	w.runWith(5, accepted, "sync", "--accept-weak-locking=false")
	for _, line := range [][]string{
		{"approve", permits}, {"rollback", permits, "1"}, {"retire", permits}, {"prune", "--keep-versions", "1", "--grace", "0s", "--apply"}, {"verify", "--repair"},
	} {
		if done := w.run(5, line...); !strings.Contains(done.err, flag) {
			t.Errorf("%s does not name the way out: %s", line[0], done.err)
		}
		if line[0] != "retire" && line[0] != "rollback" {
			w.runWith(0, accepted, line...)
		}
	}
	w.published(permits, d.Current())
	w.run(0, "verify")
	w.run(0, "status")
}

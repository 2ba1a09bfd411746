package mirror_test

import (
	"strings"
	"testing"
	"time"

	"feedmirror/internal/feed"
	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/report"
	"feedmirror/manifest"
	"feedmirror/mirror"
	"feedmirror/state"
)

func (w *world) status() report.Status {
	w.t.Helper()
	status, err := report.BuildStatus(w.t.Context(), w.store, nil, w.clock.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return status
}

// notices returns what status notes of the permits, as kind and version.
func (w *world) notices() []state.Notice {
	w.t.Helper()
	for _, d := range w.status().Datasets {
		if d.Dataset == permits {
			return d.Notices
		}
	}
	w.t.Fatalf("status lacks %s", permits)
	return nil
}

// TestARewrittenHistoryStaysInStatus meets a committed version again, under another manifest, small
// enough to be kept in memory and not.
func TestARewrittenHistoryStaysInStatus(t *testing.T) {
	for name, memory := range map[string]int64{"in memory": 0, "streamed": 64} {
		t.Run(name, func(t *testing.T) {
			w, d := permitsWorld(t)
			w.sync(0)
			if err := d.RewriteHistory(2); err != nil {
				t.Fatal(err)
			}
			blind := func(o *mirror.Options) {
				o.ManifestMemory = memory
				o.Store = &blindTo{Store: o.Store, key: manifest.RecordKey(permits, 2)}
			}
			if report := mirror.Run(t.Context(), w.options(full, blind)); report.Exit != 1 {
				t.Fatalf("ended with %d: %+v", report.Exit, report.Failures)
			}
			if kept := w.countKeys(manifest.VersionPrefix(permits, 2) + "manifest."); kept != 2 {
				t.Errorf("%d manifests are kept, want both", kept)
			}
			for range 2 { // no alarm any more, but a line for good
				w.sync(0, full)
				notices := w.notices()
				if len(notices) != 1 || notices[0].Kind != "history-changed" || notices[0].Version != 2 || notices[0].Versions != 1 {
					t.Errorf("status notes %+v", notices)
				}
			}
		})
	}
}

// TestAFeedThatStepsBackIsALineInStatusOnly lets current name an older version while the newer one
// still answers.
func TestAFeedThatStepsBackIsALineInStatusOnly(t *testing.T) {
	w, d := permitsWorld(t)
	w.release(d, feedsim.ReleaseSpec{Add: 1})
	w.sync(0)
	before := w.published(permits, 3)
	back := answering(otherAnswers{dataset: func(d *feed.Dataset) { d.Current = 1 }})
	for range 2 {
		w.sync(0, full, back)
		notices := w.notices()
		if len(notices) != 1 || notices[0].Kind != "feed-behind" || notices[0].Version != 3 || notices[0].Versions != 2 {
			t.Errorf("status notes %+v", notices)
		}
	}
	if after := w.published(permits, 3); after.Revision != before.Revision {
		t.Error("the pointer was written")
	}
	w.sync(0, full)
	if notices := w.notices(); len(notices) != 0 {
		t.Errorf("status still notes %+v", notices)
	}
}

func TestADatasetRefusedByNameCountsAsSeen(t *testing.T) {
	w, d := permitsWorld(t)
	w.release(w.dataset("ds_other", feedsim.Plain), feedsim.ReleaseSpec{})
	w.sync(0)
	d.Remove()
	if counts := w.sync(0, full).Datasets; counts.Seen != 2 || counts.NotSubscribed != 1 {
		t.Errorf("counted %+v, want two seen and one not subscribed", counts)
	}
	w.feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Times: feedsim.Always, Match: func(r feedsim.Request) bool {
		return strings.HasSuffix(r.Path, "/"+permits)
	}}, feedsim.Refuse(400, "bad_request", "no"))
	if counts := w.sync(1, full).Datasets; counts.Seen != 2 || counts.Failed != 1 || counts.Owed != 1 {
		t.Errorf("counted %+v, want two seen, one failed and owed", counts)
	}
}

// TestDebtsOfAFilterThatNobodyUsesCountNoMore leaves a debt in the document of a filter that was
// given up.
func TestDebtsOfAFilterThatNobodyUsesCountNoMore(t *testing.T) {
	w, d := permitsWorld(t)
	old := func(o *mirror.Options) { o.Filter = []string{"ds_p*"} }
	w.sync(0, old)
	broken := w.release(d, feedsim.ReleaseSpec{Add: 1})
	rule := feedsim.Rule{Side: feedsim.SideLinks, Version: int64(broken), File: "schema.json", Times: feedsim.Always}
	w.feed.Script(rule, feedsim.Refuse(404, "NoSuchKey", "no such key"))
	w.sync(1, old)
	w.feed.ClearScript()
	w.sync(0)
	idle := func() (count int) {
		for _, shard := range w.status().Shards {
			if shard.Idle {
				count++
				if shard.Owed != 1 || len(shard.Filter) != 1 || shard.Filter[0] != "ds_p*" {
					t.Errorf("the idle document is shown as %+v", shard)
				}
			}
		}
		return count
	}
	if idle() != 0 {
		t.Error("a document of today counts as idle")
	}
	w.clock.Advance(15 * 24 * time.Hour)
	w.sync(0)
	if idle() != 1 {
		t.Errorf("shards %+v, want one idle", w.status().Shards)
	}
	w.sync(0, old) // taken up again
	for _, shard := range w.status().Shards {
		if shard.Idle || shard.Owed != 0 {
			t.Errorf("after it was used again: %+v", shard)
		}
	}
}

func TestStatusNamesAPruneThatIsNotFinished(t *testing.T) {
	w, _ := permitsWorld(t)
	w.sync(0)
	if w.status().Prune != nil {
		t.Error("it names one although there was none")
	}
	at := w.clock.Now()
	_, err := state.Update(t.Context(), w.store, w.pause, manifest.PruneKey, func(*state.Prune) (*state.Prune, error) {
		return &state.Prune{State: state.PruneDeciding, Run: "r1", Host: "h", Tool: "t", StartedAt: at, At: at,
			Versions: []state.PruneVersion{}, Attachments: []state.HashStart{}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.damaged = true // a prune that takes nothing is none that the tool writes
	if prune := w.status().Prune; prune == nil || prune.Run != "r1" || prune.Next != "mirror prune --resume" {
		t.Errorf("status names %+v", prune)
	}
}

// TestADamagedIndexKeepsNoLaterVersionWaiting damages, and removes, the index that the next version
// would carry over from.
func TestADamagedIndexKeepsNoLaterVersionWaiting(t *testing.T) {
	changes := map[string]func([]byte) []byte{
		"cut short": func(data []byte) []byte { return data[:len(data)-9] },
		"rubbish":   func([]byte) []byte { return []byte("PAR1 rubbish PAR1") },
		"its pages": func(data []byte) []byte {
			clear(data[8 : len(data)/2])
			return data
		},
		"gone": nil,
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			w, d := permitsWorld(t)
			w.sync(0)
			key := manifest.IndexKey(permits, 2)
			if change == nil {
				if err := w.store.Delete(t.Context(), key, w.tag(key)); err != nil {
					t.Fatal(err)
				}
				w.damaged = true
			} else {
				w.damage(key, change)
			}
			newest := w.release(d, feedsim.ReleaseSpec{Add: 1})
			w.feed.ResetLog()
			report := mirror.Run(t.Context(), w.options())
			if report.Exit != 0 || len(report.Notes) != 1 || report.Notes[0].Kind != "index-unreadable" {
				t.Fatalf("ended with %d: %+v, notes %+v", report.Exit, report.Failures, report.Notes)
			}
			sums := w.record(permits, newest).Attachments
			if sums.Carried != 0 || sums.NewObjects != sums.Objects || sums.NewBytes != sums.Bytes || sums.Objects == 0 {
				t.Errorf("the record counts %+v, want all as new", sums)
			}
			if copied := report.Files.Copied; copied > 6 {
				t.Errorf("copied %d files: objects that stand were fetched again", copied)
			}
			w.published(permits, newest)
			newest = w.release(d, feedsim.ReleaseSpec{Add: 1})
			if report = mirror.Run(t.Context(), w.options()); report.Exit != 0 || len(report.Notes) != 0 {
				t.Errorf("the pass after: %d, notes %+v", report.Exit, report.Notes)
			}
			if sums := w.record(permits, newest).Attachments; sums.Carried == 0 {
				t.Errorf("the version after carries nothing over: %+v", sums)
			}
		})
	}
}
